"""Running a single record again, and saying whether it came out the same."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import records
from ..plans import measuring
from ..plans.measuring import Measured
from ..plans.running import KINDS
from ..records import Run, environment
from ..records.read import CONFIG
from ..records.text import to_json
from ..train import Watcher, again, execute
from .archive import SUFFIX, WHOLE, Line, digest, measured_of, run_of, untimed
from .archive import read as read_archive
from .commits import stand_ins
from .sources import Sources, of_commit

SHOWN = 5  # differences that are named one by one
COMPILED = (
    "kernels were compiled just now, and may differ in the last bits from those that are kept on the disk: if anything "
    "differs, give the same command again"
)
TIMED = ("train_seconds", "adam_seconds", "cam_seconds", "extra_share")  # of a measurement of costs


@dataclass(frozen=True)
class Kept:
    """A record that can be repeated.

    Args:
        id: its name.
        where: where it was found.
        run: the run, thinned out or not; None for a measurement.
        whole: the digest of its whole history.
        measured: the measurement; None for a run.
    """

    id: str
    where: str
    run: Run | None = None
    whole: str = ""
    measured: Measured | None = None

    @property
    def environment(self) -> Mapping[str, Any]:
        """On what it ran."""
        if self.measured is not None:
            return self.measured.environment
        assert self.run is not None
        found: Mapping[str, Any] = (self.run.result or {}).get("environment", {})
        return found

    @property
    def threads(self) -> int:
        """Threads of the CPU that it used; other numbers of them may add numbers up in another order."""
        return int(self.environment.get("threads", 1))


@dataclass(frozen=True)
class Repeated:
    """What came out.

    Args:
        id: of the record.
        compared: how many numbers were compared.
        differences: where the two differ, in words; empty if they are equal.
        elsewhere: what else is different about machine and versions, in words.
        sources: the commit whose sources it was repeated with; None for the present ones.
    """

    id: str
    compared: int
    differences: Sequence[str]
    elsewhere: Sequence[str] = ()
    sources: str | None = None

    @property
    def equal(self) -> bool:
        """Whether everything but time came out the same."""
        return not self.differences


def find(name: str, results: str | Path = "results") -> Kept:
    """A record by its folder, its id, or any part of an id that no other has.

    Args:
        name: the folder of a record, or (a part of) the id of one that is packed.
        results: the folder of archives, or one of them.

    Raises:
        ValueError: There is no such record, or there are several.
    """
    folder = Path(name)
    if (folder / CONFIG).is_file():
        run = records.read(folder)
        if run.result is None:
            raise ValueError(f"the run in {name!r} is {run.status}; only a finished one can be compared with.")
        return Kept(run.config.id, name, run, str(run.result.get(WHOLE) or digest(run)))
    if (folder / measuring.FILE).is_file():
        (made,) = measuring.read(folder)
        return Kept(made.measurement.id, name, measured=made)
    found = {one.id: one for one in _packed(results, name)}
    where = str(Path(results).absolute())  # of a relative one nobody would know where that was looked for
    chosen = found.get(name) or (next(iter(found.values())) if len(found) == 1 else None)
    if chosen is not None:
        return chosen
    if not found:
        raise ValueError(f"there is no record {name!r} in {where!r}; 'camhd results list' shows what is there.")
    some = ", ".join(sorted(found)[:SHOWN])
    raise ValueError(f"{len(found)} records in {where!r} have {name!r} in their id ({some}, …); give more of it.")


def _packed(results: str | Path, name: str) -> Iterator[Kept]:
    place = Path(results)
    for path in [place] if place.is_file() else sorted(place.glob(f"*{SUFFIX}")):
        for own, line in read_archive(path).lines.items():
            if name in own:
                yield _kept(own, str(path), line)


def _kept(name: str, where: str, line: Line) -> Kept:
    if "config" in line:
        return Kept(name, where, run_of(line), str(line[WHOLE]))
    return Kept(name, where, measured=measured_of(line))


def repeat(
    kept: Kept, folder: str | Path | None = None, watcher: Watcher | None = None, sources: Sources | None = None
) -> Repeated:
    """Run a record again and compare. The caller sets the number of threads, `kept.threads`.

    Args:
        kept: the record.
        folder: where the new record is written; None does not keep it.
        watcher: is told how it goes, with the present sources.
        sources: other sources than the present ones, such as those that it was made with (`sources_of`).

    Raises:
        ValueError: The run cannot be repeated: its data set is another one here, for example.
    """
    if kept.measured is not None:
        asked = kept.measured.measurement
        own = _values(measuring.calculate(asked, KINDS) if sources is None else sources.measure(asked))
        theirs = _values(kept.measured.values)
        pairs = [(name, theirs.get(name), own.get(name)) for name in dict.fromkeys((*theirs, *own))]
        return _repeated(kept, len(pairs), _different(pairs), sources)
    made = _trained(kept, folder, watcher, sources)
    assert kept.run is not None
    pairs = list(_pairs(kept.run, made))
    different = _different(pairs)
    if kept.whole and not different and digest(made) != kept.whole:
        different = ["a line of the history that was left out when it was packed"]
    return _repeated(kept, len(pairs), different, sources)


def sources_of(kept: Kept, results: str | Path = "results") -> Sources | None:
    """The sources that a record was made with, or that stand in for them; None if there are none or they are these.

    Args:
        kept: the record.
        results: the folder of archives, which knows what stands in for commits that are lost.

    Raises:
        ValueError: The disk does not take them, or what stands in for them cannot be read.
    """
    commit = kept.environment.get("commit")
    return of_commit(stand_ins(results).get(str(commit), commit))


def _trained(kept: Kept, folder: str | Path | None, watcher: Watcher | None, sources: Sources | None) -> Run:
    assert kept.run is not None
    if sources is None:
        return execute(again(kept.run.config), folder, overwrite=folder is not None, watcher=watcher)
    with tempfile.TemporaryDirectory() as place:
        return sources.train(kept.run.config, folder or place)


def _repeated(kept: Kept, compared: int, different: Sequence[str], sources: Sources | None) -> Repeated:
    commit = None if sources is None else sources.commit
    return Repeated(kept.id, compared, different, _elsewhere(kept, commit), commit)


def _values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _flat("", values) if name.split(".")[0] not in TIMED}


def _pairs(kept: Run, made: Run) -> Iterator[tuple[str, Any, Any]]:
    """Everything that was kept, beside what came out: place, then, now."""
    assert kept.result is not None
    now = made.result or {}
    for name in ("status", "epochs", "steps", "final", "best"):
        yield from _beside(name, kept.result.get(name), now.get(name))
    yield from _beside("start", *(next(untimed([run.start])) for run in (kept, made)))
    for kind in ("epoch", "step"):
        olds, news = (run.epochs if kind == "epoch" else run.rates for run in (kept, made))
        lines = {line[kind]: line for line in untimed(news)}
        for line in untimed(olds):
            name = f"epoch {line['epoch']}" if kind == "epoch" else f"rates at step {line['step']}"
            yield from _beside(name, line, lines.get(line[kind]))


def _beside(name: str, then: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """Value by value; what only the new record has (histograms) was left out when the old one was packed."""
    values = dict(_flat("", now))
    for place, value in _flat("", then):
        yield f"{name}{': ' if place else ''}{place}", value, values.get(place)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (Mapping, list, tuple)):
        inner = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, one in inner:
            yield from _flat(f"{name}.{key}" if name else str(key), one)
    else:
        yield name, value


def _different(pairs: Sequence[tuple[str, Any, Any]]) -> list[str]:
    found = [f"{name}: {then!r} then, {now!r} now" for name, then, now in pairs if to_json(then) != to_json(now)]
    more = len(found) - SHOWN
    return [*found[:SHOWN], f"and {more} more"] if more > 0 else found


def _elsewhere(kept: Kept, sources: str | None) -> list[str]:
    here, then = environment() | ({} if sources is None else {"commit": sources}), kept.environment
    found = [
        f"{name} {then[name]} then, {here[name]} now" for name in then if name in here and then[name] != here[name]
    ]
    return [*found, COMPILED] if sources is None and compiled_here() else found


def compiled_here() -> bool:
    """Whether this process has compiled a step itself, which it does only where another process could not."""
    entries = sys.modules.get("camhd.backends.fused.entries")  # not imported: Numba need not be there
    return entries is not None and bool(entries.compiled_here())
