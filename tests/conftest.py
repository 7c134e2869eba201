"""Small tensors are faster on one thread, and a test that draws numbers draws the same ones every time."""

from __future__ import annotations

import signal
from collections.abc import Generator
from typing import Any

import hypothesis
import pytest
import torch

import camhd
import interpreted
from camhd.lab.train import amx

torch.set_num_threads(1)

MANY, TRACED = 3, 2  # of a test with more than MANY cases, TRACED are looked at when lines are counted
# Many numbers and few lines, all of which other tests reach; or nearly all that runs is torch's compiler.
UNTRACED = {
    f"test_{name}.py"
    for name in (
        "backends", "base_rules", "compile", "faults", "hypergradients", "reference", "stability", "stability_long",
        "theorems", "torchs_cases", "with_compile",
    )
}  # fmt: skip

# No deadline: a busy machine is not a failure. Always the same examples: CI is not the place to look for new ones.
hypothesis.settings.register_profile("camhd", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("search", deadline=None, print_blob=True)
hypothesis.settings.load_profile("camhd")


def pytest_configure() -> None:
    """Hear Ctrl-C, which some tests send: a shell lets its background jobs ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    amx.leave_alone_if_broken()  # worker processes inherit it


TRACING = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what -m does not name
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_thorough(items)
    choose_traced(items)


def mark_thorough(items: list[pytest.Item]) -> None:
    """Of cases that are ``alike(n)``, CI keeps those whose places in the lists of values add up to a multiple of n.

    Where several lists are crossed, every value of each is to be met: CI also keeps the first case that has one which
    those do not have.
    """
    lists: dict[tuple[object, ...], list[int]] = {}
    tests: dict[tuple[object, ...], list[tuple[pytest.Item, tuple[int, ...], int]]] = {}
    for item in items:
        case: Any = item  # a test of cases has a callspec, which pytest does not declare
        for marker in item.iter_markers("alike"):
            places = []
            for mark in item.iter_markers("parametrize"):
                first = mark.args[0] if isinstance(mark.args[0], str) else mark.args[0][0]
                values = lists.setdefault((item.parent, case.originalname, first), [])
                value = id(case.callspec.params[first])
                values += [] if value in values else [value]
                places.append(values.index(value))
            tests.setdefault((item.parent, case.originalname), []).append((item, tuple(places), marker.args[0]))
    for cases in tests.values():
        met = {met for _, places, n in cases if sum(places) % n == 0 for met in enumerate(places)}
        for item, places, n in cases:
            new = {*enumerate(places)} - met if len(places) > 1 else set()
            met |= new
            if sum(places) % n and not new:
                item.add_marker("thorough")


def choose_traced(items: list[pytest.Item]) -> None:
    """Count the lines that some cases of each test reach: counting takes time, and the others reach the same ones."""
    tests: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        tests.setdefault((str(item.path), getattr(item, "originalname", item.name)), []).append(item)
    for cases in tests.values():
        traced = range(0, len(cases), 1 if len(cases) <= MANY else -(-len(cases) // TRACED))
        for number, item in enumerate(cases):
            item.stash[TRACING] = number in traced and item.path.name not in UNTRACED


class Counting:
    """Lets `pytest --cov` count while the package is imported and while tests run of which lines are counted.

    (The marker `no_cover` does the reverse for every other test, and pytest's own work between them is traced.)
    """

    def __init__(self, coverage: Any) -> None:
        self.coverage, self.on = coverage, True

    def turn(self, on: bool) -> None:
        if on != self.on:
            (self.coverage.start if on else self.coverage.stop)()
            self.on = on

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        self.turn(False)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.turn(item.stash[TRACING])
        try:
            return (yield)
        finally:
            self.turn(False)


@pytest.hookimpl(trylast=True)  # after that of pytest-cov
def pytest_sessionstart(session: pytest.Session) -> None:
    """Take over from pytest-cov, if it counts in this process."""
    found = session.config.pluginmanager.getplugin("_cov")
    if found is not None and found.cov_controller is not None:
        session.config.pluginmanager.register(Counting(found.cov_controller.cov), "counting")


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _helpers_of_interpreted_kernels_are_through() -> Generator[None]:
    """Set up before all others, this one comes last: functions that a test has exchanged are back in place."""
    yield
    interpreted.wait_for_helpers()


@pytest.fixture
def papers_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a file whose subject is the paper's algorithm: rates are additive where a test does not say."""
    monkeypatch.setattr(camhd.hyper, "DEFAULT", "additive")


def pytest_make_parametrize_id(val: object, argname: str) -> None:
    """Refuse a name made of packed bytes: they hold the time, so no two workers agree on what the test is called."""
    if isinstance(val, bytes) and len(val) > 16 and not val.isascii():
        raise pytest.UsageError(
            f"{argname}={val[:16]!r}... needs ids=: a test's name must be the same in every process"
        )
