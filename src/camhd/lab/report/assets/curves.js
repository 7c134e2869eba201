// Learning curves of a task: one plot per metric, one legend, one horizontal axis.

const FEW = 9;

/** More than a handful of methods: only the first and the best are switched on at the start. */
function initiallyHidden(task) {
  if (task.methods.length <= FEW || !task.metrics.length) return [];
  const sign = task.metrics[0].higher ? -1 : 1;
  const score = ({ finals }) => (known(finals).length ? sign * mean(known(finals)) : Infinity);
  const order = [...task.methods.keys()].slice(1).sort((a, b) => score(task.methods[a]) - score(task.methods[b]));
  return order.slice(FEW - 1);
}

const AXES = {
  epochs: { title: "epoch", integers: true, say: (value) => `Epoch ${value}` },
  seconds: { title: "time", text: duration, say: duration },
};

function learningCurves(task, legend, points) {
  const link = new Link();
  const state = { axis: "epochs" };
  const shown = task.metrics.filter((metric) => metric.key !== "train_accuracy");
  const plots = shown.map((metric) => curvePlot(task, metric, legend, state, link));
  const update = () => plots.forEach((plot) => plot.update());
  legend.listeners.push(update);
  const turn = (axis) => {
    state.axis = axis;
    link.reset();
    update();
  };
  const timed = task.methods.some((method) => known(method.seconds).length);
  const axes = [
    ["epochs", "by epoch"],
    ["seconds", "by time"],
  ];
  const caption = [
    initiallyHidden(task).length ? `Switched on at the start: the first method and the ${FEW - 1} best. ` : "",
    "Mean over runs; the band is one standard error to either side. ",
    "Drag to zoom, or click and turn the wheel; double-click shows everything again.",
    task.methods.some(({ epochs }) => epochs.length >= points) ? ` At most ${points} epochs of a curve are drawn.` : "",
  ];
  return el(
    "div.card",
    el(
      "header",
      el("h3", "Learning curves"),
      link.undo,
      timed ? choice("Horizontal axis", axes, "epochs", turn) : null,
    ),
    legend.node,
    el(
      "div.plots",
      plots.map((plot) => plot.node),
    ),
    el("p.caption", caption),
  );
}

/** One metric. On its log scale an accuracy is drawn by its distance from 100 %. */
function curvePlot(task, metric, legend, state, link) {
  const { key, title, percent } = metric;
  const positive = task.methods.every((method) => known(method.curves[key].mean).every((value) => value > 0));
  let kind = !metric.higher && positive ? "log" : "linear";
  const series = () =>
    task.methods.flatMap((method, index) => {
      const { mean: ys, error: errors, count: counts } = method.curves[key];
      const name = method.name + (method.unfinished ? " (unfinished)" : "");
      return legend.shows(index) ? [{ index, name, xs: method[state.axis], ys, errors, counts }] : [];
    });
  const text = (one, i) => {
    const error = percent ? (100 * one.errors[i]).toFixed(2) : digits(one.errors[i], 2);
    return `${measured(one.ys[i], metric)}${one.errors[i] === null ? "" : ` ± ${error}`} (n = ${one.counts[i]})`;
  };
  const spec = () => {
    const lines = series();
    const axis = AXES[state.axis];
    const ends = lines.flatMap((one) => known(one.xs));
    const domain = ends.length ? [state.axis === "epochs" ? Math.min(...ends) : 0, Math.max(...ends)] : [0, 1];
    const y = { kind: kind === "log" && percent ? "miss" : kind, percent, values: (part) => seen(lines, part) };
    const label = `${title} by ${axis.title} of ${lines.map((one) => one.name).join(", ") || "no method"}`;
    const paint = (layer, plot) => paintLines(layer, lines, plot);
    const read = (x, y, plot) => readLines(lines, x, y, plot, axis.say, text);
    return { title, label, tools, height: 250, x: { ...axis, domain }, y, paint, read };
  };
  const kinds = [
    ["linear", "linear"],
    ["log", "log"],
  ];
  const tools = choice(`Scale of ${title}`, kinds, kind, (chosen) => {
    kind = chosen;
    plot.zoomedY = null;
    plot.update();
  });
  const plot = new Plot(spec(), link);
  plot.update = () => {
    plot.spec = spec();
    plot.render();
  };
  return plot;
}
