"""Packages that not everybody has."""

from __future__ import annotations

import importlib
from typing import Any


def needed(module: str, extra: str) -> Any:
    """A module of a package, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        package = module.partition(".")[0]
        if missing.name is None or missing.name.partition(".")[0] != package:
            raise
        raise ModuleNotFoundError(f"this needs {package}: pip install 'camhd[{extra}]'", name=package) from None
