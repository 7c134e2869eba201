"""The examples of training over several processes run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from processes import in_processes

ROOT = Path(__file__).resolve().parents[1]

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed"),
    pytest.mark.slow,
]


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def all_three(folder: Path) -> dict[str, Any]:
    uneven = example("ddp").work(2)
    divided = example("fsdp").work(30)
    saving = example("distributed_checkpoint")
    first = saving.work(None, folder / "first", 3)
    again = saving.work(folder / "first", folder / "second", 0)
    return {
        "uneven": [uneven.rates()["global"], uneven.combination(), uneven.rates()["unit"]["0"].tolist()],
        "rows": len(divided.rates()["unit"]["0"].to_local()),
        "rate": [first.rates()["global"], again.rates()["global"]],
        "steps": again._tree.state.step,
    }


def test_the_examples_run() -> None:
    first, second = in_processes(2, all_three)
    assert first["uneven"] == second["uneven"]
    assert [first["rows"], second["rows"]] == [17, 16]
    assert first["rate"][0] == first["rate"][1] == second["rate"][1] != 1e-2
    assert first["steps"] == 3
