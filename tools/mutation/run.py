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
from .patch import Functions, compile_nothing, functions_of, put_in
from .traces import Traces

QUICK = 0.015  # seconds of a test that is asked before the others, because it costs nothing
FEW = 6  # tests that are asked first, because they reach little else
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
        self.sound: dict[str, bool] = {}  # whether a test passes if nothing is changed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take the place of pytest's own loop."""
        if session.testsfailed:
            raise session.Interrupted("tests cannot be collected")
        items = {item.nodeid: item for item in session.items}
        compile_nothing()
        self._warm_up(items)
        functions = functions_of(self.root, sorted({mutant.file for mutant in self.mutants}))
        gc.collect()
        gc.freeze()
        started, counts = time.monotonic(), Counter[str]()
        with self.records.open("a") as out:
            for i, mutant in enumerate(self.mutants):
                status, killer, ran = self._try(mutant, items, functions)
                while status == KILLED and not self._is_sound(killer, items, functions):
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
            for name in ranked[len(ranked) // 2 :][:1]:
                runtestprotocol(items[name], nextitem=None, log=False)

    def _is_sound(self, killer: str, items: dict[str, Any], functions: Functions) -> bool:
        """Whether a test that failed passes without the change; one that does not is never asked again."""
        if killer.startswith("import: "):
            return True
        if killer not in self.sound:
            self.sound[killer] = self._ask([killer], None, items, functions)[0] == SURVIVED
            if not self.sound[killer]:
                print(f"fails anyway: {killer}", file=sys.stderr, flush=True)
                self.traces.durations.pop(killer, None)
        return self.sound[killer]

    def _try(self, mutant: Mutant, items: dict[str, Any], functions: Functions) -> tuple[str, str, int]:
        chosen = self._choose(mutant, items)
        return self._ask(chosen, mutant, items, functions) if chosen else (UNREACHED, "", 0)

    def _ask(
        self, chosen: list[str], mutant: Mutant | None, items: dict[str, Any], functions: Functions
    ) -> tuple[str, str, int]:
        """Run these tests in a fork, with or without a change."""
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
        assert not answer, answer
        return TIMEOUT, f"ended by signal {os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}", len(chosen)

    def _choose(self, mutant: Mutant, items: dict[str, Any]) -> list[str]:
        """Tests that reach the change: those first that found others in its function, then quick and different ones.

        Before the quick ones come those that reach little else: they are likely about it. Different is what reaches
        other lines: of the same function above all, of the same file, of the library. A mistake in a branch shows
        where the branch is taken, a mistake in a sum perhaps under one option alone.
        """
        durations, lines, killers = self.traces.durations, self.traces.bits, self.killers[mutant.scope]
        left = sorted(name for name in self.traces.reaching(mutant) if name in items)
        chosen = [name for name, _ in killers.most_common(3) if name in left and name in durations]
        chosen += [name for name in sorted(left, key=self.traces.reach.__getitem__)[:FEW] if name not in chosen]
        used, seen = sum(durations[name] for name in chosen), 0
        for name in sorted((name for name in left if durations[name] < QUICK), key=durations.__getitem__):
            if name not in chosen and used < self.seconds / 4:
                chosen.append(name)
                used += durations[name]
        left = self._few_alike([name for name in left if name not in chosen])
        masks = [
            (1, -1),
            (50, self.traces.masks[mutant.file]),
            (500, self.traces.masks[f"{mutant.file} {mutant.scope}"]),
        ]

        def gain(name: str) -> float:
            new = lines[name] & ~seen
            return sum(weight * (new & mask).bit_count() for weight, mask in masks) / (durations[name] + 0.03)

        while left and used < self.seconds:
            gains = [gain(name) for name in left]
            best = max(range(len(left)), key=gains.__getitem__)
            if gains[best] == 0 and seen:
                seen = 0
                continue
            name = left.pop(best)
            seen |= lines[name]
            used += durations[name]
            chosen.append(name)
        return chosen

    def _few_alike(self, names: list[str]) -> list[str]:
        """The quickest two of those that reach the same lines everywhere."""
        alike: dict[int, list[str]] = defaultdict(list)
        for name in sorted(names, key=self.traces.durations.__getitem__):
            alike[self.traces.bits[name]].append(name)
        return [name for found in alike.values() for name in found[:2]]

    def _live(self, items: list[Any], mutant: Mutant | None, functions: Functions, out: int, cpu: int) -> None:
        """A child's whole life: change, run, tell."""
        answer = "survived"
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            try:
                changed = mutant is None or put_in(self.root, mutant, functions)
            except Exception as error:  # a constant that cannot be made
                os.write(out, f"killed import: {error!r}".encode()[:4000])
                os._exit(0)
            answer = "survived" if changed else "unchanged"
            for item, following in zip(items, [*items[1:], None], strict=True) if changed else ():
                if any(report.failed for report in runtestprotocol(item, nextitem=following, log=False)):
                    answer = f"killed {item.nodeid}"
                    break
        except BaseException as error:
            answer = f"the tester itself failed: {error!r}"
        os.write(out, answer.encode()[:4000])
        os._exit(0)
