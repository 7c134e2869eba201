"""What a base rule is: it turns the history of gradients into the update U(κ) of a parameter.

A rule never sees a learning rate but the κ it is given, and the tree never sees a moment or a
momentum buffer: `move` is the one place where the two meet,

    θ_t = θ_{t−1} − U_t(κ_t),   U_t(κ) = κ ⊙ d_t for every rule but AdaBound,

and `sensitivity` is ∂U_{t−1}/∂κ, what the tree multiplies with the gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, NamedTuple, TypeAlias

import torch
from torch import Tensor

from ..tree import Kappas, Number, Rows

Options = Mapping[str, Any]
Tensors: TypeAlias = list[Tensor] | tuple[Tensor, ...]  # what torch's foreach functions take

TRACE = "trace"  # the state of a parameter that holds its trace of directions, with a traced hyper rule
PIECE = 2**21  # bytes of a parameter that the CPU takes at a time: with gradient and state, what its caches hold


@dataclass(frozen=True)
class Batch:
    """The parameters of one param group that have a gradient at this step, or a piece of them."""

    group: int
    options: Options  # the group's own
    last: Options  # those of its last move (`Rule.remembers`), for looking back
    factor: Number  # what a scheduler makes of the group's rates
    last_factor: Number
    slots: Sequence[int]
    params: Tensors
    grads: Tensors  # as backward() left them; never written to
    states: Sequence[dict[str, Any]]
    squares: Number = 0.0  # what g² counts for in second moments, at least
    rows: Sequence[Rows] = ()  # which rows of each parameter, if not all of all
    idle: Batch | None = None  # those of the group's parameters that have state, but no gradient at this step

    def __len__(self) -> int:
        return len(self.slots)

    def pick(self, keep: Sequence[int]) -> Batch:
        """Some of its parameters, by their places in it."""
        return replace(
            self,
            slots=[self.slots[i] for i in keep],
            params=[self.params[i] for i in keep],
            grads=[self.grads[i] for i in keep],
            states=[self.states[i] for i in keep],
            rows=[self.rows[i] for i in keep] if self.rows else (),
        )

    def pieces(self, state_names: Collection[str]) -> Iterator[Batch]:
        """The whole of it in pieces that fit into the caches of a CPU; on another device it is one piece.

        A large tensor is cut into runs of rows, unless one of these states is still to be made for it.
        """
        if torch.compiler.is_compiling() or any(param.device.type != "cpu" for param in self.params):
            yield self
            return
        together: list[int] = []
        room = PIECE
        for i, (param, state) in enumerate(zip(self.params, self.states, strict=True)):
            size = param.numel() * param.element_size()
            if size > PIECE and len(param) > 1 and all(name in state for name in state_names):
                yield from self._cut(i, max(len(param) * PIECE // size, 1))
                continue
            if size > room and together:
                yield self.pick(together)
                together, room = [], PIECE
            together.append(i)
            room -= size
        if together:
            yield self if len(together) == len(self) else self.pick(together)

    def _cut(self, i: int, height: int) -> Iterator[Batch]:
        """One tensor in runs of rows."""
        param, grad, state = self.params[i], self.grads[i], self.states[i]
        alike = {name: value for name, value in state.items() if _is_like(value, param)}
        for start in range(0, len(param), height):
            rows = slice(start, start + height)
            yield replace(
                self,
                slots=[self.slots[i]],
                params=[param[rows]],
                grads=[grad[rows]],
                states=[{**state, **{name: value[rows] for name, value in alike.items()}}],
                rows=[rows],
            )

    def among(self, slots: AbstractSet[int]) -> list[int]:
        """The places of those parameters that lie in these slots."""
        return [i for i, slot in enumerate(self.slots) if slot in slots]

    def state(self, name: str) -> list[Tensor]:
        return [state[name] for state in self.states]

    def rates(self, kappas: Kappas) -> list[Tensor]:
        """κ of its parameters, on their devices."""
        rows = self.rows or [None] * len(self)
        found = zip(self.slots, rows, self.params, strict=True)
        return [kappas.at(slot, some).to(param.device) for slot, some, param in found]

    def counts(self) -> list[Number]:
        """How many steps each parameter has taken: numbers, but tensors while compiling, which would fix a number."""
        steps = self.state("step")
        if torch.compiler.is_compiling():
            return [step.to(p.device, torch.float64) for step, p in zip(steps, self.params, strict=True)]
        return [float(step) for step in steps]


def _is_like(value: object, param: Tensor) -> bool:
    return isinstance(value, Tensor) and value.shape == param.shape


class Sensitivity(NamedTuple):
    """s = ∂U/∂κ of each parameter, as a tensor and a number to multiply it with."""

    tensors: Tensors
    scales: Sequence[Number]
    fresh: bool  # the tensors are nobody else's and may be written to


class Rule(ABC):
    """A base optimizer without its learning rate."""

    name: str
    remembers: ClassVar[tuple[str, ...]] = ()  # the options that looking back at the last move needs
    entries: ClassVar[tuple[str, ...]] = ()  # all that a parameter's state may have; empty: anything
    remade: ClassVar[tuple[str, ...]] = ()  # state that a step with a trace writes before it reads it; need not be kept
    together: ClassVar[tuple[str, ...]] = ()  # those that it has from the first step on
    kinds: ClassVar[tuple[str, ...]] = ()  # the options that make it another method, so that a state is of one kind
    linear: ClassVar[bool] = True  # U(κ) = κ ⊙ d, so that a trace of d is the way that the weights have come
    formerly: ClassVar[Mapping[str, str]] = {}  # what a saved state has in the place of an entry, before version 5

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

    def brought_up(self, state: Mapping[str, Any], options: Options) -> Mapping[str, Any]:
        """A saved state of a parameter that has what was `formerly` saved, as it is kept now."""
        return state

    @abstractmethod
    def state_names(self, options: Options) -> tuple[str, ...]:
        """The tensors as large as the parameter that a step with these options writes to."""

    def terms(self, options: Options) -> tuple[Any, ...]:
        """What the numbers in the state depend on: if it changes, the state must say the same in other numbers."""
        return ()

    def carry_over(self, batch: Batch) -> None:  # noqa: B027 - nothing to do where there are no terms
        """Put state that is in terms of `batch.last` in terms of `batch.options`: of parameters without a gradient.

        Those that have one are looked back at with `last`, and `advance` leaves them in the new terms.
        """

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
    def sensitivity(self, batch: Batch, kappas: Kappas | None) -> Sensitivity:
        """s_{t−1} = ∂U_{t−1}/∂κ, from the state that the last step left. `kappas`: κ_{t−1}."""

    @abstractmethod
    def advance(self, batch: Batch, grads: Tensors) -> None:
        """Take g_t of a piece into its state."""

    def turn(self, batches: Sequence[Batch]) -> None:  # noqa: B027 - nothing to do for most
        """Once a step, when all of g_t is in the state and nothing has moved yet."""

    @abstractmethod
    def direction(self, batch: Batch) -> Sensitivity:
        """d_t, after `turn`: what a small κ would be multiplied with. Never written to if not fresh."""

    @abstractmethod
    def move(self, batch: Batch, kappas: Kappas) -> None:
        """θ ← θ − U(κ)."""


def step_along(batch: Batch, directions: Tensors, rates: Tensors, scales: Sequence[Number] | None = None) -> None:
    """θ ← θ − κ ⊙ d, the one line where a rate meets a direction; d = scale · direction."""
    if scales is None:  # rounded as torch's SGD rounds, so that its zeros are ours
        torch._foreach_sub_(batch.params, torch._foreach_mul(directions, rates))
        return
    factors = [-scale for scale in scales if not isinstance(scale, Tensor)]
    if len(factors) < len(scales):
        rates = [rate * scale for rate, scale in zip(rates, scales, strict=True)]
        factors = [-1.0] * len(scales)
    torch._foreach_addcmul_(batch.params, directions, rates, factors)


def check_at_least_0(options: Options, name: str, complaint: str) -> None:
    """Refuse an option that is negative or not finite."""
    value = options[name]
    if not isinstance(value, (Real, Tensor)):
        raise TypeError(f"'{name}' must be a number, got {value!r}.")
    if not 0 <= float(value) < float("inf"):
        raise ValueError(f"{complaint}: {value}; '{name}' must be 0 or more and finite.")


def zeros(param: Tensor) -> Tensor:
    """State for a parameter, laid out in memory as it is."""
    return torch.zeros_like(param, dtype=state_dtype(param.dtype), memory_format=torch.preserve_format)


def new_trace(param: Tensor) -> Tensor:
    """An empty trace of directions, in single precision at least: it sums up hundreds of them."""
    dtype = torch.float32 if param.dtype.itemsize < 4 else param.dtype
    return torch.zeros_like(param, dtype=dtype, memory_format=torch.preserve_format)


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """The parameter's own dtype, but float32 for float16, in which squared gradients and ε vanish."""
    return torch.float32 if dtype == torch.float16 else dtype


def widened(tensors: Tensors) -> Tensors:
    """Gradients in the dtype of the state."""
    if not any(tensor.dtype == torch.float16 for tensor in tensors):
        return tensors
    return [tensor.to(state_dtype(tensor.dtype)) for tensor in tensors]
