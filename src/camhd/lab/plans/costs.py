"""What a step costs, in time and in memory, beside the paper's formulas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import models, optimizers
from ..bench.memory import state_bytes
from ..bench.timing import Effort, Spread, race, timed
from ..optimizers import Driver

SHAPES = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
CLASSES = 10


def cost(model: str, data: str, batch: int, levels: list[str], budget: float, threads: int = 1) -> dict[str, Any]:
    """Torch's fused Adam and Adam-CAM-HD over a network: time, bytes of state, and what the paper's formulas say.

    Args:
        model: as `camhd train` takes it.
        data: whose shape of images; they are random, because a step takes no longer on real ones.
        batch: examples in a step.
        levels: of CAM-HD, from the root to the leaf.
        budget: seconds for the timed rounds.
        threads: of the CPU.
    """
    with _threads(threads):
        torch.manual_seed(0)
        shape = SHAPES[data]
        network = models.find(model, shape, CLASSES)()
        images, labels = torch.randn(batch, *shape), torch.randint(CLASSES, (batch,))

        def train() -> None:
            network.zero_grad(set_to_none=False)
            F.cross_entropy(network(images), labels).backward()

        train()
        operations = multiplications(network, images[:1])
        drivers = {
            "adam": optimizers.build("adam", network, {"fused": True}),
            "cam": optimizers.build("adam-cam-hd-2", network, {"levels": tuple(levels)}),
        }
        steps = [partial(_step, driver) for driver in drivers.values()]
        for step in steps * 3:
            step()
        made = race(steps, [timed(step) for step in steps], Effort(budget), train)
        adam, cam = made.steps
        whole = [own + first for own, first in zip(made.prelude, adam, strict=True)]
        extra = [(second - first) / all_of_it for first, second, all_of_it in zip(adam, cam, whole, strict=True)]
        bytes_of = {name: state_bytes(driver.optimizer, network) for name, driver in drivers.items()}
    parameters = sum(p.numel() for p in network.parameters())
    layers = sum(1 for module in network.modules() if next(module.parameters(recurse=False), None) is not None)
    return {
        "parameters": parameters,
        "layers": layers,
        "train_seconds": vars(Spread.of(made.prelude)),
        "adam_seconds": vars(Spread.of(adam)),
        "cam_seconds": vars(Spread.of(cam)),
        "extra_share": vars(Spread.of(extra)),
        "multiplications": batch * operations,
        "extra_operations": parameters,
        "adam_bytes": bytes_of["adam"],
        "cam_bytes": bytes_of["cam"],
        "formula_numbers": formula(parameters, layers, "parameter" in levels),
    }


def formula(parameters: int, layers: int, by_parameter: bool) -> int:
    """How many numbers the paper counts: h and α of every level, and α* where it differs from parameter to parameter.

    >>> formula(1000, 3, by_parameter=True), formula(1000, 3, by_parameter=False)
    (3008, 8)
    """
    return 2 * (layers + 1) + (3 * parameters if by_parameter else 0)


def multiplications(network: nn.Module, inputs: Tensor) -> int:
    """Of a forward pass of one example: `Σ n_l n_{l-1}` of linear layers, `Σ n_{l-1} s² n_l m²` of convolutions."""
    total = 0

    def count(module: nn.Module, given: Any, output: Tensor) -> None:
        nonlocal total
        if isinstance(module, nn.Linear):
            total += module.weight.numel()
        elif isinstance(module, nn.Conv2d):
            total += module.weight.numel() * output.shape[-1] * output.shape[-2]

    hooks = [module.register_forward_hook(count) for module in network.modules()]
    was_training = network.training
    with torch.no_grad():
        network.eval()(inputs)
    network.train(was_training)
    for hook in hooks:
        hook.remove()
    return total


def _step(driver: Driver) -> None:
    assert driver.optimizer is not None
    driver.optimizer.step()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
