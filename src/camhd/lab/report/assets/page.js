// The page: what stands where. A task is drawn when it comes near the screen, so that a long page opens at once.

function summaryCard(task) {
  const columns = [...task.table.columns];
  const main = task.metrics[0];
  const limits = usualRange(known(task.methods.flatMap((method) => method.finals)));
  const rows = task.table.rows.map((row, i) => {
    const cells = row.map(([text, value, mark]) => ({ text, value, mark }));
    cells[0] = { ...cells[0], node: swatch(i) };
    if (main) cells.splice(3, 0, { node: forest(task.methods[i].finals, limits, i, `The runs of ${task.methods[i].name}`) });
    return cells;
  });
  if (main) columns.splice(3, 0, { title: "Runs, mean, S.E.", drawing: true, note: `${main.title} of every run (ticks), their mean and standard error.` });
  return el("div", { class: "card" }, el("header", {}, el("h3", {}, "Summary")),
    sortable(columns, rows, { name: "summary" }),
    el("p", { class: "caption" }, "★ the best mean of its column. ▲ ▼ better or worse than the first row with p < 0.05; p-values are not corrected for the number of rows."));
}

function drawTask(task, data) {
  const legend = new Legend(task.methods.map((method) => method.name), initiallyHidden(task));
  return [summaryCard(task), task.metrics.length ? learningCurves(task, legend, data.points) : null, rateSection(task, data.columns), timeCard(task), configurations(task)].filter(Boolean);
}

function taskSection(task, number, data) {
  const body = el("div", { style: { minHeight: "1200px" } });
  const section = el("section", { class: "task", id: `task-${number}` }, el("h2", {}, task.name),
    task.headline ? el("p", { class: "headline" }, task.headline) : null,
    task.notes.map((note) => el("p", { class: "note" }, `About the data: ${note}`)), body);
  section.open = () => {
    section.open = () => {};
    body.style.minHeight = "";
    body.append(...drawTask(task, data));
  };
  return section;
}

/** Light, dark, or what the system says; remembered where the browser allows it. */
function themes(button) {
  const names = ["auto", "light", "dark"];
  const remember = (name) => { try { localStorage.setItem("camhd-theme", name); } catch { /* A file from disk may have no storage. */ } };
  const remembered = () => { try { return localStorage.getItem("camhd-theme"); } catch { return null; } };
  const set = (name) => {
    document.documentElement.dataset.theme = name;
    button.textContent = `Theme: ${name}`;
    button.setAttribute("aria-label", `Theme: ${name}. Click for ${names[(names.indexOf(name) + 1) % 3]}.`);
  };
  button.addEventListener("click", () => {
    const next = names[(names.indexOf(document.documentElement.dataset.theme) + 1) % 3];
    set(next);
    remember(next);
  });
  set(names.includes(remembered()) ? remembered() : "auto");
}

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("main");
  document.title = [data.title, ...(data.tasks.length === 1 ? [data.tasks[0].name] : [])].join(" · ");
  themes(document.getElementById("theme"));
  const sections = data.tasks.map((task, number) => taskSection(task, number, data));
  const { methods, runs } = data.left_out;
  const missing = [...(methods ? [`${whole(methods)} methods`] : []), ...(runs ? [`${whole(runs)} single runs`] : [])].join(" and ");
  const limits = missing ? el("p", { class: "note" }, `To keep this page small it leaves out the rates of ${missing}${methods ? "" : "; the means over each method's runs are here"}. A report of fewer runs shows all.`) : null;
  const rest = [problems(data.problems), environments(data.environments)].filter(Boolean);
  main.append(...data.remarks.map((text) => el("p", {}, text)), ...(limits ? [limits] : []), ...sections, ...rest);
  const links = [...sections, ...rest].map((section) => el("li", {}, el("a", { href: `#${section.id}` }, section.querySelector("h2").textContent)));
  document.getElementById("contents").append(el("ul", {}, links));
  const watcher = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
    watcher.unobserve(entry.target);
    entry.target.open();
  }), { rootMargin: "600px" });
  sections.forEach((section, i) => (i ? watcher.observe(section) : section.open()));
  window.addEventListener("beforeprint", () => {
    sections.forEach((section) => section.open());
    document.querySelectorAll("details").forEach((item) => { item.open = true; });
  });
}

start();
