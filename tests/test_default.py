"""The classes with nothing said: the long-horizon rule, and all that a torch user does with them."""

from __future__ import annotations

import copy
import functools
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import camhd
from camhd.hyper import LongHorizon
from camhd.lab.data import load

MAKERS = {
    "SGD": camhd.SGD,
    "SGDN": lambda p: camhd.SGD(p, momentum=0.9, nesterov=True),
    "Adam": camhd.Adam,
    "AdamW": camhd.AdamW,
    "AdaBound": camhd.AdaBound,
    "wrapped": lambda p: camhd.wrap(torch.optim.RMSprop(p, lr=1e-3)),
}
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


def data() -> tuple[Tensor, Tensor]:
    inputs = torch.randn(256, 6, generator=torch.Generator().manual_seed(1))
    return inputs, (inputs[:, :3] + 0.5 * inputs[:, 3:]).argmax(1)


def train(model: nn.Module, optimizer: Any, steps: int, start: int = 0, after: Any = None) -> float:
    inputs, targets = data()
    for t in range(start, start + steps):
        pick = torch.randint(256, (32,), generator=torch.Generator().manual_seed(t))
        optimizer.zero_grad()
        F.cross_entropy(model(inputs[pick]), targets[pick]).backward()
        optimizer.step()
        if after is not None:
            after()
    with torch.no_grad():
        return float(F.cross_entropy(model(inputs), targets))


def bits(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@every_maker
def test_the_rule_the_levels_and_the_lr_where_nothing_is_said(make: Any) -> None:
    optimizer = make(network().named_parameters())
    assert type(optimizer.config.hyper_rule) is LongHorizon
    assert [level.name for level in optimizer.config.levels] == ["global", "layer"]
    assert optimizer.param_groups[0]["lr"] == 1e-3
    assert optimizer.param_groups[0]["hyper_lr"] == 1.0
    assert optimizer.config.combine_lr == 0.0
    assert "hyper_lr=1.0 (long_horizon)" in repr(optimizer)


def test_the_same_by_name_is_the_same() -> None:
    one, other = network(), network()
    train(one, camhd.Adam(one), 10)
    train(other, camhd.Adam(other, hyper_rule="long_horizon", levels=("global", "layer"), lr=1e-3), 10)
    assert torch.equal(bits(one), bits(other))


@pytest.mark.parametrize("lr", [1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("kind", [camhd.SGD, camhd.Adam])
def test_it_trains_from_any_first_lr(kind: Any, lr: float) -> None:
    model = network()
    options = {"momentum": 0.9, "nesterov": True} if kind is camhd.SGD else {}
    assert train(model, kind(model, lr=lr, **options), 150) < 0.35  # log 3 at first


@every_maker
def test_it_goes_on_from_a_checkpoint_and_as_a_copy(make: Any) -> None:
    model = network()
    optimizer = make(model.named_parameters())
    train(model, optimizer, 5)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    twin = network()
    twin.load_state_dict(saved["model"])
    resumed = make(twin.named_parameters())
    resumed.load_state_dict(saved["optimizer"])
    copied_model, copied = copy.deepcopy((model, optimizer))
    for one, other in ((model, optimizer), (twin, resumed), (copied_model, copied)):
        train(one, other, 5, start=5)
    assert torch.equal(bits(model), bits(twin))
    assert torch.equal(bits(model), bits(copied_model))


def test_it_can_be_pickled() -> None:
    model = network()
    optimizer = camhd.Adam(model)
    train(model, optimizer, 3)
    assert pickle.loads(pickle.dumps(optimizer)).rates() == optimizer.rates()


@pytest.mark.parametrize(
    "schedule",
    [
        lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20),
        lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.01, total_iters=10),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1e-3, total_steps=25),
        lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [10]),
    ],
    ids=["cosine", "warm-up", "one cycle", "steps"],
)
def test_a_scheduler_moves_the_lr_of_the_group_and_the_size_of_the_step(schedule: Any) -> None:
    model = network()
    optimizer = camhd.Adam(model)
    scheduler = schedule(optimizer)
    untrained, seen = train(model, optimizer, 0), []

    def after() -> None:
        scheduler.step()
        seen.append(optimizer.param_groups[0]["lr"])

    assert train(model, optimizer, 20, after=after) < untrained - 0.03
    assert len(set(seen)) > 1
    factor = optimizer.param_groups[0]["lr"] / optimizer.param_groups[0]["lr0"]
    rates = optimizer.rates()
    wanted = sum(
        (rates["global"] + rates["layer"][str(i)]) / 2 * sum(p.numel() for p in model[i].parameters()) for i in (0, 2)
    ) / sum(p.numel() for p in model.parameters())
    assert camhd.report.effective(optimizer)[0] == pytest.approx(factor * wanted, rel=1e-4)


def test_a_scheduler_that_stands_at_zero_stops_everything() -> None:
    model = network()
    optimizer = camhd.Adam(model)
    train(model, optimizer, 5)
    optimizer.param_groups[0]["lr"] = 0.0
    train(model, optimizer, 1)
    before, rates = bits(model), optimizer.rates()
    train(model, optimizer, 3)
    assert torch.equal(bits(model), before)
    assert optimizer.rates() == rates


def test_a_closure_a_hook_and_an_added_group() -> None:
    model, late = network(), nn.Linear(3, 3)
    optimizer = camhd.Adam(model)
    called = []
    optimizer.register_step_post_hook(lambda *_: called.append(1))
    inputs, targets = data()

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(late(model(inputs)), targets)
        loss.backward()
        return loss

    first = optimizer.step(closure).item()
    optimizer.add_param_group({"params": [(f"late.{n}", p) for n, p in late.named_parameters()], "lr": 1e-2})
    for _ in range(30):
        last = optimizer.step(closure).item()
    assert len(called) == 31
    assert last < 0.8 * first
    assert set(optimizer.rates()["layer"]) == {"0", "2", "late"}


def test_clipping_by_norm_does_not_matter_to_adams_rates() -> None:
    """A common factor cancels in the cosine, and in Adam's direction (but for ε)."""
    one, other = network().double(), network().double()
    found = []
    for model, factor in ((one, 1.0), (other, 2.0**-6)):
        optimizer = camhd.Adam(model, eps=1e-30)
        for t in range(20):
            pick = torch.randint(256, (32,), generator=torch.Generator().manual_seed(t))
            optimizer.zero_grad()
            (F.cross_entropy(model(data()[0][pick].double()), data()[1][pick]) * factor).backward()
            optimizer.step()
        found.append(optimizer.rates()["global"])
    assert found[0] == pytest.approx(found[1], rel=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levels": ("global", "parameter")}, "'parameter' has no cosine .* use hyper_rule='additive'"),
        ({"combine": camhd.combine.Regularized(1.0)}, "use combine='fixed', or hyper_rule='additive'"),
        ({"hyper_scale": "mean"}, "'hyper_scale' must be left out with hyper_rule='long_horizon'"),
    ],
)
def test_what_belongs_to_the_papers_rule_says_so(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        camhd.Adam(network(), **options)
    camhd.Adam(network(), hyper_rule="additive", **options)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize("compiler", ["aot_eager", pytest.param("inductor", marks=pytest.mark.thorough)])
def test_a_compiled_step_is_the_same(compiler: str) -> None:
    one, other = network().double(), network().double()
    plain, compiled = (camhd.Adam(m, lr=torch.tensor(1e-3), backend="foreach") for m in (one, other))
    step = torch.compile(compiled.step, backend=compiler, fullgraph=True)
    for t in range(6):
        g = torch.Generator().manual_seed(t)
        for p, q in zip(one.parameters(), other.parameters(), strict=True):
            p.grad = torch.randn(p.shape, generator=g, dtype=p.dtype) + 0.5 * p.detach()
            q.grad = p.grad.clone()
        plain.step()
        step()
    torch.testing.assert_close(bits(one), bits(other), rtol=1e-10, atol=1e-12)


@pytest.mark.alike(3)
@pytest.mark.parametrize("lr", [1e-6, 1e-3])
@pytest.mark.parametrize("seed", range(3))
def test_a_network_that_has_fitted_its_data_keeps_what_it_has_learned(seed: int, lr: float) -> None:
    """All gradients agree then, for ever, that larger outputs would be better still; rates must not follow them."""
    digits = load("digits").train
    inputs, targets = digits.inputs.flatten(1).float() / 16, digits.targets
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer, worst = camhd.Adam(model, lr=lr), 0.0
    for epoch in range(40):
        order, total = torch.randperm(len(inputs)), 0.0
        for pick in order.split(16):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs[pick]), targets[pick])
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(pick)
        if epoch >= 5:
            worst = max(worst, total / len(inputs))
    assert worst < 0.2
    assert total / len(inputs) < 0.01
    assert float(optimizer.tree.state.levels[0].rates) < 0.2


def losses_without_noise(make: Callable[[nn.Module], torch.optim.Optimizer], seed: int) -> list[float]:
    """Of 500 steps on the quadratic without noise."""
    data = load("quadratic").train
    inputs, targets = data.inputs.flatten(1), data.targets.flatten()
    torch.manual_seed(seed)
    model = nn.Linear(64, 1)
    optimizer, found = make(model), []
    for _ in range(500):
        optimizer.zero_grad()
        loss = (model(inputs).flatten() - targets).square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("kind", ["adam", "sgdn"])
def test_a_quadratic_without_noise_is_not_lost_again_and_again(kind: str) -> None:
    """Nothing but a step that is too long ends the growth of rates there; it must not be the first of many."""
    make = camhd.Adam if kind == "adam" else functools.partial(camhd.SGD, momentum=0.9, nesterov=True)

    def worst(rule: LongHorizon, seed: int, lr: float) -> float:
        losses = losses_without_noise(lambda model: make(model, lr=lr, hyper_rule=rule), seed)
        return max(loss / min(losses[: step + 100]) for step, loss in enumerate(losses[100:]))

    cases = [(seed, lr) for seed in range(3) for lr in (1e-6, 1e-3)]
    assert max(worst(LongHorizon(), *case) for case in cases) < 30
    assert max(worst(LongHorizon(sudden=float("inf"), squares=0.0), *case) for case in cases) > 100


@pytest.mark.parametrize("lr", [1e-6, 1e-3, 1.0])
def test_a_quadratic_without_noise_ends_below_the_best_constant_rate(lr: float) -> None:
    """Which needs second moments that forget what they saw while the rate was small."""

    def end(make: Callable[[nn.Module], torch.optim.Optimizer]) -> float:
        return sum(losses_without_noise(make, seed)[-1] for seed in range(3)) / 3

    constants = [
        functools.partial(lambda lr, model: torch.optim.Adam(model.parameters(), lr), at) for at in (0.1, 0.3, 1)
    ]
    best = min(map(end, constants))
    assert end(lambda model: camhd.Adam(model, lr=lr)) < best
    assert end(lambda model: camhd.Adam(model, lr=lr, hyper_rule=LongHorizon(squares=0.0))) > 1.3 * best
