"""The default rule on parameters divided over processes, with threads in their place: the numbers of one process.

Beyond what `test_divided_in_threads` looks at there are a trace, numbers for every cell, and bounds that need the
sizes of whole layers.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from camhd.levels import Level, Split, Unit
from camhd.tree.placements import is_divided, put_together
from compare import close
from in_threads import in_threads
from test_divided_in_threads import (
    PLACES,
    Place,
    as_whole,
    by_columns,
    by_rows,
    crosswise,
    go_on,
    gradients,
    learned,
    some,
    train,
    values,
)

STEPS, UNITS = 6, ("global", "layer", "unit")


def two_groups(named: list[Any], **options: Any) -> Any:
    groups = [{"params": named[:4], "lr": 1e-2}, {"params": named[4:], "lr": 2.0, "hyper_lr": 0.5}]
    return camhd.Adam(groups, **{"levels": ("global", "group", "layer"), **options})


MAKERS: dict[str, Callable[..., Any]] = {
    "nothing said": camhd.Adam,
    "units, bounded": partial(camhd.SGD, lr=10.0, momentum=0.9, nesterov=True, levels=UNITS, restarts=(4,)),
    "learned weights": partial(camhd.AdamW, levels=("layer", "unit"), combine="softmax", combine_lr=1e-2),
    "inputs": partial(camhd.Adam, lr=0.1, levels=("global", Unit("input"))),
    "groups": two_groups,
}


def everything(named: list[Any], optimizer: Any) -> list[Tensor]:
    """What was learned, and what a checkpoint has besides: traces, and κ and φ of every cell."""
    saved = optimizer.state_dict()["state"]
    names = ("trace", "tracing.kappa", "tracing.memory")
    return [*learned(named, optimizer), *(put_together(saved[i][name]) for i in range(len(named)) for name in names)]


def same(found: list[Tensor], wanted: list[Tensor]) -> None:
    assert [got.shape for got in found] == [want.shape for want in wanted]
    for got, want in zip(found, wanted, strict=True):
        close(got, want, rtol=1e-11)


CASES = [("rows", maker) for maker in MAKERS]
CASES += [
    (places, maker) for places in ("rows of three", "columns", "some") for maker in ("nothing said", "units, bounded")
]
CASES += [("copies", "nothing said"), ("crosswise", "units, bounded")]


def assert_as_if_whole(run: Callable[..., list[Tensor]], place: Place) -> None:
    """Two processes that divide the parameters so end where one does that has all of them."""
    wanted = run(as_whole, backend="foreach")
    for found in in_threads(2, lambda: run(place)):
        same(found, wanted)


@pytest.mark.parametrize(("places", "maker"), CASES)
def test_divided_tensors_learn_as_whole_ones(places: str, maker: str) -> None:
    count, place = PLACES[places]
    make = MAKERS[maker]
    wanted = everything(*train(partial(make, backend="foreach"), as_whole, range(STEPS)))
    for found in in_threads(count, lambda: everything(*train(make, place, range(STEPS)))):
        same(found, wanted)


@pytest.mark.parametrize("place", [by_rows, some])
def test_only_those_that_move_are_bounded_and_counted(place: Place) -> None:
    """Some have no gradient at some steps, some join later; those whose first step comes late take it within 1 %."""

    def run(place: Place, **options: Any) -> list[Tensor]:
        named = [(name, nn.Parameter(place(name, value))) for name, value in values(0).items()]
        optimizer = camhd.Adam(named[:4], lr=5.0, levels=UNITS, **options)
        for t in range(STEPS):
            if t == 3:
                optimizer.add_param_group({"params": named[4:], "lr": 0.5})
            for index, (name, param) in enumerate(named):
                late = t in {"a.bias": (0,), "b.weight": (4,), "b.bias": (4,)}.get(name, ())
                param.grad = None if late or (index > 3 and t < 3) else place(name, gradients(t)[name])
            optimizer.step()
        return everything(named, optimizer)

    assert_as_if_whole(run, place)


@pytest.mark.parametrize("levels", [("global", "layer"), ("unit",)])
def test_a_gradient_that_is_not_finite_on_one_process_leaves_all_rates(levels: tuple[str, ...]) -> None:
    def divided() -> tuple[int, int]:
        named, optimizer = train(partial(camhd.Adam, levels=levels), by_rows, range(3))
        before = [rate.clone() for found in optimizer._tree.level_rates().values() for rate in found]
        rule = [value.clone() for level in optimizer._tree.state.levels for value in level.rule.values()]
        for name, param in named:
            param.grad = by_rows(name, gradients(3)[name])
        first = named[0][1].grad.to_local()
        mine = torch.distributed.get_rank() == 1
        if mine:
            first[0, 0] = torch.inf
        optimizer.step()
        after = [rate for found in optimizer._tree.level_rates().values() for rate in found]
        assert all(torch.equal(one, other) for one, other in zip(after, before, strict=True))
        now = [value for level in optimizer._tree.state.levels for value in level.rule.values()]
        assert all(torch.equal(one, other) for one, other in zip(now, rule, strict=True))
        return optimizer.skipped, int(mine)

    assert in_threads(2, divided) == [(1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("place", "maker"),
    [(by_rows, "units, bounded"), (some, "nothing said"), (by_rows, "inputs")],
)
def test_a_state_divides_and_comes_together(place: Place, maker: str) -> None:
    """Saved by each process and loaded by each; saved by one and loaded by all; put together and loaded by one."""
    make = MAKERS[maker]
    wanted = everything(*train(partial(make, backend="foreach"), as_whole, range(STEPS)))
    halfway, alone = train(partial(make, backend="foreach"), as_whole, range(3))
    saved, start = alone.state_dict(), [param.detach().clone() for _, param in halfway]
    gathered: list[Any] = []

    def divided() -> None:
        for state in (None, saved):
            named, before = train(make, place, range(3))
            state = before.state_dict() if state is None else state
            optimizer = make(named)
            optimizer.load_state_dict(copy.deepcopy(state))
            go_on(named, optimizer, place, range(3, STEPS))
            same(everything(named, optimizer), wanted)
        whole = before.state_dict()
        whole["state"] = {
            index: {name: put_together(v) if torch.is_tensor(v) else v for name, v in entries.items()}
            for index, entries in whole["state"].items()
        }
        gathered.append(whole)

    in_threads(2, divided)
    with torch.no_grad():
        for (_, param), value in zip(halfway, start, strict=True):
            param.copy_(value)
    optimizer = make(halfway, backend="foreach")
    optimizer.load_state_dict(gathered[0])
    go_on(halfway, optimizer, as_whole, range(3, STEPS))
    same(everything(halfway, optimizer), wanted)


def test_what_is_told_is_one_short_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of the tensors; at a restart only what the bounds need."""
    from camhd.tree.shards import Shards

    sent: list[int] = []
    add_up = Shards.add_up

    def counted(self: Shards, parts: Any) -> list[Tensor]:
        sent.append(sum(part.numel() for part in parts))
        return add_up(self, parts)

    monkeypatch.setattr(Shards, "add_up", counted)
    in_threads(2, lambda: train(partial(camhd.Adam, restarts=(2,)), by_rows, range(3)))
    rates, layers, tensors = 1 + 4, 4, 6
    for_bounds = 3 * layers + 2 * tensors
    assert sorted(sent) == sorted(2 * [7 * rates + for_bounds + 2, for_bounds, 7 * rates + for_bounds + 2])


class Halves(Level):
    """Two rates for each row of a matrix."""

    name, many = "half", True

    def split(self, slot: Any) -> Split:
        rows, columns = slot.shape[0], slot.shape[-1]
        ids = torch.arange(2 * rows).view(rows, 2).repeat_interleave(columns // 2, 1)
        return Split(slot.name, 2 * rows, ids)


def test_a_level_below_rates_that_lie_elsewhere_is_refused() -> None:
    def refused() -> None:
        param = nn.Parameter(by_rows("w", torch.ones(4, 6)))
        refusal = r"'half', which all processes keep, to those of 'unit', .* '{}\.weight'"
        for levels in (("unit", Halves()), ("layer", "unit", Halves())):
            with pytest.raises(ValueError, match=refusal.format("a")):
                camhd.Adam([("a.weight", param)], levels=levels)
            whole = camhd.Adam([("b.weight", nn.Parameter(torch.ones(4, 6)))], levels=levels, backend="foreach")
            with pytest.raises(ValueError, match=refusal.format("a")):  # nor may it join later
                whole.add_param_group({"params": [("a.weight", param)]})
            assert len(whole.param_groups) == 1
        optimizer = camhd.Adam([("a.weight", param)], levels=("layer", Halves()))  # a cell of half a row
        for t in range(3):
            param.grad = by_rows("w", values(t)["c.weight"].float().expand(4, 6))
            optimizer.step()
        assert len(optimizer.state_dict()["state"][0]["tracing.kappa"]) == 24
        alone = nn.Parameter(torch.ones(4, 6))
        reference = camhd.Adam([("a.weight", alone)], levels=("layer", Halves()), backend="foreach")
        for t in range(3):
            alone.grad = values(t)["c.weight"].float().expand(4, 6)
            reference.step()
        close(put_together(param), alone, rtol=1e-5)

    in_threads(2, refused)


# --------------------------------------------------------------------------- cells of which no process has all


@pytest.mark.parametrize("place", [by_rows, by_columns, some])
def test_weights_below_the_floor_are_bounded_by_all_their_scalars(place: Place) -> None:
    """Those that start at zero, and those that are small: whatever part of them a process has."""

    def trained(place: Place, **options: Any) -> list[Tensor]:
        size = {"a.weight": 1e-3, "b.weight": 1.0, "c.weight": 1e-4}
        named = [(name, nn.Parameter(place(name, value * size.get(name, 0)))) for name, value in values(0).items()]
        optimizer = camhd.Adam(named, lr=1.0, **options)
        go_on(named, optimizer, place, range(3))
        return everything(named, optimizer)

    assert_as_if_whole(trained, place)


@pytest.mark.parametrize("levels", [("global", "layer"), ("layer",)])
def test_a_bound_reaches_each_member_of_a_rate_in_its_own_unit(levels: tuple[str, ...]) -> None:
    """Of a rate that groups of different lr share, also where a layer has tensors of both."""

    def make(named: list[Any], **options: Any) -> Any:
        groups = [{"params": named[:1], "lr": 0.5}, {"params": named[1:3], "lr": 20.0}, {"params": named[3:]}]
        return camhd.Adam(groups, lr=4.0, levels=levels, **options)

    wanted = everything(*train(partial(make, backend="foreach"), as_whole, range(3)))
    for found in in_threads(2, lambda: everything(*train(make, by_rows, range(3)))):
        same(found, wanted)


def test_who_moves_is_noted_anew_only_if_it_has_changed() -> None:
    def noted() -> None:
        named = [(name, nn.Parameter(by_rows(name, value))) for name, value in values(0).items()]
        scattered = camhd.Adam(named)._tree.cells.scattered
        first = scattered.among([0, 2])
        assert first.tolist() == [True, False, True, False, False, False]
        assert scattered.among({2: "b", 0: "a"}) is first
        assert scattered.among([5]).tolist() == [False] * 5 + [True]
        assert scattered.among([0, 2]).tolist() == first.tolist()

    in_threads(2, noted)


SHAPES_OF_CELLS = {"rows": (4, 3), "two": (2, 3), "one": (1, 3), "bias": (2,)}


def test_what_is_saved_of_cells_is_divided_as_they_are() -> None:
    """Each process writes its own, as it does of the parameter; nobody has to put them together."""

    def saved() -> None:
        named = [(name, nn.Parameter(by_rows(name, torch.ones(size)))) for name, size in SHAPES_OF_CELLS.items()]
        optimizer = camhd.Adam(named, levels=("layer", "unit"))
        for name, param in named:
            param.grad = by_rows(name, torch.arange(1.0, 1 + param.numel()).view(SHAPES_OF_CELLS[name]))
        optimizer.step()
        for index, (name, param) in enumerate(named):
            for key in ("tracing.kappa", "tracing.memory"):
                found = optimizer.state_dict()["state"][index][key]
                assert is_divided(found)
                assert tuple(found.shape) == SHAPES_OF_CELLS[name][:1]
                assert len(found.to_local()) == len(param.to_local())

    in_threads(2, saved)


@pytest.mark.parametrize(
    ("count", "place", "shape"), [(2, by_rows, (1, 2)), (4, crosswise, (2, 1)), (2, by_rows, (2, 2))]
)
def test_cells_that_no_vector_is_divided_as_are_put_together(count: int, place: Place, shape: tuple[int, int]) -> None:
    """One row of two columns with a rate for each, of which one process has both; one column in two directions."""
    level = Unit("input") if shape[1] == 2 else Unit()

    def trained(place: Place, **options: Any) -> list[Tensor]:
        named = [("a", nn.Parameter(place("a", torch.tensor([[0.5, -2.0], [1.5, 0.25]])[: shape[0], : shape[1]])))]
        optimizer = camhd.Adam(named, levels=("global", level), **options)
        for t in range(3):
            named[0][1].grad = place("a", torch.tensor([[1.0, t - 3.0], [t, 2.0]])[: shape[0], : shape[1]])
            optimizer.step()
        again = camhd.Adam(named, levels=("global", level), **options)
        again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        return [*everything(named, optimizer), *everything(named, again)]

    wanted = trained(as_whole, backend="foreach")
    for found in in_threads(count, lambda: trained(place)):
        for got, want in zip(found, wanted, strict=True):
            close(got, want, rtol=1e-5)


@pytest.mark.parametrize("wrong", [torch.ones(3), torch.ones(5, 1), torch.ones(())])
def test_saved_numbers_of_other_cells_are_refused(wrong: Tensor) -> None:
    """By every process, with the same words: also if they are as many as one of them has (three of five rows)."""
    expected = r"must have 'tracing\.kappa' of shape \(5,\), found a float32 tensor of shape "
    expected += re.escape(f"{tuple(wrong.shape)};")

    def refused() -> None:
        named, optimizer = train(partial(camhd.Adam, levels=UNITS), by_rows, range(2))
        state = optimizer.state_dict()
        state["state"][0]["tracing.kappa"] = wrong
        with pytest.raises(ValueError, match=expected):
            optimizer.load_state_dict(state)
        go_on(named, optimizer, by_rows, range(2, 3))  # nothing was changed

    in_threads(2, refused)
