// The toolbar: what is compiled, how, at which sizes; progress and problems.

import { code, h, replace } from "../dom.mjs";
import { language, t } from "../text.mjs";
import { problem, progress } from "./notices.mjs";

export function toolbar({ shell, store, act, embedded, sample }) {
  const element = h("div", { class: "region toolbar" });

  function draw(state) {
    const found = sample();
    replace(element,
      state.asked === null ? null : h("h2", { id: "model-title", tabindex: -1 },
        found ? found.title[language()] : code(state.asked.name || state.asked.model)),
      state.job ? progress(state.job) : null,
      state.error ? problem(state.error) : null);
  }

  return { element, keys: ["asked", "job", "error"], draw, always: true };
}
