"""CAM-HD written down literally: the oracle that the library is tested against.

Nothing in this file is fast or clever. Every scalar parameter carries, at every level, the number of the group
it belongs to (an integer tensor of the parameter's shape); every quantity of the algorithm is a float64 tensor
of that same shape; last step's ``s = ∂U/∂κ`` is stored, never recomputed. Step numbers in comments are those
of section 3 of the specification.

    reference = Reference([{"params": dict(model.named_parameters())}], "adam", lr=1e-3, hyper_lr=1e-4)
    loss.backward()
    reference.step()
    reference.rates(), reference.combination()
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from reference_combine import Combination, LastMove, Regularized, Weighted
from reference_levels import ROOT_TO_LEAF, Partition, Scalars
from reference_rules import DEFAULTS, RULES


class Reference:
    """``groups`` are torch's param-group dicts, but with ``params`` as a dict of names and tensors."""

    def __init__(
        self,
        groups: list[dict[str, Any]],
        rule: str,
        *,
        lr: float,
        levels: tuple[str, ...] = ("global", "layer"),
        weights: Mapping[str, float] | tuple[float, ...] | None = None,
        hyper_lr: float | Mapping[str, float] = 0.0,
        combine_lr: float = 0.0,
        combine: Combination | None = None,
        hyper_rule: str = "additive",
        hyper_scale: str = "sum",
        decay: float | Callable[[int], float] | None = None,
        lr_limit: float | None = None,
        min_lr: float = 0.0,
        max_lr: float | None = None,
        max_change: float | None = None,
        maximize: bool = False,
        schedule: str = "all",
        restarts: Collection[int] = (),
        blocks: Callable[[str], str] | None = None,
        gates: Mapping[str, tuple[str, ...]] | None = None,
        axis: str = "output",
        output_dim: Mapping[str, int] | None = None,  # 1 for the weight of a transposed convolution, else 0
        **rule_options: Any,
    ):
        self.rule, self.lr, self.delta = rule, lr, combine_lr
        self.hyper_rule, self.hyper_scale, self.decay = hyper_rule, hyper_scale, decay
        self.min_lr, self.max_lr, self.schedule, self.restarts = min_lr, max_lr, schedule, restarts
        shared = {"lr": lr, "hyper_lr": hyper_lr, "max_change": max_change, "maximize": maximize}
        shared |= {**DEFAULTS[rule], **rule_options}
        self.param_groups = [{**shared, **group} for group in groups]
        for group in self.param_groups:
            group["lr0"] = group["lr"]
            group.setdefault("lr_limit", group["lr0"] if lr_limit is None else lr_limit)
        self.theta = {name: p for group in self.param_groups for name, p in group["params"].items()}
        self.group = {name: group for group in self.param_groups for name in group["params"]}
        where = {"blocks": blocks, "gates": gates or {}, "axis": axis, "output_dim": output_dim or {}}
        number = {name: i for i, group in enumerate(self.param_groups) for name in group["params"]}
        shapes = {name: p.shape for name, p in self.theta.items()}
        options = {name: {**where, "param_group": number[name]} for name in shapes}
        self.levels = sorted(levels, key=ROOT_TO_LEAF.index)
        self.tree = {level: Partition(level, shapes, options) for level in self.levels}
        self.unit = {level: self._units(self.tree[level]) for level in self.levels}
        self.rate = self._fresh()
        gamma = weights or [1 / len(levels)] * len(levels)
        by_level = gamma if isinstance(gamma, Mapping) else dict(zip(levels, gamma, strict=True))
        self.combine = combine or Weighted("normalized")
        self.combine.start([by_level[level] for level in self.levels], self.theta)
        self.state: dict[str, dict[str, Any]] = {name: {} for name in self.theta}
        self.t = self.skipped = 0
        self.scale = {name: group["lr0"] for name, group in self.group.items()}
        self.last: LastMove | None = None
        self.last_s: Scalars = {}  # s of the parameters that moved in the last step
        self.last_factor: dict[str, float] = {}  # and the schedule's factor then

    # Groups with different lr0 share an upper rate as multiples of their own lr0 (section 9).

    def _units(self, level: Partition) -> Scalars:
        """α(p) = stored rate × this: 1 if all members of the group have one lr0, else lr0 / default lr."""
        starts: dict[int, set[float]] = {}
        for name, index in level.index.items():
            for k in index.flatten().tolist():
                starts.setdefault(k, set()).add(self.group[name]["lr0"])
        mixed = torch.tensor([float(len(starts[k]) > 1) for k in range(len(level.keys))], dtype=torch.float64)
        relative = {name: group["lr0"] / self.lr for name, group in self.group.items()}
        return {n: mixed[index] * relative[n] + (1 - mixed[index]) for n, index in level.index.items()}

    def _fresh(self) -> dict[str, Tensor]:
        """Every rate at its start: lr0 for every scalar below it."""
        rates = {}
        for level, tree in self.tree.items():
            rates[level] = torch.zeros(len(tree.keys), dtype=torch.float64)
            for name, index in tree.index.items():
                rates[level][index] = self.group[name]["lr0"] / self.unit[level][name]
        return rates

    def _alphas(self, name: str) -> Tensor:
        """The rate of every scalar of one parameter at every level: shape [levels, *parameter]."""
        rows = [self.rate[i][self.tree[i].index[name]] * self.unit[i][name] for i in self.levels]
        if self.schedule == "global":
            rows[0] = torch.full_like(rows[0], self.group[name]["lr"])
        return torch.stack(rows)

    def _tau(self, t: int) -> float:
        if self.decay is None:
            return 1.0
        return self.decay(t) if callable(self.decay) else math.exp(-self.decay * t)

    def _beta(self, level: str, name: str) -> float:
        beta = self.group[name]["hyper_lr"]
        return beta[level] if isinstance(beta, Mapping) else beta

    def _gradient(self, name: str) -> Tensor:
        """g: the gradient as the rule sees it, L2 decay included (AdamW's decay is no part of it)."""
        group, theta = self.group[name], self.theta[name].detach()
        g = self.theta[name].grad.detach().double()
        g = -g if group["maximize"] else g
        return g if self.rule == "adamw" else g + group["weight_decay"] * theta

    @torch.no_grad()
    def step(self) -> None:
        self.t += 1
        g = {name: self._gradient(name) for name, p in self.theta.items() if p.grad is not None}
        h = None
        if self.t in self.restarts:
            self.rate = self._fresh()
        elif self.last_s:
            h = self._hypergradient(g)
        if h is not None:
            self._learn_rates(h, g)  # step 2
        alphas = {name: self._alphas(name) for name in self.theta}
        combined = {n: self.combine.combined(n, alphas[n], self.scale[n]) for n in self.theta}  # step 3
        last, self.last = self.last, LastMove(alphas, self.combine.state, self.scale)
        if h is not None:
            self.combine.learn(h, last, self.delta)  # step 4
        self._move(g, combined)

    def _hypergradient(self, g: Scalars) -> Scalars | None:
        """Step 1: h_p = −τ(t−1) c g s; 0 for a parameter without a gradient now or without a move last step."""
        h = {name: torch.zeros_like(p) for name, p in self.theta.items()}
        for name in g.keys() & self.last_s.keys():
            h[name] = -self._tau(self.t - 1) * self.last_factor[name] * g[name] * self.last_s[name]
        if all(h_p.isfinite().all() for h_p in h.values()):
            return h
        self.skipped += 1
        return None

    def _learn_rates(self, h: Scalars, g: Scalars) -> None:
        old, new = dict(self.rate), {}
        slopes = {name: self.combine.slopes(name, self.last) for name in self.theta}
        for i, level in enumerate(self.levels):
            if self.hyper_rule == "multiplicative":
                new[level] = old[level] * (1 - self._cosine(level, h, g))
                continue
            part = {n: self._beta(level, n) * slopes[n][i] * self.unit[level][n] * h[n] for n in self.theta}
            size = self.tree[level].up({name: torch.ones_like(p) for name, p in self.theta.items()})
            scale = {"sum": torch.ones_like(size), "mean": 1 / size, "size": size}[self.hyper_scale]
            new[level] = old[level] - scale * self.tree[level].up(part)
        if isinstance(self.combine, Regularized):
            new = self._regularized(old, new)
        new = {level: self._capped(level, old[level], rate) for level, rate in new.items()}
        self.rate = {level: rate.clamp(self.min_lr, self.max_lr) for level, rate in new.items()}

    def _capped(self, level: str, old: Tensor, new: Tensor) -> Tensor:
        """No rate more than a factor away from what it was, the smallest of its members; from 0 it may go far."""
        capped = new.clone()
        for name, index in self.tree[level].index.items():
            cap = self.group[name]["max_change"]
            for k in index.flatten().tolist():
                if cap is not None and old[k] > 0:
                    capped[k] = min(max(capped[k], old[k] / cap), old[k] * cap)
        return capped

    def _cosine(self, level: str, h: Scalars, g: Scalars) -> Tensor:
        """Section 7: Σ β h / (‖g_G‖ ‖s_G‖) for every group of a level; 0/0 is 0.

        It is a cosine between what is known on both sides: a parameter without a gradient now, or without a move
        last step, is in neither norm.
        """
        tree, unit = self.tree[level], self.unit[level]
        zero = {name: torch.zeros_like(p) for name, p in self.theta.items()}
        both = g.keys() & self.last_s.keys()
        top = tree.up({n: self._beta(level, n) * unit[n] * h[n] for n in h})
        g_norm = tree.up(zero | {n: g[n] ** 2 for n in both}).sqrt()
        s_norm = tree.up(zero | {n: (unit[n] * self.last_s[n]) ** 2 for n in both}).sqrt()
        return torch.where(top == 0, 0.0, top / (g_norm * s_norm))

    def _regularized(self, old: dict[str, Tensor], virtual: dict[str, Tensor]) -> dict[str, Tensor]:
        """Section 5, from the root down, so that ``closed`` finds its ancestors solved."""
        current: dict[str, Tensor] = {}
        for i, level in enumerate(self.levels):
            seen = {"virtual": virtual, "closed": current, "last": old}[self.combine.solve]
            ancestors = [
                (self.combine.pull.get((level, above), 0.0), self._seen_from(level, above, seen[above]))
                for above in self.levels[:i]
            ]
            beta = self._beta(level, next(iter(self.theta)))  # one β here: groups of different β have no one penalty
            current[level] = self.combine.rate(beta, virtual[level], old[level], ancestors)
        return current

    def _seen_from(self, child: str, parent: str, rates: Tensor) -> Tensor:
        """A parent's rates, one for every group of the child's level, in the child's own units."""
        seen = torch.zeros(len(self.tree[child].keys), dtype=torch.float64)
        for name, index in self.tree[child].index.items():
            alpha = rates[self.tree[parent].index[name]] * self.unit[parent][name]
            seen[index] = alpha / self.unit[child][name]
        return seen

    def _move(self, g: Scalars, combined: Scalars) -> None:
        """Steps 5 and 6, for every parameter that has a gradient."""
        self.last_s = {}
        for name, g_p in g.items():
            group, theta = self.group[name], self.theta[name]
            c = group["lr"] / group["lr0"]
            factor = 1.0 if self.schedule == "global" else c  # there the schedule is in the global rate already
            tau = self._tau(self.t)
            kappa = factor * (tau * combined[name] + (1 - tau) * group["lr_limit"])
            move, self.last_s[name] = RULES[self.rule](self.state[name], g_p, theta.clone(), kappa, c, group)
            self.last_factor[name] = factor
            theta -= move

    # What a user sees.

    def rates(self) -> dict[str, Any]:
        if self.schedule == "global":  # it is the schedule's, not a learned one
            self.rate["global"][0] = self.param_groups[0]["lr"]
        return {level: self.tree[level].named(self.rate[level]) for level in self.levels}

    def combination(self) -> Any:
        return self.combine.shown(self.levels)

    def combination_state(self) -> dict[str, Tensor]:
        return dict(self.combine.state)
