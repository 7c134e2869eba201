"""AdaBound and AMSBound (Luo et al.): camhd's AdaBound with a rate that does not learn."""

from __future__ import annotations

from torch import Tensor

from .. import optim
from ..optim import Params


class AdaBound(optim.AdaBound):
    """θ ← θ − clip(lr·√(1−β₂ᵗ)/(1−β₁ᵗ)/(√v + ε), f(1 − 1/(γt+1)), f(1 + 1/(γt))) ⊙ m.

    f is `final_lr`, and a scheduler scales it as it scales lr.

    Args:
        params: a module, named parameters, parameters, or param-group dicts.
        lr: Adam's rate, where the clipping begins.
        betas: decay of the two moments.
        final_lr: f, the rate to which both bounds converge.
        gamma: γ, how fast they do.
        eps: ε.
        weight_decay: L2 decay, added to the gradient.
        amsbound: use the running maximum of v.
        maximize: go up instead of down.
        backend: how a step is carried out; see `camhd.HyperOptions`.

    >>> import torch
    >>> model = torch.nn.Linear(4, 2)
    >>> opt = AdaBound(model.parameters(), lr=1e-3, final_lr=0.1)
    >>> model(torch.ones(3, 4)).square().sum().backward(); opt.step()

    Reference: Luo et al., Adaptive Gradient Methods with Dynamic Bound of Learning Rate.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        final_lr: float = 0.1,
        gamma: float = 1e-3,
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsbound: bool = False,
        *,
        maximize: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__(
            params, lr, betas, final_lr, gamma, eps, weight_decay, amsbound,
            levels=("global",), combine="fixed", hyper_rule="additive", hyper_lr=0.0,
            maximize=maximize, backend=backend,
        )  # fmt: skip


class AMSBound(AdaBound):
    """AdaBound with the running maximum of v, as AMSGrad is to Adam.

    Args:
        params: a module, named parameters, parameters, or param-group dicts.
        lr: Adam's rate, where the clipping begins.
        betas: decay of the two moments.
        final_lr: f, the rate to which both bounds converge.
        gamma: γ, how fast they do.
        eps: ε.
        weight_decay: L2 decay, added to the gradient.
        maximize: go up instead of down.
        backend: how a step is carried out; see `camhd.HyperOptions`.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        final_lr: float = 0.1,
        gamma: float = 1e-3,
        eps: float = 1e-8,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__(
            params, lr, betas, final_lr, gamma, eps, weight_decay, amsbound=True, maximize=maximize, backend=backend
        )
