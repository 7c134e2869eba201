// Time, configurations, environments, and runs that did not end well.

const BARS = 30;

/** The median of some values as a bar, with a whisker from the smallest to the largest. */
function bar(values, limit, text, index) {
  const usable = known(values);
  if (!usable.length) return el("div.value", "–");
  const [low, high] = [Math.min(...usable), Math.max(...usable)];
  const part = (value) => `${(100 * value) / limit}%`;
  const filled = el("div.fill", { style: { width: part(median(usable)), background: lineStyle(index).colour } });
  const whisker = el("div.spread", { style: { left: part(low), width: part(high - low) } });
  const spread = text(high) === text(low) ? "" : `, ${text(low)} to ${text(high)}`;
  return el(
    "div",
    el("div.track", filled, high > low ? whisker : null),
    el("div.value", text(median(usable)) + spread),
  );
}

function timeCard(task) {
  const all = task.methods.filter((method) => known(method.step_ms).length);
  const timed = all.slice(0, BARS);
  if (!timed.length) return null;
  const most = Math.max(...timed.flatMap((method) => known(method.step_ms)));
  const chart = (title, note, key, limit, text) => {
    const rows = timed.map((method) => [
      el("div", method.name),
      bar(method[key], limit, text, task.methods.indexOf(method)),
    ]);
    return el("div", el("h4", title), el("p.caption", note), el("div.bars", rows));
  };
  const steps = "Median over runs of the median step; whisker: fastest to slowest run.";
  const rest = "The rest is forward and backward passes and data; validation is left out.";
  const shares = timed.some((method) => known(method.share).length);
  const more = `the first ${timed.length} of ${all.length} methods; the table has all`;
  return el(
    "div.card",
    el("header", el("h3", "Time"), all.length > timed.length ? el("span.caption", more) : null),
    el(
      "div.plots",
      chart("Time of one optimizer step", steps, "step_ms", most, (value) => `${digits(value, 3)} ms`),
      shares
        ? chart("Share of the optimizer in training time", rest, "share", 1, (value) => `${digits(100 * value, 3)} %`)
        : null,
    ),
  );
}

/** Names and values; those in `differing` stand out. */
function definitions(values, differing = new Set()) {
  const kind = (key) => ({ class: differing.has(key) ? "differs" : null });
  const pair = ([key, value]) => [el("dt", kind(key), key), el("dd", kind(key), value)];
  return el("dl.config", Object.entries(values).map(pair));
}

/** A method's runs, one by one. */
function runsTable(method, metric) {
  const said = (value) => ({ text: metric ? measured(value, metric) : "–", value });
  const columns = [
    { title: "Run" },
    { title: "Seed", numeric: true },
    { title: "Status" },
    { title: "Epochs", numeric: true },
    { title: metric?.title ?? "Final", numeric: true },
    { title: "Best epoch", numeric: true },
    { title: "Time", numeric: true },
    { title: "Environment", numeric: true },
  ];
  const rows = method.runs.map((run) => [
    { text: run.id },
    { text: run.seed, value: Number(run.seed) || 0 },
    { text: run.status },
    { text: whole(run.epochs), value: run.epochs },
    said(run.final),
    said(run.best),
    { text: duration(run.seconds), value: run.seconds },
    { text: run.environment === null ? "–" : String(run.environment + 1), value: run.environment },
  ]);
  return sortable(columns, rows, { name: "runs" });
}

function configurations(task) {
  const differing = new Set(task.differing);
  const item = (method) => {
    const inside = el("div");
    const ontoggle = (event) => {
      if (!event.currentTarget.open || inside.children.length) return;
      inside.append(definitions(method.config, differing), runsTable(method, task.metrics[0]));
    };
    const own = task.differing.filter((key) => method.config[key] !== undefined && key !== "optimizer");
    const count = `${method.runs.length} ${method.runs.length === 1 ? "run" : "runs"}`;
    const about = [count, own.map((key) => `${key.replace("options.", "")} ${method.config[key]}`).join(", ")];
    const caption = el("span.caption", ` · ${about.filter(Boolean).join(" · ")}`);
    return el("details", { ontoggle }, el("summary", el("strong", method.name), caption), inside);
  };
  const note = "The runs of a method differ in seed (or fold) alone. What differs between methods is highlighted.";
  return el("div.card", el("header", el("h3", "Configuration of every run")), caption(note), task.methods.map(item));
}

function environments(found) {
  if (!found.length) return null;
  const one = (values, i) => [found.length > 1 ? el("h3", `Environment ${i + 1}`) : null, definitions(values)];
  return el("section.plain", { id: "environment" }, el("h2", "Environment"), el("div.card", found.map(one)));
}

const MEANING = {
  finished: "in the tables",
  stopped: "in the tables",
  diverged: "in the tables, as it is",
  unfinished: "not in the tables",
  failed: "not in the tables",
  damaged: "not in the tables: it could not be read",
};

function problems(found) {
  if (!found.length) return null;
  const columns = ["Run", "Method", "Seed", "Status", "What that means"].map((title) => ({ title }));
  const rows = found.map(({ where, label, seed, status, reason }) => {
    const meaning = [reason, MEANING[status]].filter(Boolean).join("; ");
    return [where, label, seed, status, meaning].map((text) => ({ text }));
  });
  const title = el("h2", "Runs that failed, diverged or are unfinished");
  return el("section.plain", { id: "problems" }, title, el("div.card", sortable(columns, rows, { name: "problems" })));
}
