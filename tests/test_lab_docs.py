"""The examples of the laboratory's page and of examples/ run."""

import importlib.util
import re
from pathlib import Path

import pytest

from camhd.lab import records

ROOT = Path(__file__).resolve().parents[1]


def test_the_python_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "lab.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"lab.md, Python example {number}", "exec"), namespace)
    text = capsys.readouterr().out
    assert "mine" in text
    assert "finished" in text
    assert len(records.load("runs")) == 6


@pytest.mark.slow
def test_the_example_of_an_own_problem_runs(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("own_problem", ROOT / "examples" / "own_problem.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(["--epochs", "2", "--seeds", "2", "--folder", str(tmp_path)])
    assert "a rate for each layer" in capsys.readouterr().out
    assert [run.status for run in records.load(tmp_path)] == ["finished"] * 6
