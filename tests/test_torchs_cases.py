"""PyTorch's own optimizer cases for Adam and SGD, from `torch.testing._internal.common_optimizers`.

With β = δ = 0 every input gives what torch.optim gives; with rates that learn it still goes the right way, saves, loads
and does nothing where there is nothing to do. Error inputs raise the same errors, but for the two that need torch's
`foreach=`, an option that camhd does not have.
"""

from __future__ import annotations

import copy
import importlib
import io
import re
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from cases import BACKENDS, EXACT

pytestmark = pytest.mark.usefixtures("papers_form")

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit and others, while it is imported
    cases = importlib.import_module("torch.testing._internal.common_optimizers")

CLASSES = {"Adam": (camhd.Adam, torch.optim.Adam), "SGD": (camhd.SGD, torch.optim.SGD)}
INFO = {info.name: info for info in cases.optim_db if info.name in CLASSES}
STILL = {"hyper_lr": 0.0, "combine_lr": 0.0}
LEARNING = {"Adam": {"hyper_lr": 1e-6, "combine_lr": 0.1}, "SGD": {"hyper_lr": 1e-8, "combine_lr": 1e-3}}
ROUNDING = {torch.float64: EXACT, torch.float32: 1e-6, torch.bfloat16: 2**-7, torch.float16: 2**-10}
NO_SUCH_OPTION = ("lr as Tensor doesn't work with foreach", r"betas\[0\] as a Tensor is not supported")


def inputs(dtype: torch.dtype) -> list[Any]:
    found = [(name, case) for name, info in INFO.items() for case in info.optim_inputs_func("cpu", dtype)]
    return [pytest.param(name, case.kwargs, id=f"{name}-{case.desc}-{str(dtype)[6:]}") for name, case in found]


def every_input(*dtypes: torch.dtype) -> pytest.MarkDecorator:
    rows = [pytest.param(*p.values, dtype, id=p.id) for dtype in dtypes for p in inputs(dtype)]
    return pytest.mark.parametrize(("name", "kwargs", "dtype"), rows)


# A scheduler writes into an lr that is a tensor, so every optimizer gets a copy of its own.


class Problem:
    """The problem of torch's own tests: a matrix and a vector, whose layout in memory may be odd."""

    def __init__(self, dtype: torch.dtype, contiguous: bool = True) -> None:
        torch.manual_seed(0)
        if contiguous:
            weight, bias = torch.randn(10, 5), torch.randn(10)
        else:
            weight, bias = torch.randn(10, 5, 2)[..., 0], torch.randn(10, 2)[..., 0]
        self.weight, self.bias = nn.Parameter(weight.to(dtype)), nn.Parameter(bias.to(dtype))
        self.input = torch.randn(5).to(dtype)
        self.params = [self.weight, self.bias]

    def loss(self) -> Tensor:
        loss = (self.weight.mv(self.input) + self.bias).pow(2).sum()
        loss.backward()
        return loss.detach()

    def train(self, optimizer: torch.optim.Optimizer, steps: int = 20, schedulers: Any = ()) -> list[float]:
        seen = []
        for _ in range(steps):
            optimizer.zero_grad()
            seen.append(float(self.loss()))
            optimizer.step()
            for scheduler in schedulers:
                plateau = isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
                scheduler.step(*seen[-1:] if plateau else [])
        return [*seen, float(self.loss())]


@pytest.mark.parametrize("backend", BACKENDS)
@every_input(torch.float64, torch.float32)
def test_without_learning_every_input_is_torchs(name: str, kwargs: Any, dtype: torch.dtype, backend: str) -> None:
    found = []
    for make, options in ((CLASSES[name][0], {**STILL, "backend": backend}), (CLASSES[name][1], {})):
        problem = Problem(dtype, contiguous=False)
        problem.train(make(problem.params, **copy.deepcopy(kwargs), **options), 50)
        found.append(problem.params)
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=ROUNDING[dtype], atol=ROUNDING[dtype])


@every_input(torch.bfloat16, torch.float16)
def test_so_it_is_in_half_precision_up_to_its_rounding(name: str, kwargs: Any, dtype: torch.dtype) -> None:
    """One step from the same point: we keep more digits than torch does, so that longer ways part."""
    found = []
    for make, options in ((CLASSES[name][0], STILL), (CLASSES[name][1], {})):
        problem = Problem(dtype)
        problem.train(make(problem.params, **copy.deepcopy(kwargs), **options), 1)
        found.append(problem.params)
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=ROUNDING[dtype], atol=ROUNDING[dtype])


@pytest.mark.parametrize(("options", "contiguous"), [("still", False), ("learning", True)])
@every_input(torch.float32)
def test_every_input_goes_the_right_way_with_torchs_schedulers(
    name: str, kwargs: Any, dtype: torch.dtype, options: str, contiguous: bool
) -> None:
    make = CLASSES[name][0]
    hyper = STILL if options == "still" else LEARNING[name]
    for chain in [[], *INFO[name].scheduler_inputs]:
        problem = Problem(dtype, contiguous)
        optimizer = make(problem.params, **copy.deepcopy(kwargs), **hyper)
        losses = problem.train(optimizer, 20, [scheduler(optimizer) for scheduler in chain])
        assert (losses[-1] > losses[0]) is kwargs.get("maximize", False)
        lr0 = optimizer.param_groups[0]["lr0"]
        moved = abs(optimizer.rates()["global"] / lr0 - 1)
        assert moved > 1e-5 if options == "learning" else moved < 1e-6
        assert optimizer.skipped == 0


@every_input(torch.float64)
def test_every_input_takes_complex_parameters_as_torch_does(name: str, kwargs: Any, dtype: torch.dtype) -> None:
    found = []
    for make, options in ((CLASSES[name][0], STILL), (CLASSES[name][1], {})):
        torch.manual_seed(0)
        z = nn.Parameter(torch.randn(4, 3, dtype=torch.complex128))
        optimizer = make([z], **kwargs, **options)
        for _ in range(20):
            optimizer.zero_grad()
            (z * (1 - 2j)).abs().square().sum().backward()
            optimizer.step()
        found.append(z.detach())
    torch.testing.assert_close(*found, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("named", [False, True])
@every_input(torch.float32)
def test_every_input_saves_loads_and_goes_on(name: str, kwargs: Any, dtype: torch.dtype, named: bool) -> None:
    """With weights_only, and from an optimizer without names to one with them."""
    make = CLASSES[name][0]
    problem, other = Problem(dtype), Problem(dtype)
    first = make(problem.params, **kwargs, **LEARNING[name])
    problem.train(first, 5)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    params = [(f"{i}.weight", p) for i, p in enumerate(other.params)] if named else other.params
    second = make(params, **kwargs, **LEARNING[name])
    second.load_state_dict(torch.load(file, weights_only=True))
    with torch.no_grad():
        for ours, theirs in zip(other.params, problem.params, strict=True):
            ours.copy_(theirs)
    assert problem.train(first, 5) == other.train(second, 5)
    assert list(first.rates()["layer"].values()) == list(second.rates()["layer"].values())


@every_input(torch.float32)
def test_no_gradients_or_zero_gradients_move_nothing(name: str, kwargs: Any, dtype: torch.dtype) -> None:
    problem = Problem(dtype)
    optimizer = CLASSES[name][0](problem.params, **{**kwargs, "weight_decay": 0}, **LEARNING[name])
    before = [p.detach().clone() for p in problem.params]
    optimizer.step()
    for p in problem.params:
        p.grad = torch.zeros_like(p)
    for _ in range(3):
        optimizer.step()
    assert all(map(torch.equal, before, problem.params))
    assert optimizer.rates()["global"] == pytest.approx(float(optimizer.param_groups[0]["lr"]), rel=1e-6)


@pytest.mark.parametrize("name", CLASSES)
def test_every_error_input_raises_torchs_error(name: str) -> None:
    make, seen = CLASSES[name][0], []
    for case in INFO[name].optim_error_inputs_func("cpu", torch.float32):
        given = case.optimizer_error_input
        assert case.error_on is cases.OptimizerErrorEnum.CONSTRUCTION_ERROR
        params = [nn.Parameter(torch.randn(2, 2))] if given.params is None else given.params
        if given.desc.startswith(NO_SUCH_OPTION):
            with pytest.raises(TypeError, match=r"Adam has no option 'foreach', got True; leave it out"):
                make(params, **given.kwargs)
        elif issubclass(case.error_type, Warning):
            with pytest.warns(case.error_type, match=case.error_regex):
                make(params, **given.kwargs)
        else:
            with pytest.raises(case.error_type, match=case.error_regex) as raised:
                make(params, **given.kwargs)
            assert re.search(case.error_regex, str(raised.value))
        seen.append(given.desc)
    assert len(seen) >= 7


@pytest.mark.parametrize("option", ["foreach", "fused", "capturable", "differentiable"])
def test_what_torch_has_for_itself_is_refused_with_the_remedy(option: str) -> None:
    with pytest.raises(TypeError, match=f"has no option '{option}'.*leave it out.*'backend'"):
        camhd.SGD([nn.Parameter(torch.ones(2))], lr=0.1, **{option: True})
