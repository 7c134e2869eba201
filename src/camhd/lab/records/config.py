"""Everything that decides a run, and nothing about time or machine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

from .text import from_json, plain, to_json

FORMAT = 1
LATER = ("stop_loss",)


@dataclass(frozen=True)
class RunConfig:
    """The configuration of one run; its `id` is the name of its folder.

    Args:
        model: a name of the catalog, or `own:` and the name of a user's function.
        data: a data set's name.
        optimizer: a name of the registry, or `own:` and the name of a user's function.
        label: what tables call the optimizer; the only entry that does not decide anything.
        fingerprint: of the data that was read.
        split: "full" (all of the training set; validation on the test set), "fold:2/5" or "fraction:0.1".
        options: of the optimizer, as resolved.
        epochs: passes over the training set.
        batch_size: examples in a step.
        seed: decides initial weights, order of examples, augmentation and dropout.
        augment: None, "crop-flip" or "crop-flip-cutout".
        dtype: "float32", "float64", or "bfloat16" for float32 weights under autocast.
        device: where it runs, as torch calls it.
        schedule: None, "cosine", "warmup-cosine" or "drop:150".
        loss_scale: a factor on the loss before its gradient is taken; losses in the record are without it.
        patience: epochs without a better validation loss until it stops; None: never.
        stop_loss: the training loss of a step at which it stops; None: never.
        rates_every: steps between two lines of rates.

    >>> config = RunConfig("ffnn:100,100", "digits", "adam", options={"lr": 0.001}, seed=3)
    >>> config.id
    'digits-ffnn-100-100-adam-seed3-...'
    >>> RunConfig.from_json(config.to_json()) == config
    True
    """

    model: str
    data: str
    optimizer: str
    label: str = ""
    fingerprint: str = ""
    split: str = "full"
    options: Mapping[str, Any] = field(default_factory=dict)
    epochs: int = 10
    batch_size: int = 64
    seed: int = 0
    augment: str | None = None
    dtype: str = "float32"
    device: str = "cpu"
    schedule: str | None = None
    loss_scale: float = 1.0
    patience: int | None = None
    rates_every: int = 50
    stop_loss: float | None = None

    def __post_init__(self) -> None:
        try:
            options = plain(self.options)
        except TypeError as error:
            raise ValueError(
                f"'options' of {self.optimizer!r} cannot be written down: {error} Use an optimizer function instead."
            ) from None
        object.__setattr__(self, "options", from_json(to_json(options)))

    @cached_property
    def id(self) -> str:
        """A name for people, and a short hash of everything that decides the run."""
        name = "-".join((self.data, self.model, self.optimizer, f"seed{self.seed}")).lower()
        return f"{re.sub(r'[^a-z0-9.]+', '-', name).strip('-.')}-{self._hash(())}"

    @property
    def group(self) -> str:
        """Equal for runs that differ in nothing but the seed."""
        return self._hash(("seed",))

    def _hash(self, without: tuple[str, ...]) -> str:
        decides = {key: value for key, value in self._entries().items() if key not in ("label", *without)}
        text = to_json({key: decides[key] for key in sorted(decides)} | {"options": _sorted(decides["options"])})
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def as_dict(self) -> dict[str, Any]:
        """As in `config.json`."""
        return {"format": FORMAT, "id": self.id, **self._entries()}

    def _entries(self) -> dict[str, Any]:
        """All of them, but for those that came later and are not used: what was recorded before keeps its id."""
        return {key: value for key, value in asdict(self).items() if not (key in LATER and value is None)}

    def to_json(self) -> str:
        """The contents of `config.json`."""
        return to_json(self.as_dict(), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RunConfig:
        """The configuration that `to_json` wrote."""
        given = from_json(text)
        if not isinstance(given, dict) or given.get("format") != FORMAT:
            found = given.get("format") if isinstance(given, dict) else given
            raise ValueError(f"'format' must be {FORMAT}, got {found!r}; another version of camhd may have written it.")
        names = {entry.name for entry in fields(cls)}
        wrong = sorted(set(given) - names - {"format", "id"})
        if wrong:
            raise ValueError(
                f"a configuration has no entry {wrong[0]!r}; another version of camhd may have written it."
            )
        return cls(**{name: value for name, value in given.items() if name in names})

    def differences(self, other: RunConfig) -> dict[str, tuple[Any, Any]]:
        """What differs, as (own value, other's value)."""
        own, others = asdict(self), asdict(other)
        return {key: (own[key], others[key]) for key in own if key != "label" and own[key] != others[key]}


def _sorted(value: Any) -> Any:
    """The order in which options were given decides nothing."""
    return {key: _sorted(value[key]) for key in sorted(value)} if isinstance(value, dict) else value
