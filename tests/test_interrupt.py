"""Ctrl-C while processes are being started, or while the command is being imported, is neither lost nor a traceback."""

from __future__ import annotations

import builtins
import subprocess
import sys

import pytest

from camhd.cli.app import main
from camhd.lab.train.interrupt import unheard

HOLDS = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
LATER = """
import os, signal
from camhd.lab.train.interrupt import unheard
try:
    with unheard():
        os.kill(os.getpid(), signal.SIGINT)
        print("the end")
except KeyboardInterrupt:
    print("heard")
print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""
HEARS = """
import os, signal
from camhd.lab.train.interrupt import heard
heard()
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("heard")
"""


def test_a_ctrl_c_while_processes_start_is_not_lost():
    """At the end of it, or at once where another thread of the process takes it."""
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["heard", "False"]


def test_processes_that_are_started_meanwhile_do_not_hear_it():
    with unheard():
        inside = subprocess.run([sys.executable, "-c", HOLDS], capture_output=True, text=True, check=True)
    outside = subprocess.run([sys.executable, "-c", HOLDS], capture_output=True, text=True, check=True)
    assert (inside.stdout.strip(), outside.stdout.strip()) == ("True", "False")


def test_a_process_can_choose_to_hear_it_again():
    with unheard():
        done = subprocess.run([sys.executable, "-c", HEARS], capture_output=True, text=True, check=True)
    assert done.stdout == "heard\n"


def test_a_ctrl_c_while_the_command_is_imported_says_nothing(monkeypatch, capsys):
    real = builtins.__import__

    def interrupted(name, *arguments, **others):
        if name == "commands":
            raise KeyboardInterrupt
        return real(name, *arguments, **others)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "")
