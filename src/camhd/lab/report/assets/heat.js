// Heat maps: rows × steps, painted onto a plot's canvas.

/** Columns reach half way to their neighbours. */
function edges(steps) {
  if (steps.length < 2) return [steps[0] - 0.5, steps[0] + 0.5];
  const middle = steps.slice(1).map((step, i) => (step + steps[i]) / 2);
  return [2 * steps[0] - middle[0], ...middle, 2 * steps.at(-1) - middle.at(-1)];
}

/**
 * Paint rows of numbers; `colour(value, column)` is null for a hole. Rows lie below one another with a thin line
 * between them; with `border(i)`, the value at the lower edge of row i, they are stacked without one.
 */
function paintHeat(rows, steps, colour, { x, y, left, top, canvas }, border = null) {
  const context = canvas.getContext("2d");
  const columns = edges(steps).map((step) => x(step) - left);
  rows.forEach((row, i) => {
    const [from, to] = border ? [y(border(i + 1)) - top, y(border(i)) - top] : [y(i) - top, y(i + 1) - top - 1];
    row.forEach((value, j) => {
      const paint = colour(value, j);
      if (!paint || columns[j + 1] < 0) return;
      context.fillStyle = paint;
      // Half a pixel more than needed, lest the background shows through.
      context.fillRect(columns[j], from, columns[j + 1] - columns[j] + 0.5, to - from + (border ? 0.5 : 0));
    });
  });
}

/** The place of a value between low and high, 0 … 1, by its logarithm if asked for. */
function placed(value, [low, high], log) {
  if (high <= low) return 0.5;
  return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}

/** Colours of numbers: what has no logarithm is grey, what is missing a hole. */
function heatColour(domain, log) {
  return (value) => {
    if (Number.isNaN(value)) return null;
    return log && !(value > 0) ? "gray" : viridis(placed(value, domain, log));
  };
}

/** The smallest and the largest positive value of several matrices; the same if they differ by rounding alone. */
function extent(matrices) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of matrices.flat(2))
    if (value > 0 && Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low > high) return [1, 1];
  return high < 1.00001 * low ? [low, low] : [low, high];
}

/** What the colours mean. */
function colourKey([low, high], log) {
  if (!(high > low)) return el("div.colours", el("span", `all the same: ${digits(low, 3)}`));
  const bar = el("canvas", { width: 256, height: 1, "aria-hidden": "true" });
  const context = bar.getContext("2d");
  for (let i = 0; i < 256; i++) {
    context.fillStyle = viridis(i / 255);
    context.fillRect(i, 0, 1, 1);
  }
  const middle = log ? Math.sqrt(low * high) : (low + high) / 2;
  const mark = (text, i) => el("span", { style: { left: `${50 * i}%` } }, text);
  const gradient = el("div", bar, el("div.ticks", apart([low, middle, high]).map(mark)));
  const grey = log ? el("span", "grey: 0 or less") : null;
  return el("div.colours", el("span", log ? "colours, log scale" : "colours"), gradient, grey);
}
