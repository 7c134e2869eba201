// From a number to a place on the screen, and back; and where to put ticks.

const KINDS = {
  linear: { forth: (value) => value, back: (place) => place },
  log: { forth: Math.log10, back: (place) => 10 ** place },
  // Logarithmic in the distance from 1, for accuracies.
  miss: { forth: (value) => -Math.log10(Math.max(1 - value, 1e-9)), back: (place) => 1 - 10 ** -place },
};

/** A scale from numbers in [low, high] to places in [start, end]. */
function scale(kind, [low, high], [start, end]) {
  const { forth, back } = KINDS[kind];
  let [a, b] = [forth(low), forth(high)];
  if (!(b > a)) [a, b] = [a - 0.5, b + 0.5];
  const at = (value) => start + ((forth(value) - a) / (b - a)) * (end - start);
  at.back = (place) => back(a + ((place - start) / (end - start)) * (b - a));
  at.kind = kind;
  at.domain = [back(a), back(b)];
  return at;
}

/** The range that holds all values, with a little air; only what the kind of scale can show. */
function range(values, kind, air = 0.04) {
  const showable = (value) => Number.isFinite(value) && (kind !== "log" || value > 0) && (kind !== "miss" || value < 1);
  let [low, high] = [Infinity, -Infinity];
  for (const value of values.filter(showable)) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low > high) return kind === "log" ? [0.1, 1] : [0, 1];
  // What does not change but for rounding errors is a line in the middle, and no mountains.
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (high - low < 1e-5 * size) [low, high] = [low - 0.02 * size, high + 0.02 * size];
  const at = scale(kind, [low, high], [0, 1]);
  return [at.back(-air), at.back(1 + air)];
}

/** Where ticks go: about so many, and at least two. */
function ticks(at, count, integers = false) {
  const [low, high] = at.domain;
  if (at.kind === "miss") return missTicks(low, high, count);
  return at.kind === "log" && high > 6 * low ? logTicks(low, high, count) : roundTicks(low, high, count, integers);
}

/** Round numbers; whole ones if asked for. */
function roundTicks(low, high, count, integers = false) {
  const power = 10 ** Math.floor(Math.log10((high - low) / Math.max(count, 1)));
  let found = [];
  for (const factor of [10, 5, 2, 1, 0.5, 0.2]) {
    const step = integers ? Math.max(1, Math.round(factor * power)) : factor * power;
    found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++)
      found.push(Number((i * step).toPrecision(12)));
    if (found.length >= Math.max(2, 0.6 * count) || (integers && step === 1)) break;
  }
  return found;
}

/** Powers of ten, with numbers between them where there are few, and not all of them where there are many. */
function logTicks(low, high, count) {
  const decades = Math.log10(high / low);
  const every = Math.ceil(decades / count);
  const factors = 3 * decades <= 2 * count ? [1, 2, 5] : 2 * decades <= 1.5 * count ? [1, 3] : [1];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    if (power % every === 0) found.push(...factors.map((factor) => Number(`${factor}e${power}`)));
  return found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
}

/** 0, 50 %, 80 %, 90 %, 95 %, 98 %, 99 %, … where they fit. */
function missTicks(low, high, count) {
  const all = [0, 0.5, 0.8];
  for (let nines = 1; nines < 7; nines++)
    all.push(...[1, 0.5, 0.2].map((factor) => Number((1 - factor * 10 ** -nines).toFixed(9))));
  const inside = all.filter((value) => value >= low && value <= high);
  if (inside.length < 3) return roundTicks(low, high, count);
  const every = Math.ceil(inside.length / (count + 1));
  return inside.filter((_, i) => (inside.length - 1 - i) % every === 0);
}

/** Texts of ticks: as many digits as they have. */
function tickTexts(values, { text, percent }) {
  if (text) return values.map(text);
  const shown = percent ? values.map((value) => 100 * value) : values;
  const exact = (one, value) => Math.abs(Number(one.replaceAll("−", "-")) - value) <= 1e-6 * Math.abs(value);
  let texts = [];
  for (let count = 1; count < 9; count++) {
    texts = shown.map((value) => digits(value, count));
    if (texts.every((one, i) => exact(one, shown[i]))) break;
  }
  return percent ? texts.map((one) => `${one} %`) : texts;
}

/** How many digits tell values of this range apart. */
function digitsFor(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (!(high > low)) return 3;
  return clamp(2 + Math.ceil(Math.log10(Math.max(Math.abs(high), Math.abs(low)) / (high - low))), 3, 7);
}

/** Texts of any numbers, with as many digits as tell them apart. */
function apart(values) {
  let texts = [];
  for (let count = 3; count < 9 && new Set(texts).size < values.length; count++)
    texts = values.map((value) => digits(value, count));
  return texts;
}
