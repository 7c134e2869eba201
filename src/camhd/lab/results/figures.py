"""The figures of the page: panels of lines, as SVG, each with the digest of the numbers that it shows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from ..records.files import write_with
from ..records.text import to_json
from ..report import Chart, Series
from ..report.curves import curves
from ..report.figures import slug
from ..report.group import Task

METRICS = ("valid_accuracy", "valid_loss", "train_loss")


@dataclass(frozen=True)
class Picture:
    """A figure of the page.

    Args:
        plan: to whose section it belongs.
        title: above it, and in the name of its file.
        charts: its panels.
    """

    plan: str
    title: str
    charts: Sequence[Chart]

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.plan}-{slug(self.title)}.svg"

    @property
    def digest(self) -> str:
        """Of the numbers that it shows; written into the file, so that an old figure is noticed."""
        text = to_json({"title": self.title, "charts": [asdict(chart) for chart in self.charts]})
        return hashlib.sha256(text.encode()).hexdigest()


def learning_curves(plan: str, task: Task) -> Picture:
    """Test accuracy and both losses by epoch: the mean over runs, and its standard error."""
    metrics = [metric for metric in task.metrics if metric.key in METRICS]
    found = [(method.name, curves(method, metrics)) for method in task.methods if method.shown]
    charts = [
        Chart(
            metric.title,
            "epoch",
            metric.title.lower(),
            [
                Series(name, made.epochs, [one.mean for one in values], [one.error for one in values])
                for name, made in found
                for values in (made.values[metric.key],)
            ],
            log_y=not metric.higher,
            percent=metric.percent,
        )
        for metric in metrics
    ]
    return Picture(plan, f"Learning curves, {task.name}", charts)


def draw(pictures: Sequence[Picture], folder: Path) -> list[Path]:
    """Write all figures, and remove those of an earlier page that are not among them."""
    from matplotlib import rc_context

    from ..report.drawing import panels

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    # Text stays text, and the same records give the same files.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "camhd", "axes.axisbelow": True, "path.simplify": False}):
        for picture in pictures:
            figure = panels(picture.title, picture.charts)
            path = folder / picture.file
            about = {"Date": None, "Creator": None, "Description": picture.digest}
            write_with(path, partial(figure.savefig, format="svg", metadata=about))
            written.append(path)
    for path in folder.glob("*.svg"):
        if path not in written:
            path.unlink()
    return written
