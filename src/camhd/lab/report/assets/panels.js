// Panels of the rate view. A form of a panel is { spec, below }: what its plot shows, and what stands below it.

const atStep = (step) => `Step ${whole(step)}`;
const rateText = (value, count = 3) => (value === NOT_POSITIVE ? "0 or less" : digits(value, count));
const stepsAxis = (steps) => ({ title: "step", integers: true, text: whole, domain: [steps[0], steps.at(-1)] });
const caption = (text) => el("p.caption", text);

/** A titled panel with one plot, drawn in one of several forms: [key, text, make] each. */
class Panel {
  constructor(title, about, label, forms, link, first = forms[0][0]) {
    Object.assign(this, { forms, link, plot: null });
    this.body = el("div");
    const options = forms.map(([key, text]) => [key, text]);
    const choose = options.length > 1 ? choice(`How to draw ${title}`, options, first, (key) => this.show(key)) : null;
    const bar = el("div.bar", el("h4", title), el("span.caption", about), choose);
    this.node = el("section.level", { "aria-label": label }, bar, this.body);
    this.show(first);
  }

  show(wanted) {
    this.plot?.remove();
    const [, , make] = this.forms.find(([key]) => key === wanted);
    const { spec, below } = make();
    this.plot = new Plot(spec, this.link);
    this.body.replaceChildren(this.plot.node, below ?? "");
  }

  remove() {
    this.plot.remove();
    this.node.remove();
  }
}

/** Lines over steps. */
function lineForm(lines, steps, { kind = "log", ...more }) {
  const count = digitsFor(known(lines.flatMap((one) => one.ys)));
  const text = (one, i) => rateText(one.ys[i], count);
  const spec = {
    ...more,
    x: stepsAxis(steps),
    y: { kind, values: (part) => seen(lines, part) },
    paint: (layer, plot) => paintLines(layer, lines, plot),
    read: (x, y, plot) => readLines(lines, x, y, plot, atStep, text),
  };
  return { spec };
}

/** A row per group, colours for values. */
function heatForm(names, values, steps, domain, log, label) {
  const count = digitsFor(domain);
  const read = (x, y) => {
    const i = nearest(steps, x);
    const here = clamp(Math.floor(y), 0, names.length - 1);
    const from = clamp(here - 3, 0, Math.max(0, names.length - 7));
    const rows = names.map((name, j) => ({ name, value: rateText(values[j][i], count), near: j === here }));
    return { x: steps[i], title: atStep(steps[i]), rows: rows.slice(from, from + 7) };
  };
  const spec = {
    label,
    height: Math.round(clamp(200 / names.length, 14, 32) * names.length),
    x: stepsAxis(steps),
    y: { names, middle: names.length / 2 },
    paint: (layer, plot) => paintHeat(values, steps, heatColour(domain, log), plot),
    read,
  };
  return { spec, below: colourKey(domain, log) };
}

const QUANTILES = ["smallest", "5 %", "25 %", "median", "75 %", "95 %", "largest"];
const BANDS = [
  [0, 6, 0.14],
  [1, 5, 0.22],
  [2, 4, 0.36],
];

/** Quantiles over steps: three bands and the median. */
function fanForm(level, rows, steps) {
  const count = digitsFor(known(rows.flat()));
  const floored = rows.map((row) => row.map((value) => (value === NOT_POSITIVE ? 1e-300 : value)));
  const spec = {
    label: `Quantiles of the rates of level ${level.name} by step`,
    height: 220,
    x: stepsAxis(steps),
    y: {
      kind: "log",
      values: (part) =>
        seen(
          [rows[0], rows[6]].map((ys) => ({ xs: steps, ys })),
          part,
        ),
    },
    paint: (layer, { x, y }) => {
      for (const [low, high, ink] of BANDS) {
        const d = area(steps, floored[low], floored[high], x, y);
        layer.append(draw("path", { class: "fan", "fill-opacity": ink, d }));
      }
      layer.append(draw("path", { class: "curve", stroke: "var(--s0)", d: trace(steps, rows[3], x, y) }));
    },
    read: (x) => {
      const i = nearest(steps, x);
      const lines = QUANTILES.map((name, j) => ({ name, value: rateText(rows[j][i], count), near: j === 3 }));
      return { x: steps[i], title: atStep(steps[i]), rows: lines.reverse() };
    },
  };
  const bands = "25 to 75 %, 5 to 95 %, smallest to largest of all rates";
  return { spec, below: caption(`Line: the median. Bands, from dark to light: ${bands}.`) };
}

/** How the rates are spread, at every step. */
function histogramForm(level, steps) {
  const rows = unpack(level.histogram);
  const width = (level.high - level.low) / rows.length;
  const border = (i) => 10 ** (level.low + i * width);
  // Each step by its fullest bin; the square root lets thin tails be seen beside a crowd.
  const most = steps.map((_, i) => Math.max(...rows.map((row) => row[i])));
  const colour = (value, i) => (value > 0 ? viridis(Math.sqrt(value / most[i])) : null);
  const read = (x, y = border(rows.length / 2)) => {
    const i = nearest(steps, x);
    const j = clamp(Math.floor((Math.log10(y) - level.low) / width), 0, rows.length - 1);
    const name = `${digits(border(j), 3)} to ${digits(border(j + 1), 3)}`;
    const value = `${digits(100 * rows[j][i], 2)} % of all rates`;
    return { x: steps[i], title: atStep(steps[i]), rows: [{ name, value, near: true }] };
  };
  const spec = {
    label: `Histogram of the rates of level ${level.name} by step`,
    height: 240,
    bare: true,
    x: stepsAxis(steps),
    y: { kind: "log", domain: [border(0), border(rows.length)] },
    paint: (layer, plot) => paintHeat(rows, steps, colour, plot, border),
    read,
  };
  return { spec, below: caption(`The lighter, the more of the ${whole(level.count)} rates lie there at that step.`) };
}
