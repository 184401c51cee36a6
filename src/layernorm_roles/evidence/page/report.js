"use strict";
// The keys and queries of the three-dimensional experiment: drag, swipe or use the arrow keys to turn them.
(() => {
  const view = document.getElementById("view");
  if (!view) return;
  const { limit, variants } = JSON.parse(document.getElementById("vectors").textContent);
  const canvas = view.querySelector("canvas"), pen = canvas.getContext("2d");
  const told = document.getElementById("told"), runs = view.querySelector("select");
  const PRINTED = { azimuth: -14, elevation: 16, zoom: 1 };
  const VIEWS = {
    printed: PRINTED,
    edge: { azimuth: -45, elevation: 0, zoom: 1 },          // in the plane orthogonal to the ones vector
    ones: { azimuth: 45, elevation: 35.264, zoom: 1 },      // along the ones vector
  };
  const state = { ...PRINTED, variant: 0, run: "all" };
  const ONES = [1, 1, 1].map((x) => x / Math.sqrt(3));
  const radians = (degrees) => (degrees * Math.PI) / 180;
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

  // Right, up and towards the viewer, for a camera at azimuth and elevation (the convention of matplotlib).
  function camera() {
    const a = radians(state.azimuth), e = radians(state.elevation);
    return {
      right: [-Math.sin(a), Math.cos(a), 0],
      up: [-Math.sin(e) * Math.cos(a), -Math.sin(e) * Math.sin(a), Math.cos(e)],
      near: [Math.cos(e) * Math.cos(a), Math.cos(e) * Math.sin(a), Math.sin(e)],
    };
  }

  // A query outside the box is drawn on its line, at the box, hollow: its direction is what matters.
  function shorten(vector) {
    const excess = Math.max(...vector.map(Math.abs)) / limit;
    return excess > 1 ? { at: vector.map((x) => x / excess), hollow: true } : { at: vector, hollow: false };
  }

  function disc() {
    const across = [[1, -1, 0].map((x) => x / Math.SQRT2), [1, 1, -2].map((x) => x / Math.sqrt(6))];
    const radius = 1.15 * Math.sqrt(3);
    return Array.from({ length: 72 }, (_, i) => {
      const t = (i / 36) * Math.PI;
      return across[0].map((x, k) => radius * (x * Math.cos(t) + across[1][k] * Math.sin(t)));
    });
  }
  const DISC = disc();

  function draw() {
    const width = canvas.clientWidth, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const { right, up, near } = camera();
    const unit = (Math.min(width, height) / (2 * limit * 1.5)) * state.zoom;
    const place = (p) => [width / 2 + unit * dot(p, right), height / 2 - unit * dot(p, up)];
    const ink = getComputedStyle(canvas).color;
    const variant = variants[state.variant];

    const line = (points, { colour = ink, opacity = 1, thick = 1, dash = [] } = {}) => {
      pen.globalAlpha = opacity;
      pen.strokeStyle = colour;
      pen.lineWidth = thick;
      pen.setLineDash(dash);
      pen.beginPath();
      points.forEach((p, i) => pen[i ? "lineTo" : "moveTo"](...place(p)));
      pen.stroke();
      pen.setLineDash([]);
    };
    const word = (text, p) => {
      pen.globalAlpha = 0.75;
      pen.fillStyle = ink;
      pen.font = "13px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.fillText(text, ...place(p));
    };

    // The box, its axes, and the ones vector.
    for (const axis of [0, 1, 2]) {
      for (const [s, t] of [[-1, -1], [-1, 1], [1, -1], [1, 1]]) {
        const ends = [-limit, limit].map((x) => {
          const p = [s * limit, t * limit];
          p.splice(axis, 0, x);
          return p;
        });
        line(ends, { opacity: 0.16 });
      }
      const end = [0, 0, 0];
      end[axis] = limit;
      line([[0, 0, 0], end], { opacity: 0.35 });
      word(["x₁", "x₂", "x₃"][axis], end.map((x) => x * 1.1));
    }
    line([ONES.map((x) => -x * limit * 1.6), ONES.map((x) => x * limit * 1.6)], { dash: [6, 4], opacity: 0.8 });
    word("𝟏", ONES.map((x) => x * limit * 1.72));

    const items = [];
    for (const run of variant.runs) {
      if (state.run !== "all" && String(run.seed) !== state.run) continue;
      for (const key of run.keys) items.push({ at: key, key: true });
      for (const query of run.queries) items.push({ ...shorten(query), key: false });
    }
    const depth = (item) => dot(item.at, near);
    items.sort((a, b) => depth(a) - depth(b));

    const mark = (item) => {
      const [x, y] = place(item.at), close = 1 + (0.25 * depth(item)) / limit, size = 4.2 * close * Math.sqrt(state.zoom);
      if (!item.key) line([[0, 0, 0], item.at], { opacity: 0.14 });
      pen.globalAlpha = 0.55 + 0.35 * ((close - 0.57) / 0.86);
      pen.beginPath();
      if (item.key) {
        pen.arc(x, y, size, 0, 2 * Math.PI);
        pen.fillStyle = variant.colour;
        pen.fill();
        return;
      }
      pen.moveTo(x, y - size * 1.15);
      pen.lineTo(x + size, y + size * 0.8);
      pen.lineTo(x - size, y + size * 0.8);
      pen.closePath();
      pen.fillStyle = pen.strokeStyle = ink;
      pen.lineWidth = 1.1;
      if (item.hollow) pen.stroke();
      else pen.fill();
    };
    // What lies behind the plane first, then the plane, then the rest.
    const towards = Math.sign(dot(near, ONES)) || 1;
    const behind = (item) => towards * dot(item.at, ONES) < -1e-3;
    items.filter(behind).forEach(mark);
    pen.globalAlpha = 0.13;
    pen.fillStyle = ink;
    pen.beginPath();
    DISC.forEach((p, i) => pen[i ? "lineTo" : "moveTo"](...place(p)));
    pen.fill();
    items.filter((item) => !behind(item)).forEach(mark);
    pen.globalAlpha = 1;
  }

  let waiting = false;
  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  }
  function turn(azimuth, elevation) {
    state.azimuth = (state.azimuth + azimuth) % 360;
    state.elevation = Math.max(-90, Math.min(90, state.elevation + elevation));
    redraw();
  }
  function zoom(factor) {
    state.zoom = Math.max(0.6, Math.min(5, state.zoom * factor));
    redraw();
  }
  function choose() {
    const variant = variants[state.variant];
    told.textContent = variant.text;
    const kept = state.run;
    runs.replaceChildren(new Option("all runs", "all"), ...variant.runs.map((r) => new Option("seed " + r.seed, r.seed)));
    runs.value = variant.runs.some((r) => String(r.seed) === kept) ? kept : "all";
    state.run = runs.value;
    redraw();
  }

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

  const KEYS = {
    ArrowLeft: () => turn(5, 0), ArrowRight: () => turn(-5, 0), ArrowUp: () => turn(0, 5), ArrowDown: () => turn(0, -5),
    "+": () => zoom(1.15), "=": () => zoom(1.15), "-": () => zoom(1 / 1.15),
    Home: () => { Object.assign(state, PRINTED); redraw(); },
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  view.querySelectorAll("input[name=variant]").forEach((input, i) =>
    input.addEventListener("change", () => { state.variant = i; choose(); }));
  runs.addEventListener("change", () => { state.run = runs.value; redraw(); });
  view.querySelectorAll("button[data-view]").forEach((button) =>
    button.addEventListener("click", () => { Object.assign(state, VIEWS[button.dataset.view]); redraw(); }));

  new ResizeObserver(redraw).observe(canvas);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  choose();
})();
