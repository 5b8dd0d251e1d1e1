// The pipeline as text and as command lines, and what the engine's key is made from.

import { code, h, replace } from "../../dom.mjs";
import { t } from "../../text.mjs";
import { commands } from "../commands.mjs";
import { copyButton, dataTable } from "../tables.mjs";

export function create({ shell, sample }) {
  const element = h("div", { class: "pipeline" });

  function draw({ compile, bound }) {
    const asked = compile.options;
    const pin = new Set((asked.pin ?? "").split(",").map((item) => item.split("=")[0].trim()));
    const sizes = Object.fromEntries(Object.entries(compile.sizes(bound, sample())).filter(([name]) => !pin.has(name)));
    const file = sample()?.name ?? (asked.name || "model.onnx");
    const key = compile.event?.key;
    replace(element,
      text("asked", t("pipeline.asked"), asked.pipeline || "default"),
      compile.trace.pipeline ? text("full", t("pipeline.full"), compile.trace.pipeline) : null,
      h("h3", null, t("pipeline.commands")), h("p", { class: "hint" }, t("pipeline.commands.hint")),
      commands(asked, file, sizes).map(({ name, text: line }) => text(name, null, line, name)),
      key ? [h("h3", null, t("pipeline.key"), " ", code(key.digest)), h("p", { class: "hint" }, t("pipeline.key.hint")),
        dataTable({
          id: "key-table", caption: t("pipeline.key"), rows: Object.entries(key).filter(([name]) => name !== "digest"),
          columns: [
            { key: "part", label: t("pipeline.part"), cell: ([name]) => t(`key.${name.replace(" ", "-")}`) },
            { key: "value", label: t("pipeline.value"), cell: ([, value]) => code(value) },
          ],
        })] : null);
  }

  function text(id, title, line, name = title) {
    return h("div", { class: "copied" }, title ? h("h3", null, title) : null,
      h("div", { class: "row" }, h("pre", { class: "line-of-text", id: `pipeline-${id}`, translate: "no", tabindex: 0, role: "group", "aria-label": name }, line),
        copyButton(shell, `copy-${id}`, () => line, t("copy.copy"), t("copy.of", { name }))));
  }

  return { element, keys: ["compile", "bound"], draw };
}
