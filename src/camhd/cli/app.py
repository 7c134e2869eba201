"""Where the `camhd` command starts."""

from __future__ import annotations

import signal


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
    app(prog_name="camhd")
