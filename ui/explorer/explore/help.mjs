// The help sheet: every key, and what stands where. A modal dialog: the browser keeps the focus in
// it and gives it back when it closes.

import { h, replace } from "../dom.mjs";
import { t } from "../text.mjs";
import { KEYS } from "./keys.mjs";

const PARTS = ["strip", "panes", "dock", "sizes", "pin"];

export function help({ act }) {
  const title = h("h2", { id: "help-title" });
  const body = h("div", { class: "help-body" });
  const close = h("button", { type: "button", class: "primary", onclick: () => element.close() });
  const element = h("dialog", { class: "help", "aria-labelledby": "help-title" }, title, body, close);
  element.addEventListener("close", () => act.help(false));
  element.addEventListener("click", (event) => { if (event.target === element) element.close(); });

  function draw(state) {
    title.textContent = t("help.title");
    close.textContent = t("help.close");
    replace(body,
      h("h3", null, t("help.keys")),
      h("dl", { class: "help-keys" }, KEYS.map(([keys, message]) => h("div", null,
        h("dt", null, keys.map((key, k) => [k ? " " : null, h("kbd", null, key)])), h("dd", null, t(message))))),
      h("h3", null, t("help.parts")),
      h("ul", null, PARTS.map((part) => h("li", null, t(`help.part.${part}`)))));
    if (state.help && !element.open) element.showModal();
    if (!state.help && element.open) element.close();
  }

  return { element, keys: ["help"], draw, always: true };
}
