// The Explore page: choose a model or bring one, then walk it down.
//
// What the page shows stands in the address, and an address shows it again. A model that somebody
// uploaded is named by its digest; where the server no longer keeps it, the file is asked for.

import { code, h, replace } from "../dom.mjs";
import { language, t } from "../text.mjs";
import { createExplorer, nameOf } from "./explorer.mjs";
import { problem } from "./notices.mjs";
import { digestOf, dropAnywhere, fileButton, upload } from "./upload.mjs";
import { usual } from "./usual.mjs";

const START = "five_op_chain";

export function create(shell) {
  const explorer = createExplorer(shell);
  const landing = h("main", { class: "landing" });
  const body = h("div", { class: "explore-body" });
  const files = fileButton(shell, bring);
  const drops = dropAnywhere(bring);
  const element = h("div", { class: "explore-page" }, body, drops.sheet);
  let chosen = "";      // the model that is open; "" on the landing page
  let last = {};        // the view that it was opened with
  let gone = "";        // a model that the address names and the server does not keep
  let error = null;     // a problem of the landing page
  let bringing = "";    // the name of the file on its way

  // ---- landing ---------------------------------------------------------------------------------

  function draw() {
    if (chosen && !gone) {
      if (body.firstChild !== explorer.element) replace(body, explorer.element);
      return;
    }
    files.refresh();
    replace(landing,
      h("p", { class: "lead" }, t("page.about")),
      error ? problem(error, { dismiss: () => { error = null; draw(); } }) : null,
      bringing ? h("p", { class: "bringing", role: "status" }, t("upload.running", { name: bringing })) : null,
      gone ? h("section", { class: "gone", "aria-labelledby": "gone-title" },
        h("h2", { id: "gone-title" }, t("gone.title")),
        h("p", null, t("gone.text"), " ", code(gone.replace("sha256:", "").slice(0, 16)), "…"),
        files.element,
        h("button", { type: "button", id: "gone-leave", onclick: leave }, t("gone.leave"))) : null,
      gone ? null : h("div", { class: "bring" }, files.element),
      h("h2", { id: "choose-title" }, t("choose.title")),
      h("ul", { class: "cards", "aria-labelledby": "choose-title" }, shell.samples.map((s) => h("li", null, card(s)))));
    if (body.firstChild !== landing) replace(body, landing);
  }

  function card(s) {
    const start = s.name === START;
    return h("button", { type: "button", class: start ? "card start" : "card", id: `model-${s.name}`, onclick: () => open(s.name) },
      h("span", { class: "card-title" }, s.title[language()]),
      start ? h("span", { class: "card-start" }, t("choose.start")) : null,
      h("span", { class: "card-text" }, s.teaches[language()]));
  }

  // ---- opening and leaving ---------------------------------------------------------------------

  function open(model, config = {}) {
    chosen = model;
    last = config;
    gone = "";
    error = null;
    draw();
    const done = explorer.open({ model, ...config });
    explorer.element.querySelector("#model-title")?.focus({ preventScroll: true });
    return done;
  }

  /** Back to the choice of models. What was compiled stays, and opens again without a compile. */
  function leave() {
    const from = chosen;
    explorer.act.cancel();
    chosen = "";
    gone = "";
    error = null;
    shell.address.set({ model: "", target: "", numerics: "", pin: "", passes: "", at: "", tab: "", sel: "", bind: "", left: "", colour: "", view: "", merged: "" });
    draw();
    const root = element.getRootNode();
    (root.getElementById?.(`model-${from}`) ?? root.getElementById?.(`model-${START}`))?.focus();
  }
  explorer.act.leave = leave;

  /** A file that somebody brought: kept by the server, then compiled at once. */
  async function bring(file) {
    if (bringing) return;
    const wanted = gone;
    bringing = file.name;
    error = null;
    draw();
    try {
      if (wanted) await sameFile(file, wanted);
      const { digest, name } = await upload(shell, file);
      bringing = "";
      const model = `sha256:${digest}`;
      if (wanted && model !== wanted) throw { error: otherFile(file) };
      open(model, wanted ? { ...last, name } : { name });
    } catch (failure) {
      bringing = "";
      const found = failure.error ?? { message: "upload.failed", parameters: { name: file.name } };
      if (chosen && !gone) explorer.act.fail(found);
      else error = found;
      draw();
    }
  }

  async function sameFile(file, wanted) {
    const digest = await digestOf(file);
    if (digest && `sha256:${digest}` !== wanted) throw { error: otherFile(file) };
  }

  const otherFile = (file) => ({ message: "upload.other", parameters: { name: file.name } });

  /** The times of the last measurement, where it was of what is shown. */
  function takeTimes() {
    const { asked, compile } = explorer.store.get();
    const { asked: measured, report } = shell.report ?? {};
    const keys = ["model", "target", "numerics", "pin", "pipeline"];
    if (asked && compile?.whole && measured && keys.every((key) => asked[key] === measured[key])) explorer.store.set({ times: { report } });
  }
  explorer.store.on(["compile"], takeTimes);

  explorer.store.on(["error"], (state) => {
    if (state.error?.message !== "request.model" || !chosen.startsWith("sha256:")) return;
    gone = chosen;
    draw();
  });

  // ---- the address -----------------------------------------------------------------------------

  function writeAddress(state) {
    if (state.asked === null || !chosen || gone) return;
    const { model, target, numerics, pin, pipeline } = state.asked;
    const place = state.compile?.whole && !state.pending ? {
      at: `${state.at}${state.event === null ? "" : `.${state.event}`}`,
      sel: nameOf(state.selection),
    } : {};
    shell.address.set({
      model, pin, target: target === "cpu" ? "" : target, numerics: numerics === "default" ? "" : numerics,
      passes: pipeline === usual(shell, model) ? "" : pipeline,
      tab: state.tab === "rewrite" ? "" : state.tab,
      left: state.leftAsked, colour: state.overlay === "none" ? "" : state.overlay, view: state.view, merged: state.merged ? "1" : "",
      bind: Object.entries(state.bound).map(([k, v]) => `${k}=${v}`).join(","),
      ...place,
    });
  }
  explorer.store.on(["asked", "compile", "at", "event", "tab", "bound", "selection", "leftAsked", "overlay", "view", "merged"], writeAddress);

  return {
    element, explorer,
    show(given) {
      drops.on();
      takeTimes();
      if (given.config) {   // as a lesson shows it, whatever stood there
        explorer.store.set({ view: "", merged: false, overlay: "none" });
        open(given.config.model, { before: "", ...given.config });
        return;
      }
      if (given.back && !given.model && chosen) { leave(); return; }
      const params = given.model || given.unknown ? given : shell.address.get();   // as another page left it
      if (params.model) {
        const [at, event] = String(params.at || "").split(".");
        open(params.model, {
          target: params.target || "cpu", numerics: params.numerics || "default", pin: params.pin || "",
          pipeline: params.passes || "", sizes: readSizes(params.bind),
          ...(at !== "" ? { at: Number(at), event: event === undefined ? null : Number(event) } : {}),
          ...(params.tab ? { dock: params.tab } : {}), ...(params.sel ? { select: params.sel } : {}),
          before: params.left || undefined, overlay: params.colour, view: params.view, merged: params.merged === "1",
        });
      } else {
        if (params.unknown) error = { message: "request.sample", parameters: { name: params.unknown } };
        draw();
        writeAddress(explorer.store.get());
      }
    },
    hide() { drops.off(); },
    refresh() { draw(); explorer.refresh(); },
  };
}

/** Sizes as an address has them: `rows=8,cols=4`. */
export function readSizes(text) {
  const items = (text ?? "").split(",").map((item) => /^\s*([^\s=,]+)\s*=\s*(\d{1,10})\s*$/.exec(item));
  return Object.fromEntries(items.filter(Boolean).map(([, name, size]) => [name, Number(size)]));
}
