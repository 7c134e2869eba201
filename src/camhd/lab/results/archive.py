"""A file with the finished records of a plan: lines of JSON, compressed.

The first line says what it is; every other line is a run (`config`, `history`, `result`, `whole`) or a measurement, in
the order of their ids. Equal records make equal bytes. `whole` is the SHA-256 of the whole history without its times,
as it was before it was thinned out: a run that is repeated can be compared with all of it.
"""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..plans.measuring import Measured, Measurement
from ..records import Run, RunConfig
from ..records.files import write_with
from ..records.run import run_from_lines
from ..records.text import from_json, to_json

FORMAT = 1
SUFFIX = ".jsonl.xz"
WHOLE = "whole"
LARGEST = 1 << 30  # bytes, unpacked; nothing that a plan writes comes near it
_PRESET = 9 | lzma.PRESET_EXTREME

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Archive:
    """The finished records of a plan at a scale.

    Args:
        plan: its name.
        scale: "cpu", "paper" or "smoke".
        lines: one for each record, by its id.
    """

    plan: str
    scale: str
    lines: Mapping[str, Line] = field(default_factory=dict)

    @property
    def runs(self) -> list[Run]:
        """The training runs, in the order of their ids."""
        return [run_of(line) for _, line in sorted(self.lines.items()) if "config" in line]

    @property
    def measured(self) -> list[Measured]:
        """The measurements, in the order of their ids."""
        return [measured_of(line) for _, line in sorted(self.lines.items()) if "config" not in line]

    def text(self) -> str:
        """What the file says, before it is compressed."""
        head = {"format": FORMAT, "plan": self.plan, "scale": self.scale, "records": len(self.lines)}
        return "".join(f"{to_json(line)}\n" for line in (head, *(line for _, line in sorted(self.lines.items()))))


def path_of(folder: str | Path, plan: str, scale: str) -> Path:
    """Where the archive of a plan lies.

    >>> path_of("results", "ffnn", "cpu").as_posix()
    'results/ffnn-cpu.jsonl.xz'
    """
    return Path(folder) / f"{plan}-{scale}{SUFFIX}"


def read(path: str | Path) -> Archive:
    """The archive in a file.

    Raises:
        ValueError: It is damaged, or another version of camhd has written it.
    """
    path = Path(path)
    try:
        lines = [from_json(line) for line in _text(path).splitlines()]
        head = lines[0]
        if head["format"] != FORMAT:
            raise ValueError(f"'format' must be {FORMAT}, got {head['format']!r}")
        if head["records"] != len(lines) - 1:
            raise ValueError(f"it should have {head['records']} records, but has {len(lines) - 1}")
        return Archive(str(head["plan"]), str(head["scale"]), {_id(line): line for line in lines[1:]})
    except (lzma.LZMAError, EOFError, ValueError, TypeError, KeyError, IndexError) as error:
        raise ValueError(
            f"{str(path)!r} is no archive of results ({error}); get it back from the project's history, or pack the "
            "records again."
        ) from None


def read_all(folder: str | Path) -> list[Archive]:
    """All archives of a folder, in the order of their names."""
    return [read(path) for path in sorted(Path(folder).glob(f"*{SUFFIX}"))]


def write(path: Path, archive: Archive) -> None:
    """Replace an archive; whoever reads it meanwhile sees the old or the new one."""
    data = lzma.compress(archive.text().encode(), format=lzma.FORMAT_XZ, preset=_PRESET)
    write_with(path, lambda file: file.write(data))


def run_of(line: Line) -> Run:
    """A run as it was packed; what was thinned out is not there."""
    return run_from_lines(config_of(line), line["history"], line["result"])


def config_of(line: Line) -> RunConfig:
    """The configuration of a packed run."""
    return RunConfig.from_json(to_json(line["config"]))


def measured_of(line: Line) -> Measured:
    """A packed measurement."""
    made = Measurement(line["kind"], line["arguments"])
    return Measured(made, line["values"], line["environment"], float(line["time"]["seconds"]))


def untimed(lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
    """The lines of a history without their times: what must be equal when a run is repeated."""
    yield from ({key: value for key, value in line.items() if key != "time"} for line in lines)


def digest(run: Run) -> str:
    """The SHA-256 of a run's whole history without its times: how it began, its epochs, its rates."""
    made = hashlib.sha256()
    for line in untimed([run.start, *run.epochs, *run.rates]):
        made.update(f"{to_json(line)}\n".encode())
    return made.hexdigest()


def _text(path: Path) -> str:
    """Unpacked, but never more than can be meant."""
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    data = unpacker.decompress(path.read_bytes(), LARGEST)
    if not unpacker.eof:
        raise ValueError("it is cut off" if unpacker.needs_input else f"it is larger than {LARGEST:,} bytes")
    return data.decode()


def _id(line: Line) -> str:
    """The name of a record; its configuration decides it, so that a changed one is noticed."""
    if "config" not in line:
        return Measurement(line["kind"], line["arguments"]).id
    made = config_of(line).id
    if line["config"]["id"] != made:
        raise ValueError(f"the configuration of {line['config']['id']!r} was changed: it would be {made!r}")
    return made
