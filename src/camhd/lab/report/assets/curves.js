// Learning curves of a task: one plot per metric, one legend, one horizontal axis.

const FEW = 9;

/** More than a handful of methods: only the first and the best are switched on at the start. */
function initiallyHidden(task) {
  if (task.methods.length <= FEW || !task.metrics.length) return [];
  const sign = task.metrics[0].higher ? -1 : 1;
  const score = (method) => (known(method.finals).length ? sign * mean(known(method.finals)) : Infinity);
  const order = [...task.methods.keys()].slice(1).sort((a, b) => score(task.methods[a]) - score(task.methods[b]));
  return order.slice(FEW - 1);
}

const AXES = {
  epochs: { title: "epoch", integers: true, say: (value) => `Epoch ${value}` },
  seconds: { title: "time", text: duration, say: (value) => duration(value) },
};

function learningCurves(task, legend, points) {
  const link = new Link();
  const state = { axis: "epochs" };
  const shown = task.metrics.filter((metric) => metric.key !== "train_accuracy");
  const plots = shown.map((metric) => curvePlot(task, metric, legend, state, link));
  const update = () => plots.forEach((plot) => plot.update());
  legend.listeners.push(update);
  const hidden = initiallyHidden(task).length;
  const timed = task.methods.some((method) => known(method.seconds).length);
  return el("div", { class: "card" },
    el("header", {}, el("h3", {}, "Learning curves"), link.undo,
      timed ? choice("Horizontal axis", [["epochs", "by epoch"], ["seconds", "by time"]], "epochs", (value) => { state.axis = value; link.reset(); update(); }) : null),
    legend.node,
    el("div", { class: "plots" }, plots.map((plot) => plot.node)),
    el("p", { class: "caption" }, [
      hidden ? `Switched on at the start: the first method and the ${FEW - 1} best. ` : "",
      "Mean over runs; the band is one standard error to either side. Drag to zoom, or click and turn the wheel; double-click shows everything again.",
      task.methods.some((method) => method.epochs.length >= points) ? ` At most ${points} epochs of a curve are drawn.` : "",
    ]));
}

/** One metric. On its log scale an accuracy is drawn by its distance from 100 %. */
function curvePlot(task, metric, legend, state, link) {
  let log = !metric.higher && task.methods.every((method) => known(method.curves[metric.key].mean).every((value) => value > 0));
  const kind = () => (log ? (metric.percent ? "miss" : "log") : "linear");
  const series = () => task.methods.flatMap((method, index) => (legend.shows(index) ? [{
    index, name: method.name + (method.unfinished ? " (unfinished)" : ""), xs: method[state.axis],
    ys: method.curves[metric.key].mean, errors: method.curves[metric.key].error, counts: method.curves[metric.key].count,
  }] : []));
  const text = (one, i) => {
    const error = one.errors[i] === null ? "" : metric.percent ? ` ± ${(100 * one.errors[i]).toFixed(2)}` : ` ± ${digits(one.errors[i], 2)}`;
    return `${measured(one.ys[i], metric)}${error} (n = ${one.counts[i]})`;
  };
  const spec = () => {
    const lines = series();
    const ends = lines.flatMap((one) => known(one.xs));
    const axis = AXES[state.axis];
    const low = state.axis === "epochs" && ends.length ? Math.min(...ends) : 0;
    const domain = [low, ends.length ? Math.max(...ends, low + 1e-9) : 1];
    return {
      title: metric.title, tools, height: 250,
      label: `${metric.title} by ${axis.title} of ${lines.map((one) => one.name).join(", ") || "no method"}`,
      x: { ...axis, domain }, y: { kind: kind(), percent: metric.percent, values: (domain) => seen(lines, domain) },
      paint: (layer, frame) => paintLines(layer, lines, frame),
      read: (x, y, plot) => readLines(lines, x, y, plot, axis.say, text),
    };
  };
  const tools = choice(`Scale of ${metric.title}`, [["linear", "linear"], ["log", "log"]], log ? "log" : "linear", (value) => { log = value === "log"; plot.zoomedY = null; plot.update(); });
  const plot = new Plot(spec(), link);
  plot.update = () => { plot.spec = spec(); plot.render(); };
  return plot;
}
