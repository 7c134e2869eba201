"""One process collects the tests once; each mutant is a fork of it, in which the tests that reach the change run."""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from .mutants import Mutant
from .patch import Functions, functions_of, put_in
from .traces import Traces

KILLED, SURVIVED, TIMEOUT, UNREACHED = "killed", "survived", "timeout", "unreached"


class Runner:
    """A pytest plugin that runs mutants instead of the tests themselves.

    Args:
        root: the project.
        mutants: what to try.
        traces: which tests reach which lines, and how long they take.
        records: where to add one line for each result.
        seconds: how much of tests' time one mutant may have before it counts as a survivor.
    """

    def __init__(self, root: Path, mutants: list[Mutant], traces: Traces, records: Path, seconds: float) -> None:
        self.root, self.mutants, self.traces, self.records, self.seconds = root, mutants, traces, records, seconds
        self.killers: dict[str, Counter[str]] = defaultdict(Counter)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take the place of pytest's own loop."""
        if session.testsfailed:
            raise session.Interrupted("tests cannot be collected")
        items = {item.nodeid: item for item in session.items}
        self._warm_up(items)
        functions = functions_of(self.root, sorted({mutant.file for mutant in self.mutants}))
        gc.collect()
        gc.freeze()
        started, counts = time.monotonic(), Counter[str]()
        with self.records.open("a") as out:
            for i, mutant in enumerate(self.mutants):
                status, killer, ran = self._try(mutant, items, functions)
                counts[status] += 1
                self.killers[mutant.scope][killer] += bool(killer)
                record = {
                    "key": mutant.key, "stamp": mutant.stamp, "status": status, "killer": killer, "tests": ran,
                    "seconds": self.seconds, "traces": self.traces.stamp,
                }  # fmt: skip
                out.write(json.dumps(record, ensure_ascii=False) + "\n")
                out.flush()
                if i % 50 == 49 or i + 1 == len(self.mutants):
                    took = time.monotonic() - started
                    print(f"{i + 1}/{len(self.mutants)} in {took:.0f} s: {dict(counts)}", file=sys.stderr, flush=True)
        return True

    def _warm_up(self, items: dict[str, Any]) -> None:
        """One quick test of each file, so that children find loaded what is loaded at its first use."""
        of_files: dict[str, list[str]] = defaultdict(list)
        for name in items:
            if name in self.traces.durations:
                of_files[name.partition("::")[0]].append(name)
        for names in of_files.values():
            ranked = sorted(names, key=lambda name: (self.traces.durations[name], name))
            for name in {ranked[len(ranked) // 4], ranked[len(ranked) // 2]}:
                runtestprotocol(items[name], nextitem=None, log=False)

    def _try(self, mutant: Mutant, items: dict[str, Any], functions: Functions) -> tuple[str, str, int]:
        chosen = self._choose(mutant, items)
        if not chosen:
            return UNREACHED, "", 0
        expected = sum(self.traces.durations[name] for name in chosen)
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(readable)
            self._live([items[name] for name in chosen], mutant, functions, writable, 6 + 4 * int(expected))
        os.close(writable)
        patience = 120 + 40 * expected
        told = b""
        while True:
            ready, _, _ = select.select([readable], [], [], patience)
            if not ready:
                os.kill(child, signal.SIGKILL)
                break
            part = os.read(readable, 4096)
            if not part:
                break
            told += part
        os.close(readable)
        _, status = os.waitpid(child, 0)
        answer = told.decode(errors="replace")
        if answer.startswith("killed "):
            return KILLED, answer.removeprefix("killed "), len(chosen)
        if answer == "survived":
            return SURVIVED, "", len(chosen)
        if answer == "unchanged":
            return UNREACHED, "", 0
        return TIMEOUT, f"ended by signal {os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}", len(chosen)

    def _choose(self, mutant: Mutant, items: dict[str, Any]) -> list[str]:
        """Tests that reach the change: those first that found others in its function, then as different ones as can be.

        Different is what reaches other lines of the library, wherever they are: a mistake in a sum shows under one
        option, a mistake in a branch of a rule under one rule.
        """
        durations, lines, killers = self.traces.durations, self.traces.bits, self.killers[mutant.scope]
        left = sorted(name for name in self.traces.reaching(mutant) if name in items)
        chosen = [name for name, _ in killers.most_common(3) if name in left]
        used, seen = sum(durations[name] for name in chosen), 0
        left = [name for name in left if name not in chosen]
        while left and used < self.seconds:
            gains = [(lines[name] & ~seen).bit_count() / (durations[name] + 0.03) for name in left]
            best = max(range(len(left)), key=gains.__getitem__)
            if gains[best] == 0 and seen:
                seen = 0
                continue
            name = left.pop(best)
            seen |= lines[name]
            used += durations[name]
            chosen.append(name)
        return chosen

    def _live(self, items: list[Any], mutant: Mutant, functions: Functions, out: int, cpu: int) -> None:
        """A child's whole life: change, run, tell."""
        answer = "survived"
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            if not put_in(self.root, mutant, functions):
                answer = "unchanged"
                items = []
            for item, following in zip(items, [*items[1:], None], strict=True):
                if any(report.failed for report in runtestprotocol(item, nextitem=following, log=False)):
                    answer = f"killed {item.nodeid}"
                    break
        except BaseException as error:
            answer = f"killed {type(error).__name__}"
        os.write(out, answer.encode()[:4000])
        os._exit(0)
