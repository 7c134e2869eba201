// Plots of lines: learning curves, rates, weights.

/** The position in sorted values that is nearest to one. */
function nearest(values, wanted) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (Math.abs(values[i] - wanted) < Math.abs(values[best] - wanted)) best = i;
  return best;
}

/** A path through points; where a value cannot be drawn the line is broken. */
function trace(xs, ys, x, y) {
  let path = "", pen = false;
  for (let i = 0; i < xs.length; i++) {
    const drawable = ys[i] !== null && xs[i] !== null && Number.isFinite(y(ys[i]));
    if (drawable) path += `${pen ? "L" : "M"}${x(xs[i]).toFixed(1)},${y(ys[i]).toFixed(1)}`;
    pen = drawable;
  }
  return path;
}

/** The area between two lines. */
function area(xs, lows, highs, x, y) {
  const floor = y(y.domain[0]);
  const place = (value) => (Number.isFinite(y(value)) ? y(value) : floor);
  const used = [...xs.keys()].filter((i) => lows[i] !== null && Number.isFinite(lows[i]) && Number.isFinite(highs[i]) && xs[i] !== null);
  if (used.length < 2) return "";
  const up = used.map((i) => `${x(xs[i]).toFixed(1)},${place(highs[i]).toFixed(1)}`);
  const down = used.reverse().map((i) => `${x(xs[i]).toFixed(1)},${place(lows[i]).toFixed(1)}`);
  return `M${up.join("L")}L${down.join("L")}Z`;
}

/** Draw series { index, name, xs, ys, errors } with bands of one standard error. */
function paintLines(layer, series, { x, y, width }) {
  for (const { index, name, xs, ys, errors } of series) {
    const { colour, dash, marker } = lineStyle(index);
    if (errors) {
      const low = ys.map((value, i) => (value === null || errors[i] === null ? null : value - errors[i]));
      const high = ys.map((value, i) => (value === null || errors[i] === null ? null : value + errors[i]));
      layer.append(draw("path", { class: "band", fill: colour, d: area(xs, low, high, x, y) }));
    }
    const drawable = [...xs.keys()].filter((i) => ys[i] !== null && Number.isFinite(y(ys[i])));
    const every = Math.max(1, Math.round(drawable.length / (width / 90)));
    const spots = drawable.filter((_, i) => drawable.length === 1 || i % every === index % every);
    layer.append(
      draw("path", { class: "curve", stroke: colour, "stroke-dasharray": dash, d: trace(xs, ys, x, y) }, draw("title", {}, name)),
      draw("path", { fill: colour, d: spots.map((i) => marker(x(xs[i]), y(ys[i]), 3.2)).join("") }));
  }
}

/** All values between two places, those at the very edges interpolated: the vertical axis is fitted to them. */
function seen(series, [low, high]) {
  const found = [];
  for (const { xs, ys, errors } of series) {
    const put = (value, error) => found.push(...(error ? [value - error, value + error] : [value]));
    for (let i = 0; i < xs.length; i++) {
      if (ys[i] === null || xs[i] === null) continue;
      if (xs[i] >= low && xs[i] <= high) put(ys[i], errors?.[i]);
      if (i === 0 || ys[i - 1] === null) continue;
      for (const edge of [low, high]) {
        const part = (edge - xs[i - 1]) / (xs[i] - xs[i - 1]);
        if (part > 0 && part < 1) put(ys[i - 1] + part * (ys[i] - ys[i - 1]), errors?.[i]);
      }
    }
  }
  return found;
}

/** The values of all series at the place nearest to x; the one nearest to y is marked. */
function readLines(series, x, y, plot, title, text) {
  const rows = [];
  let at = null;
  for (const one of series) {
    if (!one.xs.length) continue;
    const i = nearest(one.xs, at ?? x);
    at ??= one.xs[i];
    const gap = (one.xs.at(-1) - one.xs[0]) / Math.max(one.xs.length - 1, 1);
    if (one.ys[i] === null || Math.abs(one.xs[i] - at) > Math.max(gap, 1e-12)) continue;
    const distance = y === undefined ? Infinity : Math.abs(plot.y(one.ys[i]) - plot.y(y));
    rows.push({ mark: swatch(one.index), name: one.name, value: text(one, i), size: one.ys[i], distance });
  }
  if (!rows.length) return null;
  const close = rows.reduce((best, row) => (row.distance < best.distance ? row : best));
  if (Number.isFinite(close.distance)) close.near = true;
  rows.sort((a, b) => b.size - a.size);
  const most = 10;
  const kept = rows.length > most ? rows.filter((row) => row.near).concat(rows.filter((row) => !row.near)).slice(0, most).sort((a, b) => b.size - a.size) : rows;
  return { x: at, title: title(at), rows: kept, more: rows.length > most ? `and ${rows.length - most} more` : "" };
}

/** Which lines are shown; several plots may share it. */
class Legend {
  constructor(names, hidden = []) {
    this.names = names;
    this.hidden = new Set(hidden);
    this.listeners = [];
    this.buttons = names.map((name, index) => el("button", {
      type: "button", "aria-pressed": String(!this.hidden.has(index)), title: "Click: on or off. Shift and click: this one alone.",
      onclick: (event) => (event.shiftKey ? this.only(index) : this.toggle(index)),
    }, swatch(index), name));
    const all = el("button", { type: "button", class: "quiet", onclick: () => this.set([]) }, "all");
    const none = el("button", { type: "button", class: "quiet", onclick: () => this.set(names.keys()) }, "none");
    this.node = el("div", { class: "legend", role: "group", "aria-label": "Curves to show" }, names.length > 2 ? [all, none] : null, this.buttons);
  }

  toggle(index) { this.set(this.hidden.has(index) ? [...this.hidden].filter((i) => i !== index) : [...this.hidden, index]); }

  only(index) { this.set([...this.names.keys()].filter((i) => i !== index)); }

  set(hidden) {
    this.hidden = new Set(hidden);
    this.buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(!this.hidden.has(i))));
    this.listeners.forEach((listener) => listener());
  }

  shows(index) { return !this.hidden.has(index); }
}
