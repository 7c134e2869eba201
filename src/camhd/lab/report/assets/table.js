// Tables that can be sorted. On a phone rows become cards, and a list takes the place of the headings.

const MARKS = {
  best: ["★ ", "the best of its column"],
  better: ["▲ ", "better than the first row"],
  worse: ["▼ ", "worse than the first row"],
};

/** A cell is { text, value, mark, node }; a column { title, note, numeric, drawing }. */
function cellOf(cell, column, first) {
  const kinds = [column.numeric ? "number" : "", column.drawing ? "drawing" : "", cell.mark ?? ""].join(" ").trim();
  const attributes = { class: kinds || null, "data-title": column.title, "data-value": cell.value ?? null };
  const [sign, meaning] = MARKS[cell.mark] ?? [];
  const mark = sign ? el("span", { title: meaning, role: "img", "aria-label": meaning }, sign) : null;
  const contents = el("span", mark, cell.node, cell.text);
  return first ? el("th", { ...attributes, scope: "row" }, contents) : el("td", attributes, contents);
}

/** Sort the rows of a table's body by a column; empty values come last either way. */
function sortRows(body, column, descending, numeric) {
  const value = ({ cells }) => {
    const written = cells[column].dataset.value;
    if (!numeric) return written ?? cells[column].textContent;
    return written === undefined ? null : Number(written);
  };
  const order = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    const difference = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
    return descending ? -difference : difference;
  };
  body.append(...[...body.rows].sort(order));
}

/** Whether the first click shows the largest first: for what should be large. */
const largestFirst = (column) => Boolean(column.numeric && !/^p$|loss|time|ms|^seed/i.test(column.title));

function sortable(columns, rows, { name = "", limit = 40 } = {}) {
  const line = (row, number) => {
    const cells = row.map((cell, i) => cellOf(cell, columns[i], i === 0));
    return el("tr", { class: number ? null : "first" }, cells);
  };
  const body = el("tbody", rows.map(line));
  let [sorted, descending] = [-1, false];
  const sort = (column, down) => {
    [sorted, descending] = [column, down];
    const says = (i) => (i === column ? (down ? "descending" : "ascending") : "none");
    heads.forEach((head, i) => head.setAttribute("aria-sort", says(i)));
    sortRows(body, column, down, columns[column].numeric);
    fold();
  };
  const heads = columns.map((column, i) => {
    const onclick = () => sort(i, sorted === i ? !descending : largestFirst(column));
    const inside = column.drawing ? column.title : button(column.title, onclick);
    const kind = column.drawing ? "drawing" : column.numeric ? "number" : null;
    return el("th", { scope: "col", class: kind, title: column.note || null }, inside);
  });
  const more = button("", () => {
    limit = Infinity;
    fold();
  });
  const fold = () => {
    [...body.rows].forEach((row, i) => (row.hidden = i >= limit));
    more.hidden = rows.length <= limit;
    more.textContent = `Show all ${rows.length} rows`;
  };
  fold();
  const options = columns.flatMap((column, i) => (column.drawing ? [] : [[String(i), column.title]]));
  const choose = (i) => i !== "" && sort(Number(i), largestFirst(columns[i]));
  const list = select("Sort by", [["", "as given"], ...options], choose);
  list.classList.add("sorting");
  const made = el(`table.stacking${name && `.${name}`}`, el("thead", el("tr", heads)), body);
  return el("div", rows.length > 1 ? list : null, el("div.scroll", made), more);
}

/** The range of most values: a run that went astray does not press all others together. */
function usualRange(values) {
  const sorted = [...values].sort((a, b) => a - b);
  if (!sorted.length) return [0, 0];
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  const reach = 3 * (at(0.75) - at(0.25));
  const inside = sorted.filter((value) => value >= at(0.25) - reach && value <= at(0.75) + reach);
  return [inside[0], inside.at(-1)];
}

/** Where a method's runs ended: every run a tick, the mean a marker, its standard error a bar. */
function forest(values, [low, high], index, label) {
  const usable = known(values);
  if (!usable.length || !(high > low)) return "";
  const at = (value) => 6 + 138 * clamp((value - low) / (high - low), -0.03, 1.03);
  const centre = mean(usable);
  const squares = usable.reduce((sum, value) => sum + (value - centre) ** 2, 0);
  const error = Math.sqrt(squares / Math.max(usable.length - 1, 1) / usable.length);
  const { colour, marker } = lineStyle(index);
  const stroke = { stroke: colour, "stroke-opacity": 0.5, "stroke-width": 1.5 };
  const arrow = (d) => draw("path", { d, fill: colour });
  return draw(
    "svg",
    { class: "forest", viewBox: "0 0 150 22", role: "img", "aria-label": label },
    draw("line", { x1: 0, x2: 150, y1: 11, y2: 11, stroke: "var(--grid)" }),
    usable.some((value) => value < low) ? arrow("M0,11l6,-4v8Z") : null,
    usable.some((value) => value > high) ? arrow("M150,11l-6,-4v8Z") : null,
    usable.map((value) => draw("line", { x1: at(value), x2: at(value), y1: 4, y2: 18, ...stroke })),
    draw("line", { x1: at(centre - error), x2: at(centre + error), y1: 11, y2: 11, ...stroke, "stroke-width": 4 }),
    draw("path", { d: marker(at(centre), 11, 4.5), fill: colour }),
  );
}
