"""`camhd report`."""

from __future__ import annotations

import importlib.util
import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer

from ..lab import report as lab


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs; runs are found at any depth.")],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file; report.html in the folder of the runs if not given.")
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(help="A folder for the figures as PNG, SVG and PDF, and the tables as Markdown and LaTeX."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    first: Annotated[
        str | None,
        typer.Option(help="The method that others are compared with: a label or an optimizer; else the oldest run's."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was written and found as JSON.")] = False,
) -> None:
    """Write the report of some runs: one HTML file that works offline.

    It shows a summary table, learning curves, what the learning rates of every level did, time per step, and the
    configuration of every run. Runs that failed, diverged or are unfinished are listed.
    """
    path = out or (runs[0] if len(runs) == 1 else Path()) / "report.html"
    if path.is_dir():
        raise typer.BadParameter(
            f"'--out' must be a file, but {str(path)!r} is a folder; add a name such as report.html."
        )
    if figures is not None and importlib.util.find_spec("matplotlib") is None:
        raise typer.BadParameter("'--figures' needs matplotlib, which is not installed: pip install 'camhd[lab]'")
    try:
        study = lab.study(runs, title, first)
    except (ValueError, FileNotFoundError) as error:
        raise typer.BadParameter(str(error)) from None
    written = lab.write_figures(study, figures) if figures is not None else []
    lab.write_study(study, path)
    if json:
        print(json_format.dumps(_as_json(study, path, written), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        print(_as_text(study, path, figures))


def _as_text(study: lab.Study, path: Path, figures: Path | None) -> str:
    lines = [study.facts, *(f"{task.name}: {lab.headline(task)}" for task in study.tasks)]
    if study.problems:
        lines.append(f"{len(study.problems)} runs failed, diverged, are damaged or unfinished; the report lists them.")
    lines += [f"Figures: {figures}"] if figures is not None else []
    return "\n".join([*lines, f"Report: {path}"])


def _as_json(study: lab.Study, path: Path, written: list[Path]) -> dict[str, Any]:
    return {
        "report": str(path),
        "figures": [str(file) for file in written],
        "runs": study.runs,
        "problems": [{"run": run.where, "status": run.status, "reason": run.reason} for run in study.problems],
        "tasks": [
            {
                "name": task.name,
                "headline": lab.headline(task),
                "columns": [column.key for column in table.columns],
                "rows": [[cell.text for cell in row] for row in table.rows],
            }
            for task, table in zip(study.tasks, study.tables, strict=True)
        ],
    }
