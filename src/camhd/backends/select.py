"""Which backend takes a step: the fused kernels where they can, plain torch where they cannot."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..rules import Batch, Rule
from ..tree import GroupRates, RateTree
from . import foreach

if TYPE_CHECKING:
    from .fused import Fused

BACKENDS = ("auto", "foreach", "fused")
OLDEST_NUMBA = (0, 60)


class Backend:
    """The backend of one optimizer.

    ``"fused"`` and ``"auto"`` take every step with the fused kernels that they can do, and the others with
    plain torch; ``"foreach"`` takes all of them with plain torch. A step that torch.compile compiles is plain torch.

    Args:
        name: one of the three.
    """

    def __init__(self, name: str) -> None:
        if name not in BACKENDS:
            raise ValueError(f"'backend' must be one of {', '.join(map(repr, BACKENDS))}, got {name!r}.")
        self.__setstate__({"name": name})

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name}  # addresses mean nothing to a copy

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.name: str = state["name"]
        self._fused: Fused | None = None
        self._decided_for: tuple[Any, ...] | None = None
        self._why_not: str | None = None

    def step(
        self,
        rule: Rule,
        tree: RateTree,
        groups: Sequence[dict[str, Any]],
        states: MutableMapping[Tensor, Any],
        rates: Callable[[], Sequence[GroupRates]],
        batches: Callable[[], Sequence[Batch]],
    ) -> None:
        """One step; `batches` gives the parameters that have a gradient, if plain torch is to take it."""
        fused = self._choose(rule, tree, groups, states)
        if fused is not None and fused.step(rates):
            return
        with torch.no_grad():
            foreach.step(rule, tree, batches(), rates())

    def describe(
        self, rule: Rule, tree: RateTree, groups: Sequence[dict[str, Any]], states: MutableMapping[Tensor, Any]
    ) -> str:
        """The backend in use, and why it is not the fused one."""
        if self._choose(rule, tree, groups, states) is not None:
            return "fused"
        return "foreach" if self.name == "foreach" else f"foreach ({self._why_not})"

    def _choose(
        self, rule: Rule, tree: RateTree, groups: Sequence[dict[str, Any]], states: MutableMapping[Tensor, Any]
    ) -> Fused | None:
        if self.name == "foreach" or torch.compiler.is_compiling():
            return None
        if self._fused is not None and self._fused.fits(groups, states):
            return self._fused
        now = (tree.cells, tree.state)
        before = self._decided_for
        if self._fused is None and before is not None and all(a is b for a, b in zip(before, now, strict=True)):
            return None  # it was not to be, and nothing has changed
        self._fused = self._decided_for = None  # until it is decided: an interrupt here must not decide it
        divided = "the parameters are divided over processes" if tree.cells.divided is not None else None
        self._why_not = divided or why_no_numba() or _why_not_this(rule, tree, groups)
        if self._why_not is None:
            from .fused import fused

            self._fused = fused(rule, tree, groups, states)
        self._decided_for = now
        return self._fused


def why_no_numba() -> str | None:
    """What is wrong with Numba here, if anything is."""
    if importlib.util.find_spec("numba") is None:
        return "Numba is not installed: pip install camhd[fused]"
    try:
        import numba
    except Exception as error:
        return f"Numba does not work here: {type(error).__name__}: {error}"
    version = tuple(int(part) for part in numba.__version__.split(".")[:2])
    if version < OLDEST_NUMBA:
        return f"Numba {numba.__version__} is too old: pip install 'numba>={'.'.join(map(str, OLDEST_NUMBA))}'"
    return None


def _why_not_this(rule: Rule, tree: RateTree, groups: Sequence[dict[str, Any]]) -> str | None:
    try:
        from .fused import kind_of, why_not
    except Exception as error:
        return f"the kernels do not compile here: {type(error).__name__}: {error}"
    if kind_of(rule, groups) is None:
        return f"{rule.name} with these options has no kernels"
    return why_not(tree, [param for group in groups for param in group["params"]])
