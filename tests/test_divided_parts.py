"""What is divided over processes, by its parts: meshes and their slices, layouts, states, steps without a signal.

Threads stand in for processes. The oracles are torch's own placements and the same training of whole tensors.
"""

from __future__ import annotations

import copy
import re
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import camhd
from compare import close
from in_threads import in_threads

if not dist.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

from camhd.tree.placements import put_together
from camhd.tree.shards import LocalState, Shards, find_shards
from test_divided_in_threads import (
    LEARNING,
    MAKERS,
    SHAPES,
    STEPS,
    UNITS,
    as_whole,
    by_columns,
    by_rows,
    divide,
    go_on,
    gradients,
    in_two_ways,
    learned,
    some,
    train,
    values,
)

pytestmark = pytest.mark.usefixtures("papers_form")


def meshes() -> Any:
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))


# --------------------------------------------------------------------------- meshes


def test_parameters_on_slices_of_one_mesh() -> None:
    """Their sums are taken over the mesh that all slices are of; copies along what is not divided count once."""

    def slices() -> None:
        mesh = meshes()
        data, tensor = mesh.get_coordinate()
        whole = torch.arange(24.0).view(4, 6)
        one, other = divide(whole, mesh["data"], [Shard(0)]), divide(whole, mesh["tensor"], [Shard(1)])
        shards = Shards([one, other, torch.ones(3)], ["a", "b", "c"])
        assert shards.mesh == mesh
        assert torch.equal(shards.pieces[0].take(whole), whole.chunk(2)[data])
        assert torch.equal(shards.pieces[1].take(whole), whole.chunk(2, 1)[tensor])
        assert [piece.counted for piece in shards.pieces] == [tensor == 0, data == 0, data == tensor == 0]
        assert [piece.by_rows is not None for piece in shards.pieces] == [True, False, False]
        sizes = [float(len(piece.take(whole).view(-1)) * piece.counted) for piece in shards.pieces[:2]]
        assert [float(found) for found in shards.add_up([torch.tensor(size) for size in sizes])] == [24.0, 24.0]
        alone = Shards([one, one.clone()], ["a", "b"])  # one slice is the mesh of all
        assert alone.mesh == mesh["data"]
        assert [piece.counted for piece in alone.pieces] == [True, True]
        assert [float(found) for found in alone.add_up([torch.tensor(1.0)])] == [2.0]

    in_threads(4, slices)


@pytest.mark.skipif(not hasattr(DeviceMesh, "_concatenate"), reason="this torch does not join slices of a mesh")
def test_a_mesh_may_have_its_dimensions_in_another_order() -> None:
    """FSDP2 over tensor parallelism puts its own dimension first, whichever is first in the mesh that both slice."""

    def turned() -> None:
        mesh = meshes()
        data, tensor = mesh.get_coordinate()
        whole = torch.arange(24.0).view(4, 6)
        joined: Any = DeviceMesh
        other = joined._concatenate([mesh["tensor"], mesh["data"]])
        one, two = divide(whole, other, [Shard(0), Shard(1)]), divide(whole, mesh["data"], [Shard(0)])
        shards = Shards([one, two], ["a", "b"])
        assert shards.mesh == mesh
        here = whole.chunk(2)[tensor].chunk(2, 1)[data]
        assert torch.equal(shards.pieces[0].take(whole), here)
        assert torch.equal(one.to_local(), here)
        assert [piece.counted for piece in shards.pieces] == [True, tensor == 0]
        sizes = [float(piece.take(whole).numel() * piece.counted) for piece in shards.pieces]
        assert [float(found) for found in shards.add_up([torch.tensor(size) for size in sizes])] == [24.0, 24.0]

    in_threads(4, turned)


def test_meshes_that_have_no_sum_are_refused() -> None:
    def refused() -> None:
        whole = torch.ones(4, 4)
        one, other = init_device_mesh("cpu", (2,)), init_device_mesh("cpu", (1, 2))
        with pytest.raises(ValueError, match="all parameters must lie on one mesh or on slices of one, got"):
            Shards([divide(whole, one, [Shard(0)]), divide(whole, other, [Shard(0), Shard(1)])], ["a", "b"])
        short = DTensor.from_local(
            torch.ones(3, 3), one, [Shard(0)], run_check=False, shape=torch.Size((4, 3)), stride=(3, 1)
        )
        cube = init_device_mesh("cpu", (2, 1, 1), mesh_dim_names=("x", "y", "z"))
        flat, row = cube["x", "y"]._flatten(), cube["x"]
        with pytest.raises(ValueError, match="all parameters must lie on one mesh or on slices of it by name, but one"):
            Shards([divide(whole, row, [Shard(0)]), divide(whole, flat, [Shard(0)])], ["a", "b"])
        with pytest.raises(ValueError, match=r"of which camhd expects \(2, 3\) here, but it is \(3, 3\)"):
            Shards([short], ["a"])

    in_threads(2, refused)


def test_rows_that_were_divided_by_a_later_dimension_first() -> None:
    """FSDP2 over tensor parallelism: each process has its share of the rows that tensor parallelism left it."""

    def strided(rows: int) -> None:
        mesh = meshes()
        data, tensor = mesh.get_coordinate()
        whole = torch.arange(3.0 * rows).view(rows, 3)
        chunks = whole.chunk(2)[tensor].chunk(2)
        here = chunks[data] if data < len(chunks) else whole[:0]
        like = DTensor.from_local(
            here, mesh, [_StridedShard(0, split_factor=2), Shard(0)], run_check=False, shape=whole.shape, stride=(3, 1)
        )
        shards = Shards([like], ["a"])
        assert torch.equal(shards.pieces[0].take(whole), here)
        assert shards.pieces[0].counted
        assert [float(found) for found in shards.add_up([here.sum()])] == [float(whole.sum())]

    for rows in (8, 4, 2):
        in_threads(4, partial(strided, rows))


def test_sums_over_two_of_three_dimensions() -> None:
    """With copies along the first dimension, what is divided along the others is summed among four of eight."""

    def summed() -> None:
        mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("copies", "rows", "columns"))
        like = divide(torch.ones(4, 6), mesh, [Replicate(), Shard(0), Shard(1)])
        shards = Shards([like], ["a"])
        assert [float(part) for part in shards.add_up([torch.tensor(1.0)])] == [4.0]
        assert shards.pieces[0].counted  # nobody of the four has a copy
        kept, again = shards.__getstate__(), object.__new__(Shards)
        assert kept["group"] is None  # a process group cannot be written down; it is found again
        again.__setstate__(kept)
        assert [float(part) for part in again.add_up([torch.tensor(1.0)])] == [4.0]
        slices = Shards([divide(torch.ones(4, 6), mesh["rows", "columns"], [Shard(0), Shard(1)])], ["a"])
        assert [float(part) for part in slices.add_up([torch.tensor(1.0)])] == [4.0]
        unnamed = init_device_mesh("cpu", (2, 2, 2))
        with pytest.raises(ValueError, match=r"along the dimensions \[1, 2\] of .*, which has no names"):
            Shards([divide(torch.ones(4, 6), unnamed, [Replicate(), Shard(0), Shard(1)])], ["a"])

    in_threads(8, summed)


def test_a_mesh_of_one_process_has_nobody_to_ask() -> None:
    def alone() -> None:
        shards = Shards([divide(torch.ones(4, 6), init_device_mesh("cpu", (1,)), [Shard(0)])], ["a"])
        assert shards.group is None
        assert shards.pieces[0].by_rows is None

    in_threads(1, alone)


def test_a_process_that_is_not_in_the_mesh_is_told_so() -> None:
    def outside() -> None:
        mesh = DeviceMesh("cpu", torch.arange(2))
        like = DTensor.from_local(
            torch.ones(2, 3), mesh, [Shard(0)], run_check=False, shape=torch.Size((4, 3)), stride=(3, 1)
        )
        if dist.get_rank() == 2:
            with pytest.raises(ValueError, match=r"this process is not in .*, over which 'a' is divided"):
                Shards([like], ["a"])

    in_threads(3, outside)


def test_names_of_parameters_in_errors() -> None:
    def refused() -> None:
        mesh = init_device_mesh("cpu", (2,))
        whole, imaginary = torch.ones(2), DTensor.from_local(torch.ones(2, dtype=torch.complex64), mesh, [Shard(0)])
        with pytest.raises(ValueError, match="must be real, but 'b' is"):
            find_shards([{"params": [whole, imaginary], "param_names": ["a", "b"]}])
        with pytest.raises(ValueError, match="must be real, but '1' is"):
            find_shards([{"params": [whole, imaginary]}])
        assert find_shards([{"params": [whole]}]) is None

    in_threads(2, refused)


def test_what_a_rule_adds_to_a_state_is_added_to_the_whole() -> None:
    """Tensors like the parameter are divided as it is, all else is kept as it is."""

    def added() -> None:
        mesh = init_device_mesh("cpu", (2,))
        like, plain = divide(torch.ones(4, 3), mesh, [Shard(0)]), torch.ones(3)
        shards = Shards([like, plain], ["a", "b"])
        whole: dict[str, Any] = {"old": divide(torch.arange(12.0).view(4, 3), mesh, [Shard(0)]), "step": 3}
        state = LocalState(whole, 0, shards)
        assert state["step"] == 3
        assert torch.equal(state["old"], whole["old"].to_local())
        state["new"], state["count"], state["sum"] = torch.full((2, 3), 7.0), 4, torch.ones(2)
        assert isinstance(whole["new"], DTensor)
        assert torch.equal(whole["new"].full_tensor(), torch.full((4, 3), 7.0))
        assert whole["count"] == state["count"] == 4
        assert whole["sum"] is state["sum"]
        other: dict[str, Any] = {}
        LocalState(other, 1, shards)["new"] = plain
        assert other["new"] is plain
        rows = shards.wrap_rows(0, torch.ones(2))
        assert (tuple(rows.shape), rows.stride()) == ((4,), (1,))
        assert torch.equal(shards.part(1, divide(torch.arange(4.0), mesh, [Shard(0)])), torch.arange(4.0))

    in_threads(2, added)


# --------------------------------------------------------------------------- layouts


def test_rates_of_rows_lie_where_the_rows_are() -> None:
    """Shared rates first, the same everywhere; then those of this process's rows, numbered as in one process."""

    def laid_out() -> None:
        named = [(name, nn.Parameter(by_rows(name, value))) for name, value in values(0).items()]
        tree = camhd.Adam(named, levels=UNITS, **LEARNING)._tree
        layout, rank = tree.cells.divided, dist.get_rank()
        assert layout.shared == (1, 4, 0)
        assert [len(ids) for ids in layout.ids[:2]] == [1, 4]
        rows = [torch.arange(n).chunk(2) for n in (5, 4, 1, 3)]
        here = [found[rank] if rank < len(found) else found[0][:0] for found in rows]
        starts = (0, 5, 9, 10)
        wanted = torch.cat([found + start for found, start in zip(here, starts, strict=True)])
        assert torch.equal(layout.ids[2], wanted)
        assert all(layout.divided[2])
        assert not any(layout.divided[0])
        assert not any(layout.divided[1])
        sizes = [4, 5, 6, 1]  # scalars of a row of each layer, its bias included
        assert layout.sizes(2).tolist() == [
            size for size, found in zip(sizes, here, strict=True) for _ in range(len(found))
        ]
        layers = [layer for layer, found in enumerate(here) for _ in range(len(found))]
        assert layout.ancestors(2, 1).tolist() == layers
        assert layout.ancestors(2, 0).tolist() == [0] * len(layers)
        for slot, (name, _) in enumerate(named):
            numbers = torch.arange(layout.full.slots[slot].numel).view(SHAPES[name]).chunk(2)
            mine = numbers[rank] if rank < len(numbers) else numbers[0][:0]
            assert list(layout.scalars(slot)) == mine.flatten().tolist()
        assert layout.once(2) is None  # rows are summed by nobody else
        families = layout.partitions[2].families
        assert [list(layout.members(2, family)) for family in families] == [found.tolist() for found in here]

    in_threads(2, laid_out)


def test_the_rates_that_are_kept_here() -> None:
    """Those of this process's rows, unless all of them are asked for."""

    def kept() -> None:
        tree = camhd.Adam([("a", nn.Parameter(by_rows("a", torch.ones(5, 2))))], levels=("unit",), **LEARNING)._tree
        assert len(tree.level_rates()["unit"][0]) == (3, 2)[dist.get_rank()]
        assert len(tree.level_rates(whole=True)["unit"][0]) == 5

    in_threads(2, kept)


def test_rates_of_rows_that_lie_elsewhere_are_shared() -> None:
    """Where a layer's tensors are divided otherwise than its rows, every process keeps all of their rates."""

    def laid_out(place: Any, divided: list[bool]) -> None:
        named = [(name, nn.Parameter(place(name, value))) for name, value in values(0).items()]
        layout = camhd.Adam(named, levels=UNITS, **LEARNING)._tree.cells.divided
        assert list(layout.divided[2]) == divided

    in_threads(2, partial(laid_out, by_columns, [False, False, False, False, False, True]))
    in_threads(2, partial(laid_out, some, [True, True, False, False, False, False]))
    in_threads(4, partial(laid_out, in_two_ways, [True] * 6))


@pytest.mark.parametrize("groups", [1, 2])
def test_units_that_are_no_rows_are_shared(groups: int) -> None:
    """Of a transposed convolution a unit is a column, of one with groups a column of some of its rows."""

    def laid_out() -> None:
        torch.manual_seed(0)
        model = nn.ConvTranspose2d(4, 4, 2, groups=groups, bias=False)
        mesh = init_device_mesh("cpu", (2,))
        model.weight = nn.Parameter(divide(model.weight.detach(), mesh, [Shard(0)]))
        layout = camhd.SGD(model, levels=("global", "unit"), **LEARNING)._tree.cells.divided
        assert layout.divided == ((False,), (False,))
        assert layout.shared == (1, 4)

    in_threads(2, laid_out)


def test_a_tensor_that_comes_later_must_be_divided_as_its_layer_is() -> None:
    def refused() -> None:
        optimizer = camhd.Adam([("a.weight", nn.Parameter(by_rows("", torch.ones(5, 3))))], levels=UNITS, **LEARNING)
        with pytest.raises(ValueError, match="a layer's rates of the level 'unit' are kept with its rows"):
            optimizer.add_param_group({"params": [("a.bias", nn.Parameter(torch.ones(5)))]})
        assert len(optimizer.param_groups) == 1

    in_threads(2, refused)


def test_divided_tensors_may_join_whole_ones() -> None:
    def late(place: Any) -> list[Tensor]:
        plain = [(name, nn.Parameter(value)) for name, value in values(0).items() if name.startswith("b")]
        more = [(name, nn.Parameter(place(name, value))) for name, value in values(0).items() if name.startswith("a")]
        optimizer = camhd.Adam(plain, levels=UNITS, backend="foreach", **LEARNING)
        go_on(plain, optimizer, as_whole, range(2))
        optimizer.add_param_group({"params": more})
        for t in range(2, STEPS):
            for name, param in plain:
                param.grad = gradients(t)[name]
            for name, param in more:
                param.grad = place(name, gradients(t)[name])
            optimizer.step()
        return learned([*plain, *more], optimizer)

    expected = late(as_whole)
    for found in in_threads(2, lambda: late(by_rows)):
        for got, want in zip(found, expected, strict=True):
            close(got, want, rtol=1e-11)


# --------------------------------------------------------------------------- states

TWO_LRS = [("a.weight", 1e-2), ("a.bias", 3e-2), ("c.weight", 1e-2)]


def two_lrs(place: Any) -> tuple[list[Any], Any]:
    """A layer whose tensors have two lrs, so that its rates start at neither, and one of fewer rows than processes."""
    named = {name: nn.Parameter(place(name, values(0)[name])) for name, _ in TWO_LRS}
    groups = [{"params": [(name, named[name])], "lr": lr} for name, lr in TWO_LRS]
    return list(named.items()), camhd.Adam(groups, levels=UNITS, **{**LEARNING, "lr": 2e-2})


@pytest.mark.parametrize("two", [False, True])
def test_every_process_writes_the_same_entries(two: bool) -> None:
    """Where rates started is written only if it is not what it would be anyway, by all processes or by none."""

    def entries() -> list[dict[str, tuple[int, ...]]]:
        if two:
            named, optimizer = two_lrs(by_rows)
        else:
            named = [(name, nn.Parameter(by_rows(name, value))) for name, value in values(0).items()]
            optimizer = camhd.Adam(named, levels=UNITS, **LEARNING)
        go_on(named, optimizer, by_rows, range(2))
        state = optimizer.state_dict()
        again = two_lrs(by_rows)[1] if two else camhd.Adam(named, levels=UNITS, **LEARNING)
        again.load_state_dict(copy.deepcopy(state))
        saved, anew = (
            [{key: tuple(v.shape) for key, v in found.items() if isinstance(v, Tensor)} for found in s.values()]
            for s in (state["state"], again.state_dict()["state"])
        )
        assert saved == anew
        return saved

    found, other = in_threads(2, entries)
    assert found == other
    assert found[0]["rate.unit"] == (5,)
    assert found[0]["rate.global"] == (1,)
    assert ("start.unit" in found[0]) == ("start.unit" in found[2]) == two


@pytest.mark.parametrize("maker", ["units", "groups"])
def test_a_state_goes_from_one_way_of_dividing_to_another(maker: str) -> None:
    """Rates that were kept with their rows are kept by all afterwards, and the other way round."""
    expected = learned(*train(partial(MAKERS[maker], backend="foreach"), as_whole))

    def divided() -> None:
        for before, after in ((by_rows, by_columns), (by_columns, by_rows)):
            _, saved = train(MAKERS[maker], before, range(2))
            named, _ = train(MAKERS[maker], after, range(2))
            optimizer = MAKERS[maker](named)
            state = copy.deepcopy(saved.state_dict())
            state["state"] = {
                slot: {key: _as(after, key, value) for key, value in entries.items()}
                for slot, entries in state["state"].items()
            }
            optimizer.load_state_dict(state)
            go_on(named, optimizer, after, range(2, STEPS))
            for got, want in zip(learned(named, optimizer), expected, strict=True):
                close(got, want, rtol=1e-11)

    in_threads(2, divided)


@pytest.mark.parametrize(("name", "shape"), [("rate.unit", (5,)), ("rate.parameter", (5, 3)), ("rate.layer", (1,))])
def test_a_state_of_another_shape_is_refused_by_all(name: str, shape: tuple[int, ...]) -> None:
    """Also if it is of the shape of what one process has, or of rates that all of them have."""

    def refused() -> None:
        named = [("a.weight", nn.Parameter(by_rows("", torch.ones(5, 3))))]
        optimizer = camhd.Adam(named, levels=("layer", "unit", "parameter"), **LEARNING)
        state = optimizer.state_dict()
        state["state"][0][name] = torch.ones(3, *shape[1:])
        with pytest.raises(ValueError, match=re.escape(f"'a.weight' must have {name!r} of shape {shape}, found")):
            optimizer.load_state_dict(state)

    in_threads(2, refused)


def _as(after: Any, key: str, value: Any) -> Any:
    """The base rule's tensors as the other optimizer has them; the tree's own as they were saved."""
    return after(key, put_together(value)) if key.startswith(("direction", "exp_avg")) else value


# --------------------------------------------------------------------------- steps


def test_caps_of_two_groups_hold_for_the_rates_they_share() -> None:
    """The smaller one, also where the members of the other lie on another process."""

    def trained(place: Any, **options: Any) -> list[Tensor]:
        def make(named: list[Any]) -> Any:
            groups = [{"params": named[:1], "max_change": 1.01}, {"params": named[1:], "max_change": 1.3}]
            return camhd.Adam(groups, levels=UNITS, **{**LEARNING, "hyper_lr": 1e-2}, **options)

        return learned(*train(make, place))

    expected = trained(as_whole, backend="foreach")
    for found in in_threads(2, lambda: trained(by_rows)):
        for got, want in zip(found, expected, strict=True):
            close(got, want, rtol=1e-11)


def test_complex_parameters_beside_divided_ones() -> None:
    def trained(place: Any, **options: Any) -> list[Tensor]:
        named = [("a", nn.Parameter(place("", torch.ones(4, 2, dtype=torch.float64))))]
        named.append(("z", nn.Parameter(torch.ones(3, dtype=torch.complex128))))
        optimizer = camhd.Adam(named, levels=UNITS, **LEARNING, **options)
        for t in range(3):
            named[0][1].grad = place("", torch.arange(8, dtype=torch.float64).view(4, 2) - 3 + t)
            named[1][1].grad = torch.tensor([1 + 2j, t - 1j, 0.5j], dtype=torch.complex128)
            optimizer.step()
        return [torch.view_as_real(p) if p.is_complex() else p for p in learned(named, optimizer)]

    expected = trained(as_whole, backend="foreach")
    for found in in_threads(2, lambda: trained(by_rows)):
        for got, want in zip(found, expected, strict=True):
            close(got, want, rtol=1e-11)


@pytest.mark.parametrize("maker", ["tied", "units"])
def test_a_step_without_gradients_teaches_nothing(maker: str) -> None:
    """Neither do rates tie themselves anew, as in one process."""

    def trained(place: Any, **options: Any) -> list[Tensor]:
        named, optimizer = train(partial(MAKERS[maker], **options), place, range(3))
        for _, param in named:
            param.grad = None
        optimizer.step()
        assert optimizer.skipped == 0
        go_on(named, optimizer, place, range(3, 5))
        return learned(named, optimizer)

    expected = trained(as_whole, backend="foreach")
    for found in in_threads(2, lambda: trained(by_rows)):
        for got, want in zip(found, expected, strict=True):
            close(got, want, rtol=1e-11)


@pytest.mark.parametrize("levels", [UNITS, ("unit",)])
@pytest.mark.parametrize("count", [1, 2])
def test_what_is_not_finite_on_one_process_is_skipped_on_all(count: int, levels: tuple[str, ...]) -> None:
    """Also where no rate is shared, so that nobody else would see it in a sum."""

    def trained(place: Any, **options: Any) -> list[Tensor]:
        named, optimizer = train(partial(camhd.SGD, levels=levels, **LEARNING, **options), place, range(2))
        before = learned(named, optimizer)[: len(levels)]
        for name, param in named:
            grad = gradients(2)[name]
            if name == "a.weight":
                grad[0, 0] = torch.nan
            param.grad = place(name, grad)
        optimizer.step()
        assert optimizer.skipped == 1
        assert all(map(torch.equal, learned(named, optimizer)[: len(levels)], before))
        return before

    expected = trained(as_whole, backend="foreach")
    for found in in_threads(count, lambda: trained(by_rows)):
        for got, want in zip(found, expected, strict=True):
            close(got, want, rtol=1e-11)


@pytest.mark.parametrize("place", [some, in_two_ways])
def test_copies_count_once_in_the_slope_of_a_network(place: Any) -> None:
    """With a rate for every scalar the derivatives are summed parameter by parameter, also of those that are copied."""
    make = partial(camhd.Adam, levels=("layer", "parameter"), combine=camhd.combine.Network(2), **LEARNING)
    expected = learned(*train(partial(make, backend="foreach"), as_whole))
    for found in in_threads(4 if place is in_two_ways else 2, lambda: learned(*train(make, place))):
        for got, want in zip(found, expected, strict=True):
            close(got, want, rtol=1e-11)
