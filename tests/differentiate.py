"""What torch.autograd says: the derivative of this loss through the last move, for rates and for weights.

At step t the parameters came from ``θ_{t-1} = θ_{t-2} − U_{t-1}(κ(α, γ))``. An :class:`Observer` drives an optimizer
(the library's or the literal reference), keeps each move as a function of α and γ, and at the next step lets autograd
differentiate the loss through it. What it knows of the optimizer is what a user sees: ``rates()``, ``combination()``,
``combination_state()`` and the parameters. The direction in U comes from torch.optim, so none of it is our own code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cases import EXACT, HYPER, REGULARIZED, RULES, Setup
from models import backward, loss_at, snapshot
from moves import AdaBoundUpdates, TorchUpdates, Update
from reference import Reference
from reference_levels import Partition, Scalars, layer_of


@dataclass
class Move:
    """θ_after = θ_before − U(factor · (τ α* + (1 − τ) limit)), for the parameters that moved."""

    theta: Scalars
    updates: dict[str, Update]
    rates: dict[str, Tensor]  # by level, one number per group
    weights: Any  # γ, or the network's weights, that made this move
    tau: float
    factor: dict[str, float]

    def kappa(self, name: str, star: Tensor, limit: float) -> Tensor:
        return self.factor[name] * (self.tau * star + (1 - self.tau) * limit)

    def update(self, name: str, kappa: Tensor) -> Tensor:
        return self.updates[name](kappa)


@dataclass
class Derivatives:
    """Of this step's loss: by rate (each scalar's part times its β), weight, parameter; and ∂U/∂κ of the last move."""

    rates: dict[str, Tensor]
    weights: dict[str, Tensor]
    parameters: Scalars
    moves: Scalars


def gradients(f: Tensor, wanted: Iterable[Tensor]) -> list[Tensor]:
    wanted = list(wanted)
    if not wanted or not f.requires_grad:
        return [torch.zeros_like(x) for x in wanted]
    return list(torch.autograd.grad(f, wanted, retain_graph=True, allow_unused=True, materialize_grads=True))


def read(partition: Partition, shown: Any) -> Tensor:
    """One level of ``rates()`` as a vector in the partition's order: the inverse of ``Partition.named``."""
    if partition.level == "global":
        values = [shown]
    elif partition.level in ("unit", "filter", "parameter"):
        values = [shown[owner][at] for owner, at in partition.keys]
    else:
        values = [shown[key] for key in partition.keys]
    assert partition.level == "global" or set(shown) == {k[0] if isinstance(k, tuple) else k for k in partition.keys}
    return torch.tensor([float(value) for value in values], dtype=torch.float64)


class Observer:
    """Steps an optimizer and holds every step against autograd."""

    def __init__(self, optimizer: Any, model: nn.Module, setup: Setup):
        self.optimizer, self.model, self.setup = optimizer, model, setup
        self.map: Reference = setup.reference(model)  # who belongs where, and every option in full; it takes no step
        torch_rule = RULES[setup.rule].torch is not None
        self.updates = TorchUpdates(setup, model) if torch_rule else AdaBoundUpdates(setup, model)
        self.move: Move | None = None
        self.seen: dict[str, float] = {}  # the largest change of every level and weight, relative to itself
        self.t = 0

    # The optimizer as a user sees it.

    def rates(self) -> dict[str, Tensor]:
        shown = self.optimizer.rates()
        assert list(shown) == self.map.levels
        return {level: read(self.map.tree[level], shown[level]) for level in self.map.levels}

    def weights(self) -> Any:
        """γ by owner (a layer, or everything), or the network's weights, or nothing."""
        if self.setup.combine in REGULARIZED:
            return {}
        if self.setup.combine == "network":
            return {key: value.detach().double().clone() for key, value in self.optimizer.combination_state().items()}
        shown = self.optimizer.combination()
        if not self.setup.combine.startswith("per-layer"):
            shown = {"everything": shown}
        return {o: torch.tensor([g[level] for level in self.map.levels], dtype=torch.float64) for o, g in shown.items()}

    # The combination, as autograd sees it.

    def combined(self, name: str, alphas: list[Tensor], weights: Any) -> Tensor:
        """α* of one parameter from its rates at every level."""
        if self.setup.combine in REGULARIZED:
            return alphas[-1]
        if self.setup.combine == "network":
            scale = self.map.group[name]["lr0"]
            stacked = torch.stack(alphas, dim=-1)
            hidden = torch.tanh(nn.functional.linear(stacked / scale, weights["w1"], weights["b1"]))
            return stacked @ weights["mean"] + scale * (hidden @ weights["w2"])
        owner = layer_of(name) if self.setup.combine.startswith("per-layer") else "everything"
        return sum(weight * alpha for weight, alpha in zip(weights[owner], alphas, strict=True))

    def alphas(self, name: str, rates: Mapping[str, Tensor]) -> list[Tensor]:
        return [rates[i][self.map.tree[i].index[name]] * self.map.unit[i][name] for i in self.map.levels]

    def by_rate(self, name: str, rates: Mapping[str, Tensor], weights: Any) -> Tensor:
        """0, with the slope of α* in each rate times its group's β.

        The regularised form and the multiplicative rule know no chain rule: there every level's slope is 1.
        """
        assert self.move is not None
        fixed, nudged = self.alphas(name, self.move.rates), []
        for level, alpha, value in zip(self.map.levels, self.alphas(name, rates), fixed, strict=True):
            nudged.append(value + self.map._beta(level, name) * (alpha - value))
        if self.setup.combine in REGULARIZED or self.map.hyper_rule == "multiplicative":
            return sum(a - b for a, b in zip(nudged, fixed, strict=True))
        return self.combined(name, nudged, weights) - self.combined(name, fixed, weights)

    def derivatives(self, weights_now: Any, without: tuple[str, ...]) -> Derivatives:
        """What this step's loss says of the last move.

        The value of α* is the one that made the move. Its slope in a rate is taken at the weights of now (section
        3, step 2), a network's at the weights that made the move.
        """
        move = self.move
        assert move is not None
        at = move.weights if self.setup.combine == "network" else weights_now
        softmax = self.setup.combine.endswith("softmax")
        rates = {level: rate.clone().requires_grad_() for level, rate in move.rates.items()}
        leaves = {o: (w.log() if softmax else w.clone()).requires_grad_() for o, w in at.items()}
        weights = {o: w.softmax(0) for o, w in leaves.items()} if softmax else leaves
        theta, kappa = {}, {}
        for name, start in move.theta.items():
            fixed = self.alphas(name, move.rates)
            by_weight = self.combined(name, fixed, weights) - self.combined(name, fixed, at)
            star = self.combined(name, fixed, move.weights) + self.by_rate(name, rates, at) + by_weight
            kappa[name] = move.kappa(name, star, self.map.group[name]["lr_limit"])
            theta[name] = start - move.update(name, kappa[name]) if name in move.updates else start + 0 * star
        f = self.objective({n: p.detach() if n in without else p for n, p in theta.items()})
        return Derivatives(
            dict(zip(rates, gradients(f, rates.values()), strict=True)),
            dict(zip(leaves, gradients(f, leaves.values()), strict=True)),
            dict(zip(theta, gradients(f, theta.values()), strict=True)),
            {n: -gradients(theta[n].sum(), [kappa[n]])[0] for n in theta},
        )

    def objective(self, theta: Scalars) -> Tensor:
        """This step's loss as it is minimised, with the L2 penalty that weight decay is the gradient of."""
        f = loss_at(self.model, theta, self.t)
        if any(group["maximize"] for group in self.map.param_groups):
            f = -f
        if self.setup.rule == "adamw":
            return f
        return f + sum(self.map.group[n]["weight_decay"] / 2 * p.square().sum() for n, p in theta.items())

    # What the step should have done.

    def expected_rates(self, old: dict[str, Tensor], found: Derivatives) -> dict[str, Tensor]:
        new = {}
        for level in self.map.levels:
            tree, unit = self.map.tree[level], self.map.unit[level]
            if self.map.hyper_rule == "multiplicative":
                g_norm = tree.up({n: g**2 for n, g in found.parameters.items()}).sqrt()
                s_norm = tree.up({n: (unit[n] * s) ** 2 for n, s in found.moves.items()}).sqrt()
                cosine = found.rates[level] / (g_norm * s_norm)
                new[level] = old[level] * (1 - torch.where(found.rates[level] == 0, 0.0, cosine))
                continue
            size = torch.bincount(torch.cat([index.flatten() for index in tree.index.values()])).double()
            scale = {"sum": 1.0, "mean": 1.0 / size, "size": size}[self.map.hyper_scale]
            new[level] = old[level] - scale * found.rates[level]
        if self.setup.combine in REGULARIZED:
            new = self.map._regularized(old, new)
        return {level: rate.clamp(min=self.map.min_lr) for level, rate in new.items()}

    def expected_weights(self, old: Any, slopes: Any) -> Any:
        form, delta = self.setup.combine.removeprefix("per-layer "), self.map.delta
        if form == "fixed":
            return old
        if form == "softmax":
            return {o: (gamma.log() - delta * slopes[o]).softmax(0) for o, gamma in old.items()}
        moved = {o: gamma - delta * slopes[o] for o, gamma in old.items()}
        if form == "normalized":
            moved = {o: gamma.clamp(min=0) / gamma.clamp(min=0).sum() for o, gamma in moved.items()}
        return moved

    # One step.

    def step(self, factor: float = 1.0, without: tuple[str, ...] = ()) -> None:
        """A step with the schedule at ``factor``; parameters named in ``without`` have no gradient."""
        self.t += 1
        for group, known in zip(self.optimizer.param_groups, self.map.param_groups, strict=True):
            group["lr"] = known["lr0"] * factor
        theta, old_rates, old_weights = snapshot(self.model), self.rates(), self.weights()
        backward(self.model, self.t, without)
        grads = {n: p.grad.clone() for n, p in self.model.named_parameters() if p.grad is not None}
        found = None if self.move is None else self.derivatives(old_weights, without)
        self.optimizer.step()
        want_rates = old_rates if found is None else self.expected_rates(old_rates, found)
        want_weights = old_weights if found is None else self.expected_weights(old_weights, found.weights)
        self.compare(old_rates, want_rates, self.rates())
        self.compare(old_weights, want_weights, self.weights(), 0.0 if found is None else self.stake(found))
        factors = dict.fromkeys(theta, factor)
        updates = self.updates(theta, grads, factors)
        self.move = Move(theta, updates, self.rates(), old_weights, self.map._tau(self.t), factors)
        self.compare_parameters()

    def stake(self, found: Derivatives) -> float:
        """δ Σ|α* h|: the size of the terms whose differences move a softmax."""
        move, total = self.move, 0.0
        for name in move.updates:
            star = self.combined(name, self.alphas(name, move.rates), move.weights)
            total += float((star * move.factor[name] * found.parameters[name] * found.moves[name]).abs().sum())
        return self.map.delta * total

    def compare(self, old: Any, want: Any, got: Any, terms: float = 0.0) -> None:
        """A change is a hypergradient, kept but for the last digit of what was stored and of what was summed."""
        assert got.keys() == want.keys()
        for key in want:
            size = float(torch.stack([old[key], want[key]]).abs().max()) + terms
            change = want[key] - old[key]
            digit = 4 * torch.finfo(torch.float64).eps * size
            torch.testing.assert_close(got[key] - old[key], change, rtol=HYPER, atol=digit)
            moved = float(change.abs().max()) / size if size else 0.0
            self.seen[key] = max(self.seen.get(key, 0.0), moved)

    def compare_parameters(self) -> None:
        move = self.move
        assert move is not None
        for name, p in self.model.named_parameters():
            want = move.theta[name]
            if name in move.updates:
                star = self.combined(name, self.alphas(name, move.rates), move.weights)
                want = want - move.update(name, move.kappa(name, star, self.map.group[name]["lr_limit"]))
            torch.testing.assert_close(p.detach(), want, rtol=EXACT, atol=EXACT)

    def assert_everything_moved(self) -> None:
        """A comparison of changes says something only if at some step they are far above the last digit."""
        learns = not self.setup.combine.endswith("fixed") and (
            len(self.setup.levels) > 1 or self.setup.combine == "network"
        )
        wanted = [*self.map.levels, *([] if self.setup.combine in REGULARIZED or not learns else ["a weight"])]
        weights = [value for key, value in self.seen.items() if key not in self.map.levels]
        seen = {**self.seen, "a weight": max(weights, default=0.0)}
        assert all(seen[key] > 1e-5 for key in wanted), seen
