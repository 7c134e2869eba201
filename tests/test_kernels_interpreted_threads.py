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


def test_a_helper_that_wakes_up_late_is_through_before_the_next_test(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, through = small(monkeypatch, threads=2).threads, []
    ask = threads._ask_for_help

    def ask_somebody_sleepy(count: int, function: Any, *args: Any) -> None:
        def wake_up(address: int) -> None:
            time.sleep(LATE)
            function(address)
            through.append(address)

        ask(count, wake_up, *args)

    monkeypatch.setattr(threads, "_ask_for_help", ask_somebody_sleepy)
    Pair("sgdn", {}, levels=("global", "layer", "unit"), **PAPERS).step()
    assert not through
    interpreted.wait_for_helpers()
    assert through


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

    monkeypatch.setattr(package.passes, "fetch_add", from_the_end)
    made.step()
    made.step()


class Range:
    """What a thread sees of another one's range of 40 items; `at_work` happens at each look at what is done."""

    COUNT, TOTAL, LEAVE, PATIENCE = 40, 80, 10, 30

    def __init__(self, monkeypatch: pytest.MonkeyPatch, taken: int, come: bool, at_work: Any) -> None:
        self.passes, self.looks, self.at_work = interpreted.load().passes, 0, at_work
        self.control = np.zeros(self.passes.COUNTERS + 4 * self.passes.LINE, np.int64)
        self.place = self.passes.line(1, self.passes.MOVING)
        self.control[self.place + self.passes.TAKEN], self.control[self.place + self.passes.COME] = taken, come
        monkeypatch.setattr(self.passes, "fetch", self.fetch)

    def fetch(self, control: Any, place: int) -> int:
        if place == self.passes.DONE_2:
            self.looks += 1
            self.at_work(self)
        return int(control[place])

    def take(self, patience: int = PATIENCE, leave: int = LEAVE, held: int = 0) -> int:
        passes = self.passes
        self.mine = np.array([0, 1, held, leave, patience])
        found: int = passes._take(self.mine, passes.MOVING, self.control, self.place, self.COUNT, self.TOTAL)
        return found


def nothing(range_: Range) -> None:
    """The thread has been stopped by the system."""


@pytest.mark.parametrize(
    ("taken", "come", "patience"),
    [(0, False, 30), (35, False, 30), (29, True, 30), (35, True, 0)],
    ids=["nobody has come", "nobody has come to the last few", "many are left", "it has been waited for"],
)
def test_an_item_of_another_thread_is_taken_at_once(
    taken: int, come: bool, patience: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    range_ = Range(monkeypatch, taken, come, nothing)
    assert range_.take(patience) == taken
    assert range_.looks == 0
    assert range_.mine[range_.passes.PATIENCE] == patience
    assert range_.take(patience=0) == taken + 1


@pytest.mark.parametrize(("taken", "leave"), [(30, 10), (39, 10), (1, 39)])
def test_the_last_few_items_are_left_to_a_thread_that_is_at_work(
    taken: int, leave: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def works(range_: Range) -> None:
        if range_.looks % 29 == 0:  # one item after another, and each just before patience is at its end
            at = range_.place + range_.passes.TAKEN
            range_.control[at] = min(range_.control[at] + 1, Range.COUNT)
            if range_.control[at] == Range.COUNT:
                range_.control[range_.passes.DONE_2] = Range.TOTAL

    range_ = Range(monkeypatch, taken, True, works)
    assert range_.take(leave=leave) >= Range.COUNT
    assert range_.control[range_.place + range_.passes.TAKEN] == Range.COUNT  # nobody has taken one from it


def test_who_finds_all_items_taken_does_not_wait_until_they_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    range_ = Range(monkeypatch, Range.COUNT, True, nothing)
    assert range_.take() == Range.COUNT
    assert range_.looks == 0


@pytest.mark.parametrize("held", [0, 1, 3])
def test_who_has_taken_some_itself_does_not_wait_for_others_to_say_that_they_are_done(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that came late found some of its items taken: of those, nobody but who took them says it."""

    def ends(range_: Range) -> None:
        if range_.looks == 7:
            range_.control[range_.passes.DONE_2] = Range.TOTAL - held

    range_ = Range(monkeypatch, 35, True, ends)
    assert range_.take(held=held) == Range.COUNT
    assert range_.looks == 7


def test_the_last_few_items_are_taken_if_their_thread_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    range_ = Range(monkeypatch, 35, True, nothing)
    assert range_.take() == 35
    assert range_.looks == Range.PATIENCE
    assert range_.mine[range_.passes.PATIENCE] == 0  # and the others as well


@pytest.mark.parametrize("options", [PAPERS, {"hyper_lr": 1.0}], ids=["paper", "long horizon"])
def test_in_both_passes_a_thread_says_that_it_has_come(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = small(monkeypatch).passes
    made = Pair("sgdn", {}, levels=("global", "layer", "unit"), **options)
    made.step()
    control = made.both[0].backend._fused.plan.team.control
    assert [control[passes.line(0, phase) + passes.COME] for phase in (passes.OBSERVING, passes.MOVING)] == [1, 1]


def test_a_thread_goes_through_its_own_range_and_then_through_the_others() -> None:
    """Here alone, as the second of four; the last has no items."""
    passes = interpreted.load().passes
    items, ranges = np.array([[0, 2, 4, 0, 1000, 0]] * 7), np.array([0, 2, 5, 7, 7])  # two runs of 1,000 scalars each
    control = np.full(passes.COUNTERS + 8 * passes.LINE, 9, np.int64)
    for phase, order in ((passes.OBSERVING, [2, 3, 4, 5, 6, 0, 1]), (passes.MOVING, [4, 3, 2, 6, 5, 1, 0])):
        passes.start(control, phase, 4)
        mine = passes.come(1, phase, control)
        assert [control[passes.line(whose, phase) + passes.COME] for whose in range(4)] == [0, 1, 0, 0]
        done = []
        for number in iter(lambda mine=mine, phase=phase: passes.next_item(mine, phase, 4, control, ranges, items), -1):
            done.append(int(number))
            assert control[passes.done_in(phase)] == [0, 3, 5][(len(done) > 3) + (len(done) > 5)]  # said when it leaves
            assert (mine[passes.PATIENCE] > 0) == (len(done) > 3)  # it waits for nobody in its own
        assert done == order
        assert control[passes.done_in(phase)] == 7


def test_how_much_is_left_to_a_thread_that_is_at_work() -> None:
    passes = interpreted.load().passes
    mine, item = np.zeros(5, np.int64), np.array([0, 2, 4, 0, 1000, 0])
    passes._be_patient(mine, item, 40)
    assert mine[passes.LEAVE] == passes.SCALARS_LEFT // 2000
    assert mine[passes.PATIENCE] > 2000
    passes._be_patient(mine, item, 4000)
    assert mine[passes.LEAVE] == 4000 // passes.PART_LEFT
