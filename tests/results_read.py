"""The page of results and the packed records, read without the library: the numbers of one are looked up in the other.

Only lzma, json, numpy and scipy: nothing of what made the page is used.
"""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import Any

import numpy

Line = dict[str, Any]


def packed(folder: Path, plan: str, scale: str = "cpu") -> list[Line]:
    """The records of a plan; none if it has no archive."""
    path = folder / f"{plan}-{scale}.jsonl.xz"
    if not path.exists():
        return []
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file][1:]


def accuracies(lines: list[Line], **wanted: Any) -> list[float]:
    """The final test accuracies of the runs with such a configuration, in percent.

    Names with two underscores are those of options.
    """
    return [100 * line["result"]["final"]["valid_accuracy"] for line in lines if fits(line, wanted)]


def losses(lines: list[Line], **wanted: Any) -> list[float]:
    """Their final test losses, without those of runs that diverged."""
    found = [float(line["result"]["final"]["valid_loss"]) for line in lines if fits(line, wanted)]
    return [loss for loss in found if numpy.isfinite(loss)]


def fits(line: Line, wanted: dict[str, Any]) -> bool:
    """Whether a line is a run with such a configuration."""
    config = line.get("config")
    if config is None:
        return False
    found = {**config, **{f"options__{name}": value for name, value in config["options"].items()}}
    return all(found.get(name) == value for name, value in wanted.items())


def section(text: str, heading: str) -> str:
    """What stands below a heading that begins so, up to the next one of its kind or above."""
    match = re.search(rf"^(#+) {re.escape(heading)}.*$", text, re.MULTILINE)
    assert match, heading
    below = text[match.end() :]
    end = re.search(rf"^#{{1,{len(match[1])}}} ", below, re.MULTILINE)
    return below[: end.start()] if end else below


def tables(text: str) -> list[list[list[str]]]:
    """All tables of a text: rows of cells, the titles first."""
    found: list[list[list[str]]] = []
    before = ""
    for line in text.splitlines():
        if line.startswith("|"):
            if not before.startswith("|"):
                found.append([])
            if not re.fullmatch(r"[|:-]+", line):
                cells = re.split(r"(?<!\\)\|", line)[1:-1]
                found[-1].append([re.sub(r"\\(.)", r"\1", cell).strip().strip("*") for cell in cells])
        before = line
    return found


def number(text: str) -> float:
    """The first number of a cell; nan if there is none."""
    match = re.match(r"[<>]?\s*([+−-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)", text)
    return float(match[1].replace("−", "-").replace(",", "")) if match else float("nan")


def shown(cell: str) -> tuple[float, float, int]:
    """Mean, standard error and n of a cell such as `98.12 ± 0.06 (10)`."""
    match = re.fullmatch(r"([\d.]+)(?: ± ([\d.]+))? \((\d+)\)", cell)
    assert match, cell
    return float(match[1]), float(match[2] or "nan"), int(match[3])


def same_probability(cell: str, p: float) -> bool:
    """Whether a cell shows this p-value, as far as it has digits."""
    if cell == "–":
        return bool(numpy.isnan(p))
    if cell == "< 0.0001":
        return p < 1e-4
    digits = len(cell.partition(".")[2])
    return abs(float(cell) - p) <= 0.5000001 * 10**-digits


def holm(values: list[float]) -> list[float]:
    """Holm's correction, by its definition; nan is no test."""
    known = sorted(value for value in values if not numpy.isnan(value))
    steps = numpy.maximum.accumulate([min(1.0, (len(known) - i) * value) for i, value in enumerate(known)])
    return [float("nan") if numpy.isnan(value) else float(steps[known.index(value)]) for value in values]
