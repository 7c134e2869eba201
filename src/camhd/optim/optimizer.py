"""The torch optimizer that joins a base rule, a tree of learning rates and a backend."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..backends import Backend
from ..levels import Layout, lay_out, owners_of, slots_of
from ..rules import Rule
from ..tree import (
    GroupRates,
    RateTree,
    Shards,
    TreeConfig,
    check_hyper_lr,
    check_max_change,
    check_number,
    find_shards,
    local,
    localize,
)
from . import averaging, checkpoint
from .batches import batches, real
from .hooks import hooked
from .options import MAX_CHANGE, PER_GROUP, WHOLE_TREE, HyperOptions, PaperSettings, Params, check_known
from .refused import check_group, check_lr, check_params, check_start, refuse_flattened, refuse_zero
from .show import describe


class Optimizer(torch.optim.Optimizer):
    """A base rule whose learning rates learn; see `camhd.Adam` and its siblings.

    Args:
        params: a module, named parameters, parameters, or param-group dicts.
        rule: the base rule.
        base: the base rule's own options and `lr`, as defaults of every param group.
        options: what all camhd optimizers have (`HyperOptions`).
        paper: β and δ where `options` does not say.
        model: the module that owns the parameters, if `params` is not that module itself.
    """

    _averaged = False  # whether the parameters are their averages now

    def __init__(
        self,
        params: Params,
        rule: Rule,
        base: dict[str, Any],
        options: HyperOptions,
        paper: PaperSettings,
        model: nn.Module | None = None,
    ) -> None:
        check_known(options, type(self).__name__)
        refuse_zero(type(self).__name__)
        settings: dict[str, Any] = {name: value for name, value in options.items() if name in WHOLE_TREE}
        config = TreeConfig.make(**settings, default_combine_lr=paper.combine_lr)
        hyper_lr = options.get("hyper_lr")
        if hyper_lr is None:
            hyper_lr = paper.hyper_lr if config.hyper_rule.hyper_lr is None else config.hyper_rule.hyper_lr
        defaults = {
            "maximize": options.get("maximize", False),
            **base,
            "hyper_lr": hyper_lr,
            "lr_limit": options.get("lr_limit"),
            "max_change": options.get("max_change", MAX_CHANGE),
        }
        self.rule, self.config, self.backend = rule, config, Backend(options.get("backend", "auto"))
        self.tree: RateTree | None = None
        self._averaged = False
        if isinstance(params, nn.Module):
            model, params = params, params.named_parameters()
        self._owners = None if model is None else owners_of(model)
        check_params(params, type(self).__name__)
        super().__init__(params, defaults)
        layout = self._lay_out()
        betas = [self._rates_of(self.param_groups[0]).beta(name) for name in layout.names]
        config.combine.check(layout.names, betas)
        self.tree = RateTree(config, layout, self._lr0s(), float(defaults["lr"]), self._all_params())

    # ------------------------------------------------------------------ torch's contract

    @hooked
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step. With a closure, it is called first and its loss returned."""
        if self._averaged:
            raise RuntimeError(
                "the weights are their averages inside `with optimizer.averaged()`, and a step from there would be "
                "lost; leave the block before you call step()."
            )
        loss = None
        if closure is not None:
            if not callable(closure):
                raise TypeError(f"step() takes a function that gives the loss, got {closure!r}; leave it out.")
            with torch.enable_grad():
                loss = closure()
        self.backend.step(
            self.rule, self._tree, self.param_groups, self.state, self._group_rates, partial(batches, self)
        )
        return loss

    # A torch scheduler wraps `step` to note that it was called, in code that torch.compile does not follow. The tree
    # knows that anyway; this says so in the scheduler's own words. A torch with other words wraps `step` as ever.
    step.__dict__["_wrapped_by_lr_sched"] = True

    @property
    def _opt_called(self) -> bool:
        return self._tree.state.step > 0

    @_opt_called.setter
    def _opt_called(self, called: bool) -> None:
        """Who sets it has called `step`."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; in mid-training too, and what was learned so far stays."""
        check_group(param_group, type(self).__name__)
        known, tree = len(self.param_groups), self.tree
        before = None if tree is None else (tree.cells, tree.state)
        try:
            super().add_param_group(param_group)
            self._admit(self.param_groups[-1])
            if tree is not None:
                tree.grow(self._lay_out(), self._lr0s(), self._all_params())
        except BaseException:
            del self.param_groups[known:]
            if tree is not None and before is not None:
                tree.adopt(*before)
            raise

    def state_dict(self) -> dict[str, Any]:
        """The whole state: torch's, with every parameter's rates in its state and a header in the first group."""
        return checkpoint.save(self, super().state_dict)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved state. Anything wrong with it is an error, and this optimizer stays as it was."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict() takes a dict that state_dict() gave, got {type(state_dict).__name__}.")
        state_dict = dict(state_dict)
        before, after = self._optimizer_load_state_dict_pre_hooks, self._optimizer_load_state_dict_post_hooks
        for hook in before.values():
            result = hook(self, state_dict)
            state_dict = state_dict if result is None else dict(result)
        try:  # torch's own part without them: some have run, and the others should see the whole
            self._optimizer_load_state_dict_pre_hooks = OrderedDict()
            self._optimizer_load_state_dict_post_hooks = OrderedDict()
            checkpoint.load(self, state_dict, super().load_state_dict)
        finally:
            self._optimizer_load_state_dict_pre_hooks, self._optimizer_load_state_dict_post_hooks = before, after
        for post_hook in after.values():
            post_hook(self)

    def __getstate__(self) -> dict[str, Any]:
        ours = {name: getattr(self, name) for name in ("rule", "config", "tree", "backend", "_owners")}
        return {**super().__getstate__(), **ours}

    # ------------------------------------------------------------------ reading

    @property
    def _tree(self) -> RateTree:
        assert self.tree is not None
        return self.tree

    @property
    def _shards(self) -> Shards | None:
        """How the parameters are divided over processes, if they are."""
        divided = self._tree.cells.divided
        return None if divided is None else divided.shards

    def rates(self) -> dict[str, Any]:
        """The learned rates now, by level and name, root first.

        One number for each global, group, block, layer or gate; a tensor for the units of a layer and
        for the scalars of a parameter (a DTensor, where the parameter is one). What a scheduler or `decay`
        make of them is not included. A rate that param groups of different lr share is given as it is for
        the optimizer's own lr.
        """
        return self._tree.rates(self._group_rates())

    def combination(self) -> dict[str, Any]:
        """The weights γ now, by level; by layer and level where each layer has its own."""
        return dict(self._tree.combination())

    def combination_state(self) -> dict[str, Tensor]:
        """All that the combination has learned, as tensors (the weights of a `camhd.combine.Network`, say)."""
        return {name: value.clone() for name, value in self._tree.state.weights.items()}

    @property
    def skipped(self) -> int:
        """At how many steps the hypergradient was not finite, so that rates and γ stayed as they were."""
        return int(self._tree.state.skipped)

    @property
    def can_average(self) -> bool:
        """Whether `averaged` and `averaged_parameters` work: with the default rule, on any optimizer but AdaBound."""
        return averaging.available(self)

    def averaged(self) -> AbstractContextManager[None]:
        """Weights averaged over the last few hundred steps, to be evaluated or saved: nearly always better ones.

        θ̄ = θ + a (1 − ρᵏ) κ D, κ D being the way back to the exponential average of all weights up to the last step.

        Inside the block the parameters are their averages; afterwards they are to the bit what they were, and training
        goes on as if nothing had been. What is written to them inside is lost, and `step` is refused. If the model has
        batch norms, let them see some batches first (`torch.optim.swa_utils.update_bn`): their statistics are those
        of the weights that are trained.

        >>> import camhd
        >>> model = torch.nn.Linear(4, 2)
        >>> opt = camhd.Adam(model)
        >>> with opt.averaged():
        ...     score = model(torch.ones(3, 4)).sum()
        """
        return averaging.swapped(self)

    def averaged_parameters(self) -> list[Tensor]:
        """The same weights as new tensors, one for each parameter, in the order of the param groups."""
        return averaging.averages(self)

    def restart(self) -> None:
        """All rates start afresh; γ and the base rule's state stay."""
        self._tree.restart()

    def __repr__(self) -> str:
        return describe(self)

    # ------------------------------------------------------------------ inside

    def _admit(self, group: dict[str, Any]) -> None:
        """Check a new param group and note its first lr."""
        for name in WHOLE_TREE:
            if name in group and name not in self.rule.own_options():
                raise ValueError(
                    f"'{name}' holds for the whole tree and cannot be set for one param group, got {group[name]!r}; "
                    f"pass it to the optimizer. A group may have its own {', '.join(PER_GROUP)}."
                )
        refuse_flattened(group["params"], type(self).__name__)
        self._check_options(group)
        check_start(group["lr"])
        group["lr0"] = float(group["lr"])
        group["last_move"] = None
        low, high = self.config.min_lr, self.config.max_lr
        if group["lr0"] < low or (high is not None and group["lr0"] > high):
            raise ValueError(f"'lr' must lie within [min_lr, max_lr] = [{low}, {high}], got {group['lr0']}.")
        first = self.param_groups[0]["hyper_lr"]
        if self.config.combine.settles and group["hyper_lr"] != first:
            raise ValueError(
                f"'hyper_lr' must be the same in all param groups with regularised rates, whose pull depends on it, "
                f"got {first} and {group['hyper_lr']}."
            )

    def _check_options(self, group: Mapping[str, Any]) -> None:
        """Say what is wrong with a param group's options, if anything is."""
        check_lr(group["lr"])
        limit = group["lr_limit"]
        if limit is not None:
            check_number("lr_limit", limit)
        if limit is not None and not 0 <= limit < math.inf:
            raise ValueError(f"'lr_limit' must be 0 or more and finite, or None for lr, got {limit}.")
        check_hyper_lr(group["hyper_lr"], [level.name for level in self.config.levels])
        check_max_change(group.get("max_change"))
        self.rule.check(group)

    def _rates_of(self, group: Mapping[str, Any]) -> GroupRates:
        limit = group["lr0"] if group["lr_limit"] is None else group["lr_limit"]
        return GroupRates(group["lr"], group["lr0"], limit, group["hyper_lr"], group.get("max_change"))

    def _group_rates(self) -> list[GroupRates]:
        return [self._rates_of(group) for group in self.param_groups]

    def _lr0s(self) -> list[float]:
        return [group["lr0"] for group in self.param_groups]

    def _all_params(self) -> list[Tensor]:
        """What this process has of each parameter."""
        return [real(local(p.detach())) for group in self.param_groups for p in group["params"]]

    def _lay_out(self) -> Layout:
        """Who shares a rate with whom; of parameters that are divided over processes, this process's part."""
        shards = find_shards(self.param_groups)
        layout = lay_out(self.config.levels, slots_of(self.param_groups, self._owners))
        return layout if shards is None else localize(layout, shards)
