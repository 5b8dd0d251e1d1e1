// The whole of a scene, small, with a frame around what is in sight; dragging moves the camera.

import { h } from "../dom.mjs";

const MOST = [132, 96], LEAST = 36, PAD = 4;

/** `{element, draw(pane)}`; `go(x, y)` is asked to bring a place of the scene into the middle. */
export function createMinimap(go) {
  const canvas = h("canvas", { class: "minimap", "aria-hidden": "true" });
  let pane = null, picture = null, of = null, fit = null;
  let [W, H] = MOST;   // of the map: no larger than the shape of the scene needs

  let dragging = false;
  const move = (event) => {
    if (fit === null) return;
    const box = canvas.getBoundingClientRect();
    go((event.clientX - box.left - fit.x) / fit.k, (event.clientY - box.top - fit.y) / fit.k);
  };
  canvas.addEventListener("pointerdown", (event) => { dragging = true; canvas.setPointerCapture(event.pointerId); move(event); });
  canvas.addEventListener("pointermove", (event) => { if (dragging) move(event); });
  canvas.addEventListener("pointerup", () => { dragging = false; });
  canvas.addEventListener("pointercancel", () => { dragging = false; });

  function prepare(scene, palette) {
    const { x, y, w, h: tall } = scene.box;
    const k = Math.min((MOST[0] - 2 * PAD) / Math.max(1, w), (MOST[1] - 2 * PAD) / Math.max(1, tall), 0.5);
    [W, H] = [w, tall].map((side) => Math.max(LEAST, Math.round(side * k) + 2 * PAD));
    Object.assign(canvas.style, { width: `${W}px`, height: `${H}px` });
    fit = { k, x: (W - w * k) / 2 - x * k, y: (H - tall * k) / 2 - y * k };
    const ratio = window.devicePixelRatio || 1;
    picture = document.createElement("canvas");
    picture.width = Math.round(W * ratio);
    picture.height = Math.round(H * ratio);
    const context = picture.getContext("2d");
    context.scale(ratio, ratio);
    context.fillStyle = palette.ground;
    context.fillRect(0, 0, W, H);
    for (const node of scene.nodes) {
      context.fillStyle = node.picked ? palette.primary : node.mark === "same" ? palette.quiet : palette[node.mark];
      context.fillRect(node.x * k + fit.x, node.y * k + fit.y, Math.max(1, node.w * k), Math.max(1, node.h * k));
    }
  }

  return {
    element: canvas,
    /** Draw it for a pane; it hides where the whole is in sight. */
    draw(shown) {
      pane = shown;
      const scene = pane.scene();
      const { x, y, k } = pane.view();
      const [w, tall] = pane.size();
      const box = scene.box;
      const whole = box === null || (box.x * k + x >= -1 && box.y * k + y >= -1
        && (box.x + box.w) * k + x <= w + 1 && (box.y + box.h) * k + y <= tall + 1);
      canvas.hidden = whole;
      if (whole) return;
      const palette = pane.palette();
      if (of?.scene !== scene || of.palette !== palette) { of = { scene, palette }; prepare(scene, palette); }
      if (canvas.width !== picture.width || canvas.height !== picture.height) { canvas.width = picture.width; canvas.height = picture.height; }
      const context = canvas.getContext("2d");
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.drawImage(picture, 0, 0);
      const ratio = picture.width / W;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.strokeStyle = palette.primary;
      context.lineWidth = 2;
      context.strokeRect((-x / k) * fit.k + fit.x, (-y / k) * fit.k + fit.y, (w / k) * fit.k, (tall / k) * fit.k);
    },
  };
}
