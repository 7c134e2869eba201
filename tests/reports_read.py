"""What a report's page holds, read back without the code that wrote it."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

# A label that would like to be a program, Markdown, mathematics, or the end of a line.
NASTY = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'> & \"$_x_$\" \u2028"


class Elements(HTMLParser):
    """A page's elements with their attributes, and the text inside each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._last = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._last = tag

    def handle_data(self, data: str) -> None:
        self.texts[self._last] = self.texts.get(self._last, "") + data


def embedded(path: Path) -> dict[str, Any]:
    """The data that the page's program reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def strings(data: Any) -> Iterator[str]:
    """Every text in some data."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from (key, *strings(value))
    elif isinstance(data, list):
        for value in data:
            yield from strings(value)


def unpacked(packed: dict[str, Any]) -> list[list[float]]:
    """What the page's program does with a packed matrix, written once more."""
    codes = struct.unpack(f"<{packed['rows'] * packed['columns']}H", base64.b64decode(packed["data"]))
    step = (packed["high"] - packed["low"]) / 65533
    values = [math.nan if c == 0 else -math.inf if c == 1 else packed["low"] + (c - 2) * step for c in codes]
    if packed["log"]:
        values = [10**value if math.isfinite(value) else value for value in values]
    return [values[i * packed["columns"] : (i + 1) * packed["columns"]] for i in range(packed["rows"])]
