"""The report of a study: one HTML file without scripts, which asks for nothing from the network."""

from __future__ import annotations

import base64
import hashlib
import html
import math
from importlib.resources import files
from pathlib import Path

from ... import __version__
from ..records.files import write
from ..report.text import duration
from . import contour, drawing
from .drawing import spelled
from .result import BEST, Result, Row
from .task import Task

ROWS = 200  # of the table; the rest is in the study


def write_page(found: Result, path: Path) -> Path:
    """Write the report."""
    from .. import report

    shared = files(report).joinpath("assets", "style.css").read_text(encoding="utf-8")
    style = f"\n{shared}{drawing.STYLE}"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    title = f"Tuning {_subject(found)}"
    write(
        path,
        f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'sha256-{digest}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="camhd {html.escape(__version__)}">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header class="top">
  <h1>{html.escape(title)}</h1>
  <p class="facts">{html.escape(facts(found))}</p>
</header>
<main id="main">
{"".join(f'<p class="note">{html.escape(note)}</p>' for note in found.notes)}
{_best(found)}
{_figures(found)}
{_table(found)}
</main>
<footer><p>Made by camhd {html.escape(__version__)}. Everything on this page is in this one file.</p></footer>
</body>
</html>
""",
    )
    return path


def facts(found: Result) -> str:
    """How many trials, how they ended, and how they were judged."""
    states = [row.state for row in found.trials]
    diverged = sum(row.state == "complete" and not math.isfinite(row.loss) for row in found.trials)
    ends = {
        "judged": states.count("complete") - diverged,
        "diverged": diverged,
        "stopped as hopeless": states.count("pruned"),
        "failed": states.count("failed"),
    }
    words = [f"{len(states)} trial{'' if len(states) == 1 else 's'}"]
    words += [f"{count} {how}" for how, count in ends.items() if count]
    return " · ".join([*words, judged_by(found.task)])


def judged_by(task: Task) -> str:
    """What the loss is."""
    part = f"mean over {task.folds} folds" if task.folds > 1 else f"{task.splits[0]} held out"
    when = f"least of each run, patience {task.settings.patience}" if task.settings.patience else "after the last epoch"
    return f"validation loss, {part}, {when}"


def _subject(found: Result) -> str:
    spec = found.task.spec()
    return f"{spec['optimizer']}: {spec['model']} on {spec['data']}"


def _card(title: str, caption: str, inside: str) -> str:
    head = f'<section class="card"><header><h3>{title}</h3></header><p class="caption">{caption}</p>'
    return f"{head}{inside}</section>\n"


def _best(found: Result) -> str:
    best = found.best
    if best is None or found.config is None:
        return _card("No trial was judged yet", "", "")
    entries = [*best.found.items(), ("loss", best.loss), ("epochs, on the whole training set", found.config.epochs)]
    pairs = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(spelled(value))}</dd>" for name, value in entries)
    caption = (
        f"To train with it: <code>camhd train --config {html.escape((found.folder / BEST).as_posix())}</code>"
        if found.task.named
        else "It was tuned with functions of your own; train with them and these settings."
    )
    return _card(f"The best: trial {best.number}", caption, f'<dl class="config">{pairs}</dl>')


def _figures(found: Result) -> str:
    best, rows = found.best, found.ranked
    if best is None:
        return ""
    known = [row for row in found.trials if math.isfinite(row.loss) and len(row.found) == len(found.task.space)]
    told = (
        "Filled: judged. Rings: stopped as hopeless, with the loss at that time. Orange: the best. What diverged is "
        "not shown, and losses of more than a hundred times the median are at the edge."
    )
    cards = [
        _card("One trial after another", f"{told} The line is the least loss so far.", drawing.history(known, best))
    ]
    if found.importances:
        about = "How much each explains of the variance of the logarithm of the judged losses (fANOVA)."
        cards.append(_card("Importance", about, drawing.importances(found.importances)))
    plots = "".join(f'<figure class="plot">{one}</figure>' for one in drawing.slices(found.task.space, known, best))
    cards.append(_card("Slices", told, f'<div class="plots">{plots}</div>'))
    two = contour.pair(found.task.space, dict(found.importances))
    if two is not None:
        about = "The least loss of the judged trials at each point, linear in between. Yellow is little, violet much."
        title = html.escape(f"{two[0].name} × {two[1].name}")
        cards.append(_card(title, about, contour.contour(*two, rows, best)))
    return "".join(cards)


def _table(found: Result) -> str:
    names = [one.name for one in found.task.space]
    rest = [row for row in found.trials if row not in found.ranked]
    rows = [*found.ranked, *rest]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("trial", "loss", *names, "epochs", "time", "ended"))
    body = "".join(_row(row, names) for row in rows[:ROWS])
    caption = "Best first." + (f" The first {ROWS} of {len(rows)}." if len(rows) > ROWS else "")
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return _card("Trials", caption, f'<div class="scroll">{table}</div>')


def _row(row: Row, names: list[str]) -> str:
    loss = "" if math.isnan(row.loss) else f"{row.loss:.5g}"
    values = [spelled(row.found.get(name, "")) for name in names]
    ended = {"complete": "" if math.isfinite(row.loss) else "diverged", "pruned": "stopped"}.get(row.state, row.error)
    cells = [str(row.number), loss, *values, str(row.epochs), duration(row.seconds), ended or ""]
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
