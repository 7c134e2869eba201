"""Any torch scheduler over rates that learn: warm-up from 0, cosine, then averaged weights (SWA).

python examples/schedules.py
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim import lr_scheduler, swa_utils
from torch.utils.data import DataLoader, TensorDataset

import camhd


def main(epochs: int = 12) -> float:
    """Train on scikit-learn's digits; the accuracy of the averaged weights on the last 300 of them."""
    torch.manual_seed(0)
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    loader = DataLoader(TensorDataset(x[:-300], y[:-300]), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))

    opt = camhd.SGD(model, lr=0.1, momentum=0.9, nesterov=True)
    warm_up = lr_scheduler.LambdaLR(opt, lambda step: min(1.0, step / 20))  # from 0, once per step
    cosine = lr_scheduler.CosineAnnealingLR(opt, T_max=epochs * len(loader))
    averaging = swa_utils.SWALR(opt, swa_lr=0.02, anneal_epochs=1)
    averaged = swa_utils.AveragedModel(model)

    for epoch in range(epochs):
        for inputs, targets in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            opt.step()
            if epoch < epochs // 2:
                warm_up.step() if warm_up.last_epoch < 20 else cosine.step()
        if epoch >= epochs // 2:
            averaged.update_parameters(model)
            averaging.step()
        (moving,) = camhd.report.effective(opt) or [0.0]
        print(f"epoch {epoch}: schedule {opt.param_groups[0]['lr']:.4f}, moves with {moving:.4f}")
    swa_utils.update_bn(loader, averaged)
    averaged.eval()
    return float((averaged(x[-300:]).argmax(1) == y[-300:]).float().mean())


if __name__ == "__main__":
    print(f"accuracy {main():.3f}")
