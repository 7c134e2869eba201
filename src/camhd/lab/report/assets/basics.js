// Small helpers. Text from records only ever becomes text nodes or attribute values, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `el("p.caption", { title: "…" }, "text", child)`; attributes may be left out, null children too. */
function el(name, ...rest) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag);
  node.classList.add(...classes);
  return fill(node, rest);
}

/** The same for SVG, with attributes always given. */
function draw(tag, ...rest) {
  return fill(document.createElementNS(SVG, tag), rest);
}

function fill(node, rest) {
  const attributes = rest[0]?.constructor === Object ? rest.shift() : {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...rest.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

const button = (text, onclick, attributes = {}) => el("button", { type: "button", onclick, ...attributes }, text);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const known = (values) => values.filter((value) => value !== null && Number.isFinite(value));
const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
};
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Three or four digits, as one would write them. */
function digits(value, count = 4) {
  if (value === null || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const rounded = Number(value.toPrecision(count));
  const text = size >= 1e-3 && size < 1e5 ? String(rounded) : rounded.toExponential().replace("e+", "e");
  return text.replaceAll("-", "−");
}

const whole = (value) => Math.round(value).toLocaleString("en-US");

/** A time in the unit one would say it in. */
function duration(seconds) {
  if (seconds === null || !Number.isFinite(seconds)) return "–";
  if (seconds === 0) return "0";
  if (seconds < 1) return `${digits(1000 * seconds, 3)} ms`;
  if (seconds < 90) return `${digits(seconds, 3)} s`;
  return seconds < 5400 ? `${digits(seconds / 60, 3)} min` : `${digits(seconds / 3600, 3)} h`;
}

/** A value of a metric with its unit. */
function measured(value, metric) {
  if (value === null || !Number.isFinite(value)) return "–";
  return metric.percent ? `${(100 * value).toFixed(2)} %` : digits(value);
}

const MISSING = NaN;
const NOT_POSITIVE = -Infinity;

/** A packed matrix as rows of numbers; NaN is missing, -Infinity a number without a logarithm. See pack.py. */
function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.data), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const step = (packed.high - packed.low) / (65535 - 2);
  const value = (code) => {
    if (code < 2) return code ? NOT_POSITIVE : MISSING;
    const number = packed.low + (code - 2) * step;
    return packed.log ? 10 ** number : number;
  };
  const { rows, columns } = packed;
  return Array.from({ length: rows }, (_, row) =>
    Array.from({ length: columns }, (_, column) => value(view.getUint16(2 * (row * columns + column), true))),
  );
}

/** Buttons of which one is pressed: [value, text] each. */
function choice(label, options, chosen, onchoose) {
  const buttons = options.map(([value, text]) => {
    const onclick = (event) => {
      buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === event.currentTarget)));
      onchoose(value);
    };
    return button(text, onclick, { "aria-pressed": String(value === chosen) });
  });
  return el("div.choice", { role: "group", "aria-label": label }, buttons);
}

/** A drop-down list of [value, text]. */
function select(label, options, onchoose, chosen) {
  const id = `list-${(select.count = (select.count ?? 0) + 1)}`;
  const list = el(
    "select",
    { id, onchange: () => onchoose(list.value) },
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)),
  );
  return el("span.list", el("label", { for: id }, label), list);
}
