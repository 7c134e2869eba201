"""Where the `camhd` command starts."""

from __future__ import annotations

import io
import signal
import sys


def main() -> None:
    """Run the command line, or say what it needs."""
    try:
        from .commands import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        raise SystemExit(f"The camhd command needs {missing.name}: pip install 'camhd[cli]'") from None
    except KeyboardInterrupt:  # while torch was being imported: there is nothing to say about it yet
        raise SystemExit(128 + signal.SIGINT) from None
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without "±" shows "?" in its place
    try:
        app(prog_name="camhd")
    except OSError as error:
        raise SystemExit(_told(error)) from None


def _told(error: OSError) -> str:
    """What the disk refused, in a sentence; any other error is raised again."""
    from ..lab.records.files import REMEDIES, DiskError

    if isinstance(error, DiskError):
        return str(error)
    if error.errno not in REMEDIES or error.filename is None:
        raise error
    return f"{error.filename!r} cannot be used: {error.strerror}. {REMEDIES[error.errno]}."
