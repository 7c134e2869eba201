"""Parameters that are divided over processes (DTensors): what this process has of each, and the sum over all of them.

This file and `placements` are all that knows of meshes, placements and process groups. An optimizer whose parameters
are plain tensors has no `Shards`, and no part of torch.distributed is imported for it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .placements import Index, checked, common_mesh, coordinate, is_divided, mesh_dims, moved, places, put_together

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.tensor import DTensor


def local(tensor: Tensor) -> Tensor:
    """What this process has of it; writing to that writes to it."""
    if not is_divided(tensor):
        return tensor
    with torch.no_grad():
        return tensor.to_local()


def local_grad(grad: Tensor, param: Tensor) -> Tensor:
    """What this process has of a parameter's gradient, which tensor parallelism may have left divided otherwise."""
    if is_divided(grad) and is_divided(param) and grad.placements != param.placements:
        return local(grad.redistribute(placements=param.placements))
    return local(grad)


@dataclass(frozen=True)
class Piece:
    """What this process has of one parameter.

    Args:
        index: along each dimension, the places that are here.
        counted: whether its sums count here; of several copies one does.
        by_rows: how its rows are divided, if they are and nothing else is; equal for tensors that are divided alike.
    """

    index: tuple[Index, ...] = ()
    counted: bool = True
    by_rows: tuple[Any, ...] | None = None

    def take(self, whole: Tensor, dims: Sequence[int] | None = None) -> Tensor:
        """This process's part of a tensor that is divided as the parameter is, along some of its dimensions."""
        for dim, index in enumerate(self.index):
            if index is not None and (dims is None or dim in dims):
                whole = whole.index_select(dim, index.to(whole.device))
        return whole


class Shards:
    """How the parameters of one optimizer are divided over processes.

    Args:
        params: the parameters, DTensors and others, in the order of the slots.
        names: what to call them in an error.

    Raises:
        ValueError: when they are divided in a way whose sums are not known.
    """

    def __init__(self, params: Sequence[Tensor], names: Sequence[str]) -> None:
        self.likes: list[DTensor | None] = [checked(p, name) for p, name in zip(params, names, strict=True)]
        self.mesh = common_mesh([like for like in self.likes if like is not None])
        dims = [mesh_dims(like, self.mesh) for like in self.likes]
        self._dims = sorted({at for own in dims for at in own if own[at] is not None})
        self.pieces = [
            self._piece(p, like, own, name) for p, like, own, name in zip(params, self.likes, dims, names, strict=True)
        ]
        self.group = self._find_group()

    def __deepcopy__(self, memo: dict[int, Any]) -> Shards:
        return self  # a process group has no copies

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "group": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.group = self._find_group()

    def _piece(self, param: Tensor, like: DTensor | None, dims: dict[int, int | None], name: str) -> Piece:
        here = coordinate(self.mesh, name)
        counted = all(here[at] == 0 for at in self._dims if dims.get(at) is None)
        if like is None:
            return Piece((None,) * (param.dim() + param.is_complex()), counted)  # complex ones are pairs of reals
        index = places(like)
        found = tuple(size if at is None else len(at) for size, at in zip(like.shape, index, strict=True))
        if found != tuple(local(like).shape):
            raise ValueError(
                f"the parameter {name!r} is divided as {like.placements}, of which camhd expects {found} here, but "
                f"it is {tuple(local(like).shape)}; divide it with Shard or Replicate."
            )
        divided = {at for at in dims.values() if at is not None}
        return Piece(index, counted, (like.device_mesh, tuple(like.placements)) if divided == {0} else None)

    def _find_group(self) -> ProcessGroup | None:
        """All processes among which something is divided."""
        import torch.distributed as dist

        if not self._dims:
            return None
        if len(self._dims) == 1:
            return self.mesh.get_group(self._dims[0])
        if len(self._dims) == self.mesh.ndim and self.mesh.size() == dist.get_world_size():
            return dist.group.WORLD
        names = self.mesh.mesh_dim_names
        if not names:
            raise ValueError(
                f"parameters are divided along the dimensions {self._dims} of {self.mesh}, which has no names for "
                "them; give init_device_mesh its 'mesh_dim_names'."
            )
        return self.mesh[tuple(names[at] for at in self._dims)]._flatten().get_group()

    def add_up(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Each of these tensors summed over all processes, in one message. All of them must ask for the same."""
        if self.group is None:
            return list(parts)
        import torch.distributed as dist

        flat = torch.cat([part.reshape(-1) for part in parts])
        # Parameters that are kept on the CPU (offloaded) may belong to processes that only talk from their GPUs.
        sums = flat if flat.device.type == self.mesh.device_type else flat.to(self.mesh.device_type)
        dist.all_reduce(sums, group=self.group)
        found = sums.to(flat.device).split([part.numel() for part in parts])
        return [value.view(part.shape) for value, part in zip(found, parts, strict=True)]

    def wrap(self, slot: int, part: Tensor) -> Tensor:
        """A tensor like the parameter, from this process's part of it."""
        like = self.likes[slot]
        return part if like is None else _divided(part, like, like.placements, like.shape, like.stride())

    def wrap_rows(self, slot: int, part: Tensor) -> Tensor:
        """A vector of one number for each row of the parameter, from those that are here."""
        like = self.likes[slot]
        assert like is not None
        return _divided(part, like, like.placements, like.shape[:1], (1,))

    def wrap_part(self, slot: int, dims: Sequence[int | None], part: Tensor, shape: Sequence[int]) -> Tensor:
        """A tensor that is divided as the parameter is along some of its dimensions.

        Args:
            slot: of the parameter.
            dims: for each of its dimensions, the one of the tensor; None if the tensor has nothing like it.
            part: what this process has of the tensor.
            shape: the whole tensor's.
        """
        like = self.likes[slot]
        assert like is not None
        return _divided(part, like, moved(like.placements, dims), shape, torch.empty(shape, device="meta").stride())

    def part(self, slot: int, value: Tensor, rows: bool = False) -> Tensor:
        """This process's part of a saved tensor like the parameter (or, `rows`, like its rows); the reverse of both."""
        like = self.likes[slot]
        if like is not None and value.shape != (like.shape[:1] if rows else like.shape):
            return value  # of something else; whoever wants it will say so
        if not is_divided(value):
            return value if like is None else self.pieces[slot].take(value, (0,) if rows else None)
        if like is None:
            return put_together(value)
        if value.device_mesh != like.device_mesh:
            raise ValueError(
                f"the state is divided over {value.device_mesh}, the parameter over {like.device_mesh}; load it with "
                "torch.distributed.checkpoint, which divides it anew."
            )
        return local(value.redistribute(like.device_mesh, like.placements))


class LocalState(dict[str, Any]):
    """A parameter's state as a rule sees it: this process's parts. What the rule adds is added to the whole one.

    Args:
        whole: the state, of DTensors.
        slot: of the parameter.
        shards: how it is divided.
    """

    def __init__(self, whole: dict[str, Any], slot: int, shards: Shards) -> None:
        super().__init__({name: local(v) if isinstance(v, Tensor) else v for name, v in whole.items()})
        self._whole, self._slot, self._shards = whole, slot, shards

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        like = self._shards.likes[self._slot]
        fits = like is not None and isinstance(value, Tensor) and value.shape == local(like).shape
        self._whole[name] = self._shards.wrap(self._slot, value) if fits else value


def find_shards(groups: Sequence[Mapping[str, Any]]) -> Shards | None:
    """How the parameters of these param groups are divided; None if none of them is."""
    if "torch.distributed.tensor" not in sys.modules:
        return None
    params = [param for group in groups for param in group["params"]]
    if not any(map(is_divided, params)):
        return None
    named = [name for group in groups for name in group.get("param_names") or [""] * len(group["params"])]
    return Shards(params, [name or str(place) for place, name in enumerate(named)])


def _divided(
    part: Tensor, like: DTensor, placements: Sequence[Any], shape: Sequence[int], stride: Sequence[int]
) -> Tensor:
    from torch.distributed.tensor import DTensor

    made: Tensor = DTensor.from_local(
        part, like.device_mesh, placements, run_check=False, shape=torch.Size(shape), stride=tuple(stride)
    )
    return made
