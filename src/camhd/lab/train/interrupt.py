"""Ctrl-C ends a run between two steps, where its state is whole; whoever started other processes decides for them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

# Which handlers may be replaced: those that nobody has set.
_DEFAULTS: dict[signal.Signals, Callable[[int, FrameType | None], Any] | signal.Handlers] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}


class Interrupt:
    """While this is open, the first SIGINT or SIGTERM is only remembered; the second acts as usual.

    It does nothing in a thread (signals go to the main one), nor to a signal that has a handler already.
    """

    def __init__(self) -> None:
        self._caught: int | None = None
        self._mine: list[signal.Signals] = []

    def __bool__(self) -> bool:
        return self._caught is not None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._mine = [number for number, usual in _DEFAULTS.items() if signal.getsignal(number) == usual]
            for number in self._mine:
                signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    def raise_now(self) -> None:
        """End the process's work as the signal asked for."""
        if self._caught == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM)
        raise KeyboardInterrupt

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self._caught = number
        self._let_go()

    def _let_go(self) -> None:
        for number in self._mine:
            signal.signal(number, _DEFAULTS[number])
        self._mine = []


@contextmanager
def unheard() -> Iterator[None]:
    """Processes that are started here do not hear Ctrl-C: it goes to all of a terminal's, but one of them decides.

    That one hears it when this ends, or at once where another of its threads takes it. (They inherit what is held
    back, as they would inherit what is ignored; but a Ctrl-C that is ignored is lost.)
    """
    hold = getattr(signal, "pthread_sigmask", None)  # not on Windows
    if hold is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = hold(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        hold(signal.SIG_SETMASK, before)


def heard() -> None:
    """A process that was started `unheard` hears Ctrl-C from now on, as any other does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
