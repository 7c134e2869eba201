"""On what a run ran."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from ..bench.environment import Environment, look_around


def environment() -> dict[str, Any]:
    """Versions, commit, machine and threads; nothing that depends on the clock."""
    found, threads = _unchanging(), torch.get_num_threads()
    return {
        **{name: found.versions[name] for name in ("camhd", "torch", "python", "numpy")},
        "commit": found.commit,
        "machine": f"{found.processor}, {found.cores} cores, {found.system}",
        "threads": threads,
    }


@lru_cache(maxsize=1)
def _unchanging() -> Environment:
    """Asked once in a process, because git is slow and the answer stays."""
    return look_around(threads=0)
