"""Any other optimizer as a base rule, if its step is lr times a direction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from ..tree import Kappas
from .base import Batch, Options, Rule, Sensitivity, Tensors, step_along, widened, zeros
from .probe import check_linear, has_l2_decay

# The lr at which the wrapped optimizer is asked for its direction. So large that θ − θ′ is not
# small against θ: the direction then loses no digits in the difference. A power of two, so that
# dividing by it is exact.
_UNITS = {torch.float64: 2.0**30, torch.float32: 2.0**20, torch.bfloat16: 2.0**20, torch.float16: 2.0**8}


class Wrapped(Rule):
    """d = (θ − θ′)/lr, where θ′ is where the wrapped optimizer would go with that lr.

    Its state is its own: it steps as always, only the place it reaches is taken back and the
    parameter moved by κ d instead. The last direction is kept (one tensor for each parameter).
    """

    name = "Wrapped"
    entries = together = ("direction",)

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner
        self.name = f"Wrapped({type(inner).__name__})"
        self._l2: list[bool] = []
        self.look_at_groups()

    def look_at_groups(self) -> None:
        """Refuse the optimizer if a param group makes its step other than linear; see how its decay acts."""
        groups = self.inner.param_groups
        check_linear(self.inner, max(self._unit(group) for group in groups))
        self._l2 = [has_l2_decay(self.inner, group) for group in groups]

    def _unit(self, group: Options) -> float:
        return min(_UNITS.get(torch.view_as_real(p).dtype if p.is_complex() else p.dtype, 1.0) for p in group["params"])

    def check(self, options: Options) -> None:
        """Its options were checked when it was built."""

    def own_options(self) -> Collection[str]:
        return {name for group in self.inner.param_groups for name in group}

    def start(self, param: Tensor, options: Options) -> dict[str, Any]:
        return {"direction": zeros(param)}

    def state_names(self, options: Options) -> tuple[str, ...]:
        return ("direction",)

    def gradients(self, batch: Batch) -> Tensors:
        grads: Tensors = widened(batch.grads)
        if batch.options.get("maximize"):
            grads = torch._foreach_neg(grads)
        decay = batch.options.get("weight_decay", 0)
        if decay and self._l2[batch.group]:
            grads = torch._foreach_add(grads, batch.params, alpha=decay)
        return grads

    def sensitivity(self, batch: Batch, kappas: Kappas | None) -> Sensitivity:
        return Sensitivity(batch.state("direction"), [1.0] * len(batch), fresh=False)

    def advance(self, batch: Batch, grads: Tensors) -> None:
        """The wrapped optimizer takes all gradients at once, in `turn`."""

    def turn(self, batches: Sequence[Batch]) -> None:
        befores = [torch._foreach_clone(batch.params) for batch in batches]
        lrs = [group["lr"] for group in self.inner.param_groups]
        units = [self._unit(group) for group in self.inner.param_groups]
        for batch in batches:
            self._hand_over(batch.options, self.inner.param_groups[batch.group])
        try:
            for group, unit in zip(self.inner.param_groups, units, strict=True):
                group["lr"] = unit
            self.inner.step()
            for batch, before in zip(batches, befores, strict=True):
                directions = batch.state("direction")
                torch._foreach_copy_(directions, before)
                torch._foreach_sub_(directions, batch.params)
                torch._foreach_div_(directions, units[batch.group])
        finally:
            try:
                self._put_back(batches, befores, lrs)
            except BaseException:  # Ctrl-C at this very moment must not leave the weights where a lr of 2²⁰ took them
                self._put_back(batches, befores, lrs)
                raise
        for batch in batches:
            self._take_back(batch.options, self.inner.param_groups[batch.group])

    def _put_back(self, batches: Sequence[Batch], befores: Sequence[Tensors], lrs: Sequence[Any]) -> None:
        """Parameters and lr as they were before the wrapped optimizer stepped. May be done twice."""
        for batch, before in zip(batches, befores, strict=True):
            torch._foreach_copy_(batch.params, before)
        for group, lr in zip(self.inner.param_groups, lrs, strict=True):
            group["lr"] = lr

    def direction(self, batch: Batch) -> Sensitivity:
        return Sensitivity(batch.state("direction"), [1.0] * len(batch), fresh=False)

    def move(self, batch: Batch, kappas: Kappas) -> None:
        step_along(batch, batch.state("direction"), batch.rates(kappas))

    def _hand_over(self, options: Options, group: dict[str, Any]) -> None:
        """What a user or a scheduler changed in our param group (momentum, betas …) holds for the inner one."""
        group.update({name: options[name] for name in group if name in options and name not in _OURS})

    def _take_back(self, options: Options, group: dict[str, Any]) -> None:
        """What the inner optimizer keeps in its param group (a step count …) shows in ours."""
        assert isinstance(options, dict)
        options.update({name: value for name, value in group.items() if name in options and name not in _OURS})


_OURS = ("params", "param_names", "lr", "initial_lr")
