"""From an item to a job. A process reads each data set once, however many runs it carries out."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..data import Dataset
from ..records import RunConfig
from ..train import Job, open_data, own, prepare
from ..train.job import Source
from .plan import Item


def job_of(item: Item, device: str | None = None) -> Job:
    """The job of an item, everything checked; on another device if one is named."""
    return prepare(
        _function(item.model),
        _source(item.data, _stamp(item.data), item.split),
        _function(item.optimizer),
        item.settings(device),
        seed=item.seed,
        options=item.options,
        label=item.label,
    )


def job_like(item: Item, config: RunConfig) -> Job:
    """The job of an item, which must be the run that whoever asks for it means.

    Raises:
        ValueError: it is another run here, because the data are others, or the code.
    """
    job = job_of(item)
    if job.config.id != config.id:  # what was read before may have changed since
        _dataset.cache_clear()
        _source.cache_clear()
        job = job_of(item)
    for name, (own_value, asked) in job.config.differences(config).items():
        raise ValueError(
            f"the run {config.id!r} cannot be carried out here: its {name} is {asked!r} where the sweep was started, "
            f"but {own_value!r} here; bring the same data and the same code to every machine."
        )
    return replace(job, config=config)


def _function(text: str) -> Any:
    return _found(text, _stamp(text))


def _stamp(text: str) -> int:
    """Another number when a file with functions has changed."""
    path = Path(text.rpartition(":")[0])
    return path.stat().st_mtime_ns if path.suffix == ".py" and path.is_file() else 0


@lru_cache(maxsize=64)
def _found(text: str, stamp: int) -> Any:
    return own.find(text)


@lru_cache(maxsize=2)
def _dataset(data: str, stamp: int) -> Dataset:
    return open_data(_found(data, stamp)).dataset


@lru_cache(maxsize=8)
def _source(data: str, stamp: int, split: str) -> Source:
    return open_data(_dataset(data, stamp), split)
