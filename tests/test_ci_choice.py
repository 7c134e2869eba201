"""Which of many cases that are alike CI runs: about one in n, but something of everything."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import mark_thorough

ONE_IN_SIX = pytest.mark.alike(6).mark


class Case:
    """As much of a pytest item as the choice looks at."""

    parent, originalname = "file", "test"

    def __init__(self, lists: dict[str, list[str]], values: tuple[str, ...]) -> None:
        self.marks = [ONE_IN_SIX, *(pytest.mark.parametrize(name, found).mark for name, found in lists.items())]
        self.values, self.thorough = values, False
        self.callspec = SimpleNamespace(params=dict(zip(lists, values, strict=True)))

    def iter_markers(self, name: str) -> list[Any]:
        return [mark for mark in self.marks if mark.name == name]

    def add_marker(self, name: str) -> None:
        assert name == "thorough"
        self.thorough = True


def chosen(lists: dict[str, list[str]]) -> list[tuple[str, ...]]:
    cases: list[Any] = [Case(lists, values) for values in product(*lists.values())]
    mark_thorough(cases)
    return [case.values for case in cases if not case.thorough]


def test_where_lists_are_crossed_every_value_is_met() -> None:
    lists = {"start": ["small", "large"], "beta": ["b0", "b1", "b2"], "form": ["f0", "f1", "f2"]}
    found = chosen(lists)
    assert [sorted(set(values)) for values in zip(*found, strict=True)] == [sorted(values) for values in lists.values()]
    assert len(found) < 2 * 3 * 3 / 2


def test_of_one_long_list_one_in_n_is_kept() -> None:
    names = [f"case {number}" for number in range(20)]
    assert chosen({"name": names}) == [(name,) for name in names[::6]]


def test_what_adds_up_to_a_multiple_is_kept() -> None:
    lists = {"a": [f"a{number}" for number in range(8)], "b": [f"b{number}" for number in range(9)]}
    found = chosen(lists)
    assert {(f"a{i}", f"b{j}") for i in range(8) for j in range(9) if (i + j) % 6 == 0} == set(found)
