// Tables that can be sorted.

/** Sort the rows of a table's body by a column; empty values come last either way. */
function sortRows(body, column, descending, numeric) {
  const rows = [...body.rows];
  const value = (row) => {
    const cell = row.cells[column];
    if (!numeric) return cell.dataset.value ?? cell.textContent;
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  };
  rows.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    const order = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
    return descending ? -order : order;
  });
  body.append(...rows);
}

/**
 * A table with a sort button in every heading.
 *   columns: [{ title, note, numeric, drawing }]; rows: [[{ text, value, mark, node }]]
 * On a phone rows become cards, and a list takes the place of the headings.
 */
function sortable(columns, rows, { caption, name, limit = 40 } = {}) {
  const body = el("tbody", {}, rows.map((row, number) => el("tr", { class: number ? null : "first" }, row.map((cell, i) => {
    const attributes = {
      class: [columns[i].numeric ? "number" : "", columns[i].drawing ? "drawing" : "", cell.mark ?? ""].join(" ").trim() || null,
      "data-title": columns[i].title, "data-value": cell.value === null || cell.value === undefined ? null : cell.value,
    };
    const said = { better: "better than the first row", worse: "worse than the first row", best: "the best of its column" }[cell.mark];
    const sign = { better: "▲ ", worse: "▼ ", best: "★ " }[cell.mark];
    const contents = el("span", {}, sign ? el("span", { title: said, role: "img", "aria-label": said }, sign) : null, cell.node, cell.text);
    return i ? el("td", attributes, contents) : el("th", { ...attributes, scope: "row" }, contents);
  }))));
  const state = { column: -1, descending: false };
  const sort = (column, descending) => {
    Object.assign(state, { column, descending });
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === column ? (descending ? "descending" : "ascending") : "none"));
    sortRows(body, column, descending, columns[column].numeric);
    fold();
  };
  const heads = columns.map((column, i) => el("th", { scope: "col", class: column.numeric ? "number" : null, title: column.note || null },
    column.drawing ? column.title : el("button", { type: "button", onclick: () => sort(i, state.column === i ? !state.descending : column.numeric && !/^p$|loss|time|ms/i.test(column.title)) }, column.title)));
  const list = select("Sort by", [["", "as given"], ...columns.map((column, i) => [String(i), column.title]).filter((_, i) => !columns[i].drawing)],
    (value) => value !== "" && sort(Number(value), columns[value].numeric && !/^p$|loss|time|ms/i.test(columns[value].title)));
  list.classList.add("sorting");
  const more = el("button", { type: "button", onclick: () => { limit = Infinity; fold(); } });
  const fold = () => {
    [...body.rows].forEach((row, i) => { row.hidden = i >= limit; });
    more.hidden = body.rows.length <= limit;
    more.textContent = `Show all ${body.rows.length} rows`;
  };
  fold();
  const made = el("table", { class: `stacking ${name ?? ""}` }, caption ? el("caption", {}, caption) : null, el("thead", {}, el("tr", {}, heads)), body);
  return el("div", {}, list, el("div", { class: "scroll" }, made), more);
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

/** Where a method's runs ended: every run a tick, the mean a dot, its standard error a bar. */
function forest(values, [low, high], index, label) {
  const usable = known(values);
  if (!usable.length || !(high > low)) return "";
  const at = (value) => 6 + 138 * clamp((value - low) / (high - low), -0.03, 1.03);
  const centre = mean(usable);
  const spread = Math.sqrt(usable.reduce((sum, value) => sum + (value - centre) ** 2, 0) / Math.max(usable.length - 1, 1) / usable.length);
  const colour = lineStyle(index).colour;
  return draw("svg", { class: "forest", viewBox: "0 0 150 22", role: "img", "aria-label": label },
    draw("line", { x1: 0, x2: 150, y1: 11, y2: 11, stroke: "var(--grid)" }),
    usable.some((value) => value < low) ? draw("path", { d: "M0,11l6,-4v8Z", fill: colour }) : null,
    usable.some((value) => value > high) ? draw("path", { d: "M150,11l-6,-4v8Z", fill: colour }) : null,
    usable.map((value) => draw("line", { x1: at(value), x2: at(value), y1: 4, y2: 18, stroke: colour, "stroke-opacity": 0.45, "stroke-width": 1.5 })),
    draw("line", { x1: at(centre - spread), x2: at(centre + spread), y1: 11, y2: 11, stroke: colour, "stroke-width": 4, "stroke-opacity": 0.7 }),
    draw("path", { d: lineStyle(index).marker(at(centre), 11, 4.5), fill: colour }));
}
