"""Gradient clipping and accumulation: the hypergradient sees what the step sees.

python examples/clip_and_accumulate.py
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

import camhd


def train(batch: int, parts: int, steps: int) -> camhd.Optimizer:
    """Steps on batches that are taken in so many parts."""
    torch.manual_seed(0)
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    opt = camhd.SGD(model, lr=0.1, momentum=0.9)
    for step in range(steps):
        some = slice(step * batch % 1600, step * batch % 1600 + batch)
        opt.zero_grad()
        for inputs, targets in zip(x[some].chunk(parts), y[some].chunk(parts), strict=True):
            (nn.functional.cross_entropy(model(inputs), targets) / parts).backward()  # sums up in p.grad
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()  # one step, one hypergradient, of the whole clipped sum
    return opt


def main(steps: int = 60) -> tuple[float, float]:
    """The global rate after steps on whole batches, and on the same batches in eight parts."""
    whole, parts = (train(64, parts, steps).rates()["global"] for parts in (1, 8))
    print(f"whole batches {whole:.8f}, in eight parts {parts:.8f}")
    return whole, parts


if __name__ == "__main__":
    main()
