// The frame of every plot: cursor and read-out, zoom by dragging, wheel and keys.

/**
 * One plot. `spec` is what it shows; whoever replaces it calls `render()`.
 *   title, caption, tools   its heading, if it has one
 *   label                   what it shows, for those who do not see it
 *   height, bare            of the area inside the axes, in pixels; whether it has no grid
 *   x: { title, domain, integers, text(value) }
 *   y: { kind, domain or values([from, to]) to be seen, percent, text(value) }, or { names } of rows
 *   paint(layer, plot)      draws the contents into an SVG group, or onto the plot's canvas
 *   read(x, y, plot)        → { x, title, rows: [{ mark, name, value, near }], more }, or null
 */
class Plot {
  constructor(spec, link = new Link()) {
    Object.assign(this, { spec, link, zoomedY: null, width: 0, top: 8, from: null });
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.svg = draw("svg", { tabindex: 0, role: "img", ...this.listeners() });
    this.tip = el("div.tip", { hidden: true });
    this.spoken = el("div.hidden", { "aria-live": "polite" });
    this.stage = el("div.stage", this.canvas, this.svg, this.tip, this.spoken);
    const caption = spec.caption ? el("span.caption", spec.caption) : null;
    const heading = spec.title ? el("figcaption", el("h4", spec.title), caption, spec.tools) : null;
    this.node = el("figure.plot", heading, this.stage);
    this.wanted = 0;
    link.plots.add(this);
    this.resized = new ResizeObserver(([entry]) => {
      const width = Math.round(entry.contentRect.width);
      if (!width || width === this.width) return;
      this.width = width;
      this.render();
    });
    this.resized.observe(this.stage);
  }

  listeners() {
    return {
      onpointerdown: (event) => this.press(event),
      onpointermove: (event) => this.move(event),
      onpointerup: (event) => this.release(event),
      onpointercancel: () => this.forget(),
      // A finger that was lifted has not gone elsewhere: what it asked for stays to be read.
      onpointerleave: (event) => event.pointerType !== "touch" && this.leave(),
      onwheel: (event) => this.wheel(event),
      onkeydown: (event) => this.key(event),
      onblur: () => this.leave(),
      ondblclick: () => this.link.reset(),
    };
  }

  /** Go, and leave the others alone from now on. */
  remove() {
    this.resized.disconnect();
    this.link.plots.delete(this);
    this.node.remove();
  }

  get domain() {
    return this.link.zoomed ?? this.spec.x.domain;
  }

  // Drawing

  render() {
    if (!this.width) return;
    const { spec, top } = this;
    this.height = spec.height;
    const bottom = top + this.height;
    this.y = this.upward(bottom);
    this.wanted = roomFor(spec.y.names ?? upTicks(this).map(([, text]) => text));
    this.left = this.link.left(this.width);
    this.inner = Math.max(this.width - this.left - 12, 40);
    this.x = scale("linear", this.domain, [this.left, this.left + this.inner]);
    const keys = "Arrow keys read values, plus and minus zoom, Escape shows everything.";
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${bottom + 42}`);
    this.svg.setAttribute("height", bottom + 42);
    this.svg.setAttribute("aria-label", `${spec.label ?? spec.title}. ${keys}`);
    const id = `clip-${(Plot.count = (Plot.count ?? 0) + 1)}`;
    // Markers at the very end may stick out, unless the line goes on there.
    const wide = this.inner + (this.link.zoomed ? 0 : 6);
    const frame = draw("rect", { x: this.left, y: top - 4, width: wide, height: this.height + 8 });
    const layer = draw("g", { "clip-path": `url(#${id})` });
    this.overlay = draw("g", {});
    this.hush();
    this.svg.replaceChildren(draw("clipPath", { id }, frame), axes(this), layer, this.overlay);
    this.clear();
    spec.paint(layer, this);
    this.link.align(this);
  }

  /** The vertical scale: rows from top to bottom, or numbers fitted to what is seen. */
  upward(bottom) {
    const { names, kind, domain, values } = this.spec.y;
    if (names) return scale("linear", [0, names.length], [this.top, bottom]);
    return scale(kind, this.zoomedY ?? domain ?? range(values(this.domain), kind), [bottom, this.top]);
  }

  /** An empty canvas, exactly below the area inside the axes. */
  clear() {
    const { canvas, inner, height } = this;
    const dense = window.devicePixelRatio || 1;
    const place = { left: this.left, top: this.top, width: inner, height };
    for (const [name, value] of Object.entries(place)) canvas.style[name] = `${value}px`;
    [canvas.width, canvas.height] = [Math.round(inner * dense), Math.round(height * dense)];
    canvas.getContext("2d").setTransform(dense, 0, 0, dense, 0, 0);
  }

  // Pointing and dragging

  place(event) {
    const box = this.svg.getBoundingClientRect();
    return [
      clamp(event.clientX - box.left, this.left, this.left + this.inner),
      clamp(event.clientY - box.top, this.top, this.top + this.height),
    ];
  }

  press(event) {
    if (event.button) return;
    this.from = this.place(event);
    this.svg.setPointerCapture(event.pointerId);
  }

  move(event) {
    const [x, y] = this.place(event);
    if (!this.from || Math.abs(x - this.from[0]) <= 5) return this.show(this.x.back(x), this.y.back(y));
    this.hush();
    const [left, right, top, bottom] = this.boxed([x, y]);
    const box = { x: left, y: top, width: right - left, height: bottom - top };
    this.overlay.replaceChildren(draw("rect", { class: "select", ...box }));
  }

  /** What is being selected: [left, right, top, bottom]; all of the height unless the pointer went up or down too. */
  boxed([x1, y1]) {
    const [x0, y0] = this.from;
    const flat = this.spec.y.names || Math.abs(y1 - y0) < 30;
    const [top, bottom] = flat ? [this.top, this.top + this.height] : [Math.min(y0, y1), Math.max(y0, y1)];
    return [Math.min(x0, x1), Math.max(x0, x1), top, bottom];
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

  forget() {
    this.from = null;
    this.overlay?.replaceChildren();
  }

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

  // Keys

  key(event) {
    const [a, b] = this.domain;
    const at = this.pointed ?? (a + b) / 2;
    const step = ((b - a) / 40) * (event.shiftKey ? 5 : 1);
    const actions = {
      ArrowLeft: () => this.step(-step, at),
      ArrowRight: () => this.step(step, at),
      Home: () => this.show(a, undefined, true),
      End: () => this.show(b, undefined, true),
      "+": () => this.magnify(0.7, at),
      "=": () => this.magnify(0.7, at),
      "-": () => this.magnify(1.4, at),
      Escape: () => this.link.reset(),
      0: () => this.link.reset(),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  }

  /** To the next value that differs, or a fortieth of what is seen where values are closer than that. */
  step(step, at) {
    const before = this.pointed;
    for (let times = 1; times <= 40 && (times === 1 || this.pointed === before); times++)
      this.show(clamp(at + step * times, ...this.domain), undefined, true);
  }

  // Reading

  /** Read out what is at a place; aloud for those who use the keys. */
  show(x, y, aloud = false) {
    const found = this.spec.read(x, y ?? this.spec.y.middle, this);
    if (!found) return this.leave();
    this.link.point(found.x);
    this.pointed = found.x;
    const row = ({ mark, name, value, near }) =>
      el("tr", { class: near ? "near" : null }, el("td", mark), el("td", name), el("td.number", value));
    const more = found.more ? el("div.muted", found.more) : "";
    this.tip.replaceChildren(el("strong", found.title), el("table", found.rows.map(row)), more);
    this.tip.hidden = false;
    this.placeTip(this.x(found.x));
    const said = found.rows.map(({ name, value }) => `${name} ${value}`).join("; ");
    if (aloud) this.spoken.textContent = `${found.title}: ${said}`;
  }

  /** Beside the cursor where there is room, otherwise below the plot: what is read must stay in sight. */
  placeTip(at) {
    const wide = this.tip.offsetWidth;
    const below = this.inner < 2.2 * wide;
    const beside = at > this.left + this.inner / 2 ? at - wide - 14 : at + 14;
    const left = clamp(below ? this.left : beside, 0, Math.max(0, this.width - wide));
    const top = below ? this.top + this.height + 22 : this.top + 4;
    Object.assign(this.tip.style, { left: `${left}px`, top: `${top}px` });
  }

  /** A line across at x. */
  mark(x) {
    if (!this.overlay || this.from) return;
    const [a, b] = this.domain;
    const line = { class: "cursor", y1: this.top, y2: this.top + this.height };
    const inside = x !== null && x >= a && x <= b;
    this.overlay.replaceChildren(...(inside ? [draw("line", { ...line, x1: this.x(x), x2: this.x(x) })] : []));
  }

  hush() {
    this.tip.hidden = true;
    this.pointed = undefined;
  }

  leave() {
    if (this.from) return;
    this.hush();
    this.link.point(null);
  }
}
