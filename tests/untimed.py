"""Records without their times: what must be equal, byte for byte, when a run is repeated or resumed."""

from __future__ import annotations

import re
from pathlib import Path


def untimed(folder: Path) -> dict[str, bytes]:
    """All files of a run; every object called "time" is emptied."""
    return {path.name: re.sub(rb'"time": ?\{[^{}]*\}', b'"time":{}', path.read_bytes()) for path in folder.iterdir()}
