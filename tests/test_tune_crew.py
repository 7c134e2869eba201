"""The process that looks on while others work on a study: what it hears, and what it says at the end.

Ctrl-C and kills are in `test_tune_processes.py`, with the real command.
"""

import functools
import multiprocessing
import os
import signal
import sys
import threading

import pytest

import lab_cases
from camhd.lab.train import Settings
from camhd.lab.tune import crew, storage, task

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="members are forked here, because that is quick")


class Notes:
    """An onlooker that writes down what it is told."""

    def __init__(self):
        self.told = []

    def epoch(self, *arguments):
        self.told.append(("epoch", *arguments[2:3]))

    def ended(self, trial):
        self.told.append(("ended",))

    def count(self, done, best):
        self.told.append(("count", done))


ORDER = functools.partial(crew.Order, make=None, url="", study="s", folder=None, limit=2)


def together(monkeypatch, member, workers=2):
    """Members that do this, in processes of their own."""
    forked = multiprocessing.get_context("fork")

    def enter(order, connection):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as in a process that was not forked
        member(order, connection)

    monkeypatch.setattr(crew.multiprocessing, "get_context", lambda kind: forked)
    monkeypatch.setattr(crew, "_member", enter)
    notes = Notes()
    crew.together(ORDER(), workers, notes)
    return notes.told


def test_what_members_say_is_passed_on_until_all_have_ended(monkeypatch):
    def member(order, connection):
        crew._Speaker(connection).count(order.limit, None)
        crew._Speaker(connection).epoch(0, None, 3, 0.5)

    assert sorted(together(monkeypatch, member)) == [("count", 2)] * 2 + [("epoch", 3)] * 2


def is_first(folder):
    """Whether this process is the first to ask."""
    try:
        (folder / "first").mkdir()
    except FileExistsError:
        return False
    return True


def test_one_member_that_dies_is_no_error_and_all_of_them_are(monkeypatch, tmp_path):
    def half(order, connection):
        if is_first(tmp_path):
            os.kill(os.getpid(), signal.SIGKILL)

    def dies(order, connection):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(storage.StudyError, match="All processes ended before the study had its trials; the same call"):
        together(monkeypatch, dies)
    together(monkeypatch, half)


def test_an_error_of_the_onlooker_leaves_nobody_behind(monkeypatch, tmp_path):
    def member(order, connection):
        (tmp_path / str(os.getpid())).touch()
        crew._Speaker(connection).count(1, None)
        threading.Event().wait(30)

    class Fails(Notes):
        def count(self, done, best):
            raise ZeroDivisionError

    monkeypatch.setattr(sys.modules[__name__], "Notes", Fails)
    with pytest.raises(ZeroDivisionError):
        together(monkeypatch, member)
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)


def members_end(monkeypatch, order):
    """What a member says, and how it ends, in this process."""
    monkeypatch.setattr(os, "setsid", lambda: None, raising=False)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    ours, theirs = multiprocessing.Pipe(duplex=False)
    end = 0
    try:
        crew._member(order, theirs)
    except SystemExit as ended:
        end = ended.code
    theirs.close()
    said = []
    while ours.poll():
        try:
            said.append(ours.recv())
        except EOFError:
            break
    ours.close()
    return end, said


def make():
    how = Settings(epochs=1, batch_size=45, split="fraction:0.2")
    return task(lab_cases.mlp, lab_cases.blobs(), "sgd", how, search=["lr=0.01,0.1"], protocol="paper", folds=1)


def test_a_member_does_the_trials_and_tells_of_each(tmp_path, monkeypatch):
    order = crew.Order(make, f"sqlite:///{tmp_path / 'study.db'}", "study", tmp_path, limit=2, threads=1)
    end, said = members_end(monkeypatch, order)
    assert end == 0
    assert [name for name, _ in said].count("ended") == 2
    assert [name for name, _ in said].count("epoch") == 2


def test_a_member_that_is_stopped_or_has_lost_its_storage_says_so_by_its_exit_code(monkeypatch):
    def stopped():
        raise KeyboardInterrupt

    def lost():
        raise storage.StudyError("the database is gone")

    assert members_end(monkeypatch, ORDER(make=stopped))[0] == 130
    assert members_end(monkeypatch, ORDER(make=lost))[0] == "the database is gone"


def test_a_member_without_a_listener_stops():
    ours, theirs = multiprocessing.Pipe(duplex=False)
    ours.close()
    with pytest.raises(KeyboardInterrupt):
        crew._Speaker(theirs).count(1, None)
    theirs.close()
