// Elements from code. Text reaches the page only as text: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

/** An HTML element: h("button", {class: "x", onclick: f}, "text", other). */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Names, IR and source: never translated, never markup. */
export function code(text, attributes) {
  return h("code", { translate: "no", ...attributes }, String(text));
}

/** Text that is heard but not seen. */
export function unseen(text) {
  return h("span", { class: "unseen" }, text);
}

// ---- what is pressed keeps its place -----------------------------------------------------------

const CONTROLS = "button, a, summary, [role=tab], [role=option]:not(.listing *)";
let pressed = null;             // the control under a pointer that is down
const waiting = new Map();      // a host that holds it → what to put there once it is let go

/** Let no drawing come between press and release of a control: its click would be lost. Once a page. */
export function holdPresses() {
  const press = (event) => {
    pressed = event.composedPath().find((element) => element.matches?.(CONTROLS)) ?? null;
  };
  const letGo = () => {         // before the handlers of a click, whose own drawing does not wait
    pressed = null;
    setTimeout(drawLate);
  };
  const later = () => {
    const held = pressed;
    setTimeout(() => { if (held !== null && held === pressed) letGo(); }, 100);   // no click followed
  };
  for (const [name, listener] of [["pointerdown", press], ["click", letGo], ["pointerup", later], ["pointercancel", later]]) {
    window.addEventListener(name, listener, true);
  }
}

function drawLate() {
  for (const [host, children] of [...waiting]) replace(host, ...children);
}

/** Put `children` in place of what `host` holds; the focus stays on the element of the same id. */
export function replace(host, ...children) {
  if (pressed !== null && host.contains(pressed)) {
    waiting.set(host, children);
    return;
  }
  waiting.delete(host);
  const root = host.getRootNode();
  const held = root.activeElement && host.contains(root.activeElement) ? root.activeElement.id : "";
  host.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  if (held) root.getElementById?.(held)?.focus({ preventScroll: true });
}

/** Do `change`; where it takes away what had the focus in `host`, the focus goes to `fallback()`. */
export function keepFocus(host, fallback, change) {
  const root = host.getRootNode();
  const held = host.contains(root.activeElement);
  change();
  if (held && !host.contains(root.activeElement)) fallback()?.focus({ preventScroll: true });
}

/** Arrow keys within a group of elements of which one can be reached by Tab. */
export function rove(event, elements, horizontal, choose) {
  const back = horizontal ? "ArrowLeft" : "ArrowUp";
  const on = horizontal ? "ArrowRight" : "ArrowDown";
  const at = elements.indexOf(event.currentTarget.getRootNode().activeElement);
  let to = -1;
  if (event.key === back) to = (at - 1 + elements.length) % elements.length;
  else if (event.key === on) to = (at + 1) % elements.length;
  else if (event.key === "Home") to = 0;
  else if (event.key === "End") to = elements.length - 1;
  if (to < 0 || at < 0) return false;
  event.preventDefault();
  event.stopPropagation();
  elements[to].focus();
  choose(to);
  return true;
}
