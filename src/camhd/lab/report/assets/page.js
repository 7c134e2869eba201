// The page: what stands where. A task is drawn when it comes near the screen, so that a long page opens at once.

const SUMMARY =
  "★ the best mean of its column. ▲ ▼ better or worse than the first row with p < 0.05; " +
  "p-values are not corrected for the number of rows.";

function summaryCard(task) {
  const columns = [...task.table.columns];
  const main = task.metrics[0];
  const limits = usualRange(known(task.methods.flatMap((method) => method.finals)));
  const rows = task.table.rows.map((row, i) => {
    const { name, finals } = task.methods[i];
    const cells = row.map(([text, value, mark]) => ({ text, value, mark }));
    cells[0].node = swatch(i);
    if (main) cells.splice(3, 0, { node: forest(finals, limits, i, `The runs of ${name}`) });
    return cells;
  });
  const note = `${main?.title} of every run (ticks), their mean and standard error.`;
  if (main) columns.splice(3, 0, { title: "Runs, mean, S.E.", drawing: true, note });
  return el(
    "div.card",
    el("header", el("h3", "Summary")),
    sortable(columns, rows, { name: "summary" }),
    caption(SUMMARY),
  );
}

function drawTask(task, data) {
  const legend = new Legend(
    task.methods.map((method) => method.name),
    initiallyHidden(task),
  );
  const cards = [
    summaryCard(task),
    task.metrics.length ? learningCurves(task, legend, data.points) : null,
    rateSection(task, data.columns),
    timeCard(task),
    configurations(task),
  ];
  return cards.filter(Boolean);
}

function taskSection(task, number, data) {
  const body = el("div", { style: { minHeight: "1200px" } });
  const headline = task.headline ? el("p.headline", task.headline) : null;
  const notes = task.notes.map((note) => el("p.note", `About the data: ${note}`));
  const section = el("section.task", { id: `task-${number}` }, el("h2", task.name), headline, notes, body);
  section.open = () => {
    section.open = () => {};
    body.style.minHeight = "";
    body.append(...drawTask(task, data));
  };
  return section;
}

/** Light, dark, or what the system says; remembered where the browser allows it. */
function themes(switcher) {
  const names = ["auto", "light", "dark"];
  const after = (name) => names[(names.indexOf(name) + 1) % names.length];
  // A file from disk may have no storage; then nothing is remembered.
  const stored = (use) => {
    try {
      return use(localStorage);
    } catch {
      return null;
    }
  };
  const set = (name) => {
    document.documentElement.dataset.theme = name;
    switcher.textContent = `Theme: ${name}`;
    switcher.setAttribute("aria-label", `Theme: ${name}. Click for ${after(name)}.`);
  };
  switcher.addEventListener("click", () => {
    const next = after(document.documentElement.dataset.theme);
    set(next);
    stored((storage) => storage.setItem("camhd-theme", next));
  });
  const remembered = stored((storage) => storage.getItem("camhd-theme"));
  set(names.includes(remembered) ? remembered : "auto");
}

/** What a page of very many runs has no room for. */
function limits({ methods, runs }) {
  if (!methods && !runs) return [];
  const missing = [methods ? `${whole(methods)} methods` : "", runs ? `${whole(runs)} single runs` : ""];
  const means = methods ? "" : "; the means over each method's runs are here";
  const text = `To keep this page small it leaves out the rates of ${missing.filter(Boolean).join(" and ")}${means}.`;
  return [el("p.note", `${text} A report of fewer runs shows all.`)];
}

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  document.title = [data.title, ...(data.tasks.length === 1 ? [data.tasks[0].name] : [])].join(" · ");
  themes(document.getElementById("theme"));
  const sections = data.tasks.map((task, number) => taskSection(task, number, data));
  const own = data.sections.map(ownSection);
  const rest = [problems(data.problems), environments(data.environments)].filter(Boolean);
  const remarks = data.remarks.map((text) => el("p", text));
  document.getElementById("main").append(...remarks, ...own, ...limits(data.left_out), ...sections, ...rest);
  const link = (section) => el("li", el("a", { href: `#${section.id}` }, section.querySelector("h2").textContent));
  document.getElementById("contents").append(el("ul", [...own, ...sections, ...rest].map(link)));
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        watcher.unobserve(target);
        target.open();
      }
    },
    { rootMargin: "600px" },
  );
  sections.forEach((section, i) => (i ? watcher.observe(section) : section.open()));
  window.addEventListener("beforeprint", () => {
    sections.forEach((section) => section.open());
    document.querySelectorAll("details").forEach((item) => (item.open = true));
  });
}

start();
