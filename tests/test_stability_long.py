"""A long run on a noisy quadratic: Σγ does not drift, nothing leaks, and a step is as much work at the end as at first.

CI takes 20,000 steps. A million of them, with the time of each tenth of the run:

    CAMHD_LONG_STEPS=1000000 pytest -s tests/test_stability_long.py
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from cases import BACKENDS

STEPS = int(os.environ.get("CAMHD_LONG_STEPS", "20000"))
KEPT = 997  # rows of noise, a prime: no pattern of the run's own repeats with them
RUNS: dict[str, dict[str, Any]] = {
    "additive": {"hyper_rule": "additive", "hyper_lr": 1e-4, "combine_lr": 1e-3},
    "softmax": {"hyper_rule": "additive", "hyper_lr": 1e-4, "combine_lr": 1e-2, "combine": "softmax"},
    "multiplicative": {"hyper_rule": "multiplicative", "hyper_lr": 0.01, "combine_lr": 1e-3},
    "long_horizon": {"hyper_rule": "long_horizon", "combine_lr": 1e-3},
}


class Quadratic:
    """½ Σ λ θ², with noise on the gradient."""

    def __init__(self, dtype: torch.dtype) -> None:
        random = torch.Generator().manual_seed(3)
        self.layers = nn.ModuleDict({"a": nn.Linear(4, 3), "b": nn.Linear(3, 2)}).to(dtype)
        self.params = list(self.layers.parameters())
        self.curvature = [0.1 + 2 * torch.rand(p.shape, generator=random).to(dtype) for p in self.params]
        self.noise = [
            [0.1 * torch.randn(p.shape, generator=random).to(dtype) for p in self.params] for _ in range(KEPT)
        ]
        for p in self.params:
            p.grad = torch.zeros_like(p)

    def backward(self, t: int) -> None:
        for p, curvature, noise in zip(self.params, self.curvature, self.noise[t % KEPT], strict=True):
            torch.addcmul(noise, curvature, p.data, out=p.grad)

    def loss(self) -> float:
        return float(sum((c * p.detach().square()).sum() for c, p in zip(self.curvature, self.params, strict=True)))


def calls_of(function: Any) -> int:
    """How many functions, of Python or C, are called in its course."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # others have asked to be called when it runs
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


@pytest.mark.alike(4)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", RUNS)
def test_a_long_run_neither_drifts_nor_leaks_nor_slows_down(name: str, dtype: torch.dtype, backend: str) -> None:
    torch.manual_seed(0)
    problem = Quadratic(dtype)
    levels = ("global", "layer", "unit")
    optimizer = camhd.SGD(problem.layers, lr=0.05, momentum=0.5, levels=levels, backend=backend, **RUNS[name])
    steps, losses, times, calls, sizes = STEPS if backend == "fused" else STEPS // 10, [], [], [], []
    for tenth in range(10):
        begin, total = time.process_time(), 0.0
        for t in range(tenth * steps // 10, (tenth + 1) * steps // 10):
            problem.backward(t)
            optimizer.step()
            if t % 10 == 0:
                total += problem.loss()
        times.append((time.process_time() - begin) / (steps // 10))
        losses.append(total / (steps // 10) * 10)
        calls.append(calls_of(optimizer.step))
        if tenth in (2, 9):
            sizes.append(_in_use())
        _check(optimizer, dtype)
    print(f"\n{name}, {backend}, {dtype}: µs a step", *[f"{1e6 * one:.0f}" for one in times], "losses", *losses)
    assert optimizer._tree.state.step == steps + 10
    assert optimizer.skipped == 0
    assert len(set(calls[1:])) == 1, f"a step is always the same amount of work, but calls were {calls}"
    blocks, tensors, kilobytes = (last - first for first, last in zip(*sizes, strict=True))
    assert blocks < 500, f"blocks of memory, tensors and kilobytes in use after the third tenth and at the end: {sizes}"
    assert tensors == 0, sizes
    assert kilobytes < 16_384, sizes
    assert max(losses[5:]) < 1.2 * max(losses[1:5]), f"the loss came back up: {losses}"


def _in_use() -> tuple[int, int, int]:
    """Blocks of memory that Python holds, tensors that are alive, and the most kilobytes the process ever had."""
    gc.collect()
    tensors = sum(issubclass(type(one), Tensor) for one in gc.get_objects())
    return sys.getallocatedblocks(), tensors, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _check(optimizer: camhd.Optimizer, dtype: torch.dtype) -> None:
    weights: Tensor = torch.tensor(list(optimizer.combination().values()), dtype=torch.float64)
    assert float(weights.min()) >= 0
    assert float(weights.sum()) == pytest.approx(1, abs=1e-6 if dtype == torch.float32 else 1e-14)
    for tensors in optimizer._tree.level_rates().values():
        assert all(bool(rates.isfinite().all()) and float(rates.min()) >= 0 for rates in tensors)
