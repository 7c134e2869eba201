"""One of several names: the error for a wrong one lists them and the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Collection


def choose(name: str, value: str, choices: Collection[str]) -> str:
    """The value if it is one of the choices; else an error that says which there are.

    >>> choose("model", "lenet", ("ffnn", "lenet5"))
    Traceback (most recent call last):
    ValueError: 'model' has no choice 'lenet'; did you mean 'lenet5'? The choices are ffnn, lenet5.
    """
    if value in choices:
        return value
    near = difflib.get_close_matches(value, choices, n=1, cutoff=0.5)
    hint = f" did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"'{name}' has no choice {value!r};{hint} The choices are {', '.join(choices)}.")
