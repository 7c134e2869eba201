// Lines: learning curves, rates, weights. A series is { index, name, xs, ys, errors }; errors may be missing.

/** The position of the value that is nearest to one. */
function nearest(values, wanted) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (Math.abs(values[i] - wanted) < Math.abs(values[best] - wanted)) best = i;
  return best;
}

const point = (x, y) => `${x.toFixed(1)},${y.toFixed(1)}`;

/** A path through points; where a value cannot be drawn the line is broken. */
function trace(xs, ys, x, y) {
  let [path, pen] = ["", "M"];
  for (let i = 0; i < xs.length; i++) {
    const drawable = ys[i] !== null && xs[i] !== null && Number.isFinite(y(ys[i]));
    if (drawable) path += pen + point(x(xs[i]), y(ys[i]));
    pen = drawable ? "L" : "M";
  }
  return path;
}

/** The area between two lines; what lies below a logarithm is at the bottom. */
function area(xs, lows, highs, x, y) {
  const floor = y(y.domain[0]);
  const place = (value) => (Number.isFinite(y(value)) ? y(value) : floor);
  const there = (i) => xs[i] !== null && [lows[i], highs[i]].every((value) => value !== null && Number.isFinite(value));
  const used = [...xs.keys()].filter(there);
  if (used.length < 2) return "";
  const up = used.map((i) => point(x(xs[i]), place(highs[i])));
  const down = used.reverse().map((i) => point(x(xs[i]), place(lows[i])));
  return `M${up.join("L")}L${down.join("L")}Z`;
}

/** Lines with bands of one standard error to either side. */
function paintLines(layer, series, { x, y, inner }) {
  for (const { index, name, xs, ys, errors } of series) {
    const { colour, dash, marker } = lineStyle(index);
    if (errors) {
      const moved = (sign) =>
        ys.map((value, i) => (value === null || errors[i] === null ? null : value + sign * errors[i]));
      layer.append(draw("path", { class: "band", fill: colour, d: area(xs, moved(-1), moved(1), x, y) }));
    }
    const drawable = [...xs.keys()].filter((i) => xs[i] !== null && ys[i] !== null && Number.isFinite(y(ys[i])));
    const every = Math.max(1, Math.round(drawable.length / (inner / 90)));
    const spots = drawable.filter((_, i) => drawable.length === 1 || i % every === index % every);
    const line = { class: "curve", stroke: colour, "stroke-dasharray": dash, d: trace(xs, ys, x, y) };
    layer.append(
      draw("path", line, draw("title", {}, name)),
      draw("path", { fill: colour, d: spots.map((i) => marker(x(xs[i]), y(ys[i]), 3.2)).join("") }),
    );
  }
}

/** All values between two places, those at the very edges interpolated: the vertical axis is fitted to them. */
function seen(series, [low, high]) {
  const found = [];
  const put = (value, error) => found.push(...(error ? [value - error, value + error] : [value]));
  for (const { xs, ys, errors } of series) {
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

const MOST = 10;

/** The values of all series at the place nearest to x, largest first; the one nearest to y is marked. */
function readLines(series, x, y, plot, title, text) {
  const rows = [];
  let at = null;
  for (const one of series) {
    if (!one.xs.length) continue;
    const i = nearest(one.xs, at ?? x);
    at ??= one.xs[i];
    // A series that is not there at this place says nothing about it.
    const gap = (one.xs.at(-1) - one.xs[0]) / Math.max(one.xs.length - 1, 1);
    if (one.ys[i] === null || Math.abs(one.xs[i] - at) > Math.max(gap, 1e-12)) continue;
    const distance = y === undefined ? Infinity : Math.abs(plot.y(one.ys[i]) - plot.y(y));
    rows.push({ mark: swatch(one.index), name: one.name, value: text(one, i), size: one.ys[i], distance });
  }
  if (!rows.length) return null;
  const close = rows.reduce((best, row) => (row.distance < best.distance ? row : best));
  close.near = Number.isFinite(close.distance);
  const kept = [close, ...rows.filter((row) => row !== close)].slice(0, MOST).sort((a, b) => b.size - a.size);
  return { x: at, title: title(at), rows: kept, more: rows.length > MOST ? `and ${rows.length - MOST} more` : "" };
}

/** Which lines are shown; several plots may share it. */
class Legend {
  constructor(names, hidden = []) {
    this.names = names;
    this.hidden = new Set(hidden);
    this.listeners = [];
    const title = "Click: on or off. Shift and click: this one alone.";
    this.buttons = names.map((name, index) => {
      const onclick = (event) => (event.shiftKey ? this.only(index) : this.toggle(index));
      return button([swatch(index), name], onclick, { "aria-pressed": String(this.shows(index)), title });
    });
    const all = button("all", () => this.set([]), { class: "quiet" });
    const none = button("none", () => this.set(names.keys()), { class: "quiet" });
    const group = { role: "group", "aria-label": "Curves to show" };
    this.node = el("div.legend", group, names.length > 2 ? [all, none] : null, this.buttons);
  }

  shows(index) {
    return !this.hidden.has(index);
  }

  toggle(index) {
    this.set(this.shows(index) ? [...this.hidden, index] : [...this.hidden].filter((i) => i !== index));
  }

  only(index) {
    this.set([...this.names.keys()].filter((i) => i !== index));
  }

  set(hidden) {
    this.hidden = new Set(hidden);
    this.buttons.forEach((one, index) => one.setAttribute("aria-pressed", String(this.shows(index))));
    this.listeners.forEach((listener) => listener());
  }
}
