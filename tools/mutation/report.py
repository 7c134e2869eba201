"""The score, file by file, and every survivor by name with the reason why it may live."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .mutants import Mutant

SURVIVORS = Path(__file__).with_name("survivors.txt")
DEAD = ("killed", "timeout")
Records = Mapping[str, Mapping[str, Any]]


def read_reasons(path: Path = SURVIVORS) -> dict[str, str]:
    """The reason of each survivor: lines that begin with `# ` say why the mutants below them cannot be told apart."""
    found: dict[str, str] = {}
    reason: list[str] = []
    fresh = True
    for line in path.read_text().splitlines():
        if line.startswith("# "):
            reason = [line[2:]] if fresh else [*reason, line[2:]]
            fresh = False
        elif line.strip():
            found[line.strip()] = " ".join(reason)
            fresh = True
        else:
            fresh = True
    return found


def status(mutant: Mutant, known: Records, reasons: Mapping[str, str]) -> str:
    """`killed`, `timeout`, `survived`, `unreached`, `justified`, or `open` where there is no result for this code."""
    record = known.get(mutant.key)
    if record is None or record["stamp"] != mutant.stamp:
        return "open"
    found = str(record["status"])
    return "justified" if found not in DEAD and mutant.key in reasons else found


def counts(found: Sequence[Mutant], known: Records, reasons: Mapping[str, str]) -> dict[str, Counter[str]]:
    """How many of each file came to which end."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant in found:
        table[mutant.file][status(mutant, known, reasons)] += 1
    return table


def rows(table: Mapping[str, Counter[str]]) -> list[tuple[str, ...]]:
    """A row for each file and one for all: tried, killed, justified, surviving, both scores, not tried."""
    total = sum(table.values(), Counter[str]())
    found = []
    for name, count in [*table.items(), ("all", total)]:
        dead, alive = sum(count[s] for s in DEAD), count["survived"] + count["unreached"]
        tried = dead + alive + count["justified"]
        scores = [f"{100 * dead / of:.1f} %" if of else "-" for of in (tried, dead + alive)]
        found.append((name, *map(str, (tried, dead, count["justified"], alive)), *scores, str(count["open"])))
    return found


HEADS = ("file", "tried", "killed", "justified", "survivors", "killed of all", "without justified", "not tried")


def summary(found: Sequence[Mutant], known: Records, reasons: Mapping[str, str]) -> str:
    """For the terminal."""
    table = rows(counts(found, known, reasons))
    lines = [f"{name:48}" + "".join(f"{cell:>18}" for cell in cells) for name, *cells in [HEADS, *table]]
    alive = [m for m in found if status(m, known, reasons) in ("survived", "unreached")]
    lines += ["", *(f"{status(m, known, reasons):10}{m.line:4d} {m.key}" for m in alive)]
    stale = sorted(reasons.keys() - {mutant.key for mutant in found})
    return "\n".join([*lines, *(f"no such mutant: {key}" for key in stale)])


def report(found: Sequence[Mutant], known: Records, reasons: Mapping[str, str]) -> str:
    """The tables of docs/mutation.md."""
    lines = ["| " + " | ".join(HEADS) + " |", "|---|" + "--:|" * (len(HEADS) - 1)]
    for name, *cells in rows(counts(found, known, reasons)):
        lines.append(
            "| " + " | ".join([f"`{name.removeprefix('src/camhd/')}`" if "/" in name else name, *cells]) + " |"
        )
    by_reason: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in found:
        end = status(mutant, known, reasons)
        if end in ("survived", "unreached"):
            by_reason["No reason found: a test is missing."].append(mutant)
        elif end == "justified":
            by_reason[reasons[mutant.key]].append(mutant)
    for reason, mutants in by_reason.items():
        lines += ["", f"**{reason}**", ""]
        lines += [
            f"- `{m.file.removeprefix('src/camhd/')}`, `{m.scope or 'module'}`: ``{_change(m)}``" for m in mutants
        ]
    return "\n".join(lines) + "\n"


def _change(mutant: Mutant) -> str:
    return mutant.key.split(" :: ", 2)[2]
