"""What the lab adds to training: `python -m camhd.lab.train.overhead`, on an idle machine.

It prints two figures. The first: images per second of LeNet-5 on MNIST, one epoch, batches of 256, as a share of a bare
loop without records, rates and bars, that goes over the same images. The two take turns, and the ratio is the median
over the rounds. The second: the cost of writing down the rates of a ResNet-18 run, as a share of its time.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from time import perf_counter

import torch
from torch.nn import functional as F

from .. import data as datasets
from .. import models, optimizers
from ..data import Dataset
from .job import prepare
from .rates import rates_line
from .run import execute
from .settings import Settings
from .watch import Watcher

BATCH = 256


def bare(dataset: Dataset, optimizer: str) -> float:
    """Images per second of a loop that does nothing but train, with images that are floats already."""
    torch.manual_seed(0)
    everything = next(datasets.Batches(dataset.train, len(dataset.train), shuffle=False).epoch(0))
    images, labels = everything
    model = models.find("lenet5", dataset.shape, dataset.classes)()
    driver = optimizers.build(optimizer, model)
    began = perf_counter()
    for batch in torch.randperm(len(images)).split(BATCH):
        driver.zero_grad()
        loss = F.cross_entropy(model(images[batch]), labels[batch])
        driver.backward(loss)
        driver.step(loss)
    return len(images) / (perf_counter() - began)


def lab(dataset: Dataset, optimizer: str) -> float:
    """Images per second of the lab's training, record and rates included; the validation after it is not training."""
    with tempfile.TemporaryDirectory() as folder:
        job = prepare("lenet5", dataset, optimizer, Settings(epochs=1, batch_size=BATCH))
        run = execute(job, folder, watcher=Watcher())
    return len(dataset.train) / float(run.epochs[0]["time"]["train_seconds"])


def training(dataset: Dataset, optimizer: str, rounds: int) -> tuple[float, float, float]:
    """The median speed of the bare loop, of the lab, and the median ratio of the two."""
    bare(dataset, optimizer)  # the first one warms everything up
    speeds = []
    for number in range(rounds):
        pair = [(bare, lab), (lab, bare)][number % 2]
        found = {way: way(dataset, optimizer) for way in pair}
        speeds.append((found[bare], found[lab]))
    return (
        statistics.median(slow for slow, _ in speeds),
        statistics.median(fast for _, fast in speeds),
        statistics.median(lab / bare for bare, lab in speeds),
    )


def rates(levels: Sequence[str], batch: int, repeats: int) -> tuple[float, float]:
    """The median seconds of a ResNet-18 training step, and of a line with its rates."""
    torch.manual_seed(0)
    model = models.resnet18()
    driver = optimizers.build("adam-cam-hd-2", model, {"levels": tuple(levels)})
    images, labels = torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))
    steps, lines = [], []
    for number in range(repeats + 1):
        began = perf_counter()
        driver.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        driver.backward(loss)
        driver.step(loss)
        between = perf_counter()
        str(rates_line(number, driver.optimizer, driver.rate()))
        lines.append(perf_counter() - between)
        steps.append(between - began)
    return statistics.median(steps[1:]), statistics.median(lines[1:])


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What the lab adds to training; run it on an idle machine.")
    parser.add_argument("--rounds", type=int, default=5, help="epochs that each way trains (%(default)s)")
    parser.add_argument("--optimizer", default="adam-cam-hd-2", help="of LeNet-5 (%(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="steps of ResNet-18 (%(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="images in a step of ResNet-18 (%(default)s)")
    chosen = parser.parse_args(arguments)
    dataset = datasets.load("mnist")
    without, with_all, share = training(dataset, chosen.optimizer, chosen.rounds)
    print(f"LeNet-5, {len(dataset.train):,} images of MNIST, batch {BATCH}, {chosen.optimizer}, one epoch:")
    print(f"  bare loop {without:,.0f} images/s, lab {with_all:,.0f} images/s: {100 * share:.1f} %", flush=True)
    for levels in (("global", "filter"), ("global", "layer", "parameter")):
        step, line = rates(levels, chosen.batch, chosen.repeats)
        print(f"ResNet-18, {', '.join(levels)}, batch {chosen.batch}: a step {1e3 * step:,.0f} ms, a line of rates")
        print(f"  {1e3 * line:.2f} ms: {100 * line / step:.2f} % if written at every step (a usual run writes 100)")


if __name__ == "__main__":
    main()
