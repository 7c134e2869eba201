// The weights γ: a line per level, or levels stacked to one; if every layer has its own, a heat map per level.

function weightsPanel(weights, steps, link) {
  const { levels, layers } = weights;
  const rows = unpack(weights.values);
  if (layers) {
    const forms = levels.map((level, k) => {
      const own = layers.map((_, j) => rows[j * levels.length + k]);
      const label = `Weight of level ${level} by layer and step`;
      return [level, level, () => heatForm(layers, own, steps, extent([own]), false, label)];
    });
    return new Panel("Weights γ of the levels", "every layer has its own", "Weights", forms, link);
  }
  const errors = weights.errors ? unpack(weights.errors).map(whereKnown) : [];
  const lines = levels.map((name, index) => ({ index, name, xs: steps, ys: rows[index], errors: errors[index] }));
  const more = { kind: "linear", height: 170, label: "Weights of the levels by step" };
  const key = () =>
    el(
      "div.legend",
      lines.map((one) => el("span.caption", swatch(one.index), one.name)),
    );
  const forms = [
    ["lines", "lines", () => ({ ...lineForm(lines, steps, more), below: key() })],
    ["stacked", "stacked", () => ({ ...stackForm(lines, steps, more), below: key() })],
  ];
  return new Panel("Weights γ of the levels", "how much each level counts", "Weights", forms, link);
}

/** Errors that are not known are drawn as none. */
const whereKnown = (errors) => errors.map((value) => (Number.isFinite(value) ? value : 0));

function stackForm(lines, steps, more) {
  const { spec } = lineForm(lines, steps, more);
  const y = { kind: "linear", domain: [0, 1] };
  return { spec: { ...spec, y, paint: (layer, plot) => paintStack(layer, lines, steps, plot) } };
}

/** Areas on top of one another; each has its name at the end, where there is room. */
function paintStack(layer, lines, steps, { x, y }) {
  const last = steps.length - 1;
  let floor = steps.map(() => 0);
  for (const { index, name, ys } of lines) {
    const { colour } = lineStyle(index);
    const top = floor.map((value, i) => value + (Number.isFinite(ys[i]) ? ys[i] : 0));
    const shape = { fill: colour, "fill-opacity": 0.55, stroke: colour, d: area(steps, floor, top, x, y) };
    layer.append(draw("path", shape, draw("title", {}, name)));
    const middle = { x: x(steps[last]) - 8, y: y((floor[last] + top[last]) / 2) + 4, "text-anchor": "end" };
    if (y(floor[last]) - y(top[last]) > 16) layer.append(draw("text", { ...middle, class: "strong" }, name));
    floor = top;
  }
}
