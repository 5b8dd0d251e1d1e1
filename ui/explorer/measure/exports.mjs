// A report as Markdown, CSV, JSON; and a whole compile as one HTML file that needs nothing else.

import { compare } from "../diff.mjs";
import { h } from "../dom.mjs";
import { language, known, t } from "../text.mjs";
import { headline, tables } from "./report.mjs";
import { oneLine, rows as conditionRows } from "./conditions.mjs";

/** Text that Markdown leaves as it is: names come from files. */
const cell = (text) => String(text).replace(/[\\`*[\]<>|$~]/g, "\\$&").replace(/\s+/g, " ");
const plain = (value) => (typeof value === "string" ? value : value.textContent);

/**
 * A document of tables with the conditions before them, so that none travels without them: a report,
 * or with its own first words and tables whatever has `model`, `conditions` and `pipeline`.
 */
export function markdown(r, lead = headline(r), shown = tables(r)) {
  const parts = [`# ${cell(r.model)}`, lead, `## ${t("conditions.title")}`,
    conditionRows(r.conditions).map(([name, value]) => `- ${name}: ${cell(plain(value))}`).join("\n"),
    `- ${t("options.pipeline")}: \`${r.pipeline.replaceAll("`", "'")}\``];
  for (const { title, head, rows } of shown) {
    parts.push(`## ${title}`, [head, head.map(() => "---"), ...rows].map((row) => `| ${row.map(cell).join(" | ")} |`).join("\n"));
  }
  return `${parts.join("\n\n")}\n`;
}

/** One row a figure: `path,value`, the paths those of the JSON; conditions are rows too. */
export function csv(r) {
  const found = [["path", "value"]];
  const walk = (value, path) => {
    if (value !== null && typeof value === "object") {
      for (const [key, item] of Object.entries(value)) walk(item, path ? `${path}.${key}` : key);
    } else found.push([path, value === null ? "" : String(value)]);
  };
  walk(r, "");
  const quote = (text) => {
    const safe = /^[=+@\t\r]|^-[^\d.]/.test(text) ? `'${text}` : text; // no formula for a spreadsheet
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return `${found.map((row) => row.map(quote).join(",")).join("\r\n")}\r\n`;
}

export const json = (r) => `${JSON.stringify(r, null, 1)}\n`;

const STYLE = `body{font:15px/1.45 sans-serif;max-width:1200px;margin:20px auto;padding:0 16px;color:#1d2129;background:#fff}
pre{font:12.5px/1.45 monospace;overflow:auto;background:#f5f6f8;padding:8px}table{border-collapse:collapse;margin:8px 0}
td,th{border:1px solid #d5d9e0;padding:3px 8px;text-align:left}.added{color:#0a7d55}.removed{color:#b42318}.changed{color:#9a6700}
@media(prefers-color-scheme:dark){body{color:#e8eaed;background:#14171c}pre{background:#20242b}.added{color:#3ecf8e}.removed{color:#ff8f86}.changed{color:#f2b544}}`;

/**
 * One HTML file of a compile: every pass with its sentences and the lines that it changed, the IR at
 * the end, decisions, kernels with source and machine code, and a measurement when there is one.
 */
export async function html(compile, report) {
  const { trace } = compile;
  const kernels = await Promise.all(compile.kernelNames.map((name) => compile.kernel(name)));
  const grid = (head, rows) => h("table", null, h("thead", null, h("tr", null, head.map((x) => h("th", { scope: "col" }, x)))),
    h("tbody", null, rows.map((row) => h("tr", null, row.map((x) => h("td", null, x))))));
  const body = h("body", null,
    h("h1", null, trace.model), h("p", null, h("code", null, trace.pipeline)),
    report ? [h("h2", null, t("nav.measure")), h("p", null, headline(report)), h("p", null, oneLine(report.conditions)),
      tables(report).map(({ title, head, rows }) => [h("h3", null, title), grid(head, rows)])] : null,
    h("h2", null, t("strip.title")),
    compile.passes.map((pass, k) => passSection(compile, pass, k)),
    h("h2", null, t("export.final")), h("pre", null, text(compile.states(compile.passes.length - 1, null)[1].lines)),
    h("h2", null, t("tab.decisions")),
    grid(["a", "b", "verdict", "rule", "why"].map((k) => t(`decisions.${k}`)),
      trace.decisions.map((d) => [d.a, d.b, t(`verdict.${d.verdict}`), d.rule, t(d.message, d.parameters)])),
    h("h2", null, t("tab.kernels")),
    kernels.map((k) => [h("h3", null, k.name), ...["tree", "source"].map((v) => listing(t(`listing.${v}`), text(k[v]))),
      ...["llvm", "assembly"].filter((v) => k[v]).map((v) => listing(t(`listing.${v}`), k[v])),
      k.ptx.length ? listing(t("listing.ptx"), text(k.ptx)) : null]));
  const document_ = document.implementation.createHTMLDocument(trace.model);
  document_.documentElement.lang = language();
  document_.head.append(h("meta", { charset: "utf-8" }), h("style", null, STYLE));
  document_.body.replaceWith(document_.adoptNode(body));
  return `<!doctype html>\n${document_.documentElement.outerHTML}\n`;
}

const text = (lines) => lines.map((line) => line.text).join("\n");
const listing = (title, content) => h("details", null, h("summary", null, title), h("pre", null, content));

function passSection(compile, pass, k) {
  const events = h("ol", null, pass.events.map((e) => h("li", null, e.edits === 0 ? `${t("event.refused")}: ` : "", e.where, " ", t(e.message, e.parameters))));
  const about = known(`pass.${pass.name}`) ? h("p", null, t(`pass.${pass.name}`)) : null;
  const title = [`${k + 1}. ${pass.text}: `, t(pass.changed ? "state.changed" : "state.nothing")];
  if (!pass.changed) return h("details", null, h("summary", null, title), about, events);
  const [before, after] = compile.states(k, null);
  const marks = compare(before.lines, after.lines);
  const changed = (lines, side) => lines.filter((_, j) => marks[side][j] !== "same")
    .map((line, j) => h("span", { class: side === 0 ? "removed" : "added" }, `${side === 0 ? "−" : "+"} ${line.text}\n`));
  return h("details", null, h("summary", null, title), about, events,
    h("pre", null, changed(before.lines, 0), changed(after.lines, 1)));
}
