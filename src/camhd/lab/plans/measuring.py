"""Measurements: what is not a training run of the lab, but leaves a record too.

A measurement is a name and plain arguments, and its record one file, `<folder>/<id>/measurement.json`: what was
measured, with which numbers, on which machine. It is written whole or not at all, so a measurement that was killed is
simply made again, and one that is there is taken as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from ..choices import choose
from ..records import environment
from ..records.files import Lock, remove_parts, write
from ..records.text import from_json, plain, to_json
from ..train.seeds import seeded

FORMAT = 1
FILE = "measurement.json"
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Measurement:
    """What to measure.

    Args:
        kind: which function measures it; see `KINDS`.
        arguments: of that function; numbers, words and lists only.
    """

    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """A name for people, and a short hash of the arguments.

        >>> Measurement("regret", {"steps": 1000}).id
        'regret-steps-1000-...'
        """
        text = to_json({key: self.arguments[key] for key in sorted(self.arguments)})
        words = re.sub(r"[^a-z0-9.]+", "-", f"{self.kind}-{text}".lower()).strip("-.")[:60].strip("-.")
        return f"{words}-{hashlib.sha256(f'{self.kind}{text}'.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Measured:
    """A measurement and what came of it."""

    measurement: Measurement
    values: Values
    environment: Values = field(default_factory=dict)
    seconds: float = float("nan")


def read(folder: str | Path) -> list[Measured]:
    """All measurements in a folder, however deep they lie."""
    return [_read(path) for path in sorted(Path(folder).rglob(FILE))]


def measure(measurement: Measurement, folder: str | Path, kinds: Mapping[str, Callable[..., Values]]) -> Measured:
    """Measure, unless there is a record already."""
    choose("kind", measurement.kind, kinds)
    place = Path(folder) / measurement.id
    place.mkdir(parents=True, exist_ok=True)
    with Lock(place):
        remove_parts(place)
        if not (place / FILE).exists():
            began = perf_counter()
            values = calculate(measurement, kinds)
            made = Measured(measurement, values, environment(), round(perf_counter() - began, 6))
            write(place / FILE, to_json(as_dict(made), indent=1) + "\n")
    return _read(place / FILE)


def calculate(measurement: Measurement, kinds: Mapping[str, Callable[..., Values]]) -> Values:
    """What is measured, as a record holds it; nothing is written."""
    with seeded(0):  # the caller's random numbers stay as they were
        values = kinds[choose("kind", measurement.kind, kinds)](**measurement.arguments)
    made: Values = from_json(to_json(plain(values)))
    return made


def as_dict(made: Measured) -> dict[str, Any]:
    """As in `measurement.json`."""
    return {
        "format": FORMAT,
        "kind": made.measurement.kind,
        "arguments": dict(made.measurement.arguments),
        "values": made.values,
        "environment": made.environment,
        "time": {"seconds": made.seconds},
    }


def _read(path: Path) -> Measured:
    try:
        found = from_json(path.read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise ValueError(f"'format' must be {FORMAT}, got {found['format']!r}")
        return Measured(
            Measurement(found["kind"], found["arguments"]),
            found["values"],
            found["environment"],
            float(found["time"]["seconds"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{str(path)!r} cannot be read ({error}); remove it, and the measurement is made again."
        ) from None
