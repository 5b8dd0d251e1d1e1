// The life of what is selected over all passes: each event that touched it, as a step to go to.

import { code, h, replace } from "../../dom.mjs";
import { t } from "../../text.mjs";
import { biography } from "../biography.mjs";

const MOST = 400;

export function create({ act }) {
  const element = h("div", { class: "biography" });
  let held = null;

  function life(compile, selection) {
    if (held?.compile !== compile || held.selection !== selection) {
      const { chunks, passes, starts } = compile.history;
      held = { compile, selection, steps: biography({ chunks, passes, first: starts[0] }, compile.passes, selection) };
    }
    return held.steps;
  }

  function draw({ compile, selection, at, event }) {
    if (selection === null) {
      replace(element, h("p", { class: "hint" }, t("biography.none")));
      return;
    }
    const steps = life(compile, selection);
    replace(element,
      h("h3", null, t("biography.title"), " ", code(selection.key || selection.origins.join(", ")), " ",
        h("span", { class: "hint" }, t("biography.count", { n: steps.length }))),
      steps.length === 0 ? h("p", null, t("biography.nothing")) : h("ol", { class: "events", "aria-label": t("biography.title") },
        steps.slice(0, MOST).map((step, k) => item(compile, step, k, step.at === at && step.event === event))),
      steps.length > MOST ? h("p", { class: "hint" }, t("table.cut", { n: MOST, of: steps.length })) : null);
    element.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  function item(compile, { at, event, how, exact }, k, now) {
    const told = compile.passes[at].events[event];
    return h("li", { class: `event ${how}`, "aria-current": now ? "step" : null, "data-step": `${at}.${event}` },
      h("button", { type: "button", class: "plain", id: `life-${k}`, onclick: () => act.goto(at, event) },
        h("span", { class: "hint" }, `${at + 1} `), code(compile.passes[at].name), " ",
        h("span", { class: `how ${how}` }, t(`biography.${how}`)),
        exact ? null : h("span", { class: "hint" }, ` (${t("biography.kin")})`), ": ",
        t(told.message, told.parameters)));
  }

  return { element, keys: ["compile", "selection", "at", "event"], draw };
}
