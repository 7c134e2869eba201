"""Meshes and placements of DTensors: which of a parameter's places are on this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor

Index: TypeAlias = "Tensor | None"  # which places along one dimension; None: all of them


def is_divided(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether it is a DTensor."""
    loaded = sys.modules.get("torch.distributed.tensor")  # not loaded: there are none
    return loaded is not None and isinstance(tensor, loaded.DTensor)


def put_together(tensor: Tensor) -> Tensor:
    """All of it, put together from all processes if it is divided over them."""
    return tensor.full_tensor() if is_divided(tensor) else tensor


def checked(param: Tensor, name: str) -> DTensor | None:
    """The parameter, if it is a DTensor that can be stepped in its parts."""
    found = param.detach()
    if not is_divided(found):
        return None
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


def common_mesh(likes: Sequence[DTensor]) -> DeviceMesh:
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

    older: DeviceMesh = _mesh_resources.get_root_mesh(mesh)
    return older


def mesh_dims(like: DTensor | None, mesh: DeviceMesh) -> dict[int, int | None]:
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
        place: None if placement.is_replicate() else _dim(placement)
        for place, placement in zip(at, like.placements, strict=True)
        if mesh.size(place) > 1
    }


def coordinate(mesh: DeviceMesh, name: str) -> Sequence[int]:
    """Where this process is in a mesh."""
    here = mesh.get_coordinate()
    if here is None:
        raise ValueError(f"this process is not in {mesh}, over which {name!r} is divided; build no optimizer in it.")
    return here


def places(like: DTensor) -> tuple[Index, ...]:
    """The places of the parameter that are here, along each of its dimensions."""
    found: list[Index] = [None] * like.dim()
    mesh = like.device_mesh
    here = coordinate(mesh, "a parameter")
    for at, placement in enumerate(like.placements):
        if placement.is_replicate():
            continue
        dim = _dim(placement)
        indices, parts = found[dim], mesh.size(at)
        indices = torch.arange(like.shape[dim]) if indices is None else indices
        if _is_strided(placement):
            # Cut as if the later dimensions of the mesh had come first, then every one's share of each cut in a row.
            cuts = [cut.chunk(parts) for cut in indices.chunk(_split_factor(placement))]
            mine = [cut[here[at]] for cut in cuts if here[at] < len(cut)]
            found[dim] = torch.cat(mine) if mine else indices[:0]
        else:
            chunks = indices.chunk(parts)
            found[dim] = chunks[here[at]] if here[at] < len(chunks) else indices[:0]
    return tuple(found)


def moved(placements: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """The same placements, of a tensor that has other dimensions in the place of these; None: it lacks this one."""
    from torch.distributed.tensor import Replicate, Shard

    def of(placement: Any) -> Any:
        dim = None if placement.is_replicate() else dims[_dim(placement)]
        if dim is None:
            return Replicate()
        return type(placement)(dim, split_factor=_split_factor(placement)) if _is_strided(placement) else Shard(dim)

    return [of(placement) for placement in placements]


def _dim(placement: Any) -> int:
    """The dimension of the tensor along which it is cut; the base class of placements does not know of it."""
    return int(placement.dim)


def _split_factor(placement: Any) -> int:
    """Into how many parts later dimensions of the mesh have cut it; only strided placements have it."""
    return int(placement.split_factor)
