"""When to stop early."""

from __future__ import annotations

import math


class EarlyStop:
    """Stops when the validation loss has not been better than its least for some epochs.

    Args:
        patience: how many epochs; None never stops.

    >>> stop = EarlyStop(patience=2)
    >>> [stop.enough(loss) for loss in (1.0, 0.5, 0.6, 0.5)]
    [False, False, False, True]
    """

    def __init__(self, patience: int | None) -> None:
        self._patience = patience
        self._least = math.inf
        self._waited = 0

    def enough(self, loss: float) -> bool:
        """Whether it stops after an epoch with this validation loss."""
        self._waited = 0 if loss < self._least else self._waited + 1
        self._least = min(self._least, loss)
        return self._patience is not None and self._waited >= self._patience

    def state(self) -> list[float]:
        """To go on from."""
        return [self._least, self._waited]

    def load(self, state: list[float]) -> None:
        """Go on from there."""
        self._least, self._waited = state[0], int(state[1])
