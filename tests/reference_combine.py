"""How the literal algorithm (:mod:`reference`) makes one rate of several: sections 4 and 5."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reference_levels import Scalars, layer_of


class LastMove(NamedTuple):
    """What made the last move: the rates (name → [levels, *parameter]), the network's weights, each group's lr0."""

    alphas: Mapping[str, Tensor]
    weights: Mapping[str, Tensor]
    scale: Mapping[str, float]


class Weighted:
    """α* = Σ γ_i α_i. ``form`` says how γ learns; ``per_layer`` gives each layer a γ of its own."""

    def __init__(self, form: str, per_layer: bool = False):
        self.form, self.per_layer = form, per_layer
        self.state: dict[str, Tensor] = {}

    def start(self, weights: list[float], names: Collection[str]) -> None:
        self.owner = {name: layer_of(name) if self.per_layer else "everything" for name in names}
        self.gamma = {owner: torch.tensor(weights, dtype=torch.float64) for owner in self.owner.values()}

    def combined(self, name: str, alphas: Tensor, scale: float) -> Tensor:
        return sum(gamma * alpha for gamma, alpha in zip(self.gamma[self.owner[name]], alphas, strict=True))

    def slopes(self, name: str, last: LastMove) -> Tensor:
        """∂α*/∂α_i, level by level: the γ of now (step 2)."""
        return torch.stack([gamma * torch.ones_like(last.alphas[name][0]) for gamma in self.gamma[self.owner[name]]])

    def learn(self, h: Scalars, last: LastMove, delta: float) -> None:
        """Step 4, with the old rates."""
        if self.form == "fixed":
            return
        for owner, gamma in self.gamma.items():
            slope = torch.zeros_like(gamma)
            for name in (n for n in h if self.owner[n] == owner):
                slope += torch.stack([(alpha * h[name]).sum() for alpha in last.alphas[name]])
            if self.form == "softmax":
                logits = gamma.log() - delta * gamma * (slope - (gamma * slope).sum())
                self.gamma[owner] = logits.softmax(0)
            else:
                moved = (gamma - delta * slope).clamp(min=0.0)
                self.gamma[owner] = moved / moved.sum() if moved.sum() > 0 else gamma

    def shown(self, levels: list[str]) -> Any:
        named = {owner: dict(zip(levels, gamma.tolist(), strict=True)) for owner, gamma in self.gamma.items()}
        return named if self.per_layer else named["everything"]


class Network:
    """α* = Σ mean_i α_i + scale · w2 · tanh(w1 (α/scale) + b1), with scale = lr0 of the parameter's group."""

    def __init__(self, state: Mapping[str, Tensor]):
        self.state = {key: value.detach().double().clone() for key, value in state.items()}

    def start(self, weights: list[float], names: Collection[str]) -> None:
        pass

    def _hidden(self, w: Mapping[str, Tensor], alphas: Tensor, scale: float) -> Tensor:
        bias = w["b1"].reshape(-1, *[1] * (alphas.dim() - 1))
        return torch.tanh(torch.tensordot(w["w1"], alphas / scale, dims=1) + bias)

    def combined(self, name: str, alphas: Tensor, scale: float) -> Tensor:
        w, hidden = self.state, self._hidden(self.state, alphas, scale)
        return torch.tensordot(w["mean"], alphas, dims=1) + scale * torch.tensordot(w["w2"], hidden, dims=1)

    def slopes(self, name: str, last: LastMove) -> Tensor:
        """∂α*/∂α_i where the last move was made: at its rates and its weights."""
        w, alphas = last.weights, last.alphas[name]
        ones = [1] * (alphas.dim() - 1)
        inner = w["w2"].reshape(-1, *ones) * (1 - self._hidden(w, alphas, last.scale[name]) ** 2)
        return w["mean"].reshape(-1, *ones) + torch.tensordot(w["w1"].T, inner, dims=1)

    def learn(self, h: Scalars, last: LastMove, delta: float) -> None:
        slope = {key: torch.zeros_like(value) for key, value in self.state.items()}
        w = last.weights
        for name, h_p in h.items():
            flat, scale = last.alphas[name].flatten(1), last.scale[name]  # [levels, scalars]
            hidden = self._hidden(w, flat, scale)  # [hidden, scalars]
            back = scale * w["w2"][:, None] * (1 - hidden**2) * h_p.flatten()
            slope["mean"] += flat @ h_p.flatten()
            slope["w2"] += scale * hidden @ h_p.flatten()
            slope["b1"] += back.sum(1)
            slope["w1"] += back @ (flat / scale).T
        self.state = {key: value - delta * slope[key] for key, value in self.state.items()}


class Regularized:
    """Section 5: no γ; the leaf's rate moves the parameters and every child is pulled to its ancestors."""

    def __init__(self, pull: Mapping[tuple[str, str], float], over_time: float = 0.0, solve: str = "virtual"):
        self.pull, self.over_time, self.solve = dict(pull), over_time, solve
        self.state: dict[str, Tensor] = {}

    def start(self, weights: list[float], names: Collection[str]) -> None:
        pass

    def combined(self, name: str, alphas: Tensor, scale: float) -> Tensor:
        return alphas[-1]

    def slopes(self, name: str, last: LastMove) -> Tensor:
        return torch.ones_like(last.alphas[name])

    def learn(self, h: Scalars, last: LastMove, delta: float) -> None:
        pass

    def rate(self, beta: float, own: Tensor, old: Tensor, ancestors: list[tuple[float, Tensor]]) -> Tensor:
        """The new rates of one level, from its virtual rates (``own``) and its last ones (``old``).

        ``ancestors`` pairs λ_ij with the ancestor's rate as each child sees it: virtual, current or last, as
        ``solve`` has it.
        """
        ts = self.over_time
        if self.solve == "virtual":
            return own - 2 * beta * sum((lam * (own - a) for lam, a in ancestors), ts * (own - old))
        if self.solve == "closed":
            above = own + 2 * beta * sum((lam * a for lam, a in ancestors), ts * old)
            return above / (1 + 2 * beta * sum((lam for lam, _ in ancestors), ts))
        return own - 2 * beta * sum((lam * (old - a) for lam, a in ancestors), torch.zeros_like(own))


Combination = Weighted | Network | Regularized
