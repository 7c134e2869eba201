"""L4 (Rolinek & Martius): the step that would bring the linearised loss part of the way to its lowest value."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..optim import Params
from ..rules.adam import check_betas
from ..rules.base import check_at_least_0

FIRST = 0.75  # of the first loss is taken for the lowest that can be reached
TARGET = 0.9  # of the lowest loss is where a step aims
FORGET = 1.001  # by which the lowest loss grows at every step
TINY = 1e-12


class L4(torch.optim.Optimizer, ABC):
    """θ ← θ − η v with η = lr·(L − 0.9·L_min)/(ĝ·v + 1e-12), all sums over the whole model; see `L4Mom`, `L4Adam`.

    ĝ is the average of the gradients with its bias corrected, v the direction of the base rule. L_min is 0.75 of
    the first loss, later the lowest loss so far, and grows by a thousandth at every step.

    L4 needs the loss: call `step(closure)` or `step(loss=loss)`. The loss must be 0 or more; a step whose loss
    or gradient is not finite is skipped, and `skipped` counts it.
    """

    needs_loss: ClassVar[bool] = True

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, nn.Module):
            params = params.named_parameters()
        super().__init__(params, {**defaults, "lowest_loss": None, "step_size": None, "skipped": 0})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; in mid-training too."""
        super().add_param_group(param_group)
        try:
            _check(self.param_groups[-1])
        except Exception:
            self.param_groups.pop()
            raise
        for name in ("lowest_loss", "skipped"):  # what belongs to the whole model is the same in all groups
            self.param_groups[-1][name] = self.param_groups[0][name]

    @property
    def skipped(self) -> int:
        """How many steps were skipped because the loss or a gradient was not finite."""
        return int(self.param_groups[0]["skipped"])

    @abstractmethod
    def direction(self, group: dict[str, Any], state: dict[str, Any], average: Tensor, grad: Tensor) -> Tensor:
        """The direction v of one parameter, from ĝ and g."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, *, loss: float | Tensor | None = None) -> Any:
        """One step. Its loss comes from the closure, which is called first, or is given."""
        if (closure is None) == (loss is None):
            raise TypeError("L4 needs the loss: call step(closure) or step(loss=loss), one of the two.")
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        assert loss is not None
        value = _checked_loss(loss)
        found = [(group, *_gradients(group)) for group in self.param_groups]
        if not (math.isfinite(value) and _all_finite([g for _, _, grads in found for g in grads])):
            self._note("skipped", self.skipped + 1)
            return loss
        moves, slope = [], 0.0
        for group, params, grads in found:
            averages = [self._average(group, p, g) for p, g in zip(params, grads, strict=True)]
            directions = [
                self.direction(group, self.state[p], m, g) for p, m, g in zip(params, averages, grads, strict=True)
            ]
            moves.append((group, params, directions))
            slope += sum(float((m * v).sum()) for m, v in zip(averages, directions, strict=True))  # ĝ·v
        lowest = self.param_groups[0]["lowest_loss"]
        lowest = FIRST * value if lowest is None else min(lowest, value)
        for group, params, directions in moves:
            group["step_size"] = float(group["lr"]) * (value - TARGET * lowest) / (slope + TINY)  # η
            if params:
                torch._foreach_add_(params, directions, alpha=-group["step_size"])
        self._note("lowest_loss", FORGET * lowest)
        return loss

    def _note(self, name: str, value: float) -> None:
        for group in self.param_groups:
            group[name] = value

    def _average(self, group: dict[str, Any], param: Tensor, grad: Tensor) -> Tensor:
        """ĝ after this step's gradient has been taken into the average."""
        state, decay = self.state[param], group["betas"][0]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(param))
        state["step"] += 1
        state["exp_avg"].lerp_(grad, 1 - decay)
        corrected: Tensor = state["exp_avg"] / (1 - decay ** state["step"])
        return corrected


def _gradients(group: dict[str, Any]) -> tuple[list[Tensor], list[Tensor]]:
    """The parameters of a group that have a gradient, and g with the L2 decay in it; p.grad stays as it is."""
    params = [p for p in group["params"] if p.grad is not None]
    for p in params:
        if p.grad.is_sparse:
            raise RuntimeError("L4 does not support sparse gradients; make them dense (sparse=False in the embedding).")
    decay = group["weight_decay"]
    return params, [p.grad.add(p, alpha=decay) if decay else p.grad for p in params]


def _all_finite(tensors: list[Tensor]) -> bool:
    norms = torch._foreach_norm(tensors) if tensors else []
    return all(math.isfinite(float(norm)) for norm in norms)


def _checked_loss(loss: float | Tensor) -> float:
    if isinstance(loss, Tensor) and loss.numel() != 1:
        raise ValueError(f"L4 needs the loss as one number, got a tensor of shape {tuple(loss.shape)}; take its mean.")
    value = float(loss.detach() if isinstance(loss, Tensor) else loss)
    if value < 0 and math.isfinite(value):
        raise ValueError(
            f"L4 needs a loss of 0 or more, because it aims at a share of the lowest one, got {value}; "
            "add a constant to the loss."
        )
    return value


def _check(group: dict[str, Any]) -> None:
    check_at_least_0(group, "lr", "Invalid learning rate")
    check_at_least_0(group, "eps", "Invalid epsilon value")
    check_at_least_0(group, "weight_decay", "Invalid weight_decay value")
    check_betas(group, len(group["betas"]))
    for p in group["params"]:
        if p.is_complex() or p.dtype == torch.float16:
            raise TypeError(
                f"L4 needs real parameters of more than half precision, got {p.dtype}; keep them in float32 and use "
                "torch.autocast for the forward pass."
            )


class L4Mom(L4):
    """L4 along the average of the gradients: v = ĝ.

    Args:
        params: a module, named parameters, parameters, or param-group dicts.
        lr: which share of the way to 0.9 of the lowest loss one step aims at; no learning rate in the usual sense.
        decay: of the average.
        weight_decay: L2 decay, added to the gradient.

    >>> model = nn.Linear(4, 2)
    >>> opt = L4Mom(model.parameters())
    >>> loss = model(torch.ones(3, 4)).square().sum()
    >>> loss.backward(); _ = opt.step(loss=loss)

    Reference: Rolinek and Martius, L4: Practical loss-based stepsize adaptation for deep learning.
    """

    def __init__(self, params: Params, lr: float = 0.15, decay: float = 0.9, weight_decay: float = 0) -> None:
        super().__init__(params, {"lr": lr, "betas": (decay,), "eps": 0.0, "weight_decay": weight_decay})

    def direction(self, group: dict[str, Any], state: dict[str, Any], average: Tensor, grad: Tensor) -> Tensor:
        return average


class L4Adam(L4):
    """L4 along Adam's direction: v = ĝ/(√v̂ + ε).

    Args:
        params: a module, named parameters, parameters, or param-group dicts.
        lr: which share of the way to 0.9 of the lowest loss one step aims at; no learning rate in the usual sense.
        betas: decay of the two moments.
        eps: ε.
        weight_decay: L2 decay, added to the gradient.

    Reference: Rolinek and Martius, L4: Practical loss-based stepsize adaptation for deep learning.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 0.15,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-4,
        weight_decay: float = 0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def direction(self, group: dict[str, Any], state: dict[str, Any], average: Tensor, grad: Tensor) -> Tensor:
        decay: float = group["betas"][1]
        square: Tensor = state.setdefault("exp_avg_sq", torch.zeros_like(average))
        square.mul_(decay).addcmul_(grad, grad, value=1 - decay)
        root: Tensor = (square / (1 - decay ** state["step"])).sqrt_().add_(group["eps"])
        return average / root
