"""Small tensors are faster on one thread, and a test that draws numbers draws the same ones every time."""

from __future__ import annotations

import signal

import hypothesis
import pytest
import torch

import camhd

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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Count the lines that some cases of each test reach: counting takes time, and the others reach the same ones."""
    if not config.pluginmanager.hasplugin("_cov"):
        return
    tests: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        tests.setdefault((str(item.path), getattr(item, "originalname", item.name)), []).append(item)
    for cases in tests.values():
        traced = range(0, len(cases), 1 if len(cases) <= MANY else -(-len(cases) // TRACED))
        for number, item in enumerate(cases):
            if number not in traced or item.path.name in UNTRACED:
                item.add_marker("no_cover")


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.manual_seed(0)


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
