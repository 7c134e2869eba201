"""Plans from files.

A TOML or JSON file has a `name`, entries that hold for all runs, a `grid` (or several) and `runs` one by one:

    name = "first-look"
    data = "digits"
    epochs = 5

    [grid]
    optimizer = ["adam", "adam-cam-hd-2"]
    options.lr = [0.001, 0.01]
    seeds = 3

    [[runs]]
    optimizer = "sgd"
    options.lr = 0.5
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..choices import choose
from ..train import own
from .plan import NAMES, Item, Plan, combinations


def read_plan(path: str | Path) -> Plan:
    """A plan from a .toml or .json file, from `plan()` in a .py file, or from `FILE.py:function`."""
    text = str(path)
    if text.endswith((".toml", ".json")):
        return _from_table(Path(text))
    place = f"{text}:plan" if text.endswith(".py") else text
    file = place.rpartition(":")[0]
    if not file.endswith(".py") and ":" not in text:
        raise ValueError(f"a plan must be a .toml, .json or .py file, or FILE.py:function, got {text!r}.")
    folder = str((Path(file).parent if file.endswith(".py") else Path()).resolve())
    own.look_in(folder)
    function = own.find(place)
    if isinstance(function, str):
        raise ValueError(f"a plan must be a .toml, .json or .py file, or FILE.py:function, got {text!r}.")
    made = function()
    found = made if isinstance(made, Plan) else Plan(_name(place), tuple(made))
    return replace(found, items=tuple(_at_home(item, folder) for item in found.items), path=found.path or folder)


def _from_table(file: Path) -> Plan:
    try:
        given = _parsed(file)
    except FileNotFoundError:
        raise ValueError(f"there is no plan {str(file)!r}.") from None
    except ValueError as error:
        raise ValueError(f"the plan {str(file)!r} cannot be read: {error}") from None
    folder = str(file.parent.resolve())
    own.look_in(folder)
    try:
        items = tuple(_at_home(item, folder) for item in _items(given))
        return Plan(str(given.get("name", file.stem)), items, folder)
    except (TypeError, ValueError) as error:
        raise ValueError(f"in the plan {str(file)!r}: {error}") from None


def _parsed(file: Path) -> dict[str, Any]:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        given = json.loads(text)
    elif sys.version_info >= (3, 11):
        import tomllib

        given = tomllib.loads(text)
    else:
        try:
            import tomli
        except ModuleNotFoundError:
            raise ValueError("TOML needs tomli before Python 3.11: pip install 'camhd[lab]'; or write JSON.") from None
        given = tomli.loads(text)
    if not isinstance(given, dict):
        raise ValueError(f"it must be a table with names and values, got {type(given).__name__}.")
    return given


def _items(given: Mapping[str, Any]) -> Iterator[Item]:
    for name in given:
        choose("plan", name, ("name", "grid", "runs", *NAMES))
    common = {name: value for name, value in given.items() if name in NAMES}
    for grid in _tables(given, "grid"):
        yield from combinations(_merged(_fixed(common), grid))
    for run in _tables(given, "runs"):
        yield Item.from_dict(_merged(common, run))
    if "grid" not in given and "runs" not in given:
        yield Item.from_dict(common)


def _tables(given: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = given.get(name, [])
    tables = value if isinstance(value, list) else [value]
    if not all(isinstance(table, Mapping) for table in tables):
        raise ValueError(f"'{name}' must be a table, or a list of tables, got {value!r}.")
    return tables


def _fixed(common: Mapping[str, Any]) -> dict[str, Any]:
    """What holds for all runs is no list of alternatives, even where it is a list."""
    fixed: dict[str, Any] = {name: [value] for name, value in common.items() if name != "options"}
    if isinstance(common.get("options"), Mapping):
        fixed["options"] = {name: [value] for name, value in common["options"].items()}
    return fixed


def _merged(common: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Options are joined, everything else is replaced."""
    merged = {**common, **more}
    parts = [table["options"] for table in (common, more) if "options" in table]
    if parts and all(isinstance(part, Mapping) for part in parts):
        merged["options"] = {name: value for part in parts for name, value in part.items()}
    if "seeds" in more and "seed" not in more:
        merged.pop("seed", None)
    return merged


def _at_home(item: Item, folder: str) -> Item:
    """A function in a file is looked for beside the plan, wherever the sweep is started from."""
    changed: dict[str, Any] = {}
    for name in ("model", "data", "optimizer"):
        path, _, function = getattr(item, name).rpartition(":")
        if path.endswith(".py"):
            changed[name] = f"{Path(folder) / path}:{function}"
    return replace(item, **changed) if changed else item


def _name(place: str) -> str:
    """`plans/small.py:plan` is called small, and `plans/small.py:other` other."""
    path, _, function = place.rpartition(":")
    return Path(path).stem if function == "plan" else function
