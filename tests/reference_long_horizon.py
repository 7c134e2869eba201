"""The default rule, literally: float64, loops, no cleverness. An oracle for tests, not for training.

The numbers (1) to (11) are those of docs/default-rule.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from reference_rules import DEFAULTS, RULES, moments

RHO = 0.998  # memory of the trace of directions
BETA_MAX, PATIENCE = 0.1, 10.0  # how fast rates move at first, and how soon that slows
FAVOUR, SETTLE = 0.5, 1000.0  # what evidence in favour takes back; from when on every step slows them
STEADY = 0.02  # how fast they follow the plain cosine, at all times
SPREAD = 0.95  # memory of the usual size of the cosine
BOOST, SMALL = 2.0, 1e-3  # faster while a step is below this part of the weights
TIE = 0.1  # pull of a rate to the one above it
REACH = 0.5  # the part of its weights that a rate far above the one above it moves before it grows half as fast
FIRST, BOUND = 1e-2, 0.1  # a layer's first step, and any step, as a part of its weights
FLOOR = 1e-2  # weights count as at least so large (root mean square)
SQUARES = 0.5  # what a new g² counts for in Adam's average, as a part of the usual squared cosine
AVERAGE = 0.7  # how far averaged weights lie on the way back
SUDDEN, RECENT = 2.0, 0.97  # how much longer than usual a layer's direction may be, and the memory of what is usual


@dataclass
class Rate:
    """A group of one level: its learned rate and what the rule remembers of it."""

    alpha: float
    parent: Rate | None
    square: float = 0.0  # V: average of cos²
    seen: int = 0  # how many cosines went into it
    against: float = 0.0  # n: evidence that it is no longer plainly too small
    peak: float = 0.0  # the largest it has been
    slope: float = 0.0  # how large the gradient has lately been
    past_slope: float = 0.0  # the same over the memory of the trace


@dataclass
class Cell:
    """The part of one tensor that shares all its rates: the whole tensor, or a row of it with per-unit rates."""

    param: Tensor
    row: int | None
    layer: str
    rates: list[Rate]
    kappa: float = 0.0  # of the last move
    memory: float = RHO  # factor of the trace at the next step
    state: dict[str, Tensor] = field(default_factory=dict)

    def of(self, tensor: Tensor) -> Tensor:
        return tensor if self.row is None else tensor[self.row]

    def size2(self) -> float:
        """‖θ‖², but at least FLOOR² a scalar."""
        part = self.of(self.param.detach())
        return max(float(part.square().sum()), FLOOR**2 * part.numel())


BASES = {
    "sgd": ("sgd", {}),
    "momentum": ("sgd", {"momentum": 0.9}),
    "sgdn": ("sgd", {"momentum": 0.9, "nesterov": True}),
    "adam": ("adam", {}),
    "amsgrad": ("adam", {"amsgrad": True}),
    "adamw": ("adamw", {}),
    "adabound": ("adabound", {}),
    "amsbound": ("adabound", {"amsbound": True}),
}


class Reference:
    """θ ← θ − κ d with any base rule's d and long-horizon rates.

    Args:
        model: in float64, or its named parameters.
        lr: where all rates start.
        base: one of `BASES`.
        levels: any of "global", "layer", "unit", in that order.
        options: of the base rule.
    """

    def __init__(self, model, lr: float, base: str = "adam", levels=("global", "layer"), **options: float):
        self.base, fixed = BASES[base]
        self.squares = options.pop("squares", SQUARES)
        self.options = {**DEFAULTS[self.base], **fixed, **options}
        self.levels = levels
        known: dict[tuple, Rate] = {}
        self.cells: list[Cell] = []
        for name, param in model.named_parameters() if isinstance(model, nn.Module) else model:
            layer = name.rpartition(".")[0]
            for row in range(len(param)) if "unit" in levels else [None]:
                rates: list[Rate] = []
                for level in levels:
                    key = {"global": ("global",), "layer": (layer,), "unit": (layer, row)}[level]
                    parent = rates[-1] if rates else None
                    rates.append(known.setdefault(key, Rate(lr, parent)))
                self.cells.append(Cell(param, row, layer, rates))
        self.moved: set[str] = set()  # the layers that have taken a step
        self.usual: dict[str, float] = {}  # how long their directions have lately been
        self.factor = 1.0  # of the last step

    @torch.no_grad()
    def step(self, factor: float = 1.0) -> None:
        """One step; `factor` is what a scheduler makes of the rates (spec, section 9), and slows their learning."""
        live = [cell for cell in self.cells if cell.param.grad is not None]
        root = self.cells[0].rates[0]
        if self.levels[0] == "global":  # (2)
            self.options["squares"] = self.squares * root.square / (1 - SPREAD**root.seen) if root.seen else 0.0
        sums = {}
        for index, cell in enumerate(live):  # pass 1
            sums[index] = self._observe(cell)
        old = {id(rate): rate.alpha for cell in live for rate in cell.rates}
        for rate in {id(r): r for cell in live for r in cell.rates}.values():
            mine = [(cell, sums[i]) for i, cell in enumerate(live) if any(r is rate for r in cell.rates)]
            self._learn(rate, mine, old)
        caps = self._caps(live, sums)
        self._pull(live, caps)
        parts = self._parts(live, sums)
        for index, cell in enumerate(live):  # pass 2
            self._move(cell, sums[index]["d"], caps.get(cell.layer, math.inf), parts[cell.layer], factor)
        self.moved |= {cell.layer for cell in live}
        self.factor = factor

    @torch.no_grad()
    def averaged(self) -> list[Tensor]:
        """(11) Every parameter's average, in their order."""
        found = {id(cell.param): cell.param.detach().clone() for cell in self.cells}
        for cell in self.cells:
            if cell.kappa > 0 and cell.rates[-1].seen:
                rate, seen = cell.rates[-1], cell.rates[-1].seen
                lately, past = rate.slope / (1 - SPREAD**seen), rate.past_slope / (1 - RHO**seen)
                part = AVERAGE * (1 - RHO**seen) * min(1.0, lately / past) ** 2 * self.factor * cell.kappa
                cell.of(found[id(cell.param)]).add_(part * cell.state["trace"])
        return list(found.values())

    def _observe(self, cell: Cell) -> dict:
        """(1) g meets the trace; (2) the base rule's direction; (3) the trace takes it in."""
        g, theta, state = cell.of(cell.param.grad).clone(), cell.of(cell.param.detach()), cell.state
        if self.base != "adamw":
            g += self.options["weight_decay"] * theta
        trace = state.setdefault("trace", torch.zeros_like(g))
        found = {"gg": float((g * g).sum()), "gD": float((g * trace).sum()), "DD": float((trace * trace).sum())}
        d = self._direction(state, g, theta)
        state["trace"] = cell.memory * trace + d
        return {**found, "dd": float((d * d).sum()), "d": d}

    def _direction(self, state: dict, g: Tensor, theta: Tensor) -> Tensor:
        if self.base != "adabound":
            return RULES[self.base](state, g, theta, torch.zeros(()), 1.0, self.options)[1]
        (beta1, beta2), eps = self.options["betas"], self.options["eps"]  # the direction that has not met a bound
        m, v, t = moments(state, g, self.options, self.options["amsbound"])
        state["slope"] = math.sqrt(1 - beta2**t) / (1 - beta1**t) / (v.sqrt() + eps)
        return state["slope"] * m

    def _learn(self, rate: Rate, mine: list, old: dict[int, float]) -> None:
        """(4) cosine; (5) how unusual it is; (6) how much that counts by now; (7) the rate."""
        total = {name: sum(s[name] for cell, s in mine if cell.kappa > 0) for name in ("gg", "gD", "DD")}
        if not all(math.isfinite(value) for value in total.values()) or total["gD"] * self.factor == 0:
            return
        cosine = total["gD"] / math.sqrt(total["gg"] * total["DD"])
        rate.seen += 1
        rate.square = SPREAD * rate.square + (1 - SPREAD) * cosine**2
        usual = math.sqrt(rate.square / (1 - SPREAD**rate.seen))
        y = min(max(cosine / usual, -1.0), 1.0) if usual > 0 else 0.0
        rate.against = max(rate.against + (2.0 if cosine < 0 else -FAVOUR), rate.seen * min(rate.seen / SETTLE, 1.0))
        beta = BETA_MAX / (1 + rate.against / PATIENCE)
        step = math.sqrt(sum(c.kappa**2 * s["dd"] for c, s in mine) / sum(c.size2() for c, _ in mine))
        beta *= 1 + BOOST * (beta / BETA_MAX) * SMALL / (SMALL + step)
        beta *= min(self.factor, 1.0)
        if rate.parent is not None and min(rate.alpha, old[id(rate.parent)]) > 0:
            apart = math.log(rate.alpha / old[id(rate.parent)])
            if y > 0 and apart > 0:
                way = rate.alpha * math.sqrt(total["DD"] / sum(c.size2() for c, _ in mine))
                y /= 1 + min(apart, 1.0) * (way / REACH) ** 2
            y -= TIE * apart
        move = beta * y + min(self.factor, 1.0) * STEADY * cosine
        highest = max(rate.peak, rate.alpha * (1 + max(beta * y, 0.0)))
        rate.alpha = min(rate.alpha * (1 + min(max(move, -0.5), 0.5)), highest)
        rate.peak = max(rate.peak, rate.alpha)
        slope = math.sqrt(total["gg"])
        rate.slope = SPREAD * rate.slope + (1 - SPREAD) * slope
        rate.past_slope = RHO * rate.past_slope + (1 - RHO) * slope

    def _caps(self, live: list[Cell], sums: dict) -> dict[str, float]:
        """(8) The largest rate of each layer: a first step of at most FIRST, then BOUND, of its weights."""
        caps = {}
        for layer in {cell.layer for cell in live}:
            mine = [(cell, sums[i]) for i, cell in enumerate(live) if cell.layer == layer]
            length = math.sqrt(sum(s["dd"] for _, s in mine))
            if length > 0:
                part = BOUND if layer in self.moved else FIRST
                caps[layer] = part * math.sqrt(sum(cell.size2() for cell, _ in mine)) / length
        return caps

    def _pull(self, live: list[Cell], caps: dict[str, float]) -> None:
        """No rate stays above the cap of its layer; one of many layers not above their geometric mean, by size."""
        for rate in {id(r): r for cell in live for r in cell.rates}.values():
            mine = [c for c in live if any(r is rate for r in c.rates) and c.layer in caps]
            count = sum(c.of(c.param).numel() for c in mine)
            if count:
                mean = sum(c.of(c.param).numel() * math.log(caps[c.layer]) for c in mine) / count
                rate.alpha = min(rate.alpha, math.exp(mean))

    def _parts(self, live: list[Cell], sums: dict) -> dict[str, float]:
        """(9) What each layer takes of its step: less than all of it if its direction is suddenly long."""
        parts = {}
        for layer in {cell.layer for cell in live}:
            length = math.sqrt(sum(sums[i]["dd"] for i, cell in enumerate(live) if cell.layer == layer))
            usual = self.usual.get(layer, length)
            taken = min(length, SUDDEN * usual)
            parts[layer] = taken / length if length > 0 else 1.0
            if length > 0:
                self.usual[layer] = RECENT * usual + (1 - RECENT) * taken
        return parts

    def _move(self, cell: Cell, d: Tensor, cap: float, part: float, factor: float) -> None:
        """(10) κ, the move, and how much of the trace the next step remembers."""
        kappa = part * min(sum(rate.alpha for rate in cell.rates) / len(cell.rates), cap)
        first = cell.kappa == 0
        cell.memory = RHO if first or kappa == 0 else RHO * min(1.0, cell.kappa / kappa)
        cell.kappa = kappa
        update = factor * kappa * d
        if self.base == "adabound":
            t, state = cell.state["t"], cell.state
            gamma, final = 1 - self.options["betas"][1], factor * self.options["final_lr"]
            eta = factor * kappa * state["slope"]
            update = eta.clamp(final * (1 - 1 / (gamma * t + 1)), final * (1 + 1 / (gamma * t))) * state["m"]
        cell.of(cell.param).sub_(update)
