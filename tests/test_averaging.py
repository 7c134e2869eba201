"""Averaged weights: what they are, what they are good for, and that training does not notice."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR

import camhd
from camhd.lab import data
from camhd.tree.placements import put_together
from cases import EXACT
from in_threads import in_threads
from reference_long_horizon import RHO, Reference
from test_divided_in_threads import as_whole, by_rows, train
from test_long_horizon import batches, build, fit, network

BACKENDS = ["foreach", "fused"]
# Rates that stay, and no bound: then the average can be kept by hand, and nothing else is in it.
STEADY = {"fast": 0.0, "steady": 0.0, "first": 1e9, "bound": 1e9, "sudden": 1e9}
OPTIMIZERS: dict[str, Callable[..., camhd.Optimizer]] = {
    "sgd": camhd.SGD,
    "nesterov": lambda model, **options: camhd.SGD(model, momentum=0.9, nesterov=True, **options),
    "adam": camhd.Adam,
    "adamw": lambda model, **options: camhd.AdamW(model, weight_decay=0.3, **options),
    "wrapped": lambda model, lr, backend, **options: camhd.wrap(torch.optim.RMSprop(model.parameters(), lr), **options),
}


def values(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def close(found: list[Tensor], wanted: list[Tensor], rtol: float = EXACT) -> None:
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=rtol, atol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_with_steady_rates_they_are_the_exponential_average_of_the_weights(name: str, backend: str) -> None:
    model = network()
    rule = camhd.hyper.LongHorizon(**STEADY, average=1.0)
    opt = OPTIMIZERS[name](model, lr=0.01, hyper_rule=rule, levels=("global",), backend=backend)
    average, lately, past = values(model), 0.0, 0.0
    for step, found in enumerate(batches(50)):
        if step:  # all weights up to the last step, the first of them with what is left
            torch._foreach_lerp_(average, values(model), 1 - RHO)
        fit(model, opt, [found])
        if step:  # the first gradient meets nothing
            size = float(sum(p.grad.square().sum() for p in model.parameters()).sqrt())
            lately, past = 0.95 * lately + 0.05 * size, RHO * past + (1 - RHO) * size
    part, shrunk = 1 - RHO**49, lately / (1 - 0.95**49) / (past / (1 - RHO**49))
    part *= min(shrunk, 1.0) ** 2
    assert 0.2 < shrunk < 1.2
    wanted = [torch.lerp(now, mean, part) for now, mean in zip(values(model), average, strict=True)]
    close(opt.averaged_parameters(), wanted)
    assert not torch.allclose(wanted[0], values(model)[0], rtol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("levels", [("global",), ("global", "layer"), ("global", "layer", "unit")], ids="-".join)
@pytest.mark.parametrize("base", ["adam", "sgdn"])
def test_equal_those_of_the_reference(base: str, levels: tuple[str, ...], backend: str) -> None:
    ours, theirs = network(), network()
    opt, reference = build(base, ours, 1e-3, levels=levels, backend=backend), Reference(theirs, 1e-3, base, levels)
    for step, found in enumerate(batches(60)):
        factor = 1.0 if step < 40 else 0.3  # what a scheduler does is in the way that the weights have come
        opt.param_groups[0]["lr"] = 1e-3 * factor
        fit(ours, opt, [found])
        for p in theirs.parameters():
            p.grad = None
        F.cross_entropy(theirs(found[0]), found[1]).backward()
        reference.step(factor)
    close(opt.averaged_parameters(), reference.averaged(), rtol=1e-10)


def test_with_a_decay_the_way_is_the_one_that_was_gone() -> None:
    model = network()
    rule = camhd.hyper.LongHorizon(**STEADY, average=1.0)
    opt = camhd.SGD(model, lr=0.1, lr_limit=0.02, decay=lambda step: 0.25, hyper_rule=rule)
    plain = network()
    same = camhd.SGD(plain, lr=0.25 * 0.1 + 0.75 * 0.02, hyper_rule=rule)
    for found in batches(20):
        fit(model, opt, [found])
        fit(plain, same, [found])
    close(opt.averaged_parameters(), same.averaged_parameters())


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_goes_on_to_the_bit_as_if_nobody_had_looked(backend: str) -> None:
    looked, plain = network(), network()
    one, other = camhd.Adam(looked, backend=backend), camhd.Adam(plain, backend=backend)
    for found in batches(30):
        for model, opt in ((looked, one), (plain, other)):
            fit(model, opt, [found])
        with one.averaged():
            looked(found[0])
    assert all(torch.equal(p, q) for p, q in zip(values(looked), values(plain), strict=True))
    assert one.rates() == other.rates()


def test_inside_the_parameters_are_their_averages_and_afterwards_what_they_were() -> None:
    model = network()
    opt = camhd.Adam(model)
    fit(model, opt, batches(30))
    before, wanted = values(model), opt.averaged_parameters()
    with opt.averaged():
        assert all(torch.equal(p, q) for p, q in zip(values(model), wanted, strict=True))
        assert all(torch.equal(p, q) for p, q in zip(opt.averaged_parameters(), wanted, strict=True))
        state = copy.deepcopy(model.state_dict())
    assert not torch.equal(state["0.weight"], before[0])
    assert all(torch.equal(p, q) for p, q in zip(values(model), before, strict=True))


def test_an_error_inside_brings_the_weights_back() -> None:
    model = network()
    opt = camhd.Adam(model)
    fit(model, opt, batches(10))
    before = values(model)
    with pytest.raises(KeyboardInterrupt), opt.averaged():
        raise KeyboardInterrupt
    assert all(torch.equal(p, q) for p, q in zip(values(model), before, strict=True))
    fit(model, opt, batches(1))


def test_an_interrupt_while_the_weights_come_back_does_not_keep_them_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from camhd.optim import averaging

    model = network()
    opt = camhd.Adam(model)
    fit(model, opt, batches(10))
    before, write_back, calls = values(model), averaging._write_back, []

    def interrupted(optimizer: Any, places: list[Tensor], kept: list[Tensor]) -> None:
        calls.append(len(calls))
        write_back(optimizer, places[:1], kept[:1]) if len(calls) == 1 else write_back(optimizer, places, kept)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(averaging, "_write_back", interrupted)
    with pytest.raises(KeyboardInterrupt), opt.averaged():
        pass
    assert all(torch.equal(p, q) for p, q in zip(values(model), before, strict=True))


def test_inside_a_step_and_a_second_average_are_refused() -> None:
    model = network()
    opt = camhd.Adam(model)
    fit(model, opt, batches(3))
    with opt.averaged():
        before = values(model)
        with pytest.raises(RuntimeError, match=r"leave the block before you call step\(\)"):
            opt.step()
        with pytest.raises(RuntimeError, match="cannot be entered twice"), opt.averaged():
            pass
        assert all(torch.equal(p, q) for p, q in zip(values(model), before, strict=True))
    opt.step()


def test_who_has_not_moved_is_where_it_is() -> None:
    model = network()
    opt = camhd.Adam(model)
    close(opt.averaged_parameters(), values(model), rtol=0)
    fit(model, opt, batches(20))
    opt.restart()
    close(opt.averaged_parameters(), values(model), rtol=0)  # the way until then is another story


def test_a_parameter_without_a_gradient_keeps_the_average_that_it_has() -> None:
    model = network()
    opt = camhd.Adam(model)
    fit(model, opt, batches(20))
    ahead = opt.averaged_parameters()[0] - model[0].weight
    for x, y in batches(5):
        opt.zero_grad()
        F.cross_entropy(model[2](model[1](model[0](x).detach())), y).backward()
        opt.step()
    torch.testing.assert_close(opt.averaged_parameters()[0] - model[0].weight, ahead, rtol=1e-9, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.complex64])
def test_every_kind_of_number_has_an_average_of_its_kind(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    param = nn.Parameter(torch.randn(7, 5, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype))
    opt = camhd.Adam([param])
    for _ in range(20):
        param.grad = torch.randn_like(param) + 1
        opt.step()
    (found,) = opt.averaged_parameters()
    assert found.dtype == dtype
    assert found.shape == param.shape
    assert not torch.equal(found, param)
    with opt.averaged():
        assert torch.equal(found, param)


def test_a_checkpoint_has_the_average() -> None:
    model = network()
    opt = camhd.Adam(model)
    fit(model, opt, batches(20))
    again = network()
    again.load_state_dict(model.state_dict())
    other = camhd.Adam(again)
    other.load_state_dict(opt.state_dict())
    close(other.averaged_parameters(), opt.averaged_parameters(), rtol=0)


def test_parts_of_divided_parameters_have_theirs() -> None:
    _, whole = train(camhd.Adam, as_whole, range(6))
    wanted = whole.averaged_parameters()

    def divided() -> tuple[list[Tensor], list[Tensor], bool]:
        named, opt = train(camhd.Adam, by_rows, range(6))
        found, before = (
            [put_together(one) for one in opt.averaged_parameters()],
            [p.to_local().clone() for _, p in named],
        )
        with opt.averaged():
            inside = [put_together(p.detach()) for _, p in named]
        same = all(torch.equal(p.to_local(), kept) for (_, p), kept in zip(named, before, strict=True))
        return found, inside, same

    for found, inside, same in in_threads(2, divided):
        close(found, wanted, rtol=1e-11)
        close(inside, wanted, rtol=1e-11)
        assert same


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda model: camhd.AdaBound(model), "camhd.AdaBound clips every weight's rate by itself"),
        (lambda model: camhd.Adam(model, **camhd.presets.paper("adam")), "this camhd.Adam has Additive"),
        (lambda model: camhd.Adam(model, hyper_rule="multiplicative"), "this camhd.Adam has Multiplicative"),
    ],
)
def test_where_there_is_no_average_an_error_says_why(make: Callable[[nn.Module], Any], words: str) -> None:
    opt = make(network())
    assert not opt.can_average
    with pytest.raises(ValueError, match=words):
        opt.averaged_parameters()
    with pytest.raises(ValueError, match=words), opt.averaged():
        pass
    assert camhd.Adam(network()).can_average


@pytest.mark.parametrize("average", [-0.1, 1.1, float("nan")])
def test_a_part_of_the_way_is_between_none_and_all(average: float) -> None:
    with pytest.raises(ValueError, match=r"'average' must lie in \[0, 1\]"):
        camhd.hyper.LongHorizon(average=average)


def test_no_part_of_the_way_is_the_weights_themselves() -> None:
    model = network()
    opt = camhd.Adam(model, hyper_rule=camhd.hyper.LongHorizon(average=0.0))
    fit(model, opt, batches(20))
    close(opt.averaged_parameters(), values(model), rtol=0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_noise_they_are_better_than_the_last_weights(seed: int) -> None:
    """A quadratic whose minimum is known, judged without noise."""
    found = data.load("noisy-quadratic")
    torch.manual_seed(seed)
    model = nn.Linear(64, 1)
    opt = camhd.Adam(model)
    order = torch.Generator().manual_seed(seed)
    for _ in range(1024):
        pick = torch.randint(len(found.train), (16,), generator=order)
        opt.zero_grad()
        F.mse_loss(model(found.train.inputs[pick]), found.train.targets[pick]).backward()
        opt.step()

    @torch.no_grad()
    def loss() -> float:
        return float(F.mse_loss(model(found.test.inputs), found.test.targets))

    last = loss()
    with opt.averaged():
        assert loss() < 0.85 * last


def test_after_a_scheduler_has_lowered_the_rates_they_are_near() -> None:
    model = network()
    opt = camhd.Adam(model)
    schedule = LambdaLR(opt, lambda step: max(1 - step / 100, 0.01))
    apart = []
    for found in batches(110):
        fit(model, opt, [found])
        schedule.step()
        apart.append(sum(float((a - p).norm()) for a, p in zip(opt.averaged_parameters(), values(model), strict=True)))
    assert apart[-1] < 0.1 * max(apart)


def test_where_gradients_have_become_small_on_the_way_the_last_weights_are_taken() -> None:
    """Without noise: what lies behind is worse by orders of magnitude, and its mean would be."""
    train = data.load("quadratic").train
    torch.manual_seed(7)
    model = nn.Linear(64, 1)
    opt = camhd.Adam(model, lr=1e-6)

    @torch.no_grad()
    def loss() -> float:
        return float(F.mse_loss(model(train.inputs), train.targets))

    first = loss()
    for step in range(1, 401):
        opt.zero_grad()
        F.mse_loss(model(train.inputs), train.targets).backward()
        opt.step()
        if step % 50 == 0:
            last = loss()
            with opt.averaged():
                assert loss() < 1.05 * last
    assert last < 1e-3 * first


def test_a_checkpoint_that_does_not_say_how_large_gradients_were_takes_them_as_they_are_now() -> None:
    model = network()
    opt = camhd.Adam(model)
    fit(model, opt, batches(20))
    saved = opt.state_dict()
    saved["param_groups"][0]["camhd"]["version"] = 5
    for entries in saved["state"].values():
        for name in [name for name in entries if "slope" in name]:
            del entries[name]
    again = network()
    again.load_state_dict(model.state_dict())
    other = camhd.Adam(again)
    other.load_state_dict(saved)
    fit(again, other, batches(1))
    fit(model, opt, batches(1))
    for old, new in zip(opt._tree.state.levels, other._tree.state.levels, strict=True):
        whole = opt.config.hyper_rule.averaging({**old.rule, "slope": old.rule["past_slope"] * 100})
        assert whole is not None
        assert torch.equal(opt.config.hyper_rule.averaging(new.rule), whole)
