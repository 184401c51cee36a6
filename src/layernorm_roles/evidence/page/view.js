"use strict";
// Keys and queries of the experiments in three dimensions: drag, swipe or use the arrow keys to turn them.

const view = document.getElementById("view");
const { limit, printed, views } = JSON.parse(document.getElementById("vectors").textContent);
const canvas = view.querySelector("canvas"), pen = canvas.getContext("2d"), runs = view.querySelector("select");
const VIEWS = {
  printed: { ...printed, zoom: 1 },
  edge: { azimuth: -45, elevation: 0, zoom: 1 },          // in the plane orthogonal to the ones vector
  ones: { azimuth: 45, elevation: 35.264, zoom: 1 },      // along the ones vector
};
const state = { ...VIEWS.printed, variant: 0, run: "all" };

// Vectors

const ONES = [1, 1, 1].map((x) => x / Math.sqrt(3));
const radians = (degrees) => (degrees * Math.PI) / 180;
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const times = (a, factor) => a.map((x) => x * factor);

// The corners of a disc in the plane orthogonal to the ones vector.
const DISC = (() => {
  const across = [times([1, -1, 0], 1 / Math.SQRT2), times([1, 1, -2], 1 / Math.sqrt(6))];
  const radius = 1.15 * Math.sqrt(3);
  return Array.from({ length: 72 }, (_, i) => {
    const t = (i / 36) * Math.PI;
    return across[0].map((x, k) => radius * (x * Math.cos(t) + across[1][k] * Math.sin(t)));
  });
})();

// A query outside the box is drawn on its line, at the box, hollow: its direction is what matters.
function shorten(vector) {
  const excess = Math.max(...vector.map(Math.abs)) / limit;
  return { at: excess > 1 ? times(vector, 1 / excess) : vector, key: false, hollow: excess > 1 };
}

// Right, up and towards the viewer, for a camera at azimuth and elevation (the convention of matplotlib).
function camera() {
  const a = radians(state.azimuth), e = radians(state.elevation);
  return {
    right: [-Math.sin(a), Math.cos(a), 0],
    up: [-Math.sin(e) * Math.cos(a), -Math.sin(e) * Math.sin(a), Math.cos(e)],
    near: [Math.cos(e) * Math.cos(a), Math.cos(e) * Math.sin(a), Math.sin(e)],
  };
}

// Drawing. A scene has the place of a vector on the canvas, its depth (towards the viewer) and the colour of lines.

function scene() {
  const width = canvas.clientWidth, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const { right, up, near } = camera();
  const unit = (Math.min(width, height) / (2 * limit * 1.5)) * state.zoom;
  return {
    place: (p) => [width / 2 + unit * dot(p, right), height / 2 - unit * dot(p, up)],
    depth: (p) => dot(p, near),
    ink: getComputedStyle(canvas).color,
  };
}

function path({ place }, points) {
  pen.beginPath();
  points.forEach((p, i) => pen[i ? "lineTo" : "moveTo"](...place(p)));
}

function line(shown, points, opacity, dash = []) {
  pen.globalAlpha = opacity;
  pen.strokeStyle = shown.ink;
  pen.lineWidth = 1;
  pen.setLineDash(dash);
  path(shown, points);
  pen.stroke();
  pen.setLineDash([]);
}

function word(shown, text, p) {
  pen.globalAlpha = 0.75;
  pen.fillStyle = shown.ink;
  pen.font = "13px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(text, ...shown.place(p));
}

function drawBox(shown) {
  for (const axis of [0, 1, 2]) {
    for (const [s, t] of [[-1, -1], [-1, 1], [1, -1], [1, 1]]) {
      const corner = (x) => { const p = [s * limit, t * limit]; p.splice(axis, 0, x); return p; };
      line(shown, [corner(-limit), corner(limit)], 0.16);
    }
    const end = [0, 0, 0].map((_, k) => (k === axis ? limit : 0));
    line(shown, [[0, 0, 0], end], 0.35);
    word(shown, ["x₁", "x₂", "x₃"][axis], times(end, 1.1));
  }
  line(shown, [times(ONES, -limit * 1.6), times(ONES, limit * 1.6)], 0.8, [6, 4]);
  word(shown, "𝟏", times(ONES, limit * 1.72));
}

function drawPlane(shown) {
  pen.globalAlpha = 0.13;
  pen.fillStyle = shown.ink;
  path(shown, DISC);
  pen.fill();
}

// A key is a disc, a query a triangle at the end of a thin line from the origin.
function drawMark(shown, item, colour) {
  const [x, y] = shown.place(item.at), close = 1 + (0.25 * shown.depth(item.at)) / limit;
  const size = 4.2 * close * Math.sqrt(state.zoom);
  if (!item.key) line(shown, [[0, 0, 0], item.at], 0.14);
  pen.globalAlpha = 0.55 + 0.35 * ((close - 0.57) / 0.86);
  pen.fillStyle = item.key ? colour : shown.ink;
  pen.lineWidth = 1.1;
  pen.beginPath();
  if (item.key) {
    pen.arc(x, y, size, 0, 2 * Math.PI);
  } else {
    pen.moveTo(x, y - size * 1.15);
    pen.lineTo(x + size, y + size * 0.8);
    pen.lineTo(x - size, y + size * 0.8);
    pen.closePath();
  }
  pen[item.hollow ? "stroke" : "fill"]();
}

function chosenItems() {
  const chosen = views[state.variant].runs.filter((run) => state.run === "all" || String(run.seed) === state.run);
  return chosen.flatMap((run) => [...run.keys.map((at) => ({ at, key: true })), ...run.queries.map(shorten)]);
}

// What lies behind the plane first, then the plane, then the rest, each from far to near.
function draw() {
  const shown = scene();
  drawBox(shown);
  const towards = Math.sign(shown.depth(ONES)) || 1;
  const behind = (item) => towards * dot(item.at, ONES) < -1e-3;
  const items = chosenItems().sort((a, b) => shown.depth(a.at) - shown.depth(b.at));
  const mark = (item) => drawMark(shown, item, views[state.variant].colour);
  items.filter(behind).forEach(mark);
  drawPlane(shown);
  items.filter((item) => !behind(item)).forEach(mark);
}

// Controls

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    draw();
  });
}

function change(values) {
  Object.assign(state, values);
  redraw();
}

function turn(azimuth, elevation) {
  change({
    azimuth: (state.azimuth + azimuth) % 360,
    elevation: Math.max(-90, Math.min(90, state.elevation + elevation)),
  });
}

function zoom(factor) {
  change({ zoom: Math.max(0.6, Math.min(5, state.zoom * factor)) });
}

function chooseVariant(index) {
  const variant = views[index], kept = variant.runs.some((run) => String(run.seed) === state.run);
  runs.replaceChildren(new Option("all runs", "all"), ...variant.runs.map((run) => new Option("seed " + run.seed, run.seed)));
  runs.value = kept ? state.run : "all";
  change({ variant: index });
  chooseRun(runs.value);
}

function chooseRun(run) {
  const variant = views[state.variant], one = variant.runs.find(({ seed }) => String(seed) === run);
  document.getElementById("description").textContent = (one ?? variant).text;
  change({ run });
}

function listenToPointer() {
  let last = null;
  canvas.addEventListener("pointerdown", (event) => {
    last = [event.clientX, event.clientY];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    turn(-(event.clientX - last[0]) * 0.5, (event.clientY - last[1]) * 0.5);
    last = [event.clientX, event.clientY];
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (last = null));
}

function listenToKeys() {
  const keys = {
    ArrowLeft: () => turn(5, 0), ArrowRight: () => turn(-5, 0), ArrowUp: () => turn(0, 5), ArrowDown: () => turn(0, -5),
    "+": () => zoom(1.15), "=": () => zoom(1.15), "-": () => zoom(1 / 1.15), Home: () => change(VIEWS.printed),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}

function listenToControls() {
  view.querySelectorAll("input[name=variant]").forEach((input, index) =>
    input.addEventListener("change", () => chooseVariant(index)));
  runs.addEventListener("change", () => chooseRun(runs.value));
  view.querySelectorAll("button[data-view]").forEach((button) =>
    button.addEventListener("click", () => change(VIEWS[button.dataset.view])));
}

listenToPointer();
listenToKeys();
listenToControls();
new ResizeObserver(redraw).observe(canvas);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
chooseVariant(0);
