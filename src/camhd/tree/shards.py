"""Parameters that are divided over processes (DTensors): what this process has of each, and the sum over all of them.

Everything that knows of meshes, placements and process groups is in this file. An optimizer whose parameters
are plain tensors has no `Shards`, and nothing of it is imported or called.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor

Index = Union[Tensor, None]  # which places along one dimension; None: all of them


def is_divided(tensor: Tensor) -> bool:
    """Whether it is a DTensor."""
    loaded = sys.modules.get("torch.distributed.tensor")  # not loaded: there are none
    return loaded is not None and isinstance(tensor, loaded.DTensor)


def local(tensor: Tensor) -> Tensor:
    """What this process has of it; writing to that writes to it."""
    if not is_divided(tensor):
        return tensor
    with torch.no_grad():
        found: Tensor = tensor.to_local()  # type: ignore[attr-defined]
    return found


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
        self.likes: list[DTensor | None] = [_checked(p, name) for p, name in zip(params, names, strict=True)]
        self.mesh = _common_mesh([like for like in self.likes if like is not None])
        dims = [_mesh_dims(like, self.mesh) for like in self.likes]
        self._dims = sorted({at for own in dims for at in own if own[at] is not None})
        self.pieces = [
            self._piece(p, like, own, name)
            for p, like, own, name in zip(params, self.likes, dims, names, strict=True)
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
        here = _coordinate(self.mesh, name)
        counted = all(here[at] == 0 for at in self._dims if dims.get(at) is None)
        if like is None:
            return Piece((None,) * param.dim(), counted)
        index = _index(like)
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
        """Each of these tensors summed over all processes, in one message. It must come in the same order everywhere."""
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
        return part if like is None else _divided(part, like, like.shape, like.stride())

    def wrap_rows(self, slot: int, part: Tensor) -> Tensor:
        """A vector of one number for each row of the parameter, from those that are here."""
        like = self.likes[slot]
        assert like is not None
        return _divided(part, like, like.shape[:1], (1,))

    def part(self, slot: int, value: Tensor, rows: bool = False) -> Tensor:
        """This process's part of a saved tensor like the parameter (or, `rows`, like its rows); the reverse of both."""
        like = self.likes[slot]
        if like is not None and value.shape != (like.shape[:1] if rows else like.shape):
            return value  # of something else; whoever wants it will say so
        if not is_divided(value):
            return value if like is None else self.pieces[slot].take(value, (0,) if rows else None)
        if like is None:
            return value.full_tensor()  # type: ignore[attr-defined, no-any-return]
        saved: DTensor = value  # type: ignore[assignment]
        if saved.device_mesh != like.device_mesh:
            raise ValueError(
                f"the state is divided over {saved.device_mesh}, the parameter over {like.device_mesh}; load it with "
                "torch.distributed.checkpoint, which divides it anew."
            )
        return local(saved.redistribute(like.device_mesh, like.placements))


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


def find(groups: Sequence[Mapping[str, Any]]) -> Shards | None:
    """How the parameters of these param groups are divided; None if none of them is."""
    if "torch.distributed.tensor" not in sys.modules:
        return None
    params = [param for group in groups for param in group["params"]]
    if not any(map(is_divided, params)):
        return None
    named = [name for group in groups for name in group.get("param_names") or [""] * len(group["params"])]
    return Shards(params, [name or str(place) for place, name in enumerate(named)])


def _divided(part: Tensor, like: DTensor, shape: Sequence[int], stride: Sequence[int]) -> Tensor:
    from torch.distributed.tensor import DTensor

    made: Tensor = DTensor.from_local(
        part, like.device_mesh, like.placements, run_check=False, shape=torch.Size(shape), stride=tuple(stride)
    )
    return made


def _checked(param: Tensor, name: str) -> DTensor | None:
    """The parameter, if it is a DTensor that can be stepped in its parts."""
    if not is_divided(param):
        return None
    found: DTensor = param.detach()  # type: ignore[assignment]
    for placement in found.placements:
        if not (placement.is_shard() or placement.is_replicate() or _is_strided(placement)):
            raise ValueError(
                f"parameters must be sharded or replicated, but {name!r} is {placement} over {found.device_mesh}; "
                "redistribute it to Shard or Replicate."
            )
    if found.is_complex():
        raise ValueError(
            f"a parameter that is divided over processes must be real, but {name!r} is {found.dtype}; "
            "keep its real and imaginary parts as two parameters."
        )
    return found


def _is_strided(placement: Any) -> bool:
    """FSDP2 over a tensor-parallel dimension: rows are divided first by the later dimension of the mesh."""
    return hasattr(placement, "split_factor")


def _common_mesh(likes: Sequence[DTensor]) -> DeviceMesh:
    """The mesh that has all dimensions along which the parameters are divided."""
    meshes = list(dict.fromkeys(like.device_mesh for like in likes))
    if len(meshes) == 1:
        return meshes[0]
    roots = list(dict.fromkeys(_root(mesh) for mesh in meshes))
    if len(roots) > 1:
        raise ValueError(
            f"all parameters must lie on one mesh or on slices of one, got {', '.join(map(str, meshes))}; make one "
            "mesh with init_device_mesh and slice it by name, or give each mesh an optimizer of its own."
        )
    return roots[0]


def _root(mesh: DeviceMesh) -> DeviceMesh:
    find_root = getattr(mesh, "_get_root_mesh", None)
    if find_root is not None:
        found: DeviceMesh = find_root()
        return found
    from torch.distributed.device_mesh import _mesh_resources  # torch 2.6

    older: DeviceMesh = _mesh_resources.get_root_mesh(mesh)  # type: ignore[attr-defined]
    return older


def _mesh_dims(like: DTensor | None, mesh: DeviceMesh) -> dict[int, int | None]:
    """For each dimension of the mesh that the parameter lies on: the dimension of the parameter divided along it."""
    if like is None:
        return {}
    own = like.device_mesh
    names, theirs = mesh.mesh_dim_names, own.mesh_dim_names
    if own == mesh:
        at = list(range(mesh.ndim))
    elif not names or not theirs or not set(theirs) <= set(names):
        raise ValueError(
            f"all parameters must lie on one mesh or on slices of it by name, but one lies on {own} and others on "
            f"slices of {mesh}; slice one mesh by the names of its dimensions."
        )
    else:
        at = [names.index(name) for name in theirs]
    return {
        place: None if placement.is_replicate() else placement.dim  # type: ignore[attr-defined]
        for place, placement in zip(at, like.placements, strict=True)
        if mesh.size(place) > 1
    }


def _coordinate(mesh: DeviceMesh, name: str) -> Sequence[int]:
    here = mesh.get_coordinate()
    if here is None:
        raise ValueError(f"this process is not in {mesh}, over which {name!r} is divided; build no optimizer in it.")
    return here


def _index(like: DTensor) -> tuple[Index, ...]:
    """The places of the parameter that are here, along each of its dimensions."""
    found: list[Index] = [None] * like.dim()
    mesh = like.device_mesh
    here = _coordinate(mesh, "a parameter")
    for at, placement in enumerate(like.placements):
        if placement.is_replicate():
            continue
        dim: int = placement.dim  # type: ignore[attr-defined]
        places, parts = found[dim], mesh.size(at)
        places = torch.arange(like.shape[dim]) if places is None else places
        if _is_strided(placement):
            # Cut as if the later dimensions of the mesh had come first, then every one's share of each cut in a row.
            cuts = [cut.chunk(parts) for cut in places.chunk(placement.split_factor)]  # type: ignore[attr-defined]
            mine = [cut[here[at]] for cut in cuts if here[at] < len(cut)]
            found[dim] = torch.cat(mine) if mine else places[:0]
        else:
            chunks = places.chunk(parts)
            found[dim] = chunks[here[at]] if here[at] < len(chunks) else places[:0]
    return tuple(found)
