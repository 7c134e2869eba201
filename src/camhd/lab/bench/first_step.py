"""The first step of a new process, with an empty and with a filled Numba cache.

Run as a module, it is that process: it takes its task as JSON and prints its times as JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import camhd

from .cases import CASES, Case, Contestant, backend_of, camhd_contestant, torch_contestant
from .measure import entry, parameters
from .results import Failure, FirstStep, Result
from .timing import Spread, timed

LATER = 5  # steps after the third whose median is an ordinary step


def first_steps(case: Case, contestants: Sequence[Contestant], threads: int, repeats: int) -> Iterator[Result]:
    """What the first step costs, the median over new processes."""
    count = parameters(case.model())
    for contestant in contestants:
        caches = ("cold", "warm") if (contestant.library, contestant.backend) == ("camhd", "fused") else ("none",)
        about = vars(entry("first-step", case, count, contestant, ""))
        try:
            runs = [_with_caches(case, contestant, threads, len(caches)) for _ in range(repeats)]
        except subprocess.CalledProcessError as error:
            lines = (error.stderr or "").strip().splitlines() or [str(error)]
            yield Failure(**about, error=lines[-1])
            continue
        for cache, times in zip(caches, zip(*runs, strict=True), strict=True):
            about["ran_on"] = times[0]["ran_on"]
            build, first, later = (Spread.of([t[name] for t in times]) for name in ("build", "first", "later"))
            yield FirstStep(**about, cache=cache, build=build, first=first, later=later)


def _with_caches(case: Case, contestant: Contestant, threads: int, processes: int) -> list[dict[str, Any]]:
    """Processes one after another that share a cache which was empty before the first."""
    with tempfile.TemporaryDirectory() as cache:
        return [_in_new_process(case, contestant, threads, cache) for _ in range(processes)]


def _in_new_process(case: Case, contestant: Contestant, threads: int, cache: str) -> dict[str, Any]:
    task = {
        "model": case.name,
        "library": contestant.library,
        "rule": contestant.rule,
        "levels": contestant.levels,
        "backend": contestant.backend,
        "threads": threads,
    }
    sources = str(Path(camhd.__file__).parents[1])
    path = os.pathsep.join(filter(None, (sources, os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-m", __name__, json.dumps(task)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    times: dict[str, Any] = json.loads(done.stdout)
    return times


def child(task: dict[str, Any]) -> dict[str, Any]:
    """What the new process does."""
    import torch

    torch.set_num_threads(task["threads"])
    model = CASES[task["model"]].model()
    if task["library"] == "torch":
        contestant = torch_contestant(task["rule"], task["backend"])
    else:
        contestant = camhd_contestant(task["rule"], tuple(task["levels"]), task["backend"])
    built = []
    build = timed(lambda: built.append(contestant.build(model)))
    first = timed(built[0].step)
    others = [timed(built[0].step) for _ in range(2 + LATER)]
    later = statistics.median(others[2:])
    return {"build": build, "first": first, "later": later, "ran_on": backend_of(built[0].holder)}


if __name__ == "__main__":
    print(json.dumps(child(json.loads(sys.argv[1]))))
