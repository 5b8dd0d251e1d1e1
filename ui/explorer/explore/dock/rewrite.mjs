// What the pass did, rewrite by rewrite, each in a sentence made from its event; refusals with reason.

import { code, h, replace } from "../../dom.mjs";
import { known, t } from "../../text.mjs";
import { kindOf } from "../events.mjs";

const MOST = 200;
const TAGS = { refused: "◆ ", note: "○ " };

export function create({ act }) {
  const element = h("div", { class: "rewrite" });

  function draw(state) {
    const { compile, at, event } = state;
    const pass = compile.passes[at];
    const of = pass.events.length;
    const about = `pass.${pass.name}`;
    const first = Math.max(0, Math.min(of - MOST, (event ?? 0) - MOST / 2));
    const shown = pass.events.slice(first, first + MOST);
    const held = element.contains(element.getRootNode().activeElement) && element.getRootNode().activeElement.closest(".events");
    replace(element,
      h("div", { class: "row" },
        h("h3", null, t("story.title", { number: at + 1, of: compile.passes.length }), " ", code(pass.text)),
        of === 0 ? null : h("div", { class: "steps", role: "group", "aria-label": t("events.label") },
          h("button", { type: "button", id: "event-whole", "aria-pressed": String(event === null), onclick: () => act.goto(at) }, t("events.whole")),
          h("button", { type: "button", id: "event-back", "aria-label": t("events.back"), disabled: event === null, onclick: () => act.step(-1) }, "←"),
          h("button", { type: "button", id: "event-on", "aria-label": t("events.on"), disabled: event === of - 1, onclick: () => act.step(1) }, "→"),
          h("span", { class: "hint" }, event === null ? t("events.title", { n: of }) : t("event.announce", { number: event + 1, of })))),
      known(about) ? h("p", null, t(about)) : null,
      h("p", { class: "hint" }, t(`level.${pass.level}`),
        pass.milliseconds === null ? null : [" · ", t("story.time", { took_ms: pass.milliseconds })]),
      of === 0 ? h("p", null, t(pass.failed ? "events.failed" : "events.none")) : h("ol", { class: "events", start: first + 1, style: `--digits: ${String(first + shown.length).length}`, "aria-label": t("events.label") },
        shown.map((e, k) => sentence(e, first + k, first + k === event, () => act.goto(at, first + k)))),
      of > MOST ? h("p", { class: "hint" }, t("events.window", { from: first + 1, to: first + shown.length, of })) : null);
    const now = element.querySelector("[aria-current]");
    now?.scrollIntoView({ block: "nearest" });
    if (held && now) now.querySelector("button").focus({ preventScroll: true });
  }

  return { element, keys: ["compile", "at", "event"], draw };
}

function sentence(event, k, now, go) {
  const kind = kindOf(event);
  return h("li", { class: `event ${kind}`, "aria-current": now ? "step" : null, "data-event": k },
    h("button", { type: "button", class: "plain", id: `event-${k}`, onclick: go },
      kind === "edit" ? null : h("span", { class: `tag ${kind}` }, h("span", { "aria-hidden": "true" }, TAGS[kind]), t(`event.${kind}`), " "),
      event.where ? [code(event.where), " "] : null,
      t(event.message, event.parameters)));
}
