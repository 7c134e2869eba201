"""Runs a file of examples/, or the examples of a page, as a user would, but within the test's process."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(name: str, **options: Any) -> Any:
    """What its `main` returns."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main(**options)


def blocks(page: str, needs: str = "") -> list[str]:
    """The Python examples of a page that need nothing special, or (after the set-up) those that need this."""
    text = (EXAMPLES.parent / "docs" / page).read_text(encoding="utf-8")
    found = re.findall(r"(?:^<!-- (\w+) -->\n)?^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    chosen = [code for mark, code in found if mark == needs]
    assert chosen
    return [found[0][1], *chosen] if needs else chosen


def run_blocks(page: str, needs: str = "") -> dict[str, Any]:
    """Runs them in one namespace, in order."""
    namespace: dict[str, Any] = {}
    for number, code in enumerate(blocks(page, needs), start=1):
        exec(compile(code, f"{page}, Python example {number}", "exec"), namespace)
    return namespace
