// The application: one component that outlives remounts. Navigation, language, theme, address, jobs.
//
// Python hears requests only and answers with the token of a job; everything that is shown is made
// here. A page is a module with `create(shell) -> {element, show(params), hide(), refresh()}`.

import { cancel, follow } from "./job.mjs";
import { h, holdPresses, replace } from "./dom.mjs";
import { language, speak, t } from "./text.mjs";

const BASE = new URL("./", import.meta.url);
const PAGES = [
  { name: "explore", at: "explore/page.mjs" },
  { name: "measure", at: "measure/page.mjs" },
  { name: "lessons", at: "lesson/page.mjs" },
  { name: "glossary", at: "glossary.mjs" },
];

const live = h("p", { class: "unseen", id: "live", role: "status", "aria-live": "polite" });
const bar = h("header", { class: "app-bar" });
const body = h("div", { class: "app-body" });
const old = h("div", { class: "old", role: "alert" });
const root = h("div", { class: "app" }, bar, old, body, live);
root.addEventListener("keydown", (event) => event.stopPropagation());
root.addEventListener("keypress", (event) => event.stopPropagation());
root.addEventListener("keyup", (event) => event.stopPropagation());

let send = () => {};
let started = null;
let shown = "";
let current = null;
const pages = new Map();
const view = {};
const shell = {
  samples: [], orders: {}, uploadLimit: 0, version: "",
  language, theme: () => root.dataset.theme,
  announce(text) { live.textContent = text; },
  run, go, embed,
  address: { get: () => ({ ...view }), set: writeAddress },
};

/** Streamlit calls this at the first mount, at each remount, and when data or theme changed. */
export function mount({ data, parentElement, setTriggerValue }) {
  send = (request) => setTriggerValue("request", request);
  const host = parentElement.querySelector(".explorer-host");
  if (root.parentElement !== host) { host.append(root); ask(); }
  alone(host);
  paint(host);
  started ??= begin(data);
  started.then(() => hearAnswer(data.answer));
  return () => {};
}

/**
 * The page is ours alone: nothing of the host page around us takes the focus or is read aloud, and
 * its `main` is a box like any other, so that ours are the landmarks.
 */
function alone(host) {
  for (const name of ["stSkipToContent", "stHeader"]) {
    const element = document.querySelector(`[data-testid="${name}"]`);
    if (element !== null) element.inert = true;
  }
  const main = host.getRootNode().host?.closest("main");
  main?.removeAttribute("tabindex");
  main?.setAttribute("role", "presentation");
}

async function begin(data) {
  Object.assign(view, data.view);
  shell.uploadLimit = data.uploadLimit;
  shell.version = data.version;
  holdPresses();
  [shell.samples] = await Promise.all([
    fetch(new URL("../samples.json", BASE)).then((answer) => answer.json()),
    speak(data.language, new URL("../", BASE)),
  ]);
  named(data.language);
  queueMicrotask(() => started.then(() => go(view.page || "explore", view)));
}

/** The server has another version by now, or is gone: what this page still lacks will not come. */
function outdated() {
  if (old.firstChild === null) {
    replace(old, h("p", null, t("page.old")),
      h("button", { type: "button", id: "reload", onclick: () => window.location.reload() }, t("page.reload")));
  }
}

// ---- language and theme ----------------------------------------------------------------------

/** The document says its language and title itself: the host writes English. */
function named(name) {
  shown = name;
  document.documentElement.lang = name;
  entitle();
}

function entitle() {
  const name = current === null || current === PAGES[0].name ? [] : [t(`nav.${current}`)];
  document.title = [...name, t("page.title")].join(" · ");
}

async function turn(name) {
  try {
    await speak(name, new URL("../", BASE));
  } catch { outdated(); return; }
  named(name);
  writeAddress({ lang: name === "vi" ? "" : name });
  header();
  for (const page of pages.values()) page.refresh();
}

const THEME = "explorer.theme";

/** The reader's choice, else as the host page is: light or dark by its background. */
function paint(host) {
  const chosen = readTheme();
  const probe = h("span", { style: "color: var(--st-background-color, #fff)" });
  host.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  const given = 0.299 * r + 0.587 * g + 0.114 * b < 128 ? "dark" : "light";
  setTheme(chosen ?? given);
}

function readTheme() {
  try {
    const value = localStorage.getItem(THEME);
    return ["light", "dark"].includes(value) ? value : null;
  } catch { return null; }
}

function setTheme(theme) {
  if (root.dataset.theme === theme) return;
  root.dataset.theme = theme;
  for (const page of pages.values()) page.refresh();
}

// ---- navigation --------------------------------------------------------------------------------

function header() {
  const link = ({ name }) => h("button", {
    type: "button", class: "nav", id: `nav-${name}`, "aria-current": current === name ? "page" : null,
    onclick: () => go(name, {}),
  }, t(`nav.${name}`));
  const choice = (value, text) => h("button", {
    type: "button", id: `language-${value}`, lang: value, "aria-pressed": String(shown === value),
    onclick: () => turn(value),
  }, text);
  const dark = root.dataset.theme === "dark";
  replace(bar,
    h("h1", { class: "brand" }, t("page.title")),
    h("nav", { "aria-label": t("nav.title") }, PAGES.map(link)),
    h("span", { class: "spring" }),
    h("button", { type: "button", id: "theme", "aria-pressed": String(dark), onclick: () => {
      try { localStorage.setItem(THEME, dark ? "light" : "dark"); } catch { /* stays for this visit */ }
      setTheme(dark ? "light" : "dark");
      header();
    } }, t("theme.dark")),
    h("div", { class: "languages", role: "group", "aria-label": t("page.language") },
      choice("vi", "Tiếng Việt"), choice("en", "English")));
}

/** Show a page; `params` are what its address says, with `back` where the browser's Back led here. */
async function go(name, params = {}) {
  const found = PAGES.find((page) => page.name === name) ?? PAGES[0];
  if (!pages.has(found.name)) {
    const module = await import(new URL(found.at, BASE).href).catch(() => null);
    if (module === null) { outdated(); return; }
    if (!pages.has(found.name)) pages.set(found.name, module.create(shell));
  }
  if (current !== found.name && current !== null) pages.get(current).hide();
  current = found.name;
  entitle();
  writeAddress({ page: current === "explore" ? "" : current });
  header();
  const page = pages.get(current);
  replace(body, page.element);
  page.show(params);
  return undefined;
}

/** An explorer of its own beside a text: `{update(config), destroy()}`. */
function embed(host, config) {
  let made = null, wanted = config, gone = false;
  import(new URL("explore/explorer.mjs", BASE).href).then(({ createExplorer }) => {
    if (gone) return;
    made = createExplorer(shell, { embedded: true });
    host.append(made.element);
    made.open(wanted);
  });
  return {
    update(next) { wanted = next; made?.open(next); },
    refresh() { made?.refresh(); },
    destroy() { gone = true; made?.destroy(); made?.element.remove(); },
  };
}

// ---- jobs ----------------------------------------------------------------------------------------

const nonce = () => `${Date.now()}-${Math.random()}`;
const asked = [];
const CANCELLED = { cancelled: true, message: "job.cancelled", parameters: {} };

/**
 * Ask for a job and follow it. `done` gives its result; it rejects with an error that has a message
 * id and parameters, or with `{cancelled: true}`. Requests go to Python one after the other.
 */
function run(request, onEvent = () => {}) {
  const entry = { request: { ...request, nonce: nonce() }, onEvent, token: "", stop: () => {}, cancelled: false };
  const done = new Promise((resolve, reject) => Object.assign(entry, { resolve, reject }));
  done.catch(() => {});
  asked.push(entry);
  if (asked.length === 1) ask();
  return {
    done,
    cancel() {
      entry.cancelled = true;
      if (entry.token) { cancel(entry.token); return; }
      entry.reject(CANCELLED);
      if (asked.indexOf(entry) > 0) asked.splice(asked.indexOf(entry), 1);
    },
  };
}

const PATIENCE = 5000;
let waiting = 0;

/**
 * Send the request at the head, and again while no answer comes: the connection may have been lost
 * with it. Python knows a request by its nonce and submits it once. A page that another version of
 * itself took the place of asks nothing any more.
 */
function ask() {
  clearTimeout(waiting);
  if (asked.length === 0 || !root.isConnected) return;
  send(asked[0].request);
  waiting = setTimeout(() => {
    if (asked[0]?.cancelled) asked.shift();
    ask();
  }, PATIENCE);
}

function hearAnswer(answer) {
  const entry = asked[0];
  if (!answer || entry === undefined || answer.nonce !== entry.request.nonce) return;
  asked.shift();
  ask();
  if (answer.error) {
    entry.reject(answer.error);
    return;
  }
  entry.token = answer.token;
  if (entry.cancelled) cancel(answer.token);
  entry.stop = follow(answer.token, (event) => {
    if (event.event === "result") entry.resolve(event);
    else if (event.event === "cancelled") entry.reject(CANCELLED);
    else if (event.event === "error") entry.reject(event.trace ? { ...event.error, partial: event } : event.error);
    else if (!entry.cancelled) entry.onEvent(event);   // whoever cancelled hears no more of it
  });
}

// ---- address -------------------------------------------------------------------------------------

const KEYS = ["page", "lesson", "term", "model", "target", "numerics", "pin", "bind", "passes", "at", "sel", "tab", "left", "colour", "view", "merged", "lang"];
const PLACES = ["page", "lesson", "term", "model"];
let timer = 0;

/**
 * Change keys of the address; empty ones go. What others wrote stays. Another place is a step that the
 * browser's Back takes back; what changes within a place is not.
 */
function writeAddress(patch) {
  for (const [key, value] of Object.entries(patch)) if (KEYS.includes(key)) view[key] = value ?? "";
  clearTimeout(timer);
  timer = setTimeout(() => {
    const at = new URL(window.location.href);
    for (const key of KEYS) {
      if (view[key]) at.searchParams.set(key, view[key]);
      else at.searchParams.delete(key);
    }
    if (at.href === window.location.href) return;
    const old = new URL(window.location.href).searchParams;
    const moved = PLACES.some((key) => (old.get(key) ?? "") !== (at.searchParams.get(key) ?? ""));
    window.history[moved ? "pushState" : "replaceState"](window.history.state, "", at);
  }, 250);
}

/** Back and Forward: show what the address says. */
window.addEventListener("popstate", () => {
  clearTimeout(timer);
  const { searchParams } = new URL(window.location.href);
  for (const key of KEYS) view[key] = searchParams.get(key) ?? "";
  started?.then(() => go(view.page || "explore", { ...view, back: true }));
});
