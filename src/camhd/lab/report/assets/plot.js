// The frame of every plot: axes, cursor and read-out, zoom by dragging, wheel and keys.

/** Plots that share their horizontal axis: what is zoomed or pointed at in one is in all. */
class Link {
  constructor() {
    this.plots = new Set();
    this.zoomed = null;
    this.undo = el("button", { type: "button", class: "undo", hidden: true, onclick: () => this.reset() }, "Reset zoom");
  }

  /** Room to the left that all of them leave, so that they line up. */
  left(width) { return Math.min(Math.max(...[...this.plots].map((plot) => plot.wanted)), width * 0.34); }

  zoom(domain) {
    this.zoomed = domain;
    this.plots.forEach((plot) => plot.render());
    this.undo.hidden = !(domain || [...this.plots].some((plot) => plot.zoomedY));
  }

  reset() {
    this.plots.forEach((plot) => { plot.zoomedY = null; });
    this.zoom(null);
  }

  point(x, from) {
    this.plots.forEach((plot) => plot !== from && plot.mark(x));
  }
}

/**
 * One plot. `spec` is what it shows; a subclass or caller may replace it and call `render()`.
 *   title, caption, label  texts; `label` describes the picture to those who do not see it
 *   height, bare           of the area inside the axes, in pixels; whether it has no grid
 *   x: { title, domain, integers, text }
 *   y: { kind, values(domain) → numbers to be seen, metric, percent, text } or { names: [rows] }
 *   paint(layer, { x, y, width, height, canvas })   draws the contents
 *   read(x, y) → { x, title, rows: [{ mark, name, value, near }], y } or null
 */
class Plot {
  constructor(spec, link = new Link()) {
    this.spec = spec;
    this.link = link;
    this.zoomedY = null;
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.svg = draw("svg", {
      tabindex: 0, role: "img",
      onpointerdown: (event) => this.press(event), onpointermove: (event) => this.move(event),
      onpointerup: (event) => this.release(event), onpointercancel: () => this.forget(), onpointerleave: () => this.leave(),
      onwheel: (event) => this.wheel(event), onkeydown: (event) => this.key(event), onblur: () => this.leave(),
      ondblclick: () => this.link.reset(),
    });
    this.tip = el("div", { class: "tip", hidden: true });
    this.spoken = el("div", { class: "hidden", "aria-live": "polite" });
    this.stage = el("div", { class: "stage" }, this.canvas, this.svg, this.tip, this.spoken);
    const heading = spec.title ? el("figcaption", {}, el("h4", {}, spec.title), spec.caption ? el("span", { class: "caption" }, spec.caption) : null, spec.tools) : null;
    this.node = el("figure", { class: "plot" }, heading, this.stage);
    this.wanted = Math.max(58, 10 + 6.8 * Math.max(0, ...(spec.y.names ?? []).map((name) => name.length)));
    link.plots.add(this);
    this.width = 0;
    new ResizeObserver(([entry]) => {
      const width = Math.round(entry.contentRect.width);
      if (width && width !== this.width) { this.width = width; this.render(); }
    }).observe(this.stage);
  }

  /** Leave the others alone from now on. */
  remove() { this.link.plots.delete(this); this.node.remove(); }

  get domain() { return this.link.zoomed ?? this.spec.x.domain; }

  render() {
    if (!this.width) return;
    const { spec } = this;
    const names = spec.y.names;
    this.leave();
    this.left = this.link.left(this.width);
    this.top = 8;
    this.inner = Math.max(this.width - this.left - 12, 40);
    this.height = spec.height;
    const [a, b] = this.domain;
    this.x = scale("linear", a, b, this.left, this.left + this.inner);
    const fitted = names ? [0, names.length] : this.zoomedY ?? spec.y.domain ?? range(spec.y.values(this.domain), spec.y.kind);
    const [bottom, top] = names ? [this.top, this.top + this.height] : [this.top + this.height, this.top];
    this.y = scale(names ? "linear" : spec.y.kind, fitted[0], fitted[1], bottom, top);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.top + this.height + 42}`);
    this.svg.setAttribute("height", this.top + this.height + 42);
    this.svg.setAttribute("aria-label", `${spec.label ?? spec.title}. Arrow keys read values, plus and minus zoom, Escape shows everything.`);
    const id = `clip${Plot.count = (Plot.count ?? 0) + 1}`;
    const layer = draw("g", { "clip-path": `url(#${id})` });
    this.overlay = draw("g", {});
    this.svg.replaceChildren(
      draw("clipPath", { id }, draw("rect", { x: this.left, y: this.top - 4, width: this.inner + (this.link.zoomed ? 0 : 6), height: this.height + 8 })),
      this.axes(), layer, this.overlay);
    this.prepare();
    spec.paint(layer, { x: this.x, y: this.y, width: this.inner, height: this.height, left: this.left, top: this.top, canvas: this.canvas, plot: this });
  }

  /** The canvas lies exactly below the area inside the axes. */
  prepare() {
    const dense = window.devicePixelRatio || 1;
    Object.assign(this.canvas.style, { left: `${this.left}px`, top: `${this.top}px`, width: `${this.inner}px`, height: `${this.height}px` });
    [this.canvas.width, this.canvas.height] = [Math.round(this.inner * dense), Math.round(this.height * dense)];
    this.canvas.getContext("2d").setTransform(dense, 0, 0, dense, 0, 0);
  }

  axes() {
    const { spec } = this;
    const [right, bottom] = [this.left + this.inner, this.top + this.height];
    const across = ticks(this.x, Math.max(2, Math.floor(this.inner / 70)), spec.x.integers);
    const texts = tickTexts(across, spec.x);
    const group = draw("g", {});
    const bare = spec.y.names || spec.bare; // no grid across a picture
    across.forEach((value, i) => group.append(
      draw("line", { class: bare ? "axis" : "grid", x1: this.x(value), x2: this.x(value), y1: bare ? bottom : this.top, y2: bottom + 4 }),
      draw("text", { x: this.x(value), y: bottom + 18, "text-anchor": "middle" }, texts[i])));
    group.append(draw("text", { x: (this.left + right) / 2, y: bottom + 36, "text-anchor": "middle" }, spec.x.title));
    if (spec.y.names) this.names(group);
    else {
      const up = ticks(this.y, Math.max(3, Math.floor(this.height / 45)));
      tickTexts(up, spec.y).forEach((text, i) => group.append(
        draw("line", { class: bare ? "axis" : "grid", x1: bare ? this.left - 4 : this.left, x2: bare ? this.left : right, y1: this.y(up[i]), y2: this.y(up[i]) }),
        draw("text", { x: this.left - 8, y: this.y(up[i]) + 4, "text-anchor": "end" }, text)));
    }
    group.append(draw("path", { class: "axis", fill: "none", d: `M${this.left},${this.top}V${bottom}H${right}` }));
    return group;
  }

  /** Names of rows, the middle of long ones left out. */
  names(group) {
    const room = Math.floor((this.left - 10) / 6.6);
    this.spec.y.names.forEach((name, i) => {
      const half = Math.floor((room - 1) / 2);
      const short = name.length > room ? `${name.slice(0, half)}…${name.slice(-half)}` : name;
      group.append(draw("text", { x: this.left - 6, y: this.y(i + 0.5) + 4, "text-anchor": "end" }, short, draw("title", {}, name)));
    });
  }

  place(event) {
    const box = this.svg.getBoundingClientRect();
    return [clamp(event.clientX - box.left, this.left, this.left + this.inner), clamp(event.clientY - box.top, this.top, this.top + this.height)];
  }

  press(event) {
    if (event.button) return;
    this.from = this.place(event);
    this.svg.setPointerCapture?.(event.pointerId);
  }

  move(event) {
    const here = this.place(event);
    if (this.from && Math.abs(here[0] - this.from[0]) > 5) {
      this.leave();
      const box = this.boxed(here);
      this.overlay.replaceChildren(draw("rect", { class: "select", x: box[0], y: box[2], width: box[1] - box[0], height: box[3] - box[2] }));
    } else this.show(this.x.back(here[0]), this.y.back(here[1]));
  }

  /** What is being selected: [left, right, top, bottom]; all of the height unless the pointer went up or down too. */
  boxed(here) {
    const [[x0, y0], [x1, y1]] = [this.from, here];
    const flat = this.spec.y.names || Math.abs(y1 - y0) < 30;
    return [Math.min(x0, x1), Math.max(x0, x1), flat ? this.top : Math.min(y0, y1), flat ? this.top + this.height : Math.max(y0, y1)];
  }

  release(event) {
    if (!this.from) return;
    const here = this.place(event);
    const [left, right, top, bottom] = this.boxed(here);
    this.forget();
    if (right - left <= 5) return this.show(this.x.back(here[0]), this.y.back(here[1]));
    if (bottom - top < this.height - 1) this.zoomedY = [this.y.back(bottom), this.y.back(top)];
    this.link.zoom([this.x.back(left), this.x.back(right)]);
  }

  forget() { this.from = null; this.overlay?.replaceChildren(); }

  /** The wheel scrolls the page; with Ctrl, or after a click into the plot, it zooms. */
  wheel(event) {
    if (!event.ctrlKey && document.activeElement !== this.svg) return;
    event.preventDefault();
    this.magnify(event.deltaY > 0 ? 1.25 : 0.8, this.x.back(this.place(event)[0]));
  }

  magnify(factor, centre) {
    const [low, high] = this.spec.x.domain;
    const [a, b] = this.domain;
    const next = [Math.max(low, centre - (centre - a) * factor), Math.min(high, centre + (b - centre) * factor)];
    if (next[1] - next[0] > (high - low) / 1000) this.link.zoom(next[0] <= low && next[1] >= high ? null : next);
  }

  key(event) {
    const [a, b] = this.domain;
    const at = this.pointed ?? (a + b) / 2;
    const step = (b - a) / 40 * (event.shiftKey ? 5 : 1);
    const actions = {
      ArrowLeft: () => this.step(-1, at, step), ArrowRight: () => this.step(1, at, step),
      Home: () => this.show(a), End: () => this.show(b),
      "+": () => this.magnify(0.7, at), "=": () => this.magnify(0.7, at), "-": () => this.magnify(1.4, at), Escape: () => this.link.reset(), 0: () => this.link.reset(),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  }

  /** One value on, or a fortieth of what is seen where values are closer than that. */
  step(sign, at, step) {
    const before = this.pointed;
    for (let times = 1; times <= 40 && (times === 1 || this.pointed === before); times++)
      this.show(clamp(at + sign * step * times, ...this.domain), undefined, true);
  }

  /** Read out what is at a place. */
  show(x, y, aloud = false) {
    const found = this.spec.read(x, y ?? this.spec.y.middle, this);
    if (!found) return this.leave();
    this.pointed = found.x;
    this.mark(found.x);
    this.link.point(found.x, this);
    const row = ({ mark, name, value, near }) => el("tr", { class: near ? "near" : null }, el("td", {}, mark), el("td", {}, name), el("td", { class: "number" }, value));
    this.tip.replaceChildren(el("strong", {}, found.title), el("table", {}, found.rows.map(row)), found.more ? el("div", { class: "muted" }, found.more) : "");
    this.tip.hidden = false;
    const right = this.x(found.x) > this.left + this.inner / 2;
    const wide = this.tip.offsetWidth;
    const from = right ? this.x(found.x) - wide - 14 : this.x(found.x) + 14;
    // Beside the cursor where there is room, otherwise below the plot: what is read must stay in sight.
    const below = this.inner < 2.2 * wide;
    Object.assign(this.tip.style, {
      left: `${clamp(below ? this.left : from, 0, Math.max(0, this.width - wide))}px`, top: `${below ? this.top + this.height + 22 : this.top + 4}px`,
    });
    if (aloud) this.spoken.textContent = `${found.title}: ${found.rows.map((one) => `${one.name} ${one.value}`).join("; ")}`;
  }

  /** A line at x. */
  mark(x) {
    if (!this.x || this.from) return;
    const [a, b] = this.domain;
    this.overlay.replaceChildren();
    if (x >= a && x <= b) this.overlay.append(draw("line", { class: "cursor", x1: this.x(x), x2: this.x(x), y1: this.top, y2: this.top + this.height }));
  }

  leave() {
    if (this.from) return;
    this.tip.hidden = true;
    this.pointed = undefined;
    this.overlay?.replaceChildren();
  }
}
