"""The options that every camhd optimizer has, besides those of its base rule."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor, nn
from typing_extensions import TypedDict

from ..combine import Combination
from ..hyper import HyperRule
from ..levels import Level

Params: TypeAlias = nn.Module | Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]


class HyperOptions(TypedDict, total=False):
    r"""Keyword options of every camhd optimizer.

    | option | meaning | default |
    |---|---|---|
    | `levels` | the chain of levels, by name or as `camhd.levels` objects, in any order | `("global", "layer")` |
    | `weights` | γ at the start, in the order of `levels` or by name | equal |
    | `hyper_lr` | β: one number, or one for each level (a level that is left out does not learn) | the rule's |
    | `combine_lr` | δ, the paper's "CAM-HD-lr" | the rule's |
    | `combine` | `"normalized"`, `"softmax"`, `"fixed"` or a `camhd.combine` object | `"normalized"` |
    | `hyper_rule` | `"long_horizon"`, `"additive"`, `"multiplicative"` or a `camhd.hyper` object | `"long_horizon"` |
    | `hyper_scale` | β for a group G: `"sum"` β, `"mean"` β/\|G\|, `"size"` β·\|G\| | `"sum"` |
    | `decay` | τ: None for 1, a rate r for exp(−rt), or a function of the step t | None |
    | `lr_limit` | α_∞, where κ goes as τ goes to 0 | lr |
    | `min_lr`, `max_lr` | no rate leaves these bounds | 0, None |
    | `max_change` | no step changes a rate by more than this factor; None for no limit, as in the paper | 2.0 |
    | `maximize` | go up instead of down | False |
    | `schedule` | a torch scheduler scales `"all"` rates, or *is* the `"global"` one | `"all"` |
    | `backend` | `"fused"` CPU kernels, `"foreach"` plain torch, or `"auto"`: fused where it can be | `"auto"` |
    | `restarts` | steps (from 1), or a function of the step, at which all rates start afresh | none |

    The paper's β and δ go with its rule, `hyper_rule="additive"`; `camhd.presets.paper` has all its settings. With
    `"long_horizon"`, β is 1 (how much a param group's evidence counts) and δ is 0.

    `hyper_lr`, `lr_limit`, `max_change` and `maximize` may also stand in a param-group dict, for that group alone.
    """

    levels: Sequence[str | Level]
    weights: Sequence[float] | Mapping[str, float] | None
    hyper_lr: float | Mapping[str, float] | None
    combine_lr: float | None
    combine: str | Combination
    hyper_rule: str | HyperRule | None
    hyper_scale: str
    decay: float | Callable[[int], float] | None
    lr_limit: float | None
    min_lr: float
    max_lr: float | None
    max_change: float | None
    maximize: bool
    schedule: str
    restarts: Collection[int] | Callable[[int], bool]
    backend: str


PER_GROUP = ("hyper_lr", "lr_limit", "max_change", "maximize")
MAX_CHANGE = 2.0  # far above what a step does to a rate unless something is wrong with its batch
TORCHS_OWN = ("foreach", "fused", "capturable", "differentiable")  # how torch.optim carries out a step
WHOLE_TREE = tuple(name for name in HyperOptions.__annotations__ if name not in (*PER_GROUP, "backend"))


class PaperSettings(NamedTuple):
    """β and δ from the paper's table of hyper-parameter settings."""

    hyper_lr: float
    combine_lr: float


def check_known(options: Mapping[str, Any], owner: str) -> None:
    """Refuse an option that does not exist, and name the nearest one."""
    known = list(HyperOptions.__annotations__)
    for name in options:
        if name in TORCHS_OWN:
            raise TypeError(
                f"{owner} has no option {name!r}, got {options[name]!r}; leave it out: how a step is carried out is "
                "chosen by itself, or by 'backend'."
            )
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(known)}."
            raise TypeError(f"{owner} has no option {name!r}; {hint}")
