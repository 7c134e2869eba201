"""`camhd.presets.paper`: the paper's table and its algorithm, whatever the classes do by default."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import camhd
from compare import assert_alike
from models import backward, build, snapshot
from reference import Reference

# Table 2 and the sections on the experiments, copied by hand: β, δ, r, γ of the two-level form.
TABLE = [
    ("adam", "ffnn", 1e-7, 0.01, None, ("global", "layer"), (0.5, 0.5)),
    ("adamw", "ffnn", 1e-7, 0.01, None, ("global", "layer"), (0.5, 0.5)),
    ("adam", "lenet5", 1e-8, 0.03, 0.002, ("global", "filter"), (0.8, 0.2)),
    ("sgd", "lenet5", 1e-3, 0.03, 0.002, ("global", "filter"), (0.8, 0.2)),
    ("sgdn", "lenet5", 1e-3, 0.03, 0.002, ("global", "filter"), (0.8, 0.2)),
    ("adam", "resnet", 1e-8, 0.001, 0.001, ("global", "filter"), (0.8, 0.2)),
    ("sgd", "resnet", 1e-6, 0.001, 0.001, ("global", "filter"), (0.8, 0.2)),
    ("sgdn", "resnet", 1e-6, 0.001, 0.001, ("global", "filter"), (0.8, 0.2)),
    ("adabound", "resnet", 1e-8, 0.001, 0.001, ("global", "filter"), (0.8, 0.2)),
]
CLASSES = {"sgd": camhd.SGD, "sgdn": camhd.SGD, "adam": camhd.Adam, "adamw": camhd.AdamW, "adabound": camhd.AdaBound}


@pytest.mark.parametrize(("base", "network", "beta", "delta", "rate", "levels", "weights"), TABLE)
def test_the_settings_are_those_of_the_papers_table(
    base: str, network: str, beta: float, delta: float, rate: float | None, levels: Any, weights: Any
) -> None:
    found = camhd.presets.paper(base, network)
    assert (found["hyper_lr"], found["combine_lr"], found.get("decay")) == (beta, delta, rate)
    assert (found["levels"], found["weights"], found["hyper_rule"]) == (levels, weights, "additive")


def test_three_levels_of_the_feed_forward_networks_have_the_papers_weights() -> None:
    chain = ("global", "layer", "parameter")
    assert camhd.presets.paper("adam", "ffnn", levels=chain)["weights"] == (0.4, 0.3, 0.3)
    assert "weights" not in camhd.presets.paper("adam", "ffnn", levels=("global", "unit"))
    assert "weights" not in camhd.presets.paper("adam", levels=chain)


@pytest.mark.parametrize(
    ("base", "network", "literal", "options"),
    [
        ("adam", None, "adam", {}),
        ("adam", "ffnn", "adam", {}),
        ("adamw", "ffnn", "adamw", {"weight_decay": 0.1}),
        ("sgd", "lenet5", "sgd", {}),
        ("sgdn", "resnet", "sgd", {"momentum": 0.9, "nesterov": True}),
        ("adabound", "resnet", "adabound", {}),
    ],
)
@pytest.mark.parametrize("backend", ["foreach", "auto"])
def test_a_class_with_it_is_algorithm_1(
    base: str, network: str | None, literal: str, options: Any, backend: str
) -> None:
    ours, theirs = build("cnn"), build("cnn")
    preset = camhd.presets.paper(base, network)
    optimizer = CLASSES[base](ours, lr=0.02, backend=backend, **options, **preset)
    known = {k: v for k, v in preset.items() if k in inspect.signature(Reference).parameters and k != "combine"}
    reference = Reference([{"params": dict(theirs.named_parameters())}], literal, lr=0.02, **options, **known)
    for t in range(8):
        for model, stepper in ((ours, optimizer), (theirs, reference)):
            backward(model, t)
            stepper.step()
    assert optimizer.rates()["global"] != 0.02
    assert_alike(snapshot(ours), snapshot(theirs))
    assert_alike(optimizer.rates(), reference.rates())
    assert_alike(optimizer.combination(), reference.combination())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rmsprop",), "'base' must be one of 'sgd', 'sgdn'"),
        (("adam", "vgg"), "'network' must be one of 'ffnn', 'lenet5', 'resnet' or None, got 'vgg'"),
        (("sgd", "ffnn"), "no settings of 'sgd' for network 'ffnn', only of 'adam', 'adamw'"),
    ],
)
def test_what_the_paper_has_not_is_refused(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        camhd.presets.paper(*arguments)
