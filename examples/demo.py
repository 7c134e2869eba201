"""Train a small network on scikit-learn's digits with torch's Adam and with camhd.Adam, and compare.

Both optimizers see the same initial weights and the same batches in the same order, for several seeds.

    python examples/demo.py --epochs 20 --seeds 5
"""

from __future__ import annotations

import argparse
import statistics
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import camhd

OPTIMIZERS = ("torch.optim.Adam", "camhd.Adam")


class Digits(NamedTuple):
    """1797 images of 8 x 8 pixels, scaled to [0, 1]; a quarter of them is kept for the test."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor


class Run(NamedTuple):
    """What one training run gives; rates and weights only where they are learned."""

    accuracy: float
    rates: dict[str, float]
    weights: dict[str, float]


def load() -> Digits:
    """Load the digits; the split is the same for every run."""
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images / 16.0, labels, test_size=0.25, random_state=0, stratify=labels
    )
    return Digits(
        torch.tensor(train_x, dtype=torch.float32),
        torch.tensor(train_y),
        torch.tensor(test_x, dtype=torch.float32),
        torch.tensor(test_y),
    )


def make_model() -> nn.Module:
    """A perceptron 64-64-64-10."""
    return nn.Sequential(
        OrderedDict(
            fc1=nn.Linear(64, 64),
            relu1=nn.ReLU(),
            fc2=nn.Linear(64, 64),
            relu2=nn.ReLU(),
            out=nn.Linear(64, 10),
        )
    )


def make_optimizer(name: str, model: nn.Module, lr: float) -> torch.optim.Optimizer:
    """The optimizer of that name with its default settings."""
    return torch.optim.Adam(model.parameters(), lr=lr) if name == "torch.optim.Adam" else camhd.Adam(model, lr=lr)


def train(name: str, seed: int, digits: Digits, options: argparse.Namespace, tick: Callable[[], None]) -> Run:
    """Train once and measure the test accuracy; `tick` is called after each epoch."""
    torch.manual_seed(seed)  # the same initial weights for every optimizer
    model = make_model()
    optimizer = make_optimizer(name, model, options.lr)
    order = torch.Generator().manual_seed(seed)  # the same batches, too
    for _ in range(options.epochs):
        for batch in torch.randperm(len(digits.train_x), generator=order).split(options.batch_size):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(digits.train_x[batch]), digits.train_y[batch])
            loss.backward()
            optimizer.step()
        tick()
    with torch.no_grad():
        right = model(digits.test_x).argmax(dim=1) == digits.test_y
    accuracy = 100.0 * right.double().mean().item()
    if isinstance(optimizer, camhd.Adam):
        return Run(accuracy, flatten(optimizer.rates()), flatten(optimizer.combination()))
    return Run(accuracy, {}, {})


def flatten(values: object, prefix: str = "") -> dict[str, float]:
    """`{"global": 1.0, "layer": {"fc1": 2.0}}` as `{"global": 1.0, "layer fc1": 2.0}`."""
    if not isinstance(values, dict):
        return {prefix: float(values)}  # type: ignore[arg-type]
    parts = [flatten(value, f"{prefix} {name}".strip()) for name, value in values.items()]
    return {name: value for part in parts for name, value in part.items()}


def spread(values: list[float], digits: str) -> str:
    """Mean and standard deviation; one value alone has no deviation."""
    mean = format(statistics.mean(values), digits)
    return f"{mean} ± {format(statistics.stdev(values), digits)}" if len(values) > 1 else mean


@contextmanager
def progress_of(console: Console, name: str, seed: int, epochs: int) -> Iterator[Callable[[], None]]:
    """A progress bar on a terminal, one plain line elsewhere (a log file, a pipe)."""
    label = f"{name:<16}  seed {seed}"
    if not console.is_terminal:
        yield lambda: None
        console.print(f"{label}  done, epochs: {epochs}")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(label, total=epochs)
        yield lambda: bar.advance(task)


def accuracy_table(runs: dict[str, list[Run]]) -> Table:
    """One row per optimizer."""
    table = Table(title="Test accuracy on the digits")
    table.add_column("optimizer")
    table.add_column("accuracy in %, mean ± deviation", justify="right")
    table.add_column("n", justify="right")
    for name, results in runs.items():
        table.add_row(name, spread([run.accuracy for run in results], ".2f"), str(len(results)))
    return table


def rate_table(runs: list[Run], lr: float) -> Table:
    """One row per learned rate."""
    table = Table(title="What camhd.Adam learned (mean ± deviation)")
    table.add_column("level")
    table.add_column("rate at the start", justify="right")
    table.add_column("rate at the end", justify="right")
    table.add_column("weight at the end", justify="right")
    for key in runs[0].rates:
        level = key.split(" ")[0]
        weight = spread([run.weights[level] for run in runs], ".4f")
        table.add_row(key, f"{lr:.3e}", spread([run.rates[key] for run in runs], ".3e"), weight)
    return table


def number(kind: Callable[[str], float], name: str) -> Callable[[str], float]:
    """An argparse type: a number above zero."""

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be {name}, but is {text!r}") from None
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"must be above zero and finite, but is {text}")
        return value

    return parse


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    count, real = number(int, "a whole number"), number(float, "a number")
    parser = argparse.ArgumentParser(
        description="Train a small network on scikit-learn's digits with torch's Adam and with camhd.Adam.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--epochs", type=count, default=20, metavar="N", help="epochs per run")
    parser.add_argument("--seeds", type=count, default=5, metavar="N", help="runs per optimizer")
    parser.add_argument("--batch-size", type=count, default=32, metavar="N", help="images per step")
    parser.add_argument("--lr", type=real, default=1e-3, metavar="RATE", help="learning rate at the start")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Run every optimizer with every seed and print what came out."""
    options = parse_arguments(arguments)
    torch.set_num_threads(1)  # tensors this small gain nothing from more, and lose much on a busy machine
    console = Console()
    digits = load()
    runs: dict[str, list[Run]] = {name: [] for name in OPTIMIZERS}
    for name in OPTIMIZERS:
        for seed in range(options.seeds):
            with progress_of(console, name, seed, options.epochs) as tick:
                runs[name].append(train(name, seed, digits, options, tick))
    console.print(accuracy_table(runs), rate_table(runs["camhd.Adam"], options.lr))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("stopped before the end; nothing to report") from None
