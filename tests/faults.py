"""Failures on purpose: at every call inside a step, and what an optimizer must be like afterwards.

A *place* is a moment inside a step at which something may go wrong: a function of camhd is entered or left, camhd
calls a function written in C or comes back from it (`sys.setprofile`), or torch is about to carry out an operation or
has just done so (`TorchDispatchMode`). Out of memory comes at an operation, Ctrl-C at any of them.

Loops visit the same line many times. By default a failure comes the first time that each line or operation begins
and the last time that it ends; with ``CAMHD_EVERY_PLACE=1`` every time.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import camhd

HOME = str(pathlib.Path(camhd.__file__).parent)
BEGINS = ("call", "c_call", "before")
EVERY = bool(os.environ.get("CAMHD_EVERY_PLACE"))


class Places(TorchDispatchMode):
    """Notes the places of what is done under it, and raises `error` at place number `at`."""

    def __init__(self, at: int = -1, error: type[BaseException] = RuntimeError) -> None:
        super().__init__()
        self.at, self.error, self.raised = at, error, False
        self.found: list[tuple[str, ...]] = []

    def visit(self, *place: str) -> None:
        self.found.append(place)
        if len(self.found) - 1 == self.at and not self.raised:
            self.raised = True
            raise self.error(f"on purpose, at {place}")

    def profile(self, frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        # Python swallows what is raised while it closes a generator that nobody has read to its end.
        if code.co_filename.startswith(HOME) and (code.co_name != "<genexpr>" or event.startswith("c_")):
            name = getattr(argument, "__name__", "") if event.startswith("c_") else code.co_name
            self.visit(event, name, f"{pathlib.Path(code.co_filename).name}:{frame.f_lineno}")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.visit("before", str(func))
        found = func(*args, **(kwargs or {}))
        self.visit("after", str(func))
        return found

    @contextmanager
    def watching(self) -> Iterator[None]:
        with self:
            sys.setprofile(self.profile)
            try:
                yield
            finally:
                sys.setprofile(None)

    def chosen(self) -> list[int]:
        """Where to fail: the first time each line or operation begins and the last time it ends, or always."""
        if EVERY:
            return list(range(len(self.found)))
        found = list(enumerate(self.found))
        begun = {place: i for i, place in reversed(found) if place[0] in BEGINS}
        ended = {place: i for i, place in found if place[0] not in BEGINS}
        return sorted({*begun.values(), *ended.values()})


def clone(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: clone(v) for key, v in value.items()}
    return [clone(v) for v in value] if isinstance(value, list) else value


def same(one: Any, other: Any) -> bool:
    """To the bit."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@dataclass
class Seen:
    """Everything about an optimizer and its parameters that a step may change, copied."""

    learned: dict[str, Any]  # rates, γ, what the hyper rule keeps, the step count: what must change as a whole
    moved: frozenset[int]
    options: Any  # of the last move
    params: list[Tensor]
    moments: list[dict[str, Any]]
    grads: list[Tensor]

    @classmethod
    def of(cls, model: nn.Module, opt: camhd.Optimizer) -> Seen:
        state, params = opt.tree.state, list(model.parameters())
        learned = {
            "vectors": state.vectors(),
            "leaves": [leaf.tensors() for leaf in state.leaves],
            "last_moves": [tuple(map(float, move)) for move in state.last_moves],
            "step": state.step,
        }
        moments = [dict(opt.state.get(p, {})) for p in params]
        options = [group["last_move"] for group in opt.param_groups]
        found = (learned, state.moved, options, params, moments, [p.grad for p in params])
        return cls(*map(clone, found))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2))


def backward(model: nn.Module, opt: torch.optim.Optimizer, t: int) -> Tensor:
    opt.zero_grad()
    x = torch.linspace(-2, 2, 12).mul(1 + t).cos().view(4, 3)
    loss = (model(x) - x[:, :2].sin()).square().mean()
    loss.backward()
    return loss


def train(model: nn.Module, opt: torch.optim.Optimizer, first: int, last: int) -> None:
    for t in range(first, last):
        backward(model, opt, t)
        opt.step()


@dataclass
class Case:
    """An optimizer that can be brought back to the same step again and again.

    Args:
        make: an optimizer for a model.
        before: steps before the one that fails.
    """

    make: Callable[[nn.Module], camhd.Optimizer]
    before: int = 3

    def __post_init__(self) -> None:
        self.model, self.opt = self._built(max(self.before - 1, 0))
        if self.before:
            backward(self.model, self.opt, self.before - 1)
            self.kept = self._all_tensors()
            self.opt.step()
        backward(self.model, self.opt, self.before)
        self.grads = [p.grad.clone() for p in self.model.parameters()]

    def _built(self, steps: int) -> tuple[nn.Module, camhd.Optimizer]:
        model = network()
        opt = self.make(model)
        train(model, opt, 0, steps)
        return model, opt

    def _all_tensors(self) -> Any:
        """The tensors themselves and copies of them, and what else a step changes."""
        opt, state = self.opt, self.opt.tree.state
        inner = [opt.rule.inner] if isinstance(opt.rule, camhd.rules.Wrapped) else []
        entries = [(found, dict(found)) for holder in (opt, *inner) for found in holder.state.values()]
        leaves = [value for leaf in state.leaves for value in leaf.tensors().values()]
        tensors = [p.detach() for p in self.model.parameters()] + [p.grad for p in self.model.parameters()]
        tensors += [value for _, items in entries for value in items.values() if isinstance(value, Tensor)]
        tensors += [*leaves, *state.vectors()]
        groups = [(group, dict(group)) for holder in (opt, *inner) for group in holder.param_groups]
        noted = {"step": state.step, "last_moves": state.last_moves, "moved": state.moved, "skipped": state.skipped}
        return entries, groups, tensors, [tensor.clone() for tensor in tensors], noted

    def ready(self) -> tuple[nn.Module, camhd.Optimizer]:
        """The optimizer as it was `before` steps after its start, with gradients; its caches are warm."""
        if not self.before:
            self.model, self.opt = self._built(0)
        else:
            entries, groups, tensors, copies, noted = self.kept
            for found, items in (*entries, *groups):
                found.clear()
                found.update(items)
            # Another object, or the kernels would take it for what they have noted themselves.
            vars(self.opt.tree.state).update({**noted, "moved": frozenset([*noted["moved"]])})
            with torch.no_grad():
                torch._foreach_copy_(tensors, copies)
            for p, grad in zip(self.model.parameters(), tensors[len(list(self.model.parameters())) :], strict=False):
                p.grad = grad
            self.opt.step()
        for p, grad in zip(self.model.parameters(), self.grads, strict=True):
            p.grad = grad.clone()
        return self.model, self.opt

    def twin(self) -> tuple[nn.Module, camhd.Optimizer]:
        """A new optimizer that knows nothing but the checkpoint of this one."""
        model = network()
        opt = self.make(model)
        model.load_state_dict(self.model.state_dict())
        opt.load_state_dict(clone(self.opt.state_dict()))
        return model, opt
