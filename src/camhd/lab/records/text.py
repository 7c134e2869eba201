"""JSON as the records write it: numbers that JSON has no word for are written as "nan", "inf" and "-inf"."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # what Python's reader calls them
# A whole word that is a value: a quotation mark inside a text has a backslash before it, and a name has a colon after.
_VALUE = re.compile(r'"(nan|-?inf)"(?!\s*:)')


def to_json(value: object, indent: int | None = None) -> str:
    """One JSON document; equal values give equal text.

    >>> to_json({"loss": float("nan"), "sizes": (1, 2)})
    '{"loss":"nan","sizes":[1,2]}'
    """
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(plain(value), indent=indent, separators=separators, ensure_ascii=False, allow_nan=False)


def from_json(text: str) -> Any:
    """What `to_json` wrote.

    >>> from_json('{"loss":"nan"}')
    {'loss': nan}
    """
    try:
        return json.loads(_VALUE.sub(lambda found: _WORDS[found[1]], text))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def plain(value: Any) -> Any:
    """The same with lists for tuples and words for what is not finite; anything that JSON cannot hold is an error."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise TypeError(f"a record holds numbers, words, lists and mappings only, got {value!r} ({type(value).__name__}).")
