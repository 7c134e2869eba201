// From a number to a place on the screen, and back; and where to put ticks.

/** A scale over [low, high]. Kinds: linear; log; miss, which is logarithmic in the distance from 1 (accuracies). */
function scale(kind, low, high, start, end) {
  const forth = { linear: (v) => v, log: Math.log10, miss: (v) => -Math.log10(Math.max(1 - v, 1e-9)) }[kind];
  const back = { linear: (v) => v, log: (v) => 10 ** v, miss: (v) => 1 - 10 ** -v }[kind];
  let [a, b] = [forth(low), forth(high)];
  if (!(b > a)) [a, b] = [a - 0.5, b + 0.5];
  const at = (value) => start + (forth(value) - a) / (b - a) * (end - start);
  at.back = (place) => back(a + (place - start) / (end - start) * (b - a));
  at.kind = kind;
  at.domain = [back(a), back(b)];
  return at;
}

/** The range that holds all values, with a little air; only what the kind of scale can show. */
function range(values, kind, air = 0.04) {
  const usable = values.filter((v) => Number.isFinite(v) && (kind !== "log" || v > 0) && (kind !== "miss" || v < 1));
  if (!usable.length) return kind === "log" ? [0.1, 1] : [0, 1];
  let low = Infinity, high = -Infinity;
  for (const value of usable) [low, high] = [Math.min(low, value), Math.max(high, value)];
  // There is a least range: rounding errors are no mountains.
  const least = 5e-6 * Math.max(Math.abs(low), Math.abs(high));
  if (high - low < 2 * least) [low, high] = [(low + high) / 2 - least, (low + high) / 2 + least];
  const at = scale(kind, low, high, 0, 1);
  return [at.back(-air), at.back(1 + air)];
}

/** Round numbers in a range, about so many and at least two; whole ones if asked for. */
function roundTicks(low, high, count, integers = false) {
  const power = 10 ** Math.floor(Math.log10((high - low) / Math.max(count, 1)));
  let found = [];
  for (const factor of [10, 5, 2, 1, 0.5, 0.2]) {
    const step = integers ? Math.max(1, Math.round(factor * power)) : factor * power;
    found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
    if (found.length >= Math.max(2, 0.6 * count) || (integers && step === 1)) break;
  }
  return found;
}

function ticks(at, count, integers = false) {
  const [low, high] = at.domain;
  if (at.kind === "linear") return roundTicks(low, high, count, integers);
  if (at.kind === "miss") return missTicks(low, high, count);
  const decades = Math.log10(high / low);
  if (decades < 0.8) return roundTicks(low, high, count);
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const every = Math.ceil(decades / count);
  const factors = 3 * decades <= 2 * count ? [1, 2, 5] : 2 * decades <= 1.5 * count ? [1, 3] : [1];
  const found = [];
  for (let i = first; i <= last; i += 1) {
    if (every > 1 && i % every) continue;
    for (const factor of factors) found.push(Number(`${factor}e${i}`));
  }
  return found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
}

/** 0, 50 %, 80 %, 90 %, 95 %, 98 %, 99 %, … where they fit. */
function missTicks(low, high, count) {
  const all = [0, 0.5, 0.8];
  for (let nines = 1; nines < 7; nines++) for (const f of [1, 0.5, 0.2]) all.push(Number((1 - f * 10 ** -nines).toFixed(9)));
  const inside = all.filter((value) => value >= low && value <= high);
  if (inside.length < 3) return roundTicks(low, high, count);
  const every = Math.ceil(inside.length / (count + 1));
  return inside.filter((_, i) => (inside.length - 1 - i) % every === 0);
}

/** How many digits tell values in this range apart. */
const digitsFor = (values) => {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return high > low ? clamp(2 + Math.ceil(Math.log10(Math.max(Math.abs(high), Math.abs(low)) / (high - low))), 3, 7) : 3;
};

/** Texts of any numbers, with as many digits as tell them apart. */
function apart(values) {
  let texts = [];
  for (let count = 3; count < 9 && new Set(texts).size < values.length; count++) texts = values.map((value) => digits(value, count));
  return texts;
}

/** Texts of ticks: enough digits to tell them apart. */
function tickTexts(values, metric = {}) {
  if (metric.text) return values.map(metric.text);
  const factor = metric.percent ? 100 : 1;
  for (let count = 1; count < 9; count++) {
    const texts = values.map((value) => digits(factor * value, count));
    const exact = values.every((value, i) => Math.abs(Number(texts[i].replaceAll("−", "-")) - factor * value) <= 1e-6 * Math.abs(factor * value));
    if (exact || count === 8) return texts.map((text) => text + (metric.percent ? " %" : ""));
  }
}
