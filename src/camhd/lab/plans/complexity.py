"""The sections on time and space, measured."""

from __future__ import annotations

import math
from typing import Any

from ..report import Cell, Column, Section, Table
from ..report.text import duration
from .claims import FAILS, HOLDS, OPEN, Check, Claim
from .measuring import Measured, Measurement
from .numbering import said
from .plan import Plan
from .reading import Results

NETWORKS = (
    ("ffnn:100,100", "mnist", 32),
    ("ffnn:1000,100", "mnist", 64),
    ("ffnn:1000,1000", "mnist", 128),
    ("lenet5", "mnist", 256),
    ("resnet18", "cifar10", 256),
    ("resnet34", "cifar10", 256),
)
TINY = (("ffnn:100,100", "mnist", 32), ("ffnn:1000,100", "mnist", 64), ("lenet5", "mnist", 64))


def _levels(model: str) -> tuple[list[str], list[str]]:
    """The paper's two levels for a network, and its three with single parameters at the leaves."""
    middle = "layer" if model.startswith("ffnn") else "filter"
    return ["global", middle], ["global", "layer", "parameter"]


def _measurements(networks: tuple[tuple[str, str, int], ...], budget: float) -> tuple[Measurement, ...]:
    return tuple(
        Measurement("cost", {"model": model, "data": data, "batch": batch, "levels": levels, "budget": budget})
        for model, data, batch in networks
        for levels in _levels(model)
    )


def _name(one: Measured) -> str:
    given = one.measurement.arguments
    return f"{given['model']}, batch {given['batch']}, {' > '.join(given['levels'])}"


def _time(found: Results) -> Section:
    columns = [
        Column("what", "Network, batch, levels", numeric=False),
        Column("train", "Forward and backward"),
        Column("adam", "Adam's step", "Torch's own, fused."),
        Column("cam", "CAM-HD's step"),
        Column("share", "Extra, % of a training step", "(CAM-HD − Adam) / (forward + backward + Adam); quartiles."),
        Column("formula", "Paper's formula, %", "Extra operations over multiplications of a forward pass."),
    ]
    rows = []
    for one in found.of("cost"):
        values = one.values
        share = values["extra_share"]
        predicted = values["extra_operations"] / values["multiplications"]
        rows.append(
            [
                Cell(_name(one)),
                *(
                    Cell(duration(values[f"{part}_seconds"]["median"]), values[f"{part}_seconds"]["median"])
                    for part in ("train", "adam", "cam")
                ),
                Cell(_spread(share), share["median"]),
                Cell(f"{100 * predicted:.3g}", predicted),
            ]
        )
    note = "Medians over rounds in which the optimizers take turns; in brackets the quartiles. One thread."
    text = (
        "The paper counts Σ (n_l n_{l-1} + n_l) operations for each batch, against batch size times the "
        "multiplications of "
        "the network: one over the batch size for a feed-forward network, far less for a convolutional one."
    )
    return Section(f"Time: {said('Sec:5.5.3')}", (text,), [Table("Time of a training step", columns, rows, note)])


def _spread(share: dict[str, float]) -> str:
    """In percent, with its quartiles."""
    middle, low, high = (f"{100 * share[name]:.1f}".replace("-", "−") for name in ("median", "low", "high"))
    return f"{middle} ({low} … {high})"


def _space(found: Results) -> Section:
    columns = [
        Column("what", "Network, batch, levels", numeric=False),
        Column("parameters", "Parameters"),
        Column("base", "Parameters, gradients, Adam's state, MB"),
        Column("extra", "Extra of CAM-HD, MB"),
        Column("share", "Extra, %"),
        Column("formula", "Paper's count, MB", "h, α and α* of the levels, four bytes each."),
    ]
    rows = []
    for one in found.of("cost"):
        base, extra = _bytes(one.values)
        counted = 4 * one.values["formula_numbers"]
        rows.append(
            [
                Cell(_name(one)),
                Cell(f"{one.values['parameters']:,}", one.values["parameters"]),
                Cell(f"{base / 1e6:.3f}", base),
                Cell(f"{extra / 1e6:.3f}", extra),
                Cell(f"{100 * extra / base:.1f}", extra / base),
                Cell(f"{counted / 1e6:.3f}", counted),
            ]
        )
    text = (
        "The paper counts h, α and α* of every level. An optimizer must also keep last step's direction, which "
        "the paper "
        "does not count; here it is computed again from Adam's moments where that can be done."
    )
    return Section(
        f"Space: {said('Sec:5.5.2')}", (text,), [Table("Memory of training", columns, rows, "Bytes of tensors.")]
    )


def _bytes(values: Any) -> tuple[float, float]:
    """Of training with Adam, and what CAM-HD adds."""
    return 8.0 * values["parameters"] + values["adam_bytes"], float(values["cam_bytes"] - values["adam_bytes"])


def _small_share(found: Results) -> list[Check]:
    """A tenth is one order: the claim wants decades beyond that above zero."""
    tests = []
    for one in found.of("cost"):
        share = one.values["extra_share"]
        verdict = HOLDS if share["high"] < 0.1 else FAILS if share["low"] > 0.1 else OPEN
        effect = math.log10(0.1 / max(share["median"], 1e-6))
        tests.append(
            Check(f"{_name(one)}: decades below a tenth", effect, count=f"{share['n']} rounds", verdict=verdict)
        )
    return tests


def _small_space(found: Results) -> list[Check]:
    tests = []
    for one in found.of("cost"):
        if len(one.measurement.arguments["levels"]) == 2:
            base, extra = _bytes(one.values)
            decades = math.log10(0.1 * base / max(extra, 1.0))
            tests.append(
                Check(f"{_name(one)}: decades below a tenth", decades, verdict=HOLDS if decades > 0 else FAILS)
            )
    return tests


def _at_most_twice(found: Results) -> list[Check]:
    tests = []
    for one in found.of("cost"):
        base, extra = _bytes(one.values)
        tests.append(
            Check(f"{_name(one)}: 2 − whole / base", 1 - extra / base, verdict=HOLDS if extra <= base else FAILS)
        )
    return tests


PLAN = Plan(
    name="complexity",
    title="What CAM-HD costs, in time and in space",
    about="A training step with Adam and with Adam-CAM-HD over the paper's networks, measured, beside the "
    "paper's formulas.",
    places=("Sec:5.5.2", "Sec:5.5.3"),
    measurements={
        "smoke": _measurements(TINY, 0.2),
        "cpu": _measurements(NETWORKS, 20.0),
        "paper": _measurements(NETWORKS, 20.0),
    },
    silent=(
        "The paper measured nothing here. Its formula for feed-forward networks has a factor n_{l-2} too many for the "
        "baseline; the usual count Σ n_l n_{l-1} is taken.",
    ),
    sections=(_time, _space),
    claims=(
        Claim(
            "This extra cost is more than one order smaller than the computation complexity of training a model "
            "without "
            "learning rate adaptation.",
            "Sec:5.5.3",
            _small_share,
        ),
        Claim(
            "For two-level learning rate adaptation, the extra space complexity will be one to two orders "
            "smaller than that "
            "of the baseline model during training.",
            "Sec:5.5.2",
            _small_space,
        ),
        Claim("CAM-HD will take twice of the space in the worst case.", "Sec:5.5.2", _at_most_twice),
    ),
    curves=False,
)
