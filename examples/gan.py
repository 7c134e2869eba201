"""Two networks against each other, each with an optimizer of its own; each looks back on its own steps.

python examples/gan.py
"""

from __future__ import annotations

import torch
from torch import nn

import camhd


def main(steps: int = 300) -> float:
    """Learn to draw points of a ring; how far they are from it, on average."""
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    discriminator = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
    # A rate that both players share would learn from both; with two optimizers there is none.
    draws = camhd.Adam(generator, lr=2e-3, betas=(0.5, 0.9))
    judges = camhd.Adam(discriminator, lr=2e-3, betas=(0.5, 0.9))
    judge = nn.functional.binary_cross_entropy_with_logits
    ones, zeros = torch.ones(128, 1), torch.zeros(128, 1)
    for _ in range(steps):
        angle = 2 * torch.pi * torch.rand(128)
        real = torch.stack([angle.cos(), angle.sin()], dim=1)
        fake = generator(torch.randn(128, 4))

        judges.zero_grad()
        (judge(discriminator(real), ones) + judge(discriminator(fake.detach()), zeros)).backward()
        judges.step()

        draws.zero_grad()
        judge(discriminator(fake), ones).backward()  # what this leaves in the discriminator, zero_grad() takes away
        draws.step()
    distance = float((generator(torch.randn(1000, 4)).norm(dim=1) - 1).abs().mean().detach())
    print(f"distance {distance:.3f}; rates {draws.rates()['global']:.2e} and {judges.rates()['global']:.2e}")
    return distance


if __name__ == "__main__":
    main()
