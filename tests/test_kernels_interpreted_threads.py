"""Threads of the kernels that are late, as plain Python: whoever has to wait for another does."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from cases import HAS_NUMBA

if not HAS_NUMBA:
    pytest.skip("needs camhd[fused]", allow_module_level=True)

import interpreted
from pairs import Pair, small

interpreted.load()  # when tests are collected: a mutation tester changes functions that are there
PAPERS = {"hyper_rule": "additive", "hyper_lr": 1e-8, "max_change": None}
LATE = 0.3  # seconds; whoever does not wait is through with the rest by then


class Delay:
    """A function whose first call by some thread takes its time: by the leader, or by a helper.

    Calls by the other thread wait until that one has begun, so that who is late does have a part in it.
    """

    def __init__(self, function: Any, leader: bool) -> None:
        self.function, self.leader, self.main = function, leader, threading.get_ident()
        self.begun = threading.Event()

    def __call__(self, *args: Any) -> Any:
        if (threading.get_ident() == self.main) != self.leader:
            self.begun.wait(1)
        elif not self.begun.is_set():
            self.begun.set()
            time.sleep(LATE)
        return self.function(*args)


PLACES = {
    ("paper", "beginning"): ("core", "open_step"),
    ("paper", "first pass"): ("passes", "observe_item"),
    ("paper", "second pass"): ("passes", "move_item"),
    ("paper", "rates"): ("core", "_learn"),
    ("long horizon", "beginning"): ("trace_core", "open_step"),
    ("long horizon", "first pass"): ("trace_core", "take_item"),
    ("long horizon", "second pass"): ("trace_core", "move_item"),
    ("long horizon", "rates"): ("trace_core", "_learn"),
}
WHO = [(*place, who) for place in PLACES for who in ("leader", "helper") if who == "leader" or "pass" in place[1]]


@pytest.mark.parametrize(("rule", "where", "who"), WHO)
def test_whoever_is_late_is_waited_for(rule: str, where: str, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = small(monkeypatch, threads=2)
    options: dict[str, Any] = PAPERS if rule == "paper" else {"hyper_lr": 1.0}
    made = Pair("sgdn", {}, levels=("global", "layer", "unit"), **options)
    made.step()
    module, name = getattr(package, PLACES[rule, where][0]), PLACES[rule, where][1]
    late = Delay(getattr(module, name), who == "leader")
    monkeypatch.setattr(module, name, late)
    made.step()
    assert late.begun.is_set()
    monkeypatch.setattr(module, name, late.function)
    made.step()


@pytest.mark.parametrize("pause", [0, 4711])
def test_who_waits_for_long_lets_others_run(pause: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system has a way to do so, by its address."""
    passes = interpreted.load().passes
    looks = iter([0] * 5000 + [1])
    asked: list[int] = []
    monkeypatch.setattr(passes, "fetch", lambda control, place: next(looks))
    monkeypatch.setattr(passes, "number_from", asked.append)
    passes.wait(np.zeros(1, np.int64), 0, 1, pause)
    assert next(looks, None) is None
    assert set(asked) == ({pause} if pause else set())
    assert len(asked) < 2500  # it has looked for long


@pytest.mark.parametrize("options", [PAPERS, {"hyper_lr": 1.0}], ids=["paper", "long horizon"])
def test_items_may_be_taken_in_any_order(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Here in both passes from the other end."""
    package = small(monkeypatch)
    made = Pair("sgdn", {}, levels=("global", "layer", "unit"), **options)
    made.step()
    count, fetch_add = len(made.both[0].backend._fused.plan.items), package.jit.fetch_add

    def from_the_end(control: Any, place: int, value: int) -> int:
        taken: int = fetch_add(control, place, value)
        return count - 1 - taken if taken < count else taken

    for module in (package.passes, package.trace_core):
        monkeypatch.setattr(module, "fetch_add", from_the_end)
    made.step()
    made.step()
