// Follow a job: server-sent events until the last one, and what they say.

import { known, t } from "./text.mjs";

const LAST = new Set(["result", "error", "cancelled"]);

/** Call `hear(event)` for each event of a job; returns a function that stops listening. */
export function follow(token, hear) {
  const source = new EventSource(new URL(`job/${token}`, document.baseURI));
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    if (LAST.has(event.event)) source.close();
    hear(event);
  };
  source.onerror = () => {
    // The browser tries again by itself unless the server refused.
    if (source.readyState !== EventSource.CLOSED) return;
    hear({ event: "error", error: { message: "job.gone", parameters: {} } });
  };
  return () => source.close();
}

export function cancel(token) {
  return fetch(new URL(`job/${token}`, document.baseURI), { method: "DELETE" });
}

/** [text, done, of] of a job's event. */
export function phrase(event) {
  if (event.event === "queued") return [t("job.queued", { n: event.position })];
  if (event.event === "started") return [t("job.started")];
  const { phase, name, done, of, changed, before, after } = event;
  const message = `progress.${phase}`;
  const outcome = phase !== "pass" ? "" : t(changed ? "state.changed" : "state.nothing");
  return [t(known(message) ? message : "progress.other", {
    name: name ?? phase, done, of, outcome, before: before ?? 0, after: after ?? 0 }), done, of];
}
