"""The tables of `docs/no-tuning.md`, made from the packed records of the study of robustness and nothing else.

The page is written by people but for what stands between two marks, which is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..plans import claims
from ..plans import find as find_plan
from ..plans.pages import remarks
from ..plans.reading import Results, results
from ..records.files import write as write_whole
from ..report import Section
from ..report.tables import escaped, markdown
from .archive import path_of, read
from .figures import Picture, draw

PLAN = "robustness"
PAGE = "no-tuning.md"
IMAGES = "images/no-tuning"
BEGIN, END = "<!-- made by camhd results page: begin -->", "<!-- made by camhd results page: end -->"
OPEN_SECTIONS = ("What holds", "How much worse", "Several levels", "Batches, lengths")  # the others are folded up


def fill(folder: str | Path, docs: str | Path, scale: str = "cpu", *, figures: bool = True) -> Path | None:
    """Write tables and figures of the study into its page; nothing if there is no such page.

    Args:
        folder: of the archives.
        docs: the folder of the page; its figures go into `images/no-tuning` there.
        scale: of the archive.
        figures: False to leave the figures as they are; they need matplotlib.

    Raises:
        ValueError: The page has not both marks, or the archive is damaged.
    """
    page = Path(docs) / PAGE
    if not page.exists():
        return None
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{str(page)!r} must have the lines {BEGIN!r} and {END!r}; put them where the tables belong.")
    text, pictures = tables(folder, scale)
    if figures:
        draw(pictures, page.parent / IMAGES)
    write_whole(page, f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
    return page


def tables(folder: str | Path, scale: str = "cpu") -> tuple[str, list[Picture]]:
    """What belongs between the marks, and its figures."""
    path = path_of(folder, PLAN, scale)
    if not path.exists():
        return "Nothing of the study has been published yet.", []
    archive = read(path)
    found = results(find_plan(PLAN), archive.scale, archive.runs, archive.measured)
    pictures: list[Picture] = []
    return "\n\n".join(_blocks(found, pictures)), pictures


def _blocks(found: Results, pictures: list[Picture]) -> Iterator[str]:
    total = len(found.plan.items(found.scale))
    yield f"{total - found.missing:,} of {total:,} runs at the scale `{found.scale}`."
    yield from (escaped(text) for text in remarks(found)[1:] if "have not been made yet" not in text)
    verdicts, tests = claims.sections(found, found.plan.claims)
    made = [section for make in found.plan.sections if (section := make(found)) is not None]
    for section in (verdicts, *made, tests):
        yield from _section(section, pictures)


def _section(section: Section, pictures: list[Picture]) -> Iterator[str]:
    folded = not section.title.startswith(OPEN_SECTIONS)
    yield f"### {section.title}"
    yield from _texts(section)
    for table in section.tables:
        if folded:
            yield f'<details markdown="1"><summary>{escaped(table.title)} ({len(table.rows)} rows)</summary>'
        elif len(section.tables) > 1:
            yield f"**{escaped(table.title)}**"
        yield markdown(table)
        yield escaped(table.note.replace("★", "Bold:"))
        if folded:
            yield "</details>"
    if section.charts:
        pictures.append(Picture(PLAN, section.title.rstrip("?"), section.charts))
        yield f"![{section.title}]({IMAGES}/{pictures[-1].file})"


def _texts(section: Section) -> Iterator[str]:
    """Verdicts are a numbered list."""
    texts = [escaped(text.replace("★", "Bold:")) for text in section.texts]
    if section.title.startswith(OPEN_SECTIONS[0]):
        yield "\n".join(texts)
    else:
        yield from texts
