"""What a base rule is: it turns the history of gradients into the update U(κ) of a parameter.

A rule never sees a learning rate but the κ it is given, and the tree never sees a moment or a
momentum buffer: `move` is the one place where the two meet,

    θ_t = θ_{t−1} − U_t(κ_t),   U_t(κ) = κ ⊙ d_t for every rule but AdaBound,

and `sensitivity` is ∂U_{t−1}/∂κ, what the tree multiplies with the gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeAlias

import torch
from torch import Tensor

Options = Mapping[str, Any]
Tensors: TypeAlias = list[Tensor] | tuple[Tensor, ...]  # what torch's foreach functions take


@dataclass(frozen=True)
class Batch:
    """The parameters of one param group that have a gradient at this step."""

    group: int
    options: Options  # the group's own
    last: Options  # those of its last move (`Rule.remembers`), for looking back
    factor: float | Tensor  # what a scheduler makes of the group's rates
    last_factor: float | Tensor
    slots: Sequence[int]
    params: Tensors
    grads: Tensors  # as backward() left them; never written to
    states: Sequence[dict[str, Any]]

    def __len__(self) -> int:
        return len(self.slots)

    def select(self, slots: Iterable[int]) -> Batch:
        """The part of it that lies in these slots."""
        wanted = set(slots)
        keep = [i for i, slot in enumerate(self.slots) if slot in wanted]
        if len(keep) == len(self):
            return self
        return replace(
            self,
            slots=[self.slots[i] for i in keep],
            params=[self.params[i] for i in keep],
            grads=[self.grads[i] for i in keep],
            states=[self.states[i] for i in keep],
        )

    def state(self, name: str) -> list[Tensor]:
        return [state[name] for state in self.states]


class Sensitivity(NamedTuple):
    """s = ∂U/∂κ of each parameter, as a tensor and a number to multiply it with."""

    tensors: Tensors
    scales: Sequence[float]


class Rule(ABC):
    """A base optimizer without its learning rate."""

    name: str
    remembers: ClassVar[tuple[str, ...]] = ()  # the options that looking back at the last move needs

    def needs_kappa(self, last: Options) -> bool:
        """Whether looking back at a move with these options needs its κ."""
        return False

    def check(self, options: Options) -> None:
        """Say what is wrong with a group's options, if anything is."""
        check_at_least_0(options, "weight_decay", "Invalid weight_decay value")

    def own_options(self) -> Collection[str]:
        """Names of group options that are the rule's whatever else they mean in camhd."""
        return ()

    @abstractmethod
    def start(self, param: Tensor, options: Options) -> dict[str, Any]:
        """The state of a parameter before its first gradient."""

    def gradients(self, batch: Batch) -> Tensors:
        """g_t: what the rule minimises along, L2 decay included. New tensors where it is not p.grad itself."""
        grads = widened(batch.grads)
        if batch.options["maximize"]:
            grads = torch._foreach_neg(grads)
        if batch.options["weight_decay"] and not self.decoupled(batch.options):
            grads = torch._foreach_add(grads, batch.params, alpha=batch.options["weight_decay"])
        return grads

    def decoupled(self, options: Options) -> bool:
        """Whether weight decay is part of the direction instead of the gradient."""
        return False

    @abstractmethod
    def sensitivity(self, batch: Batch, kappas: Sequence[Tensor] | None) -> Sensitivity:
        """s_{t−1} = ∂U_{t−1}/∂κ, from the state that the last step left. `kappas`: κ_{t−1}, by slot."""

    @abstractmethod
    def advance(self, batches: Sequence[Batch], grads: Sequence[Tensors]) -> None:
        """Take g_t into the state."""

    @abstractmethod
    def move(self, batch: Batch, kappas: Sequence[Tensor]) -> None:
        """θ ← θ − U(κ). `kappas`: by slot, each broadcastable to its parameter."""


def step_along(batch: Batch, directions: Tensors, rates: Sequence[Tensor]) -> None:
    """θ ← θ − κ ⊙ d, the one line where a rate meets a direction."""
    rates = [rate.to(p.device) for rate, p in zip(rates, batch.params, strict=True)]
    torch._foreach_sub_(batch.params, torch._foreach_mul(directions, rates))


def check_at_least_0(options: Options, name: str, complaint: str) -> None:
    """Refuse an option that is negative or not finite."""
    value = options[name]
    if isinstance(value, str) or value is None:
        raise TypeError(f"'{name}' must be a number, got {value!r}.")
    if not 0 <= value < float("inf"):
        raise ValueError(f"{complaint}: {value}; '{name}' must be 0 or more and finite.")


def zeros(param: Tensor) -> Tensor:
    """State for a parameter, laid out in memory as it is."""
    return torch.zeros_like(param, dtype=state_dtype(param.dtype), memory_format=torch.preserve_format)


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """The parameter's own dtype, but float32 for float16, in which squared gradients and ε vanish."""
    return torch.float32 if dtype == torch.float16 else dtype


def widened(tensors: Tensors) -> Tensors:
    """Gradients in the dtype of the state."""
    if not any(tensor.dtype == torch.float16 for tensor in tensors):
        return tensors
    return [tensor.to(state_dtype(tensor.dtype)) for tensor in tensors]
