"""Peers that need more than a torch optimizer does: Mechanic and GDTUO."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...report.reading import MECHANIC
from .drivers import Driver


class MechanicDriver(Driver):
    """Drives a mechanized optimizer, whose `state_dict` names parameters by the tensors themselves.

    Such a state cannot be loaded into another process, so the driver names them by number.
    """

    def state_dict(self) -> dict[str, Any]:
        saved = super().state_dict()
        own = saved["state"].get(MECHANIC)
        if own is None:  # before the first step
            return saved
        numbers = {param: number for number, param in enumerate(self._params())}
        named = {numbers[key] if isinstance(key, Tensor) else key: _copied(value) for key, value in own.items()}
        return {**saved, "state": {**saved["state"], MECHANIC: named}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        own = state["state"].get(MECHANIC)
        if own is None:
            return super().load_state_dict(state)
        params = self._params()
        named = {params[key] if isinstance(key, int) else key: _copied(value) for key, value in own.items()}
        super().load_state_dict({**state, "state": {**state["state"], MECHANIC: named}})

    def rate(self) -> float | None:
        return super().rate() if MECHANIC in self._torch.state else None  # which it has from the first step on

    def _params(self) -> list[Tensor]:
        return [p for group in self._torch.param_groups for p in group["params"]]


class UltimateDriver(Driver):
    """Drives GDTUO's Adam, whose rate and betas are learned by SGD through autograd.

    GDTUO makes new parameters at every step, with the step in their graph; the next backward pass goes through it to
    the rate and the betas. `backward(create_graph=True)`, which its documentation asks for, is not needed for that:
    it gives the same numbers (a test compares them) and leaks memory. A graph cannot be saved. What is saved is the
    moment before the last step, and loading it takes that step again.

    Args:
        module: the package's module `gdtuo`.
        model: the model; its parameters become plain tensors.
        lr: Adam's rate at the start.
        betas: Adam's betas at the start.
        eps: Adam's ε.
        hyper_lr: the rate of the SGD that learns them.
    """

    def __init__(
        self, module: Any, model: nn.Module, lr: float, betas: tuple[float, float], eps: float, hyper_lr: float
    ) -> None:
        _check_untied(model)
        self.optimizer = None
        self.recurrent = [part for part in model.modules() if isinstance(part, nn.RNNBase)]
        self.tower = module.Adam(lr, *betas, math.log10(eps), optimizer=module.SGD(hyper_lr))
        self.wrapper = module.ModuleWrapper(model, optimizer=self.tower)
        self.before: dict[str, Any] | None = None
        self.wrapper.begin()

    def zero_grad(self) -> None:
        self.wrapper.begin()
        self.wrapper.zero_grad()

    def step(self, loss: Tensor) -> None:
        self.before = self._moment()
        self._move()

    def train(self) -> None:
        """Nothing to switch."""

    def eval(self) -> None:
        """Nothing to switch."""

    def rate(self) -> float | None:
        return float(self.tower.parameters["alpha"].detach())

    def state_dict(self) -> dict[str, Any]:
        return {"before": _copied(self.before)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the last step again. It sets the model's parameters too, to the values they had when this was saved."""
        self.before = _copied(state["before"])
        if self.before is None:
            return
        for holder, name in ((self.wrapper, "model"), (self.tower, "tower"), (self.tower.optimizer, "sgd")):
            holder.parameters.update(_leaves(self.before[name]))
        self.tower.num_stepments, self.tower.cache = self.before["steps"], _copied(self.before["moments"])
        self._move()

    def _move(self) -> None:
        self.wrapper.step()
        for part in self.recurrent:  # torch's recurrent modules have a list of their weights besides
            part._flat_weights = [part._parameters[name] for name in part._flat_weights_names]
        self.wrapper.begin()

    def _moment(self) -> dict[str, Any]:
        """Everything that the coming step depends on. GDTUO writes into no tensor, so that nothing need be copied."""
        holders = {"model": self.wrapper, "tower": self.tower, "sgd": self.tower.optimizer}
        moments = {name: {k: v.detach() for k, v in kept.items()} for name, kept in self.tower.cache.items()}
        found = {name: _values(holder.parameters) for name, holder in holders.items()}
        return {**found, "moments": moments, "steps": self.tower.num_stepments}


def _check_untied(model: nn.Module) -> None:
    owners: dict[Tensor, str] = {}
    for name, param in model.named_parameters(remove_duplicate=False):
        if owners.setdefault(param, name) != name:
            raise ValueError(
                f"'gdtuo-adam' needs a model without shared parameters, because GDTUO replaces each by name, but "
                f"{owners[param]!r} and {name!r} are one; use another optimizer for this model."
            )


def _values(parameters: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor | None]]:
    """Values and gradients by name."""
    return {name: (p.detach(), None if p.grad is None else p.grad.detach()) for name, p in parameters.items()}


def _leaves(values: Mapping[str, tuple[Tensor, Tensor | None]]) -> dict[str, Tensor]:
    """Tensors with these values and gradients."""
    found = {}
    for name, (value, grad) in values.items():
        found[name] = value.clone().requires_grad_()
        found[name].grad = grad
    return found


def _copied(value: Any) -> Any:
    """The same with tensors of its own."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, Mapping):
        return {key: _copied(part) for key, part in value.items()}
    return tuple(_copied(part) for part in value) if isinstance(value, tuple) else value


def mechanic(
    module: Any,
    model: nn.Module,
    lr: float = 1.0,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0,
    s_decay: float = 0.01,
    s_init: float = 1e-8,
    store_delta: bool = False,
) -> Driver:
    """Adam behind Mechanic's tuner."""
    tuned = module.mechanize(torch.optim.Adam, s_decay=s_decay, s_init=s_init, store_delta=store_delta)
    return MechanicDriver(tuned(model.parameters(), lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))


def ultimate(
    module: Any,
    model: nn.Module,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    hyper_lr: float = 1e-5,
) -> Driver:
    """GDTUO's stack of Adam and SGD, as in its documentation."""
    return UltimateDriver(module, model, lr, betas, eps, hyper_lr)
