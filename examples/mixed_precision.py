"""bfloat16 with autocast; float16 with autocast and a GradScaler, clipping included.

python examples/mixed_precision.py
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import camhd


def train(dtype: torch.dtype, epochs: int, device: str = "cpu") -> tuple[float, camhd.Optimizer]:
    """Train with activations in this dtype; the last loss, and the optimizer."""
    torch.manual_seed(0)
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)

    opt = camhd.Adam(model, lr=3e-3)
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)  # bfloat16 needs none
    for _ in range(epochs):
        for inputs, targets in loader:
            opt.zero_grad()
            with torch.autocast(device, dtype):
                loss = nn.functional.cross_entropy(model(inputs.to(device)), targets.to(device))
            scaler.scale(loss).backward()
            scaler.unscale_(opt)  # before clipping: the norm is that of the gradient itself
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)  # skipped on overflow: parameters, rates, weights and direction stay as they are
            scaler.update()
    return float(loss.detach()), opt


def main(epochs: int = 5) -> list[float]:
    """Both dtypes; the last losses."""
    losses = []
    for dtype in (torch.bfloat16, torch.float16):
        loss, opt = train(dtype, epochs)
        losses.append(loss)
        print(f"{dtype}: loss {loss:.3f}, rates {opt.rates()['layer']}")
    return losses


if __name__ == "__main__":
    main()
