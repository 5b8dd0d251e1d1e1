// What the pass did, rewrite by rewrite, each in a sentence made from its event; refusals with reason.

import { code, h, replace } from "../../dom.mjs";
import { known, t } from "../../text.mjs";

const MOST = 300;

export function create({ act }) {
  const element = h("div", { class: "rewrite" });

  function draw(state) {
    const { compile, at, event } = state;
    const pass = compile.passes[at];
    const about = `pass.${pass.name}`;
    replace(element,
      h("h3", null, t("story.title", { number: at + 1, of: compile.passes.length }), " ", code(pass.text)),
      known(about) ? h("p", null, t(about)) : null,
      h("p", { class: "hint" }, t(`level.${pass.level}`),
        pass.milliseconds === null ? null : [" · ", t("story.time", { took_ms: pass.milliseconds })]),
      pass.events.length === 0 ? h("p", null, t("events.none"))
        : h("ol", { class: "events", "aria-label": t("events.label") },
          pass.events.slice(0, MOST).map((e, k) => sentence(e, k, k === event, () => act.goto(at, k)))),
      pass.events.length > MOST ? h("p", { class: "hint" }, t("events.more", { n: pass.events.length - MOST })) : null);
    element.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  return { element, keys: ["compile", "at", "event"], draw };
}

function sentence(event, k, now, go) {
  const refused = event.edits === 0;
  return h("li", { class: refused ? "event refused" : "event", "aria-current": now ? "step" : null },
    h("button", { type: "button", class: "plain", id: `event-${k}`, onclick: go },
      refused ? h("span", { class: "tag" }, h("span", { "aria-hidden": "true" }, "◆ "), t("event.refused")) : null,
      event.where ? [code(event.where), " "] : null,
      t(event.message, event.parameters)));
}
