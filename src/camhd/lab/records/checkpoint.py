"""What a run goes on from: written with torch, and read without running anything that is in it."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch


class CheckpointError(ValueError):
    """A run cannot go on from its checkpoint."""


def dump(state: dict[str, Any], file: BinaryIO) -> None:
    """Write a checkpoint; what the disk refuses is an `OSError`, which torch wraps in an error of its own."""
    try:
        torch.save(state, file)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint: tensors, numbers, words, lists and mappings, and nothing that can be run."""
    try:
        _require_unpacked(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(state, dict) or type(state.get("history")) is not int or state["history"] < 0:
            raise ValueError("it does not say how long the history was")
    except (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile, pickle.UnpicklingError) as error:
        raise CheckpointError(
            f"{str(path)!r} cannot be read, so the run cannot go on; give 'overwrite' to begin again. ({error})"
        ) from error
    return state


def _require_unpacked(path: Path) -> None:
    """Nothing is packed by torch, so a packed entry is not its own, and may be larger than all memory."""
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise ValueError(f"its entry {entry.filename!r} is packed")
