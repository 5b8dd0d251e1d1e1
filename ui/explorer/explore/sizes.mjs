// Sizes: for each symbolic dimension a slider and a field that bind it, and a pin that compiles.
//
// Binding asks nobody: what depends on a size is text over the symbols and is evaluated here.

import { own } from "../dims.mjs";
import { code, h, replace } from "../dom.mjs";
import { number, t } from "../text.mjs";

/** `r=2048,c=64` as `[[name, size], …]`. */
export function readPins(text) {
  return [...(text ?? "").matchAll(/([^\s=,]+)\s*=\s*(\d{1,10})/g)].map((match) => [match[1], Number(match[2])]);
}

export const printPins = (pins) => pins.map(([name, size]) => `${name}=${size}`).join(",");

/** The smallest and largest size that the slider offers; the field takes what the symbol allows. */
export function bounds(symbol, most, now) {
  const low = Math.max(1, symbol.low ?? 1);
  const high = Math.min(symbol.high ?? Infinity, Math.max(most ?? 4096, now, low + 1));
  return [low, high];
}

/** A whole number as people write it: `4096`, and `4.096`, `4,096`, `4 096`, for a size has no decimals. */
export function readSize(text) {
  const digits = text.trim();
  if (/^\d{1,10}$/.test(digits)) return Number(digits);
  return /^[1-9]\d{0,2}(?<mark>[.,\s])\d{3}(\k<mark>\d{3}){0,2}$/.test(digits) ? Number(digits.replace(/\D/g, "")) : null;
}

/** The next power of two above or below, within the bounds and a multiple of the divisor. */
export function nextPower(now, up, [low, high], divisor = 1) {
  const step = up ? 2 ** (Math.floor(Math.log2(Math.max(1, now))) + 1) : 2 ** (Math.ceil(Math.log2(Math.max(1, now))) - 1);
  const to = snapped(step, [low, high], divisor);
  return to === now ? snapped(now + (up ? divisor : -divisor), [low, high], divisor) : to;
}

/** A size within the bounds that the divisor divides. */
export function snapped(size, [low, high], divisor = 1) {
  const inside = Math.max(low, Math.min(high, Math.round(size)));
  const down = Math.floor(inside / divisor) * divisor;
  return down >= low ? down : Math.ceil(low / divisor) * divisor;
}

export function sizes({ shell, store, act, embedded, sample }) {
  const list = h("div", { class: "sizes", role: "group" });
  const wrong = h("p", { class: "size-wrong", id: "size-wrong", role: "status" });   // over what is below, so that nothing moves
  const element = h("div", { class: "sizes-host" }, list, wrong);
  let rows = [], made = "";

  /** Below a field, what is wrong with it; nothing where `text` is empty. */
  function say(field, text) {
    field.setAttribute("aria-invalid", String(text !== ""));
    if (wrong.textContent !== text) wrong.textContent = text;
    if (text === "") return;
    const last = element.closest(".toolbar").getBoundingClientRect().right - wrong.offsetWidth - 12;
    wrong.style.left = `${Math.min(field.getBoundingClientRect().left, last) - element.getBoundingClientRect().left}px`;
  }

  function draw(state, changed) {
    if (changed.size && !["compile", "bound", "asked", "job", "refreshed"].some((key) => changed.has(key))) return;
    const { compile, bound, asked, job } = state;
    const pins = readPins(asked?.pin);
    const symbols = compile?.whole ? compile.trace.symbols : [];
    const named = [...symbols, ...pins.filter(([name]) => !symbols.some((s) => s.name === name)).map(([name, size]) => ({ name, pinned: size }))];
    const order = Object.keys(sample()?.sizes ?? {});
    named.sort((a, b) => (order.indexOf(a.name) + 1 || 99) - (order.indexOf(b.name) + 1 || 99));
    const key = JSON.stringify([named, asked?.model]);
    if (key !== made || changed.has("refreshed")) {
      made = key;
      element.hidden = named.length === 0;
      list.setAttribute("aria-label", t("sizes.title"));
      wrong.textContent = "";
      rows = named.map((symbol) => row(symbol));
      replace(list, rows.map((r) => r.element));
    }
    const now = compile?.sizes(bound, sample()) ?? {};
    for (const r of rows) r.show(r.symbol.pinned ?? own(now, r.symbol.name), job !== null);
  }

  function row(symbol) {
    const { name, pinned } = symbol;
    const most = own(sample()?.maximum, name);
    let limits = [1, 2], value = 0;
    const set = (size) => { act.bind(name, size); };
    const range = h("input", { type: "range", id: `size-${name}`, step: "any", disabled: pinned !== undefined,
      "aria-label": t("sizes.slider", { name }),
      oninput: () => set(snapped(2 ** Number(range.value), limits, symbol.divisor)),
      onchange: () => told(),
      onkeydown: (event) => {
        const to = { ArrowRight: nextPower(value, true, limits, symbol.divisor), ArrowUp: nextPower(value, true, limits, symbol.divisor),
          ArrowLeft: nextPower(value, false, limits, symbol.divisor), ArrowDown: nextPower(value, false, limits, symbol.divisor),
          Home: snapped(limits[0], limits, symbol.divisor), End: snapped(limits[1], limits, symbol.divisor) }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        set(to);
        store.flush();
        told();
      } });
    const field = h("input", { type: "text", inputmode: "numeric", id: `size-text-${name}`, size: 6, autocomplete: "off",
      disabled: pinned !== undefined, "aria-label": t("sizes.field", { name }), "aria-describedby": "size-wrong",
      oninput: () => {
        const size = readSize(field.value);
        const fits = size !== null && size >= (symbol.low ?? 0)
          && size <= (symbol.high ?? 2 ** 31) && size % (symbol.divisor ?? 1) === 0;
        const asked = { low: symbol.low ?? 0, high: symbol.high ?? 2 ** 31, divisor: symbol.divisor };
        say(field, fits ? "" : t(symbol.divisor > 1 ? "sizes.wrong.multiple" : "sizes.wrong", asked));
        if (fits) set(size);
      },
      onblur: () => { say(field, ""); field.value = String(value); told(); },
      onkeydown: (event) => { if (event.key === "Enter") told(); } });
    const pin = h("button", { type: "button", class: "pin", id: `pin-${name}`, "aria-pressed": String(pinned !== undefined),
      title: t("sizes.pin.hint"), "aria-label": t("sizes.pin", { name }),
      onclick: () => {
        if (store.get().job !== null) return;
        const others = readPins(store.get().asked.pin).filter(([other]) => other !== name);
        if (pinned !== undefined) act.bind(name, pinned);
        act.again({ pin: printPins(pinned === undefined ? [...others, [name, value]] : others) });
      } }, h("span", { "aria-hidden": "true" }, pinned === undefined ? "" : "✓ ", t("sizes.pin.short")));
    const told = () => act.sizesTold?.();
    const label = h("span", { class: "size-name" }, code(name));
    return {
      symbol,
      element: h("div", { class: "size", role: "group", "aria-label": t("sizes.of", { name }) }, label,
        pinned === undefined ? range : null, field, embedded ? null : pin),
      show(size, busy) {
        pin.setAttribute("aria-disabled", String(busy));
        if (size === undefined) return;
        value = size;
        limits = bounds(symbol, most, size);
        range.min = String(Math.log2(limits[0]));
        range.max = String(Math.log2(limits[1]));
        const root = element.getRootNode();
        if (root.activeElement !== range || Math.abs(2 ** Number(range.value) - size) >= (symbol.divisor ?? 1)) range.value = String(Math.log2(Math.max(1, size)));
        range.setAttribute("aria-valuetext", number(size));
        if (root.activeElement !== field) field.value = String(size);
      },
    };
  }

  return { element, draw };
}
