"""The proposals of a study that any number of processes work on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from .storage import unwarned


class Numbered(BaseSampler):
    """TPE whose random numbers depend on the seed and on the number of the trial alone.

    So no two processes propose the same, a study that is resumed does not repeat itself, and one process alone gives
    the same study again.

    Args:
        seed: of the study.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._inner = self._made(0)

    def _made(self, number: int) -> TPESampler:
        from numpy.random import SeedSequence

        seed = int(SeedSequence([self._seed, number]).generate_state(1)[0])
        with unwarned():
            # Those that others are still working on count as bad ones: there is no sense in doing them twice.
            return TPESampler(seed=seed, multivariate=True, constant_liar=True)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._inner = self._made(trial.number)
        self._inner.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        self._inner.after_trial(study, trial, state, values)
