// What workers wrote, by digest. A digest never changes its content, so each is fetched once.

const found = new Map();
const LIMIT = 200;

function once(path) {
  let promise = found.get(path);
  if (promise === undefined) {
    promise = load(path);
    promise.catch(() => found.delete(path));
    found.set(path, promise);
    if (found.size > LIMIT) found.delete(found.keys().next().value);
  }
  return promise;
}

async function load(path) {
  const answer = await fetch(new URL(path, document.baseURI));
  const body = await answer.json();
  if (!answer.ok || body.error) throw new Failure(body.error ?? { message: "blob.gone", parameters: {} });
  return body;
}

/** A problem with a message id, as the routes and workers send it. */
export class Failure extends Error {
  constructor(error) {
    super(error.message);
    this.error = error;
  }
}

export const blob = (digest) => once(`blob/${digest}`);
/** Where the nodes of the level that holds `pass` go; with `open`, the inside of one group. */
export const layout = (digest, pass, open = "") =>
  once(`layout/${digest}/${pass}${open ? `?open=${encodeURIComponent(open)}` : ""}`);
