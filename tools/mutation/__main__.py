"""`python -m mutation`, with tools in PYTHONPATH: trace the tests, try the mutants, say how many were killed."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import random
import sys
from pathlib import Path

import pytest

from . import mutants
from .report import read_reasons, report, summary
from .run import Runner
from .settings import FILES, TESTS
from .traces import Tracer, Traces

ROOT = Path(__file__).resolve().parents[2]
MARK = "<!-- what follows is written by `python -m mutation report --write docs/mutation.md` -->"


def main() -> int:
    """Parse, do, print."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__)
    parser.add_argument("action", choices=["trace", "run", "report", "list"])
    parser.add_argument("--files", default="*", help="a pattern: only these source files")
    parser.add_argument("--tests", nargs="*", help="only these test files; traces are added to those there are")
    parser.add_argument("--seconds", type=float, default=8, help="of tests for each mutant (default: 8)")
    parser.add_argument("--again", action="store_true", help="try those again that survived for no known reason")
    parser.add_argument("--sample", type=int, help="only so many mutants, drawn at random but always alike")
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutation", help="for traces and records")
    parser.add_argument("--write", type=Path, help="a Markdown file whose end the report is to be")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    files = [file for file in FILES if fnmatch.fnmatch(file, f"*{options.files}*")]
    found = [mutant for file in files for mutant in mutants.find(ROOT, file)]
    records = options.folder / "records.jsonl"
    os.chdir(ROOT)
    tests = options.tests or TESTS
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", *tests]
    if options.action == "trace":
        return pytest.main(
            arguments, plugins=[Tracer(ROOT, files, options.folder / "traces.json", bool(options.tests))]
        )
    if options.action == "list":
        for mutant in found:
            print(f"{mutant.line:4d} {mutant.key}")
        return 0
    known, reasons = read_records(records), read_reasons()
    if options.action == "run":
        traces = Traces.load(options.folder / "traces.json")
        order = list(found)
        random.Random(0).shuffle(order)  # so that the first hundreds are a sample of all, and always the same
        wanted = [mutant for mutant in order[: options.sample] if is_open(mutant, known, reasons, options.again)]
        wanted.sort(key=lambda mutant: mutant.key not in known)  # what survived before comes first
        print(f"{len(wanted)} of {len(found)} mutants to try", file=sys.stderr)
        pytest.main(arguments, plugins=[Runner(ROOT, wanted, traces, records, options.seconds)])
        known = read_records(records)
    if options.write:
        head = options.write.read_text().partition(MARK)[0]
        options.write.write_text(f"{head}{MARK}\n\n{report(found, known, reasons)}")
    print(summary(found, known, reasons))
    return 0


def read_records(path: Path) -> dict[str, dict[str, object]]:
    """The last record of each mutant."""
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text().splitlines())
    return {record["key"]: record for record in lines}


def is_open(mutant: mutants.Mutant, known: dict[str, dict[str, object]], reasons: dict[str, str], again: bool) -> bool:
    """Whether there is no result yet for the code as it is."""
    record = known.get(mutant.key)
    if record is None or record["stamp"] != mutant.stamp:
        return True
    return again and record["status"] in ("survived", "unreached") and mutant.key not in reasons


if __name__ == "__main__":
    sys.exit(main())
