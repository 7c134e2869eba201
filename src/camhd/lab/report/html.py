"""The page as one file: template, style, program and data put together.

Nothing in the file asks for anything from the network. Its content security policy says so to the browser, and lets
no program run but this one, whose hash it gives.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

# In this order: each uses what is defined above it.
SCRIPTS = (
    *("basics", "scales", "colours", "link", "axes", "plot", "lines", "heat", "table"),
    *("curves", "panels", "weights", "rates", "runs", "sections", "page"),
)


def render(data: Mapping[str, Any], facts: str, tables: str, version: str) -> str:
    """Put the page together.

    Args:
        data: What the program draws.
        facts: The line below the title.
        tables: What is shown where JavaScript is switched off.
        version: Of camhd.
    """
    program = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    style, script = f"\n{_asset('style.css')}", f'"use strict";\n(() => {{\n{program}\n}})();\n'
    parts = {
        "policy": f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}",
        "version": html.escape(version),
        "title": html.escape(str(data["title"])),
        "facts": html.escape(facts),
        "tables": html.escape(tables),
        "style": style,
        "script": script,
        "data": embedded(data),
    }
    # All at once: what was put in is never looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def embedded(data: Mapping[str, Any]) -> str:
    r"""JSON that can stand inside a script element: nothing in it ends the element or begins a comment.

    >>> embedded({"label": "</script><!--"})
    '{"label":"\\u003c/script\\u003e\\u003c!--"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate({ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"})


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
