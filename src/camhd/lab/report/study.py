"""All that goes into one report, read and sorted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..records import Run
from .group import Method, Task, tasks
from .section import Section
from .source import Entry, Source, entries
from .summary import Published, Table, table


@dataclass(frozen=True)
class Study:
    """Runs, sorted into tasks and methods.

    Attributes:
        title: Of the page.
        tasks: One table and one set of curves each.
        problems: Runs that diverged, failed, are unfinished or could not be read.
        published: Numbers of others, to be put beside ours.
        remarks: Paragraphs below the title.
        sections: What stands above the tasks.
    """

    title: str
    tasks: Sequence[Task]
    problems: Sequence[Entry] = ()
    published: Sequence[Published] = ()
    remarks: Sequence[str] = ()
    sections: Sequence[Section] = ()

    @property
    def methods(self) -> list[Method]:
        """Of all tasks."""
        return [method for task in self.tasks for method in task.methods]

    @property
    def runs(self) -> int:
        """How many there are, damaged ones included."""
        return sum(len(method.runs) for method in self.methods) + sum(not run.config for run in self.problems)

    @property
    def tables(self) -> list[Table]:
        """The summary of every task."""
        return [table(task, self.published) for task in self.tasks]

    @property
    def facts(self) -> str:
        """How much there is, and from when."""
        days = sorted({run.started[:10] for method in self.methods for run in method.runs if run.started})
        counts = [(self.runs, "run"), (len(self.methods), "method"), (len(self.tasks), "task")]
        words = [f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counts if count]
        words = words or ["no training runs"]
        return " · ".join([*words, *([" to ".join(dict.fromkeys((days[0], days[-1])))] if days else [])])


def study(
    runs: Source | Iterable[Source],
    title: str | None = None,
    first: str | None = None,
    published: Sequence[Published] = (),
    remarks: Sequence[str] = (),
) -> Study:
    """Read runs and sort them.

    Args:
        runs: Folders of runs, at any depth, or runs in memory.
        title: Of the page.
        first: The method that the others are compared with, by label or by optimizer; by default the one that was
            started first.
        published: Numbers of others, to be put beside ours.
        remarks: Paragraphs below the title.

    Raises:
        ValueError: There is no run at all, or none of the method `first`.
    """
    # Of runs that started in the same second, the one with the shorter name is the simpler one: adam, adam-hd.
    found = sorted(entries(runs), key=lambda run: (run.started or "~", len(str(run.config.get("optimizer", "")))))
    if not found:
        raise ValueError(
            f"'runs' must hold at least one run, but there is no config.json in {_named(runs)}; give a folder that "
            "'camhd train' or 'camhd compare' wrote."
        )
    sorted_out = tasks([run for run in found if run.config], first)
    names = dict.fromkeys(name for task in sorted_out for method in task.methods for name in method.names)
    if first is not None and first not in names:
        raise ValueError(
            f"'first' must name a method of these runs, got {first!r}; there are {', '.join(map(repr, names))}."
        )
    problems = [run for run in found if run.reason or run.status not in ("finished", "stopped")]
    return Study(title or "Optimizers compared", sorted_out, problems, published, remarks)


def _named(runs: Source | Iterable[Source]) -> str:
    given = [runs] if isinstance(runs, (str, Path, Run)) else list(runs)
    return ", ".join(repr(str(run)) for run in given if not isinstance(run, Run)) or "what was given"
