"""camhd in a LightningModule, with its rates in the logger.

pip install lightning
python examples/with_lightning.py
"""

from __future__ import annotations

from typing import Any

import lightning.pytorch as lightning
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import camhd


class Digits(lightning.LightningModule):  # type: ignore[misc]
    """A small network for scikit-learn's digits."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        """The loss of a batch."""
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        """What Lightning asks for; nothing in it is special to camhd."""
        opt = camhd.Adam(self.net, lr=3e-3)
        steps = int(self.trainer.estimated_stepping_batches)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=steps)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": cosine, "interval": "step"}}


def main(folder: str = "runs", epochs: int = 5) -> Any:
    """Train; the trainer. `trainer.fit(..., ckpt_path=...)` goes on from a checkpoint exactly."""
    lightning.seed_everything(0)
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        default_root_dir=folder,
        accelerator="cpu",
        logger=lightning.loggers.CSVLogger(folder),
        callbacks=[
            camhd.report.lightning_callback(every=10),  # learned rates and weights, and what each group moves with
            lightning.callbacks.LearningRateMonitor("step"),  # the schedule
        ],
    )
    trainer.fit(Digits(), DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
    return trainer


if __name__ == "__main__":
    main()
