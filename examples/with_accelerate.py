"""camhd with accelerate: prepare, step, save_state, load_state.

pip install accelerate
python examples/with_accelerate.py
"""

from __future__ import annotations

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import camhd


def main(folder: str = "runs/accelerate", epochs: int = 4) -> list[float]:
    """Train, save after half of it, go back there and train again: the losses of both second halves."""
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    opt = camhd.Adam(model, lr=3e-3)  # its rates are read through this name
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    net, prepared, loader, schedule = accelerator.prepare(
        model, opt, DataLoader(TensorDataset(x, y), batch_size=32), scheduler
    )

    def train(epochs: int) -> float:
        for _ in range(epochs):
            for inputs, targets in loader:
                with accelerator.accumulate(net):
                    loss = nn.functional.cross_entropy(net(inputs), targets)
                    accelerator.backward(loss)
                    prepared.step()
                    schedule.step()
                    prepared.zero_grad()
        return float(loss.detach())

    train(epochs // 2)
    accelerator.save_state(folder)
    first = train(epochs - epochs // 2)
    accelerator.load_state(folder)
    losses = [first, train(epochs - epochs // 2)]
    print(f"losses {losses}, rates {opt.rates()['layer']}")
    return losses


if __name__ == "__main__":
    main()
