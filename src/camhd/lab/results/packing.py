"""From folders of records to an archive, and back.

Packing can be repeated as records come in: what an archive has stays as it is, what is new is added, and nothing is
ever left out because it is no longer in the folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import records
from ..plans import find as find_plan
from ..plans import measuring
from ..plans.grid import key, key_of
from ..plans.measuring import Measured
from ..plans.plan import Plan
from ..records import metrics_of
from ..records.files import Lock, write
from ..records.read import CONFIG, HISTORY, RESULT, read_history
from ..records.text import from_json, plain, to_json
from ..report.source import COUNTED, thinned
from .archive import WHOLE, Archive, Line, config_of, digest, path_of, untimed
from .archive import read as read_archive
from .archive import write as write_archive

EPOCHS, RATES = 40, 26  # lines of each kind that are kept, and the last one
FEW = 4  # of each kind, of a plan whose pages show no single run


@dataclass
class Outcome:
    """What packing did.

    Args:
        path: of the archive.
        added: records that are new in it.
        known: records that it had already.
        unfinished: what is not finished, or is damaged, in words; packed when it is.
        others: records that belong to no cell of the plan at this scale; left alone.
        total: records in the archive now.
        wanted: records that the plan asks for.
    """

    path: Path
    added: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    total: int = 0
    wanted: int = 0


def pack(name: str, folder: str | Path, into: str | Path = "results", scale: str = "cpu") -> Outcome:
    """Add the finished records of a plan to its archive.

    Args:
        name: of the plan.
        folder: of its records, as `camhd reproduce` leaves them.
        into: the folder of archives; made if it is not there.
        scale: of the records.

    Raises:
        ValueError: A record's configuration was changed after it was made, two records are of one run, data sets of
            one name differ, or a run was packed before with other numbers. Nothing is written then.
    """
    plan = find_plan(name)
    into = Path(into)
    wanted = {key_of(item) for item in plan.items(scale)}
    path = path_of(into, plan.name, scale)
    outcome = Outcome(path, wanted=len(wanted) + len(plan.measurements.get(scale, ())))
    made = [*_runs(folder, wanted, outcome, plan.details), *_measurements(folder, plan, scale, outcome)]
    into.mkdir(parents=True, exist_ok=True)
    with Lock(into):
        lines = dict(_existing(path, plan, scale).lines)
        for line in made:
            _add(lines, line, outcome)
        _check_runs(lines)
        outcome.total = len(lines)
        if outcome.added:
            write_archive(path, Archive(plan.name, scale, lines))
    return outcome


def unpack(archive: Archive, folder: str | Path) -> list[Path]:
    """Write packed records as folders that `camhd show` and `camhd report` can read; those that are there stay."""
    written = []
    for name, line in sorted(archive.lines.items()):
        place = Path(folder) / name
        place.mkdir(parents=True, exist_ok=True)
        with Lock(place):
            if "config" not in line:
                if not (place / measuring.FILE).exists():
                    write(place / measuring.FILE, to_json(line, indent=1) + "\n")
                    written.append(place)
            elif not (place / CONFIG).exists():
                history = "".join(f"{to_json(one)}\n" for one in line["history"])
                write(place / HISTORY, history, last=False)
                result = {**line["result"], WHOLE: line[WHOLE]}  # what has been thinned out is not thinned out again
                write(place / RESULT, to_json(result, indent=1) + "\n", last=False)
                write(place / CONFIG, config_of(line).to_json())  # without it there is no run yet
                written.append(place)
    return written


def _existing(path: Path, plan: Plan, scale: str) -> Archive:
    if not path.exists():
        return Archive(plan.name, scale)
    found = read_archive(path)
    if (found.plan, found.scale) != (plan.name, scale):
        raise ValueError(
            f"{str(path)!r} holds {found.plan!r} at the scale {found.scale!r}; give it its own name again."
        )
    return found


def _runs(folder: str | Path, wanted: set[str], outcome: Outcome, details: bool) -> Iterator[Line]:
    """The finished runs of the plan, thinned out."""
    for place in records.find(folder):
        try:
            run = records.read(place)
        except (OSError, ValueError) as error:
            outcome.unfinished.append(str(error))
            continue
        _check_config(place, run.config.id)
        if key(run.config.as_dict()) not in wanted:
            outcome.others.append(run.config.id)
        elif run.status not in COUNTED or run.problems:
            outcome.unfinished.append("; ".join((f"{run.config.id}: {run.status}", *run.problems)))
        else:
            yield _line(place, run, (EPOCHS, RATES) if details else (FEW, FEW))


def _line(place: Path, run: records.Run, keep: tuple[int, int]) -> Line:
    """A run as it is packed, with so many lines of epochs and of rates."""
    assert run.result is not None
    history = read_history(place / HISTORY, [])
    epochs, rates = ([line for line in history if line["kind"] == kind] for kind in ("epoch", "rates"))
    last = metrics_of(epochs[-1]) if epochs else {}
    if not _all_epochs(run, epochs) or to_json(last) != to_json(run.result["final"]):
        raise ValueError(
            f"the history of {str(place)!r} is not that of its result ({len(epochs)} of {run.result['epochs']} "
            "epochs); run it again."
        )
    result = dict(run.result)
    whole = result.pop(WHOLE, "")
    left_out: set[int] = set()
    if not whole:
        left_out = {id(line) for line in (*epochs, *rates)}
        left_out -= {id(line) for line in (*thinned(epochs, keep[0]), *thinned(rates, keep[1]))}
    return {
        "config": run.config.as_dict(),
        "history": [_short(line) for line in history if id(line) not in left_out],
        "result": result,
        WHOLE: whole or digest(run),
    }


def _all_epochs(run: records.Run, epochs: list[dict[str, Any]]) -> bool:
    """Whether the history has every epoch; one that was packed and unpacked has some, and the last."""
    assert run.result is not None
    last = epochs[-1]["epoch"] if epochs else 0
    return bool(last == run.result["epochs"] and (WHOLE in run.result or len(epochs) == last))


def _short(line: Line) -> dict[str, Any]:
    """A line of a history without what no page shows: histograms, and all times but the epoch's."""
    short = dict(line)
    if "time" in line:
        short["time"] = {"seconds": line["time"]["seconds"]}
    if line.get("rates"):
        short["rates"] = {
            level: {name: value for name, value in found.items() if name != "histogram"}
            for level, found in line["rates"].items()
        }
    return short


def _measurements(folder: str | Path, plan: Plan, scale: str, outcome: Outcome) -> Iterator[Line]:
    wanted = {one.id for one in plan.measurements.get(scale, ())}
    for one in measuring.read(folder):
        if one.measurement.id in wanted:
            yield _measured_line(one)
        else:
            outcome.others.append(one.measurement.id)


def _measured_line(one: Measured) -> Line:
    made: dict[str, Any] = plain(measuring.as_dict(one))
    return made


def _check_config(place: Path, made: str) -> None:
    """A configuration that was changed no longer has the id that it was given."""
    written = from_json((place / CONFIG).read_text(encoding="utf-8")).get("id")
    if written != made:
        raise ValueError(
            f"the configuration in {str(place)!r} was changed after the run: it says {written!r}, and would now be "
            f"{made!r}; run it again."
        )


def _add(lines: dict[str, Line], line: Line, outcome: Outcome) -> None:
    name = str(line["config"]["id"]) if "config" in line else measured_id(line)
    before = lines.get(name)
    if before is None:
        lines[name] = from_json(to_json(line))
        outcome.added.append(name)
        return
    if "config" in line and not _same(before, line):
        raise ValueError(
            f"{name!r} was packed before with other numbers, so one of the two is not what its configuration says; "
            "see what 'camhd rerun' gives, and remove the wrong one."
        )
    outcome.known.append(name)


def measured_id(line: Line) -> str:
    """The id of a packed measurement."""
    return measuring.Measurement(line["kind"], line["arguments"]).id


def _same(before: Line, now: Line) -> bool:
    """Whether two records of one run have the same numbers; times and machines may differ."""
    decides = ("status", "epochs", "steps", "final", "best")
    results = [to_json({name: line["result"].get(name) for name in decides}) for line in (before, now)]
    histories = [[to_json(one) for one in untimed(line["history"])] for line in (before, now)]
    return results[0] == results[1] and histories[0] == histories[1] and before[WHOLE] == now[WHOLE]


def _check_runs(lines: Mapping[str, Line]) -> None:
    """One record for each run, and one data set for each name."""
    prints: dict[str, dict[str, str]] = {}
    runs: dict[str, str] = {}
    for name, line in lines.items():
        if "config" not in line:
            continue
        config = line["config"]
        other = runs.setdefault(key(config), name)
        if other != name:
            raise ValueError(
                f"{other!r} and {name!r} are records of the same run of the plan, and would count twice; remove one."
            )
        prints.setdefault(config["data"], {}).setdefault(config["fingerprint"], name)
    for data, found in prints.items():
        if len(found) > 1:
            first, second = list(found.values())[:2]
            raise ValueError(
                f"the data {data!r} of {first!r} and of {second!r} are not the same; pack runs on one copy only."
            )
