"""Is it the same? Numbers, tensors, nested dicts of them, and whole optimizers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from cases import EXACT
from reference import Reference


def close(got: Any, want: Any, rtol: float = EXACT) -> None:
    """Equal but for the last digits of the largest number."""
    got, want = (torch.as_tensor(x, dtype=torch.float64).detach() for x in (got, want))
    torch.testing.assert_close(got, want, rtol=rtol, atol=rtol * float(want.abs().max()) if want.numel() else 0.0)


def flat(rates: Any) -> Tensor:
    """All rates of one level, in a row."""
    if isinstance(rates, dict):
        return torch.cat([flat(value) for value in rates.values()])
    return torch.as_tensor(rates, dtype=torch.float64).flatten()


def assert_alike(got: Any, want: Any, where: str = "") -> None:
    """Nested dicts of numbers and tensors, equal but for the last digits of the largest number in each leaf."""
    if isinstance(want, Mapping):
        assert list(got) == list(want), where
        for key in want:
            assert_alike(got[key], want[key], f"{where}[{key!r}]")
        return
    got, want = (torch.as_tensor(x, dtype=torch.float64).detach() for x in (got, want))
    assert got.shape == want.shape, where
    size = float(want.abs().max())
    torch.testing.assert_close(got, want, rtol=EXACT, atol=EXACT * size, msg=lambda m: f"{where}: {m}")


def assert_same_state(optimizer: Any, model: nn.Module, reference: Reference, other: nn.Module) -> None:
    assert_alike(dict(model.named_parameters()), dict(other.named_parameters()), "parameters")
    assert_alike(optimizer.rates(), reference.rates(), "rates")
    assert optimizer.skipped == reference.skipped
    if hasattr(reference.combine, "gamma"):
        assert_alike(optimizer.combination(), reference.combination(), "combination")
    elif reference.combine.state:
        assert_alike(dict(sorted(optimizer.combination_state().items())), dict(sorted(reference.combine.state.items())))
