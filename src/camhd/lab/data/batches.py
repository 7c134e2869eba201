"""Batches out of tensors in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor

from .augment import AUGMENTS, Augment
from .errors import choose
from .examples import Examples


class Batches:
    """The batches of every epoch, as floats and normalised; tokens and classes as int64.

    The order of an epoch and its augmentation are functions of the seed, the number of the epoch and the place in it
    alone. So training can go on in the middle of an epoch, and two runs with one seed see the same batches.

    Args:
        examples: what to take them from; they are made on the device where these lie.
        batch_size: how many examples a batch holds; the last one may hold fewer.
        seed: of the order and of the augmentation.
        augment: None, "crop-flip" or "crop-flip-cutout"; for images only.
        shuffle: False for the examples' own order.
        drop_last: whether to leave out the last batch if it is not full.
        dtype: of the floating-point numbers.
        share: (1, 4) for the second of four parts of each batch.

    >>> examples = Examples(torch.arange(10.0)[:, None], torch.arange(10))
    >>> batches = Batches(examples, 4, seed=1)
    >>> len(batches), [len(targets) for inputs, targets in batches.epoch(0)]
    (3, [4, 4, 2])
    >>> whole, rest = list(batches.epoch(5)), list(batches.epoch(5, start=2))
    >>> torch.equal(whole[2][1], rest[0][1])
    True
    """

    def __init__(
        self,
        examples: Examples,
        batch_size: int,
        *,
        seed: int = 0,
        augment: str | None = None,
        shuffle: bool = True,
        drop_last: bool = False,
        dtype: torch.dtype = torch.float32,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"'batch_size' must be 1 or more, got {batch_size}.")
        if drop_last and batch_size > len(examples):
            raise ValueError(
                f"'batch_size' must be at most {len(examples)}, the number of examples, if 'drop_last' is set, got"
                f" {batch_size}; there would be no batch."
            )
        self.examples = examples
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.dtype = dtype
        self.share = share
        self.augment = None if augment is None else _augment(augment, examples.inputs)
        self._scale, self._shift = _normalisation(examples, dtype)

    def __len__(self) -> int:
        """How many batches an epoch has."""
        count, rest = divmod(len(self.examples), self.batch_size)
        return count + (rest > 0 and not self.drop_last)

    def counts(self, batch: int) -> tuple[int, int]:
        """How many examples of a batch are in this share of it, and how many in all of it."""
        (part, parts), whole = self.share, self._size(batch)
        return whole * (part + 1) // parts - whole * part // parts, whole

    def _size(self, batch: int) -> int:
        return min(self.batch_size, len(self.examples) - batch * self.batch_size)

    def _places(self, batch: int) -> slice:
        """Where this share of a batch lies; where it has no example, another one stands in, and does not count."""
        (part, parts), whole = self.share, self._size(batch)
        first = batch * self.batch_size + whole * part // parts
        return slice(first, first + max(1, self.counts(batch)[0]))

    def epoch(self, number: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of this epoch, from the one with number `start` on."""
        if not 0 <= start <= len(self):
            raise ValueError(f"'start' must be 0 to {len(self)}, the number of batches, got {start}.")
        return self._epoch(number, start)

    def _epoch(self, number: int, start: int) -> Iterator[tuple[Tensor, Tensor]]:
        examples, count = self.examples, len(self.examples)
        device = examples.inputs.device
        order = moves = None
        if self.shuffle:
            order = torch.randperm(count, generator=self._generator(number, "order")).to(device)
        if self.augment is not None:
            moves = self.augment.draw(count, self._generator(number, "augment"), device)
        for batch in range(start, len(self)):
            places = self._places(batch)
            if order is None:
                inputs, targets = examples.inputs[places], examples.targets[places].clone()
            else:
                inputs = examples.inputs.index_select(0, order[places])
                targets = examples.targets.index_select(0, order[places])
            if self.augment is not None and moves is not None:
                images = self.augment.move(inputs, moves[places])
                yield self.augment.cut(self._normalised(images), moves[places]), self._numbers(targets)
            else:
                yield self._normalised(inputs), self._numbers(targets)

    def _normalised(self, inputs: Tensor) -> Tensor:
        if self._scale is None:
            return self._numbers(inputs.clone() if not self.shuffle else inputs)
        return inputs.to(self.dtype, copy=True).mul_(self._scale).add_(self._shift)

    def _numbers(self, values: Tensor) -> Tensor:
        return values.to(self.dtype if values.is_floating_point() else torch.int64)

    def _generator(self, epoch: int, use: str) -> torch.Generator:
        """Of its own for every seed, epoch and use; a hash, so that seed 1 epoch 2 is not seed 2 epoch 1."""
        digest = hashlib.sha256(f"{self.seed}/{epoch}/{use}".encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))


def _augment(kind: str, inputs: Tensor) -> Augment:
    choose("augmentation", kind, AUGMENTS)
    if inputs.dim() != 4:
        raise ValueError(
            f"'augment' must be None for inputs that are not images, got {kind!r} for inputs of shape"
            f" {tuple(inputs.shape[1:])}."
        )
    return Augment(kind, inputs.shape[2], inputs.shape[3])


def _normalisation(examples: Examples, dtype: torch.dtype) -> tuple[Tensor | None, Tensor]:
    """(x − mean) / std as x · scale + shift."""
    if examples.mean is None or examples.std is None:
        return None, torch.empty(0)
    mean, std = (torch.tensor(values, dtype=torch.float64) for values in (examples.mean, examples.std))
    shape = [-1] + [1] * (examples.inputs.dim() - 2)
    scale, shift = (values.to(examples.inputs.device, dtype).view(shape) for values in (1 / std, -mean / std))
    return scale, shift
