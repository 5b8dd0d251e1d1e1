// What is measured: the model's name, and the sizes that a run needs.
//
// A sample says both itself. Of a file that somebody brought, the imported graph says them: it is
// asked for, and the compile behind it is stopped as soon as it is there.

import { own, symbolsOf } from "../dims.mjs";
import { openImported } from "../explore/compile.mjs";
import { readPins, snapped } from "../explore/sizes.mjs";

export const LARGEST = 2 ** 31;

/** The symbols of a sample, `[{name, usual, low, most}]`: each with its usual size and its bounds. */
export function symbolsOfSample(sample, pin) {
  const pinned = new Set(readPins(pin).map(([name]) => name));
  return Object.entries(sample.sizes).filter(([name]) => !pinned.has(name))
    .map(([name, usual]) => ({ name, usual, low: 0, most: own(sample.maximum, name) ?? LARGEST, divisor: 1 }));
}

/** The same of an imported graph: those that its inputs have. */
export function symbolsOfGraph(symbols, nodes) {
  const used = new Set(nodes.filter((node) => node.kind === "input")
    .flatMap((node) => node.outs ?? []).flatMap((out) => symbolsOf(out.bytes)));
  return symbols.filter(({ name }) => used.has(name)).map(({ name, low, high, divisor }) => {
    const most = Math.min(high ?? LARGEST, LARGEST);
    return { name, usual: snapped(Math.max(4, low), [low, most], divisor), low, most, divisor };
  });
}

/** `{name, symbols}` of a model that is no sample; rejects with a problem. */
export function readSubject(shell, asked) {
  return new Promise((resolve, reject) => {
    let heard = false;
    const job = shell.run({ kind: "compile", ...asked }, (event) => {
      if (!event.trace || heard) return;
      heard = true;
      openImported(event, asked).then((made) => resolve({
        name: made.trace.model, symbols: symbolsOfGraph(made.trace.symbols, made.states(0, null)[1].nodes),
      }), reject);
      job.cancel();
    });
    job.done.catch((error) => { if (!heard) reject(error); });
  });
}

/**
 * `{sizes}` of `given` texts by symbol, the usual ones where there is none; `{wrong}` where one is
 * no size that its symbol takes.
 */
export function chosenSizes(symbols, given) {
  const sizes = [];
  for (const { name, usual, low, most, divisor } of symbols) {
    const text = (own(given, name) ?? "").trim();
    const size = text === "" ? usual : Number(text);
    if (!/^\d{0,10}$/.test(text) || size < low || size > most || size % (divisor ?? 1) !== 0) {
      return { wrong: { message: "request.size.range", parameters: { name, value: text, low, high: most } } };
    }
    sizes.push([name, size]);
  }
  return { sizes: Object.fromEntries(sizes) };
}

/** The sizes that a reader gave, as an address has them. */
export function printSizes(given) {
  return Object.entries(given).filter(([, text]) => /^\s*\d{1,10}\s*$/.test(text))
    .map(([name, text]) => `${name}=${Number(text)}`).join(",");
}
