"""Computing in bfloat16 where a virtual machine shows AMX but does not let it work."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from camhd.lab import sweep, train
from camhd.lab.train import amx

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
RAISES = "raise RuntimeError('could not create a primitive')"
HANGS = "import time; time.sleep(60)"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """One whose CPU says of itself what a test says, and on which a trial in bfloat16 goes as a test says."""
    processors = tmp_path / "cpuinfo"
    monkeypatch.setattr(amx, "PROCESSORS", processors)
    monkeypatch.delenv(amx.LIMIT, raising=False)
    amx._can_be_used.cache_clear()

    def made(flags: str | None, trial: str) -> None:
        if flags is not None:
            processors.write_text(f"processor : 0\nflags : fpu avx512f {flags}\n")
        monkeypatch.setattr(amx, "TRIAL", trial)

    yield made
    os.environ.pop(amx.LIMIT, None)  # before monkeypatch puts back what was there
    amx._can_be_used.cache_clear()


@pytest.mark.parametrize("trial", [DIES, RAISES])
def test_onednn_leaves_amx_alone_where_a_trial_fails(machine, trial):
    machine("amx_bf16 amx_int8 amx_tile", trial)
    amx.leave_alone_if_broken()
    assert os.environ[amx.LIMIT] == "AVX512_CORE_FP16"


def test_a_trial_that_hangs_has_failed(machine, monkeypatch):
    monkeypatch.setattr(amx, "LONGEST", 0.5)
    machine("amx_tile", HANGS)
    amx.leave_alone_if_broken()
    assert os.environ[amx.LIMIT] == "AVX512_CORE_FP16"


@pytest.mark.parametrize(("flags", "trial"), [("amx_tile", "pass"), ("avx512_bf16", DIES), (None, DIES)])
def test_it_may_use_all_there_is_otherwise(machine, flags, trial):
    machine(flags, trial)
    amx.leave_alone_if_broken()
    assert amx.LIMIT not in os.environ


def test_what_somebody_has_set_stays(machine, monkeypatch):
    machine("amx_tile", DIES)
    monkeypatch.setenv(amx.LIMIT, "AVX2")
    amx.leave_alone_if_broken()
    assert os.environ[amx.LIMIT] == "AVX2"


def test_the_trial_computes_in_bfloat16_and_passes_once_amx_is_left_alone():
    """On a sound machine it passes anyway; on one with broken AMX this is what makes it pass."""
    environment = {**os.environ, amx.LIMIT: amx.WITHOUT_AMX}
    assert "bfloat16" in amx.TRIAL
    subprocess.run([sys.executable, "-c", amx.TRIAL], env=environment, check=True)


def test_a_run_and_a_sweep_in_bfloat16_ask_first_and_others_do_not(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(amx, "leave_alone_if_broken", lambda: asked.append(True))
    item = {"model": "ffnn:4", "data": "digits", "epochs": 1}
    train(**item, optimizer="adam", dtype="float32")
    assert not asked
    train(**item, optimizer="adam", dtype="bfloat16")
    assert len(asked) == 1
    engine = SimpleNamespace(remote=True)
    monkeypatch.setattr("camhd.lab.sweep.running.choose_engine", lambda *_: engine)
    monkeypatch.setattr("camhd.lab.sweep.running.prepared", _stop)
    for dtype, count in (("float32", 1), ("bfloat16", 2)):
        with pytest.raises(Stopped):
            sweep.run([sweep.Item(**item, dtype=dtype)], tmp_path)
        assert len(asked) == count


class Stopped(Exception):
    """Far enough."""


def _stop(*_):
    raise Stopped
