// Heat maps: groups × steps.

/** Columns reach half way to their neighbours. */
function edges(steps) {
  const middle = steps.slice(1).map((step, i) => (step + steps[i]) / 2);
  const half = steps.length > 1 ? (steps[1] - steps[0]) / 2 : 0.5;
  return [steps[0] - half, ...middle, steps.at(-1) + (steps.length > 1 ? (steps.at(-1) - steps.at(-2)) / 2 : 0.5)];
}

/** Fill the canvas: `rows` of numbers, `colour(value, column)` → a colour, or null to leave a hole. */
function paintHeat(rows, steps, colour, { x, y, left, top, canvas }, upward = false) {
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  const borders = edges(steps).map((step) => x(step) - left);
  rows.forEach((row, i) => {
    const [from, to] = upward ? [y(upward(i + 1)) - top, y(upward(i)) - top] : [y(i) - top, y(i + 1) - top];
    row.forEach((value, j) => {
      const paint = colour(value, j);
      if (!paint || borders[j + 1] < 0) return;
      context.fillStyle = paint;
      // Half a pixel more than needed, lest the background shows through.
      context.fillRect(borders[j], from, borders[j + 1] - borders[j] + 0.5, to - from + (upward ? 0.5 : -1));
    });
  });
}

/** The place of a value between low and high, 0 … 1, by its logarithm if asked for. */
function placed(value, [low, high], log) {
  if (high <= low) return 0.5;
  return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}

/** Colours of rates: what is not positive is grey, what is missing a hole. */
function rateColour(domain, log) {
  return (value) => (Number.isNaN(value) ? null : log && !(value > 0) ? "gray" : viridis(placed(value, domain, log)));
}

/** The smallest and the largest positive value of several matrices; never as close as rounding errors. */
function extent(matrices) {
  let low = Infinity, high = -Infinity;
  for (const rows of matrices) for (const row of rows) for (const value of row) {
    if (value > 0 && Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
  }
  if (low > high) return [1, 1];
  return high < 1.00001 * low ? [low * 0.999995, high * 1.000005] : [low, high];
}

/** What the colours mean. */
function colourKey(domain, log) {
  const bar = el("canvas", { width: 256, height: 1, "aria-hidden": "true" });
  const context = bar.getContext("2d");
  for (let i = 0; i < 256; i++) {
    context.fillStyle = viridis(i / 255);
    context.fillRect(i, 0, 1, 1);
  }
  const middle = log ? Math.sqrt(domain[0] * domain[1]) : (domain[0] + domain[1]) / 2;
  const values = domain[1] > domain[0] ? [domain[0], middle, domain[1]] : [domain[0]];
  const texts = apart(values);
  const marks = values.map((value, i) => el("span", { style: { left: `${100 * (values.length > 1 ? placed(value, domain, log) : 0)}%` } }, texts[i]));
  return el("div", { class: "colours" }, el("span", {}, log ? "colours, log scale" : "colours"), el("div", {}, bar, el("div", { class: "ticks" }, marks)), log ? el("span", {}, "grey: 0 or less") : null);
}
