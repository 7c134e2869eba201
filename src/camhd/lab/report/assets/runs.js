// Time, configurations, environments, and runs that did not end well.

function timeCard(task) {
  const all = task.methods.filter((method) => known(method.step_ms).length);
  const timed = all.slice(0, 30);
  if (!timed.length) return null;
  const most = Math.max(...timed.flatMap((method) => known(method.step_ms)));
  const bar = (values, limit, text, index) => {
    const usable = known(values);
    if (!usable.length) return el("div", { class: "value" }, "–");
    const [low, high] = [Math.min(...usable), Math.max(...usable)];
    const part = (value) => `${100 * value / limit}%`;
    return el("div", {}, el("div", { class: "track" },
      el("div", { class: "fill", style: { width: part(mean(usable)), background: lineStyle(index).colour } }),
      high > low ? el("div", { class: "spread", style: { left: part(low), width: part(high - low) } }) : null),
    el("div", { class: "value" }, text(mean(usable)) + (text(high) !== text(low) ? `, ${text(low)} to ${text(high)}` : "")));
  };
  const chart = (title, note, key, limit, text) => el("div", {}, el("h4", {}, title), el("p", { class: "caption" }, note),
    el("div", { class: "bars" }, timed.map((method) => [el("div", {}, method.name), bar(method[key], limit, text, task.methods.indexOf(method))])));
  const shares = timed.some((method) => known(method.share).length);
  return el("div", { class: "card" }, el("header", {}, el("h3", {}, "Time"), all.length > timed.length ? el("span", { class: "caption" }, `the first ${timed.length} of ${all.length} methods; the table has all`) : null), el("div", { class: "plots" },
    chart("Time of one optimizer step", "Mean over runs of the median step; whisker: fastest to slowest run.", "step_ms", most, (value) => `${digits(value, 3)} ms`),
    shares ? chart("Share of the optimizer in training time", "The rest is forward and backward passes and data; validation is left out.", "share", 1, (value) => `${digits(100 * value, 3)} %`) : null));
}

function configurations(task) {
  const differs = new Set(task.differing);
  const list = (config) => el("dl", { class: "config" }, Object.entries(config).map(([key, value]) => [
    el("dt", { class: differs.has(key) ? "differs" : null }, key), el("dd", { class: differs.has(key) ? "differs" : null }, value)]));
  const runs = (method) => sortable(
    [{ title: "Run" }, { title: "Seed", numeric: true }, { title: "Status" }, { title: "Epochs", numeric: true },
      { title: task.metrics[0]?.title ?? "Final", numeric: true }, { title: "Best epoch", numeric: true }, { title: "Time", numeric: true }, { title: "Environment", numeric: true }],
    method.runs.map((run) => [{ text: run.id }, { text: run.seed, value: Number(run.seed) || 0 }, { text: run.status }, { text: whole(run.epochs), value: run.epochs },
      { text: task.metrics.length ? measured(run.final, task.metrics[0]) : "–", value: run.final }, { text: task.metrics.length ? measured(run.best, task.metrics[0]) : "–", value: run.best },
      { text: duration(run.seconds), value: run.seconds }, { text: run.environment === null ? "–" : String(run.environment + 1), value: run.environment }]), { name: "runs" });
  const item = (method) => {
    const inside = el("div", {});
    const changed = task.differing.filter((key) => method.config[key] !== undefined && key !== "label" && key !== "optimizer").map((key) => `${key.replace("options.", "")} ${method.config[key]}`);
    return el("details", { ontoggle: (event) => { if (event.currentTarget.open && !inside.children.length) inside.append(list(method.config), runs(method)); } },
      el("summary", {}, el("strong", {}, method.name), el("span", { class: "caption" }, ` · ${method.runs.length} ${method.runs.length === 1 ? "run" : "runs"}${changed.length ? ` · ${changed.join(", ")}` : ""}`)), inside);
  };
  return el("div", { class: "card" }, el("header", {}, el("h3", {}, "Configuration of every run")),
    el("p", { class: "caption" }, "The runs of a method differ in seed (or fold) alone. What differs between methods is highlighted."), task.methods.map(item));
}

function environments(found) {
  if (!found.length) return null;
  return el("section", { class: "plain", id: "environment" }, el("h2", {}, "Environment"), el("div", { class: "card" },
    found.map((values, i) => [found.length > 1 ? el("h4", {}, `Environment ${i + 1}`) : null,
      el("dl", { class: "config" }, Object.entries(values).map(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]))])));
}

function problems(found) {
  if (!found.length) return null;
  const meaning = {
    finished: "in the tables", stopped: "in the tables", diverged: "in the tables, as it is", unfinished: "not in the tables", failed: "not in the tables", damaged: "not in the tables: it could not be read",
  };
  const rows = found.map((run) => [{ text: run.where }, { text: run.label }, { text: run.seed }, { text: run.status }, { text: [run.reason, meaning[run.status]].filter(Boolean).join("; ") }]);
  const columns = ["Run", "Method", "Seed", "Status", "What that means"].map((title) => ({ title }));
  return el("section", { class: "plain", id: "problems" }, el("h2", {}, "Runs that failed, diverged or are unfinished"), el("div", { class: "card" }, sortable(columns, rows, { name: "problems" })));
}
