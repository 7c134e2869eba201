"""One of several names: the error for a wrong one lists them and the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Collection


def choose(name: str, value: str, choices: Collection[str]) -> str:
    """The value of an argument if it is one of the choices; else an error that says which there are.

    >>> choose("model", "lenet", ("ffnn", "lenet5"))
    Traceback (most recent call last):
    ValueError: 'model' has no choice 'lenet'; did you mean 'lenet5'? The choices are ffnn, lenet5.
    """
    return _chosen(f"'{name}' has no choice", value, choices)


def choose_a(what: str, name: str, choices: Collection[str]) -> str:
    """The name of a thing if there is one of that name; else an error that says which there are.

    >>> choose_a("data set", "coco", ("digits", "mnist"))
    Traceback (most recent call last):
    ValueError: there is no data set 'coco'. The choices are digits, mnist.
    """
    return _chosen(f"there is no {what}", name, choices)


def _chosen(complaint: str, value: str, choices: Collection[str]) -> str:
    if value in choices:
        return value
    near = difflib.get_close_matches(value, choices, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise ValueError(f"{complaint} {value!r}{hint} The choices are {', '.join(choices)}.")
