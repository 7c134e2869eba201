"""What torch does around a step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from torch.autograd import profiler
from torch.optim import optimizer as torchs

Step = TypeVar("Step", bound=Callable[..., Any])


def hooked(step: Step) -> Step:
    """A step with torch's hooks and its name in a profile, for nothing where there is neither.

    Torch puts its own wrapper around the step of every optimizer class that has none. For a small network that
    wrapper takes as long as a pass over all parameters, so it is entered only when somebody is listening.
    """
    full = torchs.Optimizer.profile_hook_step(step)

    @functools.wraps(step)
    def light(self: torchs.Optimizer, *args: Any, **options: Any) -> Any:
        if (
            self._optimizer_step_pre_hooks
            or self._optimizer_step_post_hooks
            or torchs._global_optimizer_pre_hooks
            or torchs._global_optimizer_post_hooks
            or profiler._is_profiler_enabled
        ):
            return full(self, *args, **options)
        return step(self, *args, **options)

    wrapped: Any = light
    wrapped.hooked = True  # what torch looks for
    return cast(Step, wrapped)
