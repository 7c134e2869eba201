"""SGD, with momentum, with Nesterov's momentum."""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch
from torch import Tensor

from ..tree import Kappas
from .base import Batch, Options, Rule, Sensitivity, Tensors, check_at_least_0, step_along, zeros


class SGD(Rule):
    """d = g;  with momentum b = μ b + (1 − dampening) g and d = b;  with Nesterov d = g + μ b.

    With plain momentum the buffer *is* the last direction. Without it, and with Nesterov, the
    direction is kept as a tensor of its own: under plain SGD it is last step's gradient, which
    `zero_grad` destroys.
    """

    name = "SGD"
    remembers = ("momentum", "nesterov")
    entries = ("momentum_buffer", "direction")
    remade = ("direction",)

    def check(self, options: Options) -> None:
        super().check(options)
        check_at_least_0(options, "momentum", "Invalid momentum value")
        if not isinstance(options["dampening"], Real):
            raise TypeError(f"'dampening' must be a number, got {options['dampening']!r}.")
        if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):
            raise ValueError(
                "Nesterov momentum requires a momentum and zero dampening, got "
                f"momentum={options['momentum']}, dampening={options['dampening']}; set momentum=0.9, dampening=0."
            )

    def start(self, param: Tensor, options: Options) -> dict[str, Any]:
        return {}

    def _direction_name(self, options: Options) -> str:
        return "momentum_buffer" if options["momentum"] and not options["nesterov"] else "direction"

    def state_names(self, options: Options) -> tuple[str, ...]:
        names = [self._direction_name(options)]
        return ("momentum_buffer", *names) if options["momentum"] else tuple(names)

    def sensitivity(self, batch: Batch, kappas: Kappas | None) -> Sensitivity:
        return Sensitivity(batch.state(self._direction_name(batch.last)), [1.0] * len(batch), fresh=False)

    def advance(self, batch: Batch, grads: Tensors) -> None:
        momentum, dampening = batch.options["momentum"], batch.options["dampening"]
        if momentum:
            known = [i for i, state in enumerate(batch.states) if "momentum_buffer" in state]
            if known:
                buffers = [batch.states[i]["momentum_buffer"] for i in known]
                torch._foreach_mul_(buffers, momentum)
                torch._foreach_add_(buffers, [grads[i] for i in known], alpha=1 - dampening)
            for state, g in zip(batch.states, grads, strict=True):
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = zeros(g).copy_(g)
        if self._direction_name(batch.options) == "direction":
            for state, param in zip(batch.states, batch.params, strict=True):
                if "direction" not in state:
                    state["direction"] = zeros(param)
            torch._foreach_copy_(batch.state("direction"), grads)
            if momentum:
                torch._foreach_add_(batch.state("direction"), batch.state("momentum_buffer"), alpha=momentum)

    def direction(self, batch: Batch) -> Sensitivity:
        return Sensitivity(batch.state(self._direction_name(batch.options)), [1.0] * len(batch), fresh=False)

    def move(self, batch: Batch, kappas: Kappas) -> None:
        step_along(batch, batch.state(self._direction_name(batch.options)), batch.rates(kappas))
