"""One run of a plan, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..train import Job, Settings, prepare


@dataclass(frozen=True)
class Item:
    """A run: model, data, optimizer, seed, and the fields of `camhd.lab.Settings`."""

    model: str
    data: str
    optimizer: str
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    seed: int = 0
    epochs: int = 10
    batch_size: int | None = None
    split: str = "full"
    augment: str | None = None
    schedule: str | None = None
    patience: int | None = None
    loss_scale: float = 1.0
    dtype: str = "float32"
    device: str = "cpu"
    rates_every: int | None = None
    paper: bool = False
    stop_loss: float | None = None

    def settings(self) -> Settings:
        """How it trains."""
        return Settings(**{entry.name: getattr(self, entry.name) for entry in fields(Settings)})

    def job(self, data: Any = None) -> Job:
        """What carries it out; `data` if it has been read already."""
        return prepare(
            self.model,
            self.data if data is None else data,
            self.optimizer,
            self.settings(),
            seed=self.seed,
            options=self.options,
            label=self.label,
        )
