"""The examples, and those of the page "Using camhd with …", that need no other framework run and do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from examples_run import EXAMPLES, blocks, run, run_blocks


def test_schedules() -> None:
    assert run("schedules", epochs=6) > 0.85


def test_mixed_precision() -> None:
    assert max(run("mixed_precision", epochs=4)) < 0.7


def test_clip_and_accumulate() -> None:
    whole, parts = run("clip_and_accumulate", steps=30)
    assert parts == pytest.approx(whole, rel=1e-6)
    assert whole != pytest.approx(0.1, rel=1e-6)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own, when it compiles
def test_compiled() -> None:
    torch._dynamo.reset()
    assert list(run("compiled", steps=5, backend="aot_eager")) == ["0", "2"]


def test_functional() -> None:
    losses = run("functional", steps=100)
    assert losses[-1] < losses[0] / 5


def test_gan() -> None:
    assert run("gan", steps=200) < 0.6


def test_logging_rates(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    flat = run("logging_rates", folder=str(tmp_path), steps=20)
    assert {"lr/0", "rates/global", "rates/unit/median", "weights/unit"} <= set(flat)
    assert any(tmp_path.iterdir())


def test_wrap_any() -> None:
    verdicts = run("wrap_any", steps=20)
    assert verdicts["RMSprop"].startswith("loss")
    assert "wrap() cannot use LBFGS" in verdicts["LBFGS"]


def test_every_example_says_how_to_run_it() -> None:
    for path in EXAMPLES.glob("*.py"):
        said = path.read_text().split('"""')[1]
        assert re.search(rf"(python|torchrun --nproc-per-node=\d) examples/{path.name}", said), path.name


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own, when it compiles
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    torch._dynamo.reset()
    monkeypatch.chdir(tmp_path)
    assert len(blocks("using-with.md")) == 12
    run_blocks("using-with.md")
    assert "the state after a step depends on lr" in capsys.readouterr().out
    assert len((tmp_path / "rates.csv").read_text().splitlines()) > 3


def test_the_page_names_every_example() -> None:
    text = (EXAMPLES.parent / "docs" / "using-with.md").read_text(encoding="utf-8")
    named = set(re.findall(r"examples/(\w+)\.py", text))
    assert named <= {path.stem for path in EXAMPLES.glob("*.py")}
    assert {"schedules", "mixed_precision", "with_lightning", "with_transformers", "with_accelerate", "gan"} <= named
