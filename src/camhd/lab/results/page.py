"""`docs/results.md`: tables, figures and answers, made from packed records and nothing else.

What people write themselves stands in `remarks.md` beside the archives, under the headings `## top`, `## <question>`
and `## <plan>`, and is taken over with the numbers that it quotes from the records.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ..choices import choose
from ..plans import claims
from ..plans import find as find_plan
from ..plans.claims import OPEN
from ..plans.reading import Results, results
from ..records.files import write as write_whole
from ..report import Section
from ..report.source import Entry
from ..report.tables import escaped, markdown
from . import answers, no_tuning, quoting
from .archive import Archive, path_of, read
from .commits import stand_ins
from .figures import Picture, draw, learning_curves
from .questions import QUESTIONS

PLANS = ("ffnn", "lenet", "ratio", "resnet", "hd", "complexity", "convergence")
IMAGES = "images/results"
REMARKS = "remarks.md"
LOST = "†"
NAMED = 8  # methods that are named one by one


def build(folder: str | Path, docs: str | Path, scale: str = "cpu", *, figures: bool = True) -> Path:
    """Write `results.md` and its figures, and the tables of `no-tuning.md`, if there is such a page.

    Args:
        folder: of the archives and of `remarks.md`.
        docs: where the page goes; its figures go into `images/results` there.
        scale: of the archives.
        figures: False to leave the figures as they are; they need matplotlib.

    Raises:
        ValueError: There is no archive, or one is damaged, or data sets of one name differ between them.
    """
    archives = load(folder, scale)
    text, pictures = page(archives, remarks(Path(folder) / REMARKS), stand_ins(folder))
    docs = Path(docs)
    docs.mkdir(parents=True, exist_ok=True)
    if figures:
        draw(pictures, docs / IMAGES)
    write_whole(docs / "results.md", text)
    no_tuning.fill(folder, docs, scale, figures=figures)
    return docs / "results.md"


def load(folder: str | Path, scale: str = "cpu") -> dict[str, Archive]:
    """The archives of the plans that the page shows, by plan."""
    paths = {name: path_of(folder, name, scale) for name in PLANS}
    found = {name: read(path) for name, path in paths.items() if path.exists()}
    if not found:
        raise ValueError(
            f"there is no archive of the scale {scale!r} in {str(Path(folder).absolute())!r}; 'camhd results pack' "
            "makes one."
        )
    _check_data(found.values())
    return found


def page(
    archives: Mapping[str, Archive], remarks: Mapping[str, str], others: Mapping[str, str] | None = None
) -> tuple[str, list[Picture]]:
    """The page and its figures.

    Args:
        archives: by plan.
        remarks: by the section at whose end they stand.
        others: commits that stand in for lost ones.
    """
    found = {
        name: results(find_plan(name), archive.scale, archive.runs, archive.measured)
        for name, archive in archives.items()
    }
    remarks = {where: quoting.filled(text, found) for where, text in remarks.items()}
    blocks = [*_head(archives, others or {}), remarks.get("top", ""), *answers.blocks(found, remarks)]
    pictures: list[Picture] = []
    for name in PLANS:
        if name in found:
            blocks += _plan(found[name], pictures)
        else:
            blocks += [f"## {find_plan(name).title}", f"Of the plan `{name}` nothing has been run yet."]
        blocks.append(remarks.get(name, ""))
    return "\n\n".join(filter(None, blocks)) + "\n", pictures


def _head(archives: Mapping[str, Archive], others: Mapping[str, str]) -> Iterator[str]:
    count = sum(len(archive.lines) for archive in archives.values())
    yield "---\nhide:\n  - toc\n---"  # its tables are wide
    yield "# Results"
    yield (
        "<!-- Made by `make results` from the records in results/. Do not edit: write remarks into "
        "results/remarks.md. -->"
    )
    yield (
        f"What came out when the paper's experiments were repeated with `camhd reproduce`: {count:,} records, packed "
        "in `results/`. Every number on this page is computed from them; `make results` does it again. A single record "
        "is run again, and compared, by `camhd rerun ID`; `camhd results list PLAN` gives the ids. How plans, scales "
        "and verdicts are meant is said in [Reproducing the paper](reproducing.md)."
    )
    yield (
        "Numbers are means ± standard errors over runs with different seeds (n). A *verdict* is **holds** or **does "
        "not hold** where a test says so after correction for the number of tests (Holm, 5 %), and **open** where "
        "these runs cannot tell; open does not mean that there is no difference."
    )
    yield from _environment(archives.values(), others)


def _environment(archives: Iterable[Archive], others: Mapping[str, str]) -> Iterator[str]:
    found, commits = Counter[str](), Counter[str]()
    for archive in archives:
        for line in archive.lines.values():
            about = line["result"]["environment"] if "config" in line else line["environment"]
            threads = f"{about['threads']} thread{'s' * (about['threads'] != 1)}"
            words = (f"{name} {about[name]}" for name in ("camhd", "torch", "numpy"))
            found[", ".join((*words, f"Python {about['python']}", about["machine"], threads))] += 1
            commits[str(about["commit"])] += 1
    yield f"Made with {'; '.join(f'{name} ({count:,} records)' for name, count in sorted(found.items()))}."
    marked = {name: f"`{name[:9]}`{LOST * (name in others)}" for name in commits}
    yield f"Commits: {', '.join(f'{marked[name]} ({count:,})' for name, count in sorted(commits.items()))}."
    lost = sorted({others[name] for name in commits if name in others})
    if lost:
        yield (
            f"{LOST} These came to nothing with the session in which they were made, and are not in the history. "
            f"`camhd rerun` takes {', '.join(f'`{name[:9]}`' for name in lost)} in their place, whose sources gave "
            "the same numbers wherever a record was run again (see "
            "[Running a record again](reproducing.md#running-a-record-again))."
        )


def _plan(found: Results, pictures: list[Picture]) -> Iterator[str]:
    """The section of a plan: what was done, what it says, tables, figures, tests."""
    plan = found.plan
    yield f"## {plan.title}"
    yield escaped(plan.about)
    yield f"How it was done, beside the {plan.source}:"
    yield "\n".join(f"- {escaped(one)}" for one in _differs(found))
    yield "What there is:"
    yield "\n".join(f"- {escaped(one)}" for one in _there(found))
    sections = [section for make in plan.sections if (section := make(found)) is not None]
    verdicts, tests = claims.sections(found, plan.claims)
    yield f"### {verdicts.title}: {plan.name}"
    yield "\n".join(escaped(text.replace(OPEN, "open")) for text in verdicts.texts)
    for section in sections:
        yield from _section(plan.name, section, pictures)
    if plan.curves:
        yield from _curves(found, pictures)
    yield from _tests(tests)


def _differs(found: Results) -> Iterator[str]:
    plan = found.plan
    reduced = plan.reduced(found.scale)
    notes = dict.fromkeys(str(run.start.get("note") or "") for _, run in _runs(found))
    if plan.grids and not reduced:
        yield f"As in the {plan.source}: networks, data, settings, epochs, seeds."
    yield from (f"Not as in the {plan.source}: {one}" for one in reduced)
    yield from (f"Data: {note}." for note in sorted(notes) if note)
    yield from (f"Where the {plan.source} is silent: {one}" for one in plan.silent)


def _there(found: Results) -> Iterator[str]:
    """How much of the plan has been run, and what has not."""
    total = len(found.plan.items(found.scale)) + len(found.plan.measurements.get(found.scale, ()))
    there = total - found.missing
    diverged = sum(run.status == "diverged" for _, run in _runs(found))
    yield f"Records: {there:,} of {total:,}."
    for (grid, problem), task in found.tasks.items():
        seeds = found.seeds(grid, problem)
        short = [f"{one.label} ({len(one.counted)})" for one in task.methods if len(one.counted) < seeds]
        if len(short) == len(task.methods) and not any(one.counted for one in task.methods):
            yield f"{task.title or problem}: nothing yet."
        elif short:
            names = ", ".join(short) if len(short) <= NAMED else f"{len(short)} of {len(task.methods)} methods"
            yield f"{task.title or problem}: fewer than {seeds} runs of {names}."
    if diverged:
        yield f"{diverged} runs diverged; they count as they ended."


def _runs(found: Results) -> Iterator[tuple[str, Entry]]:
    """Every run once, by its id."""
    seen = {run.where: run for task in found.tasks.values() for one in task.methods for run in one.counted}
    yield from sorted(seen.items())


def _section(plan: str, section: Section, pictures: list[Picture]) -> Iterator[str]:
    yield f"### {section.title}"
    yield from map(escaped, section.texts)
    for table in section.tables:
        if len(section.tables) > 1 or table.title not in section.title:  # else the heading says it
            yield f"**{escaped(table.title)}**"
        yield markdown(table)
        yield escaped(table.note.replace("★", "Bold:"))
    if section.charts:
        pictures.append(Picture(plan, section.title.partition(":")[0], section.charts))
        yield _image(pictures[-1])


def _curves(found: Results, pictures: list[Picture]) -> Iterator[str]:
    own = {key: task for key, task in found.tasks.items() if key[0] == "table"}
    tasks = [task for task in own.values() if any(one.counted for one in task.methods)]
    if tasks:
        yield f"### Learning curves: {found.plan.name}"
        yield "The mean over runs after every epoch, with a band of one standard error to either side."
    for task in tasks:
        pictures.append(learning_curves(found.plan.name, task))
        yield _image(pictures[-1])


def _tests(section: Section) -> Iterator[str]:
    """A long table, folded up."""
    (table,) = section.tables
    rows = [[replace(cell, text="open") if cell.text == OPEN else cell for cell in row] for row in table.rows]
    yield f'<details markdown="1"><summary>{section.title} ({len(rows)})</summary>'
    yield markdown(replace(table, rows=rows))
    yield table.note
    yield "</details>"


def _image(picture: Picture) -> str:
    return f"![{picture.title}]({IMAGES}/{picture.file})"


def remarks(path: Path) -> dict[str, str]:
    """What people wrote, by heading; empty if there is no such file.

    Raises:
        ValueError: A heading is not one of the page's.
    """
    if not path.exists():
        return {}
    parts = re.split(r"^## (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {name.strip(): text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    for name in found:
        choose("heading of remarks.md", name, ["top", *(one.key for one in QUESTIONS), *PLANS])
    return found


def _check_data(archives: Iterable[Archive]) -> None:
    """A data set of one name is the same in all plans."""
    prints: dict[str, tuple[str, str]] = {}
    for archive in archives:
        for name, line in sorted(archive.lines.items()):
            if "config" in line:
                data, own = line["config"]["data"], line["config"]["fingerprint"]
                other, where = prints.setdefault(data, (own, name))
                if other != own:
                    raise ValueError(f"the data {data!r} of {where!r} and of {name!r} are not the same.")
