"""From the records of a plan to its report: a page, figures, tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .. import report
from ..records.files import write as write_whole
from ..report import Published, Section, Study
from ..report.figures import names, slug
from ..report.tables import markdown
from . import claims
from .plan import Plan
from .reading import Results, results
from .scale import SCALES

FORMATS = ("png", "svg")


def read(plan: Plan, records: str | Path, scale: str | None = None) -> Study:
    """The records of a plan, made into what its report shows."""
    scale = scale or _guess(plan, records)
    found = results(plan, scale, records)
    if not found.count:
        raise ValueError(f"there is no record of the plan {plan.name!r} at the scale {scale!r} in {str(records)!r}.")
    return study(found)


def write(plan: Plan, made: Study, out: str | Path, figures: bool = True) -> Path:
    """Write the report of a plan; see `camhd.lab.plans.rebuild`."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    if figures:
        report.write_figures(made, out, FORMATS, ("curves",) if plan.curves else ())
    write_whole(out / "report.md", text(made, plan.curves and figures, figures))
    return report.write_study(made, out / "report.html")


def _guess(plan: Plan, records: str | Path) -> str:
    """The scale to which most of the records in a folder belong."""
    counts = {scale: results(plan, scale, records).count for scale in SCALES}
    best = max(counts, key=lambda scale: counts[scale])
    if not counts[best]:
        raise ValueError(f"there is no record of the plan {plan.name!r} in {str(records)!r}.")
    return best


def study(found: Results) -> Study:
    """All that goes into the report of a plan."""
    shown = [replace(task, methods=[one for one in task.methods if one.runs]) for task in found.tasks.values()]
    return Study(
        title=f"{found.plan.title} ({found.scale})",
        tasks=[task for task in shown if task.methods and found.plan.details],
        problems=found.problems,
        published=_published(found),
        remarks=remarks(found),
        sections=_sections(found),
    )


def _sections(found: Results) -> list[Section]:
    """The verdicts first, then what the paper shows, and the tests behind the verdicts last."""
    made = [section for make in found.plan.sections if (section := make(found)) is not None]
    if not found.plan.claims:
        return made
    verdicts, tests = claims.sections(found, found.plan.claims)
    return [verdicts, *made, tests]


def text(made: Study, curves: bool, figures: bool) -> str:
    """The report as Markdown, for pages that are built from it; figures lie beside it."""
    lines = [f"## {made.title}", *made.remarks]
    for section in made.sections:
        lines.append(f"### {section.title}")
        lines += section.texts
        for table in section.tables:
            lines += [markdown(table), table.note]
        lines += [f"![{chart.title}]({slug(chart.title)}.png)" for chart in section.charts if figures]
    if curves:
        lines.append("### Learning curves")
        pairs = zip(names(made.tasks), made.tasks, strict=True)
        lines += [f"![Learning curves, {task.name}]({name}-curves.png)" for name, task in pairs if task.metrics]
    return "\n\n".join(lines) + "\n"


def remarks(found: Results) -> list[str]:
    """What a reader must know before the numbers."""
    plan = found.plan
    said = [plan.about]
    reduced = plan.reduced(found.scale) if plan.details else _seeds(found)
    if reduced:
        said.append(f"What is not as in the {plan.source}: {' '.join(reduced)}")
    said += plan.silent
    if found.missing:
        said.append(f"{found.missing} runs of this plan have not been made yet; the same command goes on with them.")
    return said


def _seeds(found: Results) -> list[str]:
    """Where a plan has too many problems for a sentence on each, a table of its own says what became of them."""
    pairs = [(one.seeds, full.seeds) for one, full in zip(found.grids, found.plan.grids, strict=True) if one.problems]
    words = dict.fromkeys(f"{few} seeds instead of {many}" for few, many in pairs if few != many)
    return [f"{'; '.join(words)}. The table of the tasks says what else."] if words else []


def _published(found: Results) -> list[Published]:
    """The paper's numbers beside the runs that were made on the paper's problem, once if it is in several grids."""
    originals = {(grid.name, one.title): one for grid in found.plan.grids for one in grid.problems}
    rows = []
    for (grid, title), task in found.tasks.items():
        original = originals[grid, title]
        if (original.model, original.data) == (task.model, task.data):
            rows += [
                Published(task.model, task.data, number.method, number.mean, number.error, found.plan.source)
                for number in found.plan.published
                if number.problem == title and number.metric == "valid_accuracy"
            ]
    return list(dict.fromkeys(rows))
