"""A CPU that says more of itself than it can do.

Some virtual machines show that a CPU has AMX, and hide the sizes of its tiles. oneDNN, with which torch computes in
bfloat16, takes the first for granted: the process ends at an illegal instruction, or can compute nothing any more, in
float32 neither. So another process tries it first. If that one does not end well, oneDNN is told to leave AMX alone.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

LIMIT, WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"  # the most that oneDNN uses below AMX
PROCESSORS = Path("/proc/cpuinfo")
TRIAL = """
import torch
with torch.autocast("cpu", torch.bfloat16):
    torch.nn.Linear(64, 32)(torch.ones(16, 64))
    torch.nn.Conv2d(3, 8, 3)(torch.ones(2, 3, 8, 8))
"""
LONGEST = 120.0  # seconds that the trial may take; it takes two or three


def leave_alone_if_broken() -> None:
    """Tell oneDNN to do without AMX if computing in bfloat16 fails here; children of this process inherit it.

    It must come before this process computes anything with oneDNN, which reads the variable once. One that somebody
    has set stays.
    """
    if LIMIT not in os.environ and _has_amx() and not _can_be_used():
        os.environ[LIMIT] = WITHOUT_AMX


def _has_amx() -> bool:
    try:
        return "amx_tile" in PROCESSORS.read_text()
    except OSError:  # another system
        return False


@functools.cache
def _can_be_used() -> bool:
    program = sys.executable or ""
    if getattr(sys, "frozen", False) or not Path(program).name.lower().startswith("python"):
        return True  # an application that would start itself once more
    try:
        trial = subprocess.run([program, "-c", TRIAL], stdin=subprocess.DEVNULL, capture_output=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return False
    except OSError:  # no more processes, no memory: nothing is known
        return True
    return trial.returncode == 0
