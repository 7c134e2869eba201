"""JSON as the records write it: numbers that JSON has no word for are written as "nan", "inf" and "-inf"."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


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
    value = json.loads(text)
    return _numbers(value) if any(f'"{word}"' in text for word in _WORDS) else value


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


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_numbers(inner) for inner in value]
    return _WORDS.get(value, value) if isinstance(value, str) else value
