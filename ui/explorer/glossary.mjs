// The Glossary page: terms in both languages, found with or without diacritics from either side,
// and links to them for texts elsewhere.

import { h, replace } from "./dom.mjs";
import { alone, language, number, t } from "./text.mjs";

// ---- search, without a document ------------------------------------------------------------------

/** A text as the search sees it: small letters without diacritics, one blank between words. */
export function fold(text) {
  return text.toLowerCase().replaceAll("đ", "d").normalize("NFD").replace(/\p{M}/gu, "")
    .replace(/[^\p{L}\p{N}]+/gu, " ").trim();
}

const spelled = (text) => text.toLowerCase().normalize("NFC").replace(/\s+/g, " ").trim();
const texts = new WeakMap();

/** What of a term is searched; folded once. */
function folded(term) {
  if (!texts.has(term)) {
    const means = Object.values(term.means);
    const names = [...term.forms, ...Object.values(term.name)];
    texts.set(term, {
      names: names.map(fold), every: ` ${fold(names.join(" "))}`, means: ` ${fold(means.join(" "))}`,
      spelled: spelled([...names, ...means].join(" ")),
    });
  }
  return texts.get(term);
}

/**
 * The terms that a query finds, best first: a name is the query, begins with it, has a word that
 * begins with it, holds it; the names have all its words; a definition has it. Among equals those go
 * first that are spelled as the query is; else the order stays. An empty query finds all.
 */
export function find(terms, query) {
  const wanted = fold(query);
  if (!wanted) return spelled(query) ? [] : [...terms];
  const exactly = spelled(query);
  const words = wanted.split(" ");
  const rank = (term) => {
    const { names, every, means, spelled: own } = folded(term);
    const tie = own.includes(exactly) ? 0 : 0.5;
    if (names.includes(wanted)) return tie;
    if (names.some((name) => name.startsWith(wanted))) return 1 + tie;
    if (names.some((name) => name.includes(` ${wanted}`))) return 2 + tie;
    if (names.some((name) => name.includes(wanted))) return 3 + tie;
    if (words.every((word) => every.includes(` ${word}`))) return 4 + tie;
    return means.includes(` ${wanted}`) ? 5 + tie : Infinity;
  };
  return terms.map((term) => ({ term, rank: rank(term) })).filter((each) => each.rank < Infinity)
    .sort((a, b) => a.rank - b.rank).map((each) => each.term);
}

// ---- the terms and their addresses ---------------------------------------------------------------

let asked = null;

/** All terms; fetched once, again after a failure. */
function load() {
  asked ??= fetch(new URL("../glossary.json", import.meta.url)).then((answer) => {
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.json();
  }).catch((error) => { asked = null; throw error; });
  return asked;
}

function address(id) {
  return `?page=glossary&term=${encodeURIComponent(id)}${language() === "vi" ? "" : `&lang=${language()}`}`;
}

/** A link that a plain click follows within the page; with a key held it opens as links do. */
function link(attributes, id, follow, text) {
  return h("a", {
    ...attributes, href: address(id), onclick: (event) => {
      if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      follow(id);
    },
  }, text);
}

const LINGER_MS = 150; // on the way from a link to its tip the pointer may leave both
let tips = 0;
let hideShown = () => {};

/**
 * `text` as a link to a term. What the term means shows while pointer or focus are on it, one at a
 * time; Esc hides it, wherever the focus is.
 */
export function termLink(shell, id, text) {
  const anchor = link({ class: "term-link" }, id, (term) => { hide(); shell.go("glossary", { term }); }, text);
  const around = h("span", { class: "term-ref" }, anchor);
  let tip = null, root = null, wanted = false, timer = 0;
  load().catch(() => {}); // so that the meaning is there as soon as it is asked for
  const escape = (event) => { if (event.key === "Escape") hide(); };
  const follow = () => { if (around.isConnected) place(tip, anchor); else hide(); };
  function hide() {
    clearTimeout(timer);
    wanted = false;
    tip?.remove();
    tip = null;
    anchor.removeAttribute("aria-describedby");
    window.removeEventListener("keydown", escape, true);
    root?.removeEventListener("scroll", follow, true);
  }
  async function show() {
    clearTimeout(timer);
    if (wanted) return;
    hideShown();
    hideShown = hide;
    wanted = true;
    const term = await load().then((terms) => terms.find((each) => each.id === id)).catch(() => undefined);
    if (!wanted || tip !== null || term === undefined || !around.isConnected) return;
    tips += 1;
    tip = h("span", { class: "term-tip", role: "tooltip", id: `term-tip-${tips}` }, term.means[language()]);
    anchor.setAttribute("aria-describedby", tip.id);
    around.append(tip);
    place(tip, anchor);
    window.addEventListener("keydown", escape, true);
    root = anchor.getRootNode(); // a scroll is not heard outside of it
    root.addEventListener("scroll", follow, true);
  }
  function leave() {
    clearTimeout(timer);
    timer = setTimeout(() => { if (!anchor.matches(":focus-visible") && !around.matches(":hover")) hide(); }, LINGER_MS);
  }
  anchor.addEventListener("focus", show);
  anchor.addEventListener("blur", leave);
  around.addEventListener("pointerenter", show);
  around.addEventListener("pointerleave", leave);
  return around;
}

/**
 * Under the last line of the link, or above its first one where there is no room below; never over
 * the edge of the window.
 */
function place(tip, anchor) {
  const lines = anchor.getClientRects();
  const own = tip.getBoundingClientRect();
  const below = lines[lines.length - 1].bottom + own.height + 8 < window.innerHeight;
  const at = below ? lines[lines.length - 1] : lines[0];
  const left = Math.max(8, Math.min(at.left, window.innerWidth - own.width - 8));
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? at.bottom : Math.max(8, at.top - own.height)}px`;
}

// ---- the page ------------------------------------------------------------------------------------

const SAY_MS = 400; // a reader types on; what was found is said when they rest

export function create(shell) {
  const element = h("section", { class: "glossary", "aria-labelledby": "glossary-title" });
  const list = h("ul", { class: "terms" });
  const count = h("p", { class: "term-count" });
  const notice = h("p", { class: "term-notice" });
  const input = h("input", { type: "search", id: "glossary-query", autocomplete: "off", spellcheck: "false" });
  let terms = null, failed = false;
  let ordered = [], found = [], cards = new Map();
  let query = "", current = "", timer = 0;

  const other = () => (language() === "vi" ? "en" : "vi");
  const name = (id) => terms.find((term) => term.id === id).name[language()];

  function draw() {
    if (terms === null) {
      replace(element, h("h2", { id: "glossary-title" }, t("glossary.title")), failed
        ? h("div", { class: "problem", role: "alert" },
          h("p", { class: "problem-title" }, alone("glossary.failed")),
          h("button", { type: "button", id: "glossary-retry", onclick: begin }, t("glossary.retry")))
        : h("p", { class: "hint" }, t("glossary.loading")));
      return;
    }
    const { compare } = new Intl.Collator(language());
    ordered = [...terms].sort((a, b) => compare(a.name[language()], b.name[language()]));
    cards = new Map(ordered.map((term) => [term.id, card(term)]));
    list.setAttribute("aria-label", t("glossary.title"));
    replace(element,
      h("h2", { id: "glossary-title" }, t("glossary.title")),
      h("p", { class: "hint" }, t("glossary.about")),
      h("p", { class: "hint" }, t("glossary.keys")),
      h("div", { class: "glossary-search", role: "search" },
        h("label", { for: "glossary-query" }, t("glossary.search")), input, count),
      notice, list);
    look();
  }

  function card(term) {
    const own = language(), second = other();
    const follow = (id) => select(id, true);
    return h("li", { class: "term", id: `term-${term.id}` },
      h("h3", null,
        link({ class: "term-name", id: `term-name-${term.id}` }, term.id, follow, term.name[own]),
        beside(term) ? [" ", h("span", { class: "term-other", lang: second }, beside(term))] : null),
      h("p", { class: "term-means" }, term.means[own]),
      h("p", { class: "term-means other", lang: second }, term.means[second]),
      term.see.length === 0 ? null : h("p", { class: "term-see" }, t("glossary.see"), " ",
        term.see.map((id, k) => [k === 0 ? null : ", ", link(null, id, follow, name(id))])));
  }

  /** The name in the other language, without what the reader's own name says already. */
  function beside(term) {
    const own = term.name[language()], second = term.name[other()];
    if (own === second || own.endsWith(` (${second})`) || own.startsWith(`${second} (`)) return "";
    return second.replace(` (${own})`, "");
  }

  /** The list by the query. */
  function look() {
    found = find(ordered, query);
    input.value = query;
    list.replaceChildren(...found.map((term) => cards.get(term.id)));
    count.textContent = t("glossary.count", { n: number(found.length) });
    notice.textContent = found.length === 0 ? t("glossary.none") : "";
    for (const [id, made] of cards) {
      if (id === current) made.setAttribute("aria-current", "true");
      else made.removeAttribute("aria-current");
    }
  }

  function say() {
    clearTimeout(timer);
    timer = setTimeout(() => shell.announce(notice.textContent || count.textContent), SAY_MS);
  }

  /** Make a term the one the address speaks of, and show it. */
  function select(id, focus) {
    current = id;
    if (terms === null) return;
    if (!cards.has(id)) {
      current = "";
      look();
      notice.textContent = t("glossary.unknown", { term: id });
      say();
      return;
    }
    shell.address.set({ term: id });
    if (!found.some((term) => term.id === id)) query = "";
    look();
    cards.get(id).scrollIntoView({ block: "start" });
    if (focus) reach(id);
  }

  const reach = (id) => cards.get(id).querySelector(".term-name").focus({ preventScroll: true });

  async function begin() {
    failed = false;
    draw();
    try {
      terms = await load();
    } catch {
      failed = true;
    }
    draw();
    if (current) select(current, false);
  }

  input.addEventListener("input", () => {
    query = input.value;
    current = "";
    shell.address.set({ term: "" });
    look();
    element.parentElement?.scrollTo?.({ top: 0 });
    say();
  });

  element.addEventListener("keydown", (event) => {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (key(event)) event.preventDefault();
  });

  /** Whether a key did something here. */
  function key({ key: pressed, target }) {
    const typing = target === input;
    const at = typing ? -1 : found.findIndex((term) => cards.get(term.id).contains(target));
    let to = null;
    if (pressed === "/" && !typing) {
      input.focus();
      input.select();
      return true;
    }
    if (pressed === "Escape") {
      if (!typing) input.focus();
      else if (query) {
        input.value = "";
        input.dispatchEvent(new Event("input"));
      } else return false;
      return true;
    }
    if (pressed === "Enter" && typing && found.length) {
      select(found[0].id, true);
      return true;
    }
    if (pressed === "ArrowDown" && (typing || at >= 0)) to = Math.min(at + 1, found.length - 1);
    else if (pressed === "ArrowUp" && at >= 0) to = at - 1;
    else if (pressed === "Home" && at >= 0) to = 0;
    else if (pressed === "End" && at >= 0) to = found.length - 1;
    if (to === null || found.length === 0) return false;
    if (to < 0) input.focus();
    else {
      reach(found[to].id);
      cards.get(found[to].id).scrollIntoView({ block: "nearest" });
    }
    return true;
  }

  return {
    element,
    show(params) {
      current = params.term || "";
      if (terms === null) begin();
      else if (current) select(current, true);
      else look();
    },
    hide() {
      clearTimeout(timer);
      shell.address.set({ term: "" });
    },
    refresh() {
      draw();
      if (cards.has(current)) cards.get(current).scrollIntoView({ block: "nearest" });
    },
  };
}
