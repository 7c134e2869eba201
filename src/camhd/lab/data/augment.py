"""Crop, flip and cut-out, for a whole batch at once and without a loop over its images.

All three act on bytes, before they are made floats. The random numbers of an epoch are drawn at its start, one row for
every place in the order, so a batch in the middle needs no batch before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

PADDING = 4
HOLE = 16
AUGMENTS = ("crop-flip", "crop-flip-cutout")


@dataclass(frozen=True)
class Moves:
    """What happens to every image of an epoch: a row of `crops` and one of `holes` for each, on the images' device."""

    crops: Tensor  # which of the crops of `Augment.table`
    holes: Tensor | None  # the row and column of the middle of the hole

    def __getitem__(self, places: slice) -> Moves:
        return Moves(self.crops[places], None if self.holes is None else self.holes[places])


class Augment:
    """Random crops out of images with 4 black pixels around them, flipped half of the time; then a hole.

    The hole of 16 × 16 has its middle anywhere in the image, so that a part of it may be outside, and holds zeros after
    normalisation, as in DeVries and Taylor (2017).
    """

    def __init__(self, kind: str, height: int, width: int) -> None:
        self.cutout = kind == "crop-flip-cutout"
        self.height, self.width = height, width
        self.table = _crops(height, width)

    def draw(self, count: int, generator: torch.Generator, device: torch.device) -> Moves:
        """What is to happen to `count` images."""
        self.table = self.table.to(device)
        crops = torch.randint(len(self.table), (count,), generator=generator).to(device)
        if not self.cutout:
            return Moves(crops, None)
        rows = torch.randint(self.height, (count,), generator=generator)
        columns = torch.randint(self.width, (count,), generator=generator)
        return Moves(crops, torch.stack([rows, columns], dim=1).to(device))

    def move(self, images: Tensor, moves: Moves) -> Tensor:
        """Crop and flip; images of any kind of number."""
        count, channels = images.shape[:2]
        padded = F.pad(images, (PADDING,) * 4).flatten(2)
        places = self.table.index_select(0, moves.crops)[:, None].expand(count, channels, -1)
        return padded.gather(2, places).view(images.shape)

    def cut(self, images: Tensor, moves: Moves) -> Tensor:
        """Fill the holes of normalised images with zeros, in place."""
        if moves.holes is None:
            return images
        rows = _inside(self.height, images).index_select(0, moves.holes[:, 0])
        columns = _inside(self.width, images).index_select(0, moves.holes[:, 1])
        return images.mul_((1 - rows[:, :, None] * columns[:, None, :])[:, None])  # much faster than to fill by a mask


def _inside(size: int, like: Tensor) -> Tensor:
    """For every middle of a hole, which of `size` lines are in it: ones and zeros, (middles, lines)."""
    line = torch.arange(size, device=like.device)
    first = line[:, None] - HOLE // 2
    return ((line >= first) & (line < first + HOLE)).to(like.dtype)


def _crops(height: int, width: int) -> Tensor:
    """For every crop and flip, where in the padded image each pixel comes from: (crops, height · width)."""
    rows, columns = torch.arange(height)[:, None], torch.arange(width)[None, :]
    wide = width + 2 * PADDING
    shifts = range(2 * PADDING + 1)
    return torch.stack(
        [
            ((rows + down) * wide + right + line).flatten()
            for down in shifts
            for right in shifts
            for line in (columns, columns.flip(1))
        ]
    )
