"""The default rule on parameters divided over processes, with threads in their place: the numbers of one process.

Beyond what `test_divided_in_threads` looks at there are a trace, numbers for every cell, and bounds that need the
sizes of whole layers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from camhd.levels import Level, Split, Unit
from camhd.tree.placements import put_together
from compare import close
from in_threads import in_threads
from test_divided_in_threads import (
    PLACES,
    Place,
    as_whole,
    by_rows,
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

    wanted = run(as_whole, backend="foreach")
    for found in in_threads(2, lambda: run(place)):
        same(found, wanted)


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
        with pytest.raises(ValueError, match=r"'half', which all processes keep, to those of 'unit', .* 'a\.weight'"):
            camhd.Adam([("a.weight", param)], levels=("unit", Halves()))
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
