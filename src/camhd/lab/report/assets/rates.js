// The rate view: what the rates of every level did.

function rateSection(task, columns) {
  const able = task.methods.filter((method) => method.rates.length);
  if (!able.length) return null;
  const link = new Link();
  const views = el("div");
  const learned = Math.max(
    0,
    able.findIndex((method) => method.rates[0].levels.length > 1),
  );
  const add = () =>
    views.append(rateView(able, (learned + views.children.length) % able.length, link, views.children.length));
  add();
  const thinned = able.some((method) => method.rates.some((view) => view.steps.length >= columns));
  return el(
    "div.card",
    el(
      "header",
      el("h3", "The rate view: what the learning rates did"),
      link.undo,
      able.length > 1 ? button("Compare with another method", add) : null,
    ),
    overview(task, able),
    views,
    el(
      "p.caption",
      "All panels share the axis of steps: point at one and the others follow; drag to zoom into all.",
      thinned ? ` About ${columns} steps of each run are drawn.` : "",
    ),
  );
}

/** One row of a level as a line. */
function rowOf(level, steps, row) {
  const errors = level.errors ? whereKnown(unpack(level.errors)[row]) : null;
  return { xs: steps, ys: unpack(level.values)[row], errors };
}

/** The one rate that all parameters share, of every method. */
function overview(task, able) {
  const lines = able.flatMap((method) => {
    const [{ levels, steps }] = method.rates;
    const level = levels.find((one) => one.groups?.length === 1);
    return level ? [{ index: task.methods.indexOf(method), name: method.name, ...rowOf(level, steps, 0) }] : [];
  });
  if (lines.length < 2) return null;
  const legend = new Legend(
    task.methods.map((method) => method.name),
    initiallyHidden(task),
  );
  legend.buttons.forEach((one, i) => (one.hidden = !lines.some(({ index }) => index === i)));
  const first = Math.min(...lines.map((one) => one.xs[0]));
  const last = Math.max(...lines.map((one) => one.xs.at(-1)));
  const title = "The global rate of every method";
  const more = { title, caption: "where a method has one; for others, its lr", height: 220 };
  const spec = () =>
    lineForm(
      lines.filter((one) => legend.shows(one.index)),
      [first, last],
      more,
    ).spec;
  const plot = new Plot(spec());
  legend.listeners.push(() => {
    plot.spec = spec();
    plot.render();
  });
  return el("div.level", legend.node, plot.node);
}

/** One method's levels, from the root to the leaves, and its weights. */
function rateView(able, start, link, closable) {
  let [method, view, shared, panels] = [able[start], 0, false, []];
  const places = el("div");
  const lists = el("span.list");
  const clear = () => panels.forEach((panel) => panel.remove());
  const rebuild = () => {
    clear();
    const { levels, steps, weights } = method.rates[view];
    panels = levels.map((level) => levelPanel(level, steps, link, shared ? scaleOf(able, level.name) : null));
    if (weights) panels.push(weightsPanel(weights, steps, link));
    places.replaceChildren(...panels.map((panel) => panel.node));
  };
  const turn = (to, number) => {
    [method, view] = [to, number];
    rebuild();
  };
  const offerRuns = () => {
    const options = method.rates.map((one, i) => [String(i), one.name]);
    lists.replaceChildren(select("Runs", options, (i) => turn(method, Number(i))));
  };
  const choose = (i) => {
    turn(able[i], 0);
    offerRuns();
  };
  const methods = select(
    "Method",
    able.map((one, i) => [String(i), one.name]),
    choose,
    String(start),
  );
  const onchange = (event) => {
    shared = event.currentTarget.checked;
    rebuild();
  };
  const box = el("label", el("input", { type: "checkbox", onchange }), "Same colours for all methods");
  const close = button("Close", () => {
    clear();
    node.remove();
  });
  offerRuns();
  rebuild();
  const node = el("div.rates", el("div.bar", methods, lists, box, closable ? close : null), places);
  return node;
}

/** The range of a level over all methods. */
function scaleOf(able, name) {
  const levels = able.flatMap((method) => method.rates[0].levels.filter((level) => level.name === name));
  return extent(levels.map((level) => unpack(level.values)));
}

/** A level in the forms that suit its number of groups. */
function levelPanel(level, steps, link, shared) {
  const { name, groups, count } = level;
  const values = unpack(level.values);
  const label = `Rates of level ${name} by step`;
  const lines = () => groups.map((group, index) => ({ index, name: group, ...rowOf(level, steps, index) }));
  const forms = {
    line: ["line", "line", () => lineForm(lines(), steps, { height: 150, label: `The ${name} rate by step` })],
    heat: ["heat", "heat map", () => heatForm(groups, values, steps, shared ?? extent([values]), true, label)],
    lines: ["lines", "lines", () => lineForm(lines(), steps, { height: 260, label })],
    fan: ["fan", "quantiles", () => fanForm(level, values, steps)],
    histogram: ["histogram", "histogram", () => histogramForm(level, steps)],
  };
  const suited = () => {
    if (!groups) return level.histogram ? [forms.fan, forms.histogram] : [forms.fan];
    if (groups.length === 1) return [forms.line];
    return groups.length <= 16 ? [forms.heat, forms.lines] : [forms.heat];
  };
  const first = name === "parameter" && level.histogram ? "histogram" : undefined;
  const about = `${whole(count)} ${count === 1 ? "rate" : "rates"}`;
  return new Panel(`Level: ${name}`, about, `Level ${name}`, suited(), link, first);
}
