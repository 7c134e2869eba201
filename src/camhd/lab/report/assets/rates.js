// The rate view: what the rates of every level did, and the weights γ between the levels.

const stepsAxis = (steps) => ({ title: "step", integers: true, text: whole, domain: [steps[0], Math.max(steps.at(-1), steps[0] + 1)] });
const atStep = (step) => `Step ${whole(step)}`;
const rateText = (value, count = 3) => (value === NOT_POSITIVE ? "0 or less" : digits(value, count));

function rateSection(task, columns) {
  const able = task.methods.filter((method) => method.rates.length);
  if (!able.length) return null;
  const link = new Link();
  const holder = el("div", {});
  const add = (start) => holder.append(rateView(task, able, start, link, holder));
  const learned = able.findIndex((method) => method.rates[0].levels.length > 1);
  add(Math.max(learned, 0));
  return el("div", { class: "card" },
    el("header", {}, el("h3", {}, "The rate view: what the learning rates did"),
      link.undo,
      able.length > 1 ? el("button", { type: "button", onclick: () => add((holder.children.length + Math.max(learned, 0)) % able.length) }, "Compare with another method") : null),
    overview(task, able, new Link()), holder,
    el("p", { class: "caption" }, "All panels share the axis of steps: point at one and the others follow; drag to zoom into all.",
      able.some((method) => method.rates.some((view) => view.steps.length >= columns)) ? ` About ${columns} steps of each run are drawn.` : ""));
}

/** The one rate that all parameters share, of every method. */
function overview(task, able, link) {
  const lines = able.flatMap((method) => {
    const level = method.rates[0].levels.find((one) => one.groups && one.groups.length === 1);
    return level ? [{ index: task.methods.indexOf(method), name: method.name, ...rowOf(level, method.rates[0].steps, 0) }] : [];
  });
  if (lines.length < 2) return null;
  const legend = new Legend(task.methods.map((method) => method.name), initiallyHidden(task));
  legend.buttons.forEach((button, i) => { button.hidden = !lines.some((one) => one.index === i); });
  const steps = lines.flatMap((one) => [one.xs[0], one.xs.at(-1)]).sort((a, b) => a - b);
  const spec = () => linesSpec(lines.filter((one) => legend.shows(one.index)), [steps[0], steps.at(-1)],
    { title: "The global rate of every method", caption: "where a method has one; for others, its lr", height: 220 });
  const plot = new Plot(spec(), link);
  legend.listeners.push(() => { plot.spec = spec(); plot.render(); });
  return el("div", { class: "level" }, legend.node, plot.node);
}

function rowOf(level, steps, row) {
  const errors = level.errors ? unpack(level.errors)[row] : null;
  return { xs: steps, ys: Array.from(unpack(level.values)[row]), errors: errors && Array.from(errors, (v) => (Number.isFinite(v) ? v : 0)) };
}

function linesSpec(lines, steps, more) {
  const count = digitsFor(known(lines.flatMap((one) => one.ys)));
  return {
    ...more, x: stepsAxis(steps), y: { kind: more.kind ?? "log", values: (domain) => seen(lines, domain), domain: more.domain },
    paint: (layer, frame) => paintLines(layer, lines, frame),
    read: (x, y, plot) => readLines(lines, x, y, plot, atStep, (one, i) => rateText(one.ys[i], count)),
  };
}

/** One method's levels, from the root to the leaves, and its weights. */
function rateView(task, able, start, link, holder) {
  let [method, view, shared] = [able[start], 0, false];
  let plots = [];
  const panels = el("div", {});
  const which = el("span", {});
  const rebuild = () => {
    plots.forEach((plot) => plot.remove());
    plots = [];
    const rates = method.rates[Math.min(view, method.rates.length - 1)];
    const keep = (plot) => { plots.push(plot); return plot.node; };
    panels.replaceChildren(
      ...rates.levels.map((level) => levelPanel(level, rates.steps, link, keep, shared ? scaleOf(able, level.name) : null)),
      rates.weights ? weightsPanel(rates.weights, rates.steps, link, keep) : "");
  };
  const runs = () => which.replaceChildren(select("Runs", method.rates.map((one, i) => [String(i), one.name]), (value) => { view = Number(value); rebuild(); }));
  const methods = select("Method", able.map((one, i) => [String(i), one.name]), (value) => { method = able[value]; view = 0; runs(); rebuild(); });
  methods.querySelector("select").value = String(start);
  const box = el("input", { type: "checkbox", onchange: () => { shared = box.checked; rebuild(); } });
  const close = el("button", { type: "button", onclick: () => { plots.forEach((plot) => plot.remove()); node.remove(); } }, "Close");
  runs();
  rebuild();
  const node = el("div", { class: "rates" }, el("div", { class: "bar" }, methods, which, el("label", {}, box, "Same colours for all methods"), holder.children.length ? close : null), panels);
  return node;
}

/** The range of a level over all methods. */
const scaleOf = (able, name) => extent(able.flatMap((method) => method.rates[0].levels.filter((one) => one.name === name).map((one) => unpack(one.values))));

function levelPanel(level, steps, link, keep, shared) {
  const groups = `${whole(level.count)} ${level.count === 1 ? "rate" : "rates"}`;
  const values = unpack(level.values);
  const body = el("div", {});
  const forms = {
    line: () => keep(new Plot(linesSpec([{ index: 0, name: level.groups[0], ...rowOf(level, steps, 0) }], steps, { title: "", height: 150, label: `The ${level.name} rate by step` }), link)),
    heat: () => heatPanel(level.groups, values, steps, link, keep, shared ?? extent([values]), true, `Rates of level ${level.name} by step`),
    lines: () => keep(new Plot(linesSpec(level.groups.map((name, i) => ({ index: i, name, ...rowOf(level, steps, i) })), steps, { title: "", height: 260, label: `Rates of level ${level.name} by step` }), link)),
    fan: () => fanPanel(level, values, steps, link, keep),
    histogram: () => histogramPanel(level, steps, link, keep),
  };
  const offered = !level.groups ? [["fan", "quantiles"], ...(level.histogram ? [["histogram", "histogram"]] : [])]
    : level.groups.length === 1 ? [["line", "line"]]
      : [["heat", "heat map"], ...(level.groups.length <= 16 ? [["lines", "lines"]] : [])];
  const first = level.name === "parameter" && level.histogram ? "histogram" : offered[0][0];
  const show = (form) => body.replaceChildren(forms[form]());
  show(first);
  return el("section", { class: "level", "aria-label": `Level ${level.name}` },
    el("div", { class: "bar" }, el("h4", {}, `Level: ${level.name}`), el("span", { class: "caption" }, groups),
      offered.length > 1 ? choice(`How to draw level ${level.name}`, offered, first, show) : null), body);
}

function heatPanel(names, values, steps, link, keep, domain, log, label) {
  const row = clamp(200 / names.length, 14, 32);
  const count = digitsFor(domain);
  const plot = new Plot({
    title: "", label, height: Math.round(row * names.length), x: stepsAxis(steps), y: { names, middle: names.length / 2 },
    paint: (layer, frame) => paintHeat(values, steps, rateColour(domain, log), frame),
    read: (x, y) => {
      const i = nearest(steps, x);
      const here = clamp(Math.floor(y), 0, names.length - 1);
      const around = clamp(here - 3, 0, Math.max(0, names.length - 7));
      const rows = names.map((name, j) => ({ name, value: rateText(values[j][i], count), near: j === here })).slice(around, around + 7);
      return { x: steps[i], title: atStep(steps[i]), rows };
    },
  }, link);
  return el("div", {}, keep(plot), colourKey(domain, log));
}

const QUANTILES = ["smallest", "5 %", "25 %", "median", "75 %", "95 %", "largest"];

/** Quantiles over time: bands from smallest to largest, 5 to 95 % and 25 to 75 %, and the median. */
function fanPanel(level, rows, steps, link, keep) {
  const lists = rows.map((row) => Array.from(row, (value) => (Number.isNaN(value) ? null : value)));
  const count = digitsFor(known(lists.flat()));
  const floor = (list) => list.map((value) => (value === NOT_POSITIVE ? 1e-300 : value));
  const plot = new Plot({
    title: "", height: 220, label: `Quantiles of the rates of level ${level.name} by step`, x: stepsAxis(steps),
    y: { kind: "log", values: (domain) => seen([lists[1], lists[5], lists[0], lists[6]].map((ys) => ({ xs: steps, ys })), domain) },
    paint: (layer, { x, y }) => {
      [[0, 6, 0.14], [1, 5, 0.22], [2, 4, 0.36]].forEach(([low, high, ink]) => layer.append(
        draw("path", { class: "fan", "fill-opacity": ink, d: area(steps, floor(lists[low]), floor(lists[high]), x, y) })));
      layer.append(draw("path", { class: "curve", stroke: "var(--s0)", d: trace(steps, lists[3], x, y) }));
    },
    read: (x) => {
      const i = nearest(steps, x);
      return { x: steps[i], title: atStep(steps[i]), rows: QUANTILES.map((name, j) => ({ name, value: rateText(rows[j][i], count), near: j === 3 })).reverse() };
    },
  }, link);
  return el("div", {}, keep(plot), el("p", { class: "caption" }, "Line: the median. Bands, from dark to light: 25 to 75 %, 5 to 95 %, smallest to largest of all rates."));
}

/** How the rates are spread, over time. */
function histogramPanel(level, steps, link, keep) {
  const rows = unpack(level.histogram);
  const width = (level.high - level.low) / rows.length;
  const border = (i) => 10 ** (level.low + i * width);
  // Each step by its fullest bin; the square root lets thin tails be seen beside a crowd.
  const most = steps.map((_, i) => Math.max(...rows.map((row) => row[i])));
  const colour = (value, i) => (value > 0 ? viridis(Math.sqrt(value / most[i])) : null);
  const plot = new Plot({
    title: "", height: 240, bare: true, label: `Histogram of the rates of level ${level.name} by step`, x: stepsAxis(steps),
    y: { kind: "log", domain: [border(0), border(rows.length)] },
    paint: (layer, frame) => paintHeat(rows, steps, colour, frame, border),
    read: (x, y) => {
      const i = nearest(steps, x);
      const j = clamp(Math.floor((Math.log10(y ?? border(rows.length / 2)) - level.low) / width), 0, rows.length - 1);
      return { x: steps[i], title: atStep(steps[i]), rows: [{ name: `${digits(border(j), 3)} to ${digits(border(j + 1), 3)}`, value: `${digits(100 * rows[j][i], 2)} % of all rates`, near: true }] };
    },
  }, link);
  return el("div", {}, keep(plot), el("p", { class: "caption" }, `The lighter, the more of the ${whole(level.count)} rates lie there at that step.`));
}

/** The weights γ: a line per level, or levels stacked to one; if every layer has its own, a heat map per level. */
function weightsPanel(weights, steps, link, keep) {
  const rows = unpack(weights.values);
  const errors = weights.errors ? unpack(weights.errors).map((row) => Array.from(row, (v) => (Number.isFinite(v) ? v : 0))) : null;
  const body = el("div", {});
  const lines = weights.levels.map((name, index) => ({ index, name, xs: steps, ys: Array.from(rows[index]), errors: errors && errors[index] }));
  const count = digitsFor(known(lines.flatMap((one) => one.ys)));
  const read = (x, y, plot) => readLines(lines, x, y, plot, atStep, (one, i) => digits(one.ys[i], count));
  const forms = {
    lines: () => keep(new Plot({ ...linesSpec(lines, steps, { title: "", height: 170, kind: "linear", label: "Weights of the levels by step" }), read }, link)),
    stacked: () => keep(new Plot({ title: "", height: 170, label: "Weights of the levels by step, stacked", x: stepsAxis(steps), y: { kind: "linear", domain: [0, 1] }, paint: (layer, frame) => paintStack(layer, lines, steps, frame), read }, link)),
    ...Object.fromEntries(weights.levels.map((level, k) => [`of ${level}`, () => {
      const own = weights.layers?.map((_, j) => rows[j * weights.levels.length + k]);
      return heatPanel(weights.layers, own, steps, link, keep, extent([own]), false, `Weight of level ${level} by layer and step`);
    }])),
  };
  const offered = weights.layers ? weights.levels.map((level) => [`of ${level}`, level]) : [["lines", "lines"], ["stacked", "stacked"]];
  const show = (form) => body.replaceChildren(forms[form]());
  show(offered[0][0]);
  const key = weights.layers ? null : el("div", { class: "legend" }, lines.map((one) => el("span", { class: "caption" }, swatch(one.index), one.name)));
  return el("section", { class: "level", "aria-label": "Weights" },
    el("div", { class: "bar" }, el("h4", {}, "Weights γ of the levels"), el("span", { class: "caption" }, weights.layers ? "every layer has its own" : "how much each level counts"),
      choice("How to draw the weights", offered, offered[0][0], show)), body, key);
}

function paintStack(layer, lines, steps, { x, y }) {
  let floor = steps.map(() => 0);
  for (const { index, name, ys } of lines) {
    const top = floor.map((value, i) => value + (Number.isFinite(ys[i]) ? ys[i] : 0));
    layer.append(draw("path", { fill: lineStyle(index).colour, "fill-opacity": 0.55, stroke: lineStyle(index).colour, d: area(steps, floor, top, x, y) }, draw("title", {}, name)));
    const last = steps.length - 1;
    if (y(floor[last]) - y(top[last]) > 16) layer.append(draw("text", { x: x(steps[last]) - 8, y: y((floor[last] + top[last]) / 2) + 4, "text-anchor": "end", style: { fill: "var(--text)" } }, name));
    floor = top;
  }
}
