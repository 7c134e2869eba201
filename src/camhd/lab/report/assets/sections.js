// Sections above the tasks: words, tables and charts that somebody else has made.

/** Lines over anything; a logarithmic axis is a linear one of logarithms. */
function chartPlot(chart) {
  const along = chart.log_x ? (x) => (x > 0 ? Math.log10(x) : null) : (x) => x;
  const back = chart.log_x ? (place) => 10 ** place : (place) => place;
  const all = chart.series.map((one, index) => ({ ...one, index, xs: one.xs.map((x) => (x === null ? null : along(x))) }));
  const legend = new Legend(chart.series.map((one) => one.name));
  const value = (y) => (chart.percent ? `${(100 * y).toFixed(2)} %` : digits(y));
  const error = (y) => (chart.percent ? (100 * y).toFixed(2) : digits(y, 2));
  const text = (one, i) => value(one.ys[i]) + (one.errors && one.errors[i] !== null ? ` ± ${error(one.errors[i])}` : "");
  const spec = () => {
    const lines = all.filter((one) => legend.shows(one.index));
    const ends = known(lines.flatMap((one) => one.xs));
    const domain = ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1];
    const x = { title: chart.x, domain, text: (place) => digits(back(place), 3) };
    const y = { kind: chart.log_y ? "log" : "linear", percent: chart.percent, values: (part) => seen(lines, part) };
    const title = (place) => `${chart.x} ${digits(back(place), 4)}`;
    const label = `${chart.y} by ${chart.x} of ${lines.map((one) => one.name).join(", ") || "nothing"}`;
    const paint = (layer, plot) => paintLines(layer, lines, plot);
    const read = (place, up, plot) => readLines(lines, place, up, plot, title, text);
    return { title: chart.title, caption: chart.y, label, height: 250, x, y, paint, read };
  };
  const plot = new Plot(spec());
  legend.listeners.push(() => {
    plot.spec = spec();
    plot.render();
  });
  return el("div.chart", plot.node, legend.node, chart.note ? caption(chart.note) : null);
}

function tableCard(table) {
  const rows = table.rows.map((row) => row.map(([text, value, mark]) => ({ text, value, mark })));
  return el(
    "div.card",
    el("header", el("h3", table.title)),
    sortable(table.columns, rows),
    table.note ? caption(table.note) : null,
  );
}

function ownSection(section, number) {
  const charts = section.charts.map(chartPlot);
  return el(
    "section.task",
    { id: `section-${number}` },
    el("h2", section.title),
    section.texts.map((text) => el("p", text)),
    section.tables.map(tableCard),
    charts.length ? el("div.card", el("div.plots", charts)) : null,
  );
}
