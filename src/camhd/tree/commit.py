"""Writing down what a step has learned: all of it, or none.

A step learns in a draft, a copy of the tree's state. When everything is computed, one `Commit` brings the draft into
the state. An error or a Ctrl-C may come between any two lines of that, too; so the tree holds the commit until it is
through, and whoever looks at the state next, be it a reader or the next step, first brings it to its end. That is
safe because every line of it may be carried out twice.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

from .state import TreeState


class Pending(Protocol):
    """Something begun that must be brought to its end before anybody looks at the tree."""

    def finish(self) -> None:
        """Carry it out, or take it back. May be called any number of times."""


class Commit:
    """The draft's numbers into the state; in place, because the kernels of the fused backend know the addresses.

    Args:
        state: the tree's.
        draft: what it is to be.
    """

    def __init__(self, state: TreeState, draft: TreeState) -> None:
        self.state, self.draft = state, draft

    def finish(self) -> None:
        """Write everything."""
        state, draft = self.state, self.draft
        torch._foreach_copy_(state.vectors(), draft.vectors())
        for write in draft.later:
            write.carry_out()
        state.step, state.last_moves, state.moved = draft.step, draft.last_moves, draft.moved


class Whole:
    """Something with a tree's state that nobody sees half-written.

    Args:
        state: the first one.
    """

    def __init__(self, state: TreeState) -> None:
        self._state = state
        self._pending: Pending | None = None

    @property
    def state(self) -> TreeState:
        """What has been learned. What a step cut short has begun to write is first written to the end."""
        if self._pending is not None:
            self.settle()
        return self._state

    @property
    def unsettled(self) -> TreeState:
        """The state as it is in the middle of a step that has promised to bring it to an end."""
        return self._state

    def promise(self, pending: Pending | None) -> None:
        """From here on, nobody sees the state before this is finished; None: it need not be finished."""
        self._pending = pending

    def settle(self) -> None:
        """Bring to its end what was begun."""
        if self._pending is not None:
            self._pending.finish()
            self._pending = None

    def _commit(self, draft: TreeState) -> None:
        commit = Commit(self._state, draft)
        if torch.compiler.is_compiling():  # the whole step is one graph
            commit.finish()
            return
        self.promise(commit)
        self.settle()

    def __getstate__(self) -> dict[str, Any]:
        self.settle()
        return dict(self.__dict__)
