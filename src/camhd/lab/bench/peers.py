"""Other packages that adapt learning rates: each a row in a table, built as its own documentation says."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .cases import LR, Contestant, Stepper, stepper
from .results import Peer


@dataclass(frozen=True)
class Adapter:
    """How an optimizer of a package is built over a model."""

    package: str  # on PyPI
    module: str
    name: str
    build: Callable[[Any, nn.Module], Stepper]

    def contestant(self) -> Contestant:
        """Its package is imported only when it is built."""
        return Contestant(
            self.package, self.name, "", lambda model: self.build(importlib.import_module(self.module), model)
        )


def _plain(name: str, **options: Any) -> Callable[[Any, nn.Module], Stepper]:
    return lambda module, model: stepper(getattr(module, name)(model.parameters(), **options))


def _schedule_free(module: Any, model: nn.Module) -> Stepper:
    optimizer = module.AdamWScheduleFree(model.parameters(), lr=LR)
    optimizer.train()
    return stepper(optimizer)


def _mechanic(module: Any, model: nn.Module) -> Stepper:
    return stepper(module.mechanize(torch.optim.Adam)(model.parameters(), lr=1.0))


def _heavyball(module: Any, model: nn.Module) -> Stepper:
    """Without torch.compile, which takes minutes on a CPU, and without dropping the gradients after a step."""
    utils: Any = importlib.import_module(f"{module.__name__}.utils")
    utils.compile_mode = None
    return stepper(module.AdamW(model.parameters(), lr=LR, consume_grad=False))


class _Ultimate:
    """Adam whose rate is learned by SGD through autograd.

    It makes new parameters at every step, with the old step in their graph. The fixed gradients are sent backwards
    through that graph, as a loss would send them.
    """

    def __init__(self, module: Any, model: nn.Module) -> None:
        self.grads = [p.grad for p in model.parameters()]
        self.optimizer = module.AdamBaydin(alpha=LR, optimizer=module.SGD(1e-12))
        params = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.params = module.Optimizable(params, self.optimizer)

    def step(self) -> None:
        self.params.begin()
        self.params.zero_grad()
        torch.autograd.backward(list(self.params.parameters.values()), self.grads)
        self.optimizer.step(self.params.parameters)

    def watch(self) -> Tensor:
        first: Tensor = next(iter(self.params.parameters.values()))
        return first


def _ultimate(module: Any, model: nn.Module) -> Stepper:
    holder = _Ultimate(module, model)
    return Stepper(holder.step, holder.optimizer, holder.watch)


_GDTUO = "gradient-descent-the-ultimate-optimizer"
ADAPTERS = (
    Adapter("prodigyopt", "prodigyopt", "Prodigy", _plain("Prodigy")),
    Adapter("dadaptation", "dadaptation", "DAdaptAdam", _plain("DAdaptAdam")),
    Adapter("schedulefree", "schedulefree", "AdamWScheduleFree", _schedule_free),
    Adapter("mechanic-pytorch", "mechanic_pytorch", "mechanize(Adam)", _mechanic),
    Adapter(_GDTUO, f"{_GDTUO.replace('-', '_')}.gdtuo", "AdamBaydin / SGD", _ultimate),
    Adapter("torch_optimizer", "torch_optimizer", "AdaBound", _plain("AdaBound", lr=LR)),
    Adapter("pytorch_optimizer", "pytorch_optimizer", "Prodigy", _plain("Prodigy")),
    Adapter("pytorch_optimizer", "pytorch_optimizer", "AdaBound", _plain("AdaBound", lr=LR)),
    Adapter("heavyball", "heavyball", "AdamW, not compiled", _heavyball),
)


def peers(adapters: tuple[Adapter, ...] = ADAPTERS) -> tuple[Peer, ...]:
    """Every package of the table, with its version if it is installed."""
    return tuple(Peer(package, _version(package)) for package in dict.fromkeys(a.package for a in adapters))


def installed(adapters: tuple[Adapter, ...] = ADAPTERS) -> tuple[Adapter, ...]:
    """The rows of the table that can be tried here."""
    there = {peer.package for peer in peers(adapters) if peer.version is not None}
    return tuple(adapter for adapter in adapters if adapter.package in there)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
