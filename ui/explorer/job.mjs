// Follow a job: server-sent events until the last one.

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
