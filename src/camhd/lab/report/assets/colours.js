// Colours that are told apart without colour vision: lines also differ in dash and marker, heat maps in lightness.

const COLOURS = 8;
const DASHES = ["", "8 4", "2 3", "10 3 2 3", "14 4", "5 2 1 2", "1 4", "6 2 6 6"];

/** A closed shape: corners around a place, in radii. */
const shape = (corners) => (x, y, r) => {
  const place = ([dx, dy]) => `${x + dx * r},${y + dy * r}`;
  return `M${corners
    .split(", ")
    .map((corner) => place(corner.split(" ")))
    .join("L")}Z`;
};
const MARKERS = [
  (x, y, r) => `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`, // circle
  shape("-1 -1, 1 -1, 1 1, -1 1"), // square
  shape("0 -1.2, 1.2 1, -1.2 1"), // triangle
  shape("0 -1.4, 1.4 0, 0 1.4, -1.4 0"), // diamond
  shape("0 1.2, 1.2 -1, -1.2 -1"), // triangle, upside down
  shape("-1.2 -.4, -.4 -.4, -.4 -1.2, .4 -1.2, .4 -.4, 1.2 -.4, 1.2 .4, .4 .4, .4 1.2, -.4 1.2, -.4 .4, -1.2 .4"), // plus
  shape("-1.3 -.5, 1.3 -.5, 1.3 .5, -1.3 .5"), // bar
];

/** How the line with this number looks. */
function lineStyle(index) {
  return {
    colour: `var(--s${index % COLOURS})`,
    dash: DASHES[index % DASHES.length],
    marker: MARKERS[index % MARKERS.length],
  };
}

/** A short sample of a line, for legends. */
function swatch(index) {
  const { colour, dash, marker } = lineStyle(index);
  const line = { x1: 0, x2: 34, y1: 7, y2: 7, stroke: colour, "stroke-width": 2.5, "stroke-dasharray": dash };
  const point = draw("path", { d: marker(17, 7, 4), fill: colour });
  return draw("svg", { class: "swatch", viewBox: "0 0 34 14", "aria-hidden": "true" }, draw("line", line), point);
}

// Viridis, at 17 even places; colours between them are interpolated.
const VIRIDIS = (
  "440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c " +
  "1fa088 28ae80 3fbc73 5ec962 84d44b addc30 d8e219 fde725"
)
  .split(" ")
  .map((hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)));

/** The colour at a place in 0 … 1. */
function viridis(place) {
  const at = clamp(place, 0, 1) * (VIRIDIS.length - 1);
  const left = Math.min(Math.floor(at), VIRIDIS.length - 2);
  const [from, to] = [VIRIDIS[left], VIRIDIS[left + 1]];
  return `rgb(${from.map((value, i) => Math.round(value + (at - left) * (to[i] - value))).join(",")})`;
}
