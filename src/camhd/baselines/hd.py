"""Hypergradient descent (Baydin et al.): one rate that learns, which is a tree of one level."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from torch import Tensor
from typing_extensions import TypedDict, Unpack

from ..hyper import HyperRule
from ..optim import SGD, Adam, HyperOptions, Optimizer, Params
from .released import ReleasedAdam, TensorByTensor

# The defaults of the released code; the multiplicative rule brings its own.
SGD_HYPER_LR, ADAM_HYPER_LR = 1e-6, 1e-8


class HDOptions(TypedDict, total=False):
    """Keyword options of `SGDHD`, `SGDNHD` and `AdamHD`.

    | option | meaning | default |
    |---|---|---|
    | `hyper_lr` | β, or β′ of the multiplicative rule | 1e-6 (SGD), 1e-8 (Adam), 0.02 (multiplicative) |
    | `hyper_rule` | `"additive"`, `"multiplicative"` or a `camhd.hyper` object | `"additive"` |
    | `faithful` | behave as the released code does, faults included | False |
    | `min_lr`, `max_lr` | the rate does not leave these bounds | 0, None |
    | `maximize` | go up instead of down | False |
    | `backend` | how a step is carried out; see `camhd.HyperOptions` | `"auto"` |
    """

    hyper_lr: float | None
    hyper_rule: str | HyperRule
    faithful: bool
    min_lr: float
    max_lr: float | None
    maximize: bool
    backend: str


class SGDHD(SGD):
    """SGD with one learned rate: α ← α + β g_t·d_{t−1}, then θ ← θ − α d_t.

    With `faithful` the rate may become negative, as it does in the released code, and there is one param group.

    Args:
        params: a module, named parameters, parameters, or param-group dicts.
        lr: where the rate starts.
        momentum: μ.
        dampening: of the gradient in the momentum buffer.
        weight_decay: L2 decay, added to the gradient and so part of the hypergradient.
        nesterov: Nesterov's momentum.
        options: see `HDOptions`.

    >>> import torch
    >>> model = torch.nn.Linear(4, 2)
    >>> opt = SGDHD(model.parameters(), lr=0.1, hyper_lr=1e-3)
    >>> for _ in range(2):
    ...     opt.zero_grad(); model(torch.ones(3, 4)).square().sum().backward(); opt.step()
    >>> opt.rates()["global"] == 0.1
    False

    Reference: Baydin et al., Online Learning Rate Adaptation with Hypergradient Descent.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        **options: Unpack[HDOptions],
    ) -> None:
        tree = _one_level(options, "global", SGD_HYPER_LR, type(self).__name__)
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov, **tree)
        if options.get("faithful"):
            _check_one_group(len(self.param_groups))
            _unbind(self)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; not with `faithful`."""
        if self.tree is not None and self.config.min_lr < 0:
            _check_one_group(len(self.param_groups) + 1)
        super().add_param_group(param_group)


class SGDNHD(SGDHD):
    """SGD with Nesterov's momentum and one learned rate: d = g + μ b.

    Args:
        params: a module, named parameters, parameters, or param-group dicts.
        lr: where the rate starts.
        momentum: μ.
        weight_decay: L2 decay, added to the gradient and so part of the hypergradient.
        options: see `HDOptions`.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0.9,
        weight_decay: float = 0,
        **options: Unpack[HDOptions],
    ) -> None:
        super().__init__(params, lr, momentum, 0, weight_decay, True, **options)


class AdamHD(Adam):
    """Adam with one learned rate: α ← α + β g_t·d_{t−1}, then θ ← θ − α d_t with d = m̂/(√v̂ + ε).

    With `faithful` the rate may become negative, it changes within a step from tensor to tensor, ε is added before the
    bias is corrected, and each param group has a rate of its own: what the released code does.

    Args:
        params: a module, named parameters, parameters, or param-group dicts.
        lr: where the rate starts.
        betas: decay of the two moments.
        eps: ε.
        weight_decay: L2 decay, added to the gradient and so part of the hypergradient.
        options: see `HDOptions`.

    >>> import torch
    >>> _ = torch.manual_seed(0)  # by chance a model may have next to nothing to learn
    >>> model = torch.nn.Linear(4, 2)
    >>> opt = AdamHD(model.parameters(), hyper_rule="multiplicative")
    >>> for _ in range(2):
    ...     opt.zero_grad(); model(torch.ones(3, 4)).square().sum().backward(); opt.step()
    >>> 1e-3 < opt.rates()["global"] <= 1.02e-3
    True

    Reference: Baydin et al., Online Learning Rate Adaptation with Hypergradient Descent.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        **options: Unpack[HDOptions],
    ) -> None:
        faithful = options.get("faithful", False)
        tree = _one_level(options, "group" if faithful else "global", ADAM_HYPER_LR, type(self).__name__)
        super().__init__(params, lr, betas, eps, weight_decay, **tree)
        if faithful:
            _unbind(self)
            self.rule, self.backend = ReleasedAdam(), TensorByTensor()


def _one_level(options: HDOptions, level: str, hyper_lr: float, owner: str) -> HyperOptions:
    """The options of a tree of one level, its weight fixed at 1."""
    for name in options:
        if name not in HDOptions.__annotations__:
            raise TypeError(f"{owner} has no option {name!r}; the options are {', '.join(HDOptions.__annotations__)}.")
    rule, beta = options.get("hyper_rule", "additive"), options.get("hyper_lr")
    found = HyperOptions(
        levels=(level,),
        combine="fixed",
        hyper_lr=hyper_lr if beta is None and rule == "additive" else beta,
        hyper_rule=rule,
        min_lr=options.get("min_lr", 0.0),
        max_lr=options.get("max_lr"),
        max_change=None,  # neither their paper nor their code knows of one
        maximize=options.get("maximize", False),
        backend=options.get("backend", "auto"),
    )
    if options.get("faithful"):
        for name, value in found.items():
            if value != {"hyper_rule": "additive", "min_lr": 0.0, "max_lr": None, "backend": "auto"}.get(name, value):
                raise ValueError(
                    f"'{name}' must be left out with faithful=True, because the released code has only the additive "
                    f"rule, no bounds and no backends, got {value!r}."
                )
    return found


def _check_one_group(groups: int) -> None:
    if groups != 1:
        raise ValueError(
            f"SGD-HD with faithful=True must have one param group, as in the released code, got {groups}; "
            "leave 'faithful' out, or pass the parameters in one group."
        )


def _unbind(optimizer: Optimizer) -> None:
    """No bound on the rate, not even 0."""
    assert optimizer.tree is not None
    optimizer.config = optimizer.tree.config = replace(optimizer.config, min_lr=-math.inf)
