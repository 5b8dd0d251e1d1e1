// The inspector: everything known of what is selected.

import { code, h, replace } from "../dom.mjs";
import { t } from "../text.mjs";

export function inspector({ store, act, sample }) {
  const element = h("aside", { class: "region inspector" });

  function draw(state) {
    element.setAttribute("aria-label", t("inspector.title"));
    const { compile, at, event, selection } = state;
    const node = selection && compile.states(at, event).reverse().map((s) => s.byKey.get(selection.key)).find(Boolean);
    replace(element, h("h2", null, t("inspector.title")),
      !selection ? h("p", { class: "hint" }, t("inspector.none"))
        : h("dl", null,
          h("dt", null, t("inspector.name")), h("dd", null, code(selection.key)),
          node ? [h("dt", null, t("inspector.kind")), h("dd", null, code(node.kind)),
            h("dt", null, t("inspector.type")), h("dd", null, code(node.type ?? ""))] : null,
          h("dt", null, t("inspector.origins")), h("dd", null, selection.origins.map((o) => [code(o), " "]))));
  }

  return { element, keys: ["compile", "at", "event", "selection", "bound"], draw };
}
