"""Where the `camhd` command starts."""

from __future__ import annotations


def main() -> None:
    """Run the command line, or say what it needs."""
    try:
        from .commands import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        raise SystemExit(f"The camhd command needs {missing.name}: pip install 'camhd[cli]'") from None
    app(prog_name="camhd")
