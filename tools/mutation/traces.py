"""Which tests reach which lines, and how long each takes: from one run of all of them under coverage."""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import coverage
import pytest
from _pytest.runner import runtestprotocol

from .mutants import Mutant
from .patch import compile_nothing
from .settings import LEFT_OUT
from .sources import scopes, source

CASES = 16  # at most, of one test function
# Of which all cases are needed: each kernel has its own, and so has each thing that is refused.
WHOLE = ("test_kernels_interpreted", "test_bad_input_is_refused", "test_a_state_that_does_not_fit")


class Traces:
    """What is known about the tests.

    Args:
        lines: for each file and line the numbers of the tests that reach it; a line is called by its function and its
            place in it, so that it is found again when other functions change.
        durations: seconds of each test, without those that fail anyway.
        names: the tests' names, by number.
    """

    def __init__(self, lines: dict[str, dict[str, list[int]]], durations: dict[str, float], names: list[str]) -> None:
        self.lines, self.durations, self.names = lines, durations, names
        self.bits = dict.fromkeys(names, 0)  # for each test a number with one bit for each line that it reaches
        self.masks: dict[str, int] = defaultdict(int)  # the bits of each file, and of each function of each
        places = ((file, line, tests) for file, of_file in lines.items() for line, tests in of_file.items())
        for place, (file, line, tests) in enumerate(places):
            self.masks[file] |= 1 << place
            self.masks[f"{file} {line.partition('+')[0]}"] |= 1 << place
            for test in tests:
                self.bits[names[test]] |= 1 << place
        self.reach = {name: bits.bit_count() for name, bits in self.bits.items()}
        self.stamp = hashlib.sha256("\n".join(sorted(durations)).encode()).hexdigest()[:12]

    @classmethod
    def load(cls, path: Path) -> Traces:
        """From a file."""
        kept = json.loads(path.read_text())
        return cls(kept["lines"], kept["durations"], kept["names"])

    def save(self, path: Path) -> None:
        """Into a file."""
        path.write_text(json.dumps({"lines": self.lines, "durations": self.durations, "names": self.names}))

    def joined(self, other: Traces) -> Traces:
        """Both; where they know the same test, the other knows better."""
        durations = {**self.durations, **other.durations}
        numbers = {name: i for i, name in enumerate(durations)}
        lines: dict[str, dict[str, list[int]]] = defaultdict(dict)
        for file in self.lines.keys() | other.lines.keys():
            for one, newer in ((self, False), (other, True)):
                for line, tests in one.lines.get(file, {}).items():
                    names = (one.names[test] for test in tests)
                    kept = {numbers[name] for name in names if newer or name not in other.durations}
                    lines[file][line] = sorted(kept.union(lines[file].get(line, ())))
        return Traces(lines, durations, list(durations))

    def reaching(self, mutant: Mutant) -> set[str]:
        """The tests that reach a change; of what is done at import, those that reach its scope."""
        lines = self.lines.get(mutant.file, {})
        if mutant.at_import or not any(name.startswith(f"{mutant.scope}+") for name in lines):
            inside = {name: name.startswith((f"{mutant.scope}+", f"{mutant.scope}.")) for name in lines}
            wanted = [name for name, inner in inside.items() if inner] or list(lines)
        else:
            wanted = [f"{mutant.scope}+{at - mutant.first}" for at in range(mutant.line, mutant.last_line + 1)]
        found: set[int] = set()
        found.update(*(lines.get(name, ()) for name in wanted))
        return {name for name in map(self.names.__getitem__, found) if name in self.durations}


def few(items: list[pytest.Item]) -> list[pytest.Item]:
    """At most some cases of each test function, evenly over its table, and none that is slow."""
    kinds: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        left_out = any(part in item.name for part in LEFT_OUT) or item.get_closest_marker("slow") is not None
        if not left_out:
            kinds[item.nodeid.partition("[")[0]].append(item)
    whole = {name for name in kinds if any(part in name for part in WHOLE)}
    return [item for name, kind in kinds.items() for item in kind[:: 1 if name in whole else _step(len(kind))]]


def _step(count: int) -> int:
    """A prime, so that a walk through a table of several columns meets every value of each."""
    step = -(-count // CASES)
    while any(step % factor == 0 for factor in range(2, step)):
        step += 1
    return step


class Tracer:
    """A pytest plugin that runs the tests and notes what they reach.

    Args:
        root: the project.
        files: whose lines are of interest.
        path: where to write what was found.
        add: whether to add it to what is there.
    """

    def __init__(self, root: Path, files: list[str], path: Path, add: bool) -> None:
        self.root, self.files, self.path, self.add = root, files, path, add

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take the place of pytest's own loop."""
        compile_nothing()
        session.items = few(session.items)
        measured = coverage.Coverage(
            data_file=None, config_file=False, include=[str(self.root / file) for file in self.files]
        )
        measured.start()
        durations: dict[str, float] = {}
        failed: list[str] = []
        for i, (item, following) in enumerate(zip(session.items, [*session.items[1:], None], strict=True)):
            if i % 20 == 0:
                print(f"{i}/{len(session.items)}", time.process_time(), flush=True)
            measured.switch_context(item.nodeid)
            started = time.process_time()
            reports: list[Any] = runtestprotocol(item, nextitem=following, log=False)
            if any(report.failed for report in reports):
                failed.append(item.nodeid)
            elif any(report.skipped for report in reports):
                continue
            else:
                durations[item.nodeid] = round(time.process_time() - started, 4)
        measured.stop()
        self._write(measured.get_data(), durations)
        print(f"{len(durations)} tests in {sum(durations.values()):.0f} s of CPU; these fail anyway: {failed}")
        return True

    def _write(self, data: coverage.CoverageData, durations: dict[str, float]) -> None:
        numbers: dict[str, int] = {name: i for i, name in enumerate(durations)}
        lines: dict[str, dict[str, list[int]]] = defaultdict(dict)
        for file in self.files:
            where = scopes(source(self.root, file))
            for line, contexts in data.contexts_by_lineno(str(self.root / file)).items():
                scope, first = where.get(line, ("", 0))
                lines[file][f"{scope}+{line - first}"] = sorted(numbers[name] for name in contexts if name in numbers)
        found = Traces(lines, durations, list(durations))
        (Traces.load(self.path).joined(found) if self.add else found).save(self.path)
