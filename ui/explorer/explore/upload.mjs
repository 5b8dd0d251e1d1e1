// Files from the reader: a button, a drop anywhere on the page, the upload itself.

import { Failure } from "../blobs.mjs";
import { h, replace } from "../dom.mjs";
import { bytes, t } from "../text.mjs";

/** `{digest, name, bytes}` of a file that the server now keeps; rejects with a problem. */
export async function upload(shell, file) {
  const name = file.name;
  if (!name.toLowerCase().endsWith(".onnx")) throw problemOf("upload.kind", { name });
  if (file.size > shell.uploadLimit) throw problemOf("upload.large", { name, limit_bytes: shell.uploadLimit });
  if (file.size === 0) throw problemOf("upload.empty", { name });
  let answer;
  try {
    answer = await fetch(new URL(`upload?name=${encodeURIComponent(name)}`, document.baseURI), { method: "POST", body: file });
  } catch { throw problemOf("upload.failed", { name }); }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw body.error ? new Failure(body.error) : problemOf("upload.failed", { name });
  return body;
}

const problemOf = (message, parameters) => new Failure({ message, parameters });

/** The SHA-256 of a file as text; "" where the browser keeps it from pages that are not secure. */
export async function digestOf(file) {
  if (!globalThis.crypto?.subtle) return "";
  const found = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
  return [...found].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A label that looks like a button and chooses one file. */
export function fileButton(shell, take) {
  const input = h("input", { type: "file", accept: ".onnx", id: "upload-file", class: "unseen", onchange: () => {
    const [file] = input.files;
    input.value = "";
    if (file) take(file);
  } });
  const title = h("span", { class: "drop-title" });
  const hint = h("span", { class: "hint" });
  const element = h("label", { class: "drop", for: "upload-file" }, input, title, hint);
  return { element, refresh() {
    title.textContent = t("upload.title");
    hint.textContent = t("upload.hint", { size: bytes(shell.uploadLimit) });
  } };
}

/** Drops anywhere in the window while `on`; a sheet over the page says so during the drag. */
export function dropAnywhere(take) {
  const sheet = h("div", { class: "drop-sheet", hidden: true, "aria-hidden": "true" });
  let inside = 0;
  const files = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const show = (visible) => {
    if (visible) replace(sheet, h("p", null, t("upload.drop")));
    sheet.hidden = !visible;
  };
  const heard = {
    dragenter(event) { if (files(event)) { event.preventDefault(); inside += 1; show(true); } },
    dragover(event) { if (files(event)) { event.preventDefault(); event.dataTransfer.dropEffect = "copy"; } },
    dragleave(event) { if (files(event)) { inside = Math.max(0, inside - 1); if (inside === 0) show(false); } },
    drop(event) {
      if (!files(event)) return;
      event.preventDefault();
      inside = 0;
      show(false);
      const [file] = event.dataTransfer.files;
      if (file) take(file);
    },
  };
  return {
    sheet,
    on() { for (const [name, hear] of Object.entries(heard)) window.addEventListener(name, hear); },
    off() { for (const [name, hear] of Object.entries(heard)) window.removeEventListener(name, hear); },
  };
}
