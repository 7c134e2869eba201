"""A record as tables of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .cases import CASES, RULES
from .record import Record
from .results import Entry, Failure, FirstStep, Share, Spell, StateSize, StepTime
from .timing import Spread

SPELL = ("quiet rounds", "GB/s")  # of which a row's figures are, and how fast memory was in them


@dataclass(frozen=True)
class Table:
    """A title, the names of the columns, the rows; the first `left` columns are words, the others numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 2


def tables(record: Record) -> list[Table]:
    """Every table that has something in it."""
    made = [
        *_step_tables("Step time", [r for r in record.of("steps") if isinstance(r, StepTime)]),
        *_growth_tables([r for r in record.of("growth") if isinstance(r, StepTime)]),
        _share_table([r for r in record.results if isinstance(r, Share)]),
        _memory_table([r for r in record.results if isinstance(r, StateSize)]),
        _first_step_table([r for r in record.results if isinstance(r, FirstStep)]),
        *_step_tables("Other packages", [r for r in record.of("peers") if isinstance(r, StepTime)]),
        Table("Packages", ("package", "version"), [(p.package, p.version or "not installed") for p in record.peers]),
        _failure_table(record.failures),
    ]
    return [table for table in made if table.rows]


def heading(record: Record) -> str:
    """On what it ran, in two lines."""
    found = record.environment
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items() if version)
    commit = f", commit {found.commit[:12]}{'+' * found.commit.endswith('+')}" if found.commit else ""
    load = "" if found.load is None else f", load {found.load:g} before the start"
    end = "" if record.complete else "\nInterrupted: what follows was measured before."
    return f"{found.processor}, {found.cores} cores, {found.threads} threads{load}\n{versions}{commit}{end}"


def _step_tables(title: str, results: Sequence[StepTime]) -> list[Table]:
    return [
        _ratio_table(f"{title}: {_title(own[0].model)}, {own[0].parameters:,} parameters", own, _rule)
        for own in _by(results, lambda r: (r.model, _against(r)))
    ]


def _growth_tables(results: Sequence[StepTime]) -> list[Table]:
    return [
        _ratio_table(f"Growth: one matrix, {_rule(own[0])}", own, lambda r: f"{r.parameters:,}", "parameters")
        for own in _by(results, lambda r: r.rule)
    ]


def _ratio_table(title: str, results: Sequence[StepTime], key: Callable[[StepTime], str], name: str = "class") -> Table:
    fullest_first = sorted(results, key=lambda r: -len(r.ratios))  # a baseline has no ratio to itself
    against = list(dict.fromkeys(label for result in fullest_first for label in result.ratios))
    rows = [
        (
            key(result),
            result.label,
            _milliseconds(result.seconds),
            *(_ratio(result.ratios[label]) if label in result.ratios else "" for label in against),
            *_spell(result.machine),
        )
        for result in results
    ]
    columns = (name, "optimizer", "ms [quartiles]", *(f"× {label}" for label in against), *SPELL)
    return Table(title, columns, rows)


def _share_table(results: Sequence[Share]) -> Table:
    rows = [
        (
            f"{_title(r.model)}, {r.batch}",
            _rule(r),
            r.label,
            _milliseconds(r.forward_backward),
            _milliseconds(r.step),
            f"{100 * r.share.median:.1f} % [{100 * r.share.low:.1f}, {100 * r.share.high:.1f}]",
            *_spell(r.machine),
        )
        for r in results
    ]
    columns = ("model, batch", "class", "optimizer", "forward and backward, ms", "step, ms", "step's share", *SPELL)
    return Table("Share of a training step", columns, rows, left=3)


def _memory_table(results: Sequence[StateSize]) -> Table:
    rows = [(_title(r.model), _rule(r), r.label, f"{r.bytes_per_parameter:.3f}") for r in results]
    return Table("Optimizer state", ("model", "class", "optimizer", "bytes per parameter"), rows, left=3)


def _first_step_table(results: Sequence[FirstStep]) -> Table:
    rows = [
        (
            _title(r.model),
            _rule(r),
            r.label,
            r.cache,
            *(_milliseconds(spread) for spread in (r.build, r.first, r.later)),
        )
        for r in results
    ]
    columns = ("model", "class", "optimizer", "Numba cache", "build, ms", "first step, ms", "later step, ms")
    return Table("First step of a new process", columns, rows, left=4)


def _failure_table(failures: Sequence[Failure]) -> Table:
    rows = [(f.what, _title(f.model), _rule(f), f.label, f.error) for f in failures]
    return Table("Not measured", ("what", "model", "class", "optimizer", "error"), rows, left=5)


def _by(results: Iterable[StepTime], key: Callable[[StepTime], object]) -> Iterable[list[StepTime]]:
    groups: dict[object, list[StepTime]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return groups.values()


def _against(result: StepTime) -> str:
    """Whose optimizers it is measured against; a table has one kind of baseline only."""
    return next(iter(result.ratios), "torch").split()[0]


def _title(model: str) -> str:
    return CASES[model].title if model in CASES else model


def _rule(result: Entry) -> str:
    return RULES[result.rule].title if result.rule in RULES else result.rule


def _spell(machine: Spell) -> tuple[str, str]:
    return f"{machine.quiet} of {machine.rounds}", f"{machine.memory / 1e9:.0f}"


def _milliseconds(spread: Spread) -> str:
    return f"{_figures(1e3 * spread.median)} [{_figures(1e3 * spread.low)}, {_figures(1e3 * spread.high)}]"


def _figures(value: float) -> str:
    """Three figures, but never an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(spread: Spread) -> str:
    return f"{spread.median:.2f} [{spread.low:.2f}, {spread.high:.2f}]"
