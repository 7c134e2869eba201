"""The optimizers by name: a base rule and its torch arguments, nothing else."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from .. import rules
from .optimizer import Optimizer
from .options import PER_GROUP, HyperOptions, PaperSettings, Params

# The paper's table of hyper-parameter settings. Adam: the rows of the feed-forward networks, whose
# levels (global and layer) are the default here. SGD: the ResNet rows, the only ones with an lr.
# AdaBound: run with CAM-HD on the ResNets only.
PAPER_ADAM = PaperSettings(hyper_lr=1e-7, combine_lr=0.01)
PAPER_SGD = PaperSettings(hyper_lr=1e-6, combine_lr=0.001)
PAPER_ADABOUND = PaperSettings(hyper_lr=1e-8, combine_lr=0.001)


class SGD(Optimizer):
    """SGD whose learning rates learn: θ ← θ − κ ⊙ d with d = g, momentum's b, or Nesterov's g + μ b.

    Args:
        params: a module, named parameters, parameters, or param-group dicts.
        lr: where all rates start.
        momentum: μ.
        dampening: of the gradient in the momentum buffer.
        weight_decay: L2 decay, added to the gradient (and so part of the hypergradient).
        nesterov: Nesterov's momentum.
        options: see `HyperOptions`.

    >>> model = torch.nn.Linear(4, 2)
    >>> opt = SGD(model, lr=0.1, momentum=0.9, nesterov=True, levels=("global", "unit"), weights=(0.8, 0.2))
    >>> model(torch.ones(3, 4)).sum().backward(); opt.step(); opt.zero_grad()
    >>> opt.combination()["global"]
    0.8...

    Reference: Jie et al., Adaptive Multi-level Hyper-gradient Descent, Algorithm 1.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        **options: Unpack[HyperOptions],
    ) -> None:
        base = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, rules.SGD(), base, options, PAPER_SGD)


class Adam(Optimizer):
    """Adam whose learning rates learn: θ ← θ − κ ⊙ m̂/(√v̂ + ε).

    Args:
        params: a module, named parameters, parameters, or param-group dicts.
        lr: where all rates start.
        betas: decay of the two moments; with the default rule the second forgets sooner where there is little noise.
        eps: ε.
        weight_decay: L2 decay, added to the gradient, unless it is decoupled.
        amsgrad: use the running maximum of v.
        decoupled_weight_decay: AdamW's decay, part of the direction.
        options: see `HyperOptions`.

    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> opt = Adam(model)
    >>> for _ in range(3):
    ...     loss = model(torch.ones(5, 4)).square().mean()
    ...     loss.backward(); opt.step(); opt.zero_grad()
    >>> sorted(opt.rates()["layer"])
    ['0', '2']

    Reference: Jie et al., Adaptive Multi-level Hyper-gradient Descent, Algorithm 1.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        decoupled_weight_decay: bool = False,
        **options: Unpack[HyperOptions],
    ) -> None:
        base = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, rules.Adam(), base, options, PAPER_ADAM)


class AdamW(Adam):
    """Adam with decoupled weight decay: the decay is part of the direction, and of its hypergradient.

    Args:
        params: a module, named parameters, parameters, or param-group dicts.
        lr: where all rates start.
        betas: decay of the two moments.
        eps: ε.
        weight_decay: the decay; θ shrinks by κ·weight_decay at each step.
        amsgrad: use the running maximum of v.
        options: see `HyperOptions`.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        **options: Unpack[HyperOptions],
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, decoupled_weight_decay=True, **options)


class AdaBound(Optimizer):
    """AdaBound whose learning rates learn: θ ← θ − clip(κ c_t/(√v + ε), η_l, η_u) ⊙ m.

    Args:
        params: a module, named parameters, parameters, or param-group dicts.
        lr: where all rates start.
        betas: decay of the two moments.
        final_lr: f, the rate to which both bounds converge; a scheduler scales it, learning does not.
        gamma: how fast they do; None for 1 − β₂, which is AdaBound's 1e-3 at the default betas.
        eps: ε.
        weight_decay: L2 decay, added to the gradient.
        amsbound: use the running maximum of v.
        bounds: "released" for the upper bound of AdaBound's code, "paper" for that of the CAM-HD paper.
        decay_bound: "sqrt" divides the step by √t, as the paper's equation does.
        options: see `HyperOptions`.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        final_lr: float = 0.1,
        gamma: float | None = None,
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsbound: bool = False,
        *,
        bounds: str = "released",
        decay_bound: str | None = None,
        **options: Unpack[HyperOptions],
    ) -> None:
        base = {
            "lr": lr,
            "betas": betas,
            "final_lr": final_lr,
            "gamma": gamma,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsbound,
            "bounds": bounds,
            "decay_bound": decay_bound,
        }
        super().__init__(params, rules.AdaBound(), base, options, PAPER_ADABOUND)


class Wrapped(Optimizer):
    """Another optimizer whose learning rates learn; made by `wrap`."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: nn.Module | None = None,
        **options: Unpack[HyperOptions],
    ) -> None:
        if isinstance(optimizer, Optimizer):
            raise TypeError(f"wrap() got a camhd.{type(optimizer).__name__}, whose learning rates learn already.")
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"wrap() needs a torch.optim.Optimizer, got {type(optimizer).__name__}.")
        if "maximize" in options:
            raise ValueError("'maximize' belongs to the wrapped optimizer; set it there, before wrapping.")
        rule = rules.Wrapped(optimizer)
        names: dict[Tensor, str] | None = None
        if model is not None:
            names = {p: name for name, p in model.named_parameters()}
        groups = [_like_group(group, names) for group in optimizer.param_groups]
        base = {"lr": groups[0]["lr"], **optimizer.defaults}
        super().__init__(groups, rule, base, options, PAPER_ADAM, model)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, to the wrapped optimizer too."""
        if self.tree is None:
            return super().add_param_group(param_group)
        assert isinstance(self.rule, rules.Wrapped)
        ours = {name: value for name, value in param_group.items() if name in PER_GROUP}
        inner, known = self.rule.inner, len(self.param_groups)
        try:
            inner.add_param_group({name: value for name, value in param_group.items() if name not in PER_GROUP})
            self.rule.look_at_groups()
            super().add_param_group({**_like_group(inner.param_groups[-1], None), **ours})
        except BaseException:
            if len(self.param_groups) == known:  # not in ours: neither in the other's
                del inner.param_groups[known:]
            raise


def _like_group(group: dict[str, Any], names: dict[Tensor, str] | None) -> dict[str, Any]:
    """A param group with the same options and parameters, named if names are known."""
    params = group["params"]
    if names is not None:
        missing = next((p for p in params if p not in names), None)
        if missing is not None:
            raise ValueError(
                f"'model' must own all parameters of the wrapped optimizer, but one of shape {tuple(missing.shape)} "
                "is not among model.named_parameters()."
            )
        params = [(names[p], p) for p in params]
    elif "param_names" in group:
        params = list(zip(group["param_names"], params, strict=True))
    options = {name: value for name, value in group.items() if name not in ("params", "param_names", "initial_lr")}
    return {**options, "params": params}


def wrap(optimizer: torch.optim.Optimizer, model: nn.Module | None = None, **options: Unpack[HyperOptions]) -> Wrapped:
    """Any optimizer whose step is lr times a direction, with learning rates that learn.

    The optimizer keeps its own state and its own options; step and schedule the wrapped one. An
    optimizer that uses lr in another way (LBFGS, Rprop, clipped rates) is refused with the reason.

    Args:
        optimizer: the optimizer, before its first step or in mid-training.
        model: tells names and modules, for levels by layer, gate or unit, if the optimizer was not
            built from named parameters.
        options: see `HyperOptions`.

    >>> model = torch.nn.Linear(4, 2)
    >>> opt = wrap(torch.optim.RMSprop(model.named_parameters(), lr=1e-3), levels=("global", "unit"))
    >>> model(torch.ones(3, 4)).sum().backward(); opt.step()
    """
    return Wrapped(optimizer, model, **options)
