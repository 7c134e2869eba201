"""Plain torch on a CPU: parameters go by in pieces, which changes neither the numbers nor what is kept."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

import camhd
from camhd.optim.batches import batches
from camhd.rules import base
from cases import EXACT
from test_backends import CHAINS, FAST, RULES, everything, tensors, train

pytestmark = pytest.mark.usefixtures("papers_form")

SHAPES = [(40, 3), (40,), (1, 50), (7, 2, 3, 3), (), (0, 5), (30, 1)]


def parameters(channels_last=False):
    random = torch.Generator().manual_seed(0)
    values = [torch.randn(shape, generator=random, dtype=torch.float64) for shape in SHAPES]
    if channels_last:
        values = [value.to(memory_format=torch.channels_last) if value.dim() == 4 else value for value in values]
        values[0] = values[0].T.contiguous().T  # columns first
    return [(f"l{i // 2}.{'weight' if i % 2 == 0 else 'bias'}", nn.Parameter(value)) for i, value in enumerate(values)]


def cut(monkeypatch, size):
    """Pieces of so many bytes: rows of the larger tensors each by each, the smaller ones in bunches."""
    monkeypatch.setattr(base, "PIECE", size)


@pytest.mark.alike(3)
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("rule", ["sgd", "momentum", "nesterov", "amsgrad", "adamw", "amsbound"])
def test_pieces_give_the_numbers_of_the_whole(rule, chain, monkeypatch):
    skip = {(3, 0), (4, 3), (5, 0)}
    whole, pieces = [], []
    for found, size in ((whole, 2**21), (pieces, 100)):
        cut(monkeypatch, size)
        named = parameters()
        opt = RULES[rule](named, backend="foreach", **CHAINS[chain])
        train(named, opt, 8, skip=skip)
        found += everything(opt)
    for one, other in zip(whole, pieces, strict=True):
        torch.testing.assert_close(one, other, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("levels", [("global", "unit"), (camhd.levels.Unit(axis="input"),), ("layer", "parameter")])
def test_so_they_do_where_rows_are_not_contiguous(levels, monkeypatch):
    found = []
    for size in (2**21, 100):
        cut(monkeypatch, size)
        named = parameters(channels_last=True)
        opt = camhd.AdamW(named, lr=0.01, levels=levels, backend="foreach", **FAST)
        train(named, opt, 5)
        found.append(everything(opt))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=EXACT, atol=EXACT)


def test_a_wrapped_optimizer_steps_once_however_many_pieces_there_are(monkeypatch):
    found = []
    for size in (2**21, 100):
        cut(monkeypatch, size)
        named = parameters()
        opt = camhd.wrap(torch.optim.RMSprop(named, lr=0.01), levels=("global", "unit"), hyper_lr=1e-4)
        train(named, opt, 5)
        assert all(state["step"] == 5 for state in opt.rule.inner.state.values())
        found.append(everything(opt))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=EXACT, atol=EXACT)


def test_options_may_change_in_mid_training_whatever_the_pieces(monkeypatch):
    """From plain SGD to Nesterov, to momentum and back: other states are made, the last direction lies elsewhere."""
    found = []
    for size in (2**21, 100):
        cut(monkeypatch, size)
        named = parameters()
        opt = camhd.SGD(named, lr=0.05, levels=("global", "unit"), backend="foreach", **FAST)
        for start, (momentum, nesterov) in enumerate([(0.0, False), (0.9, True), (0.9, False), (0.0, False)]):
            opt.param_groups[0] |= {"momentum": momentum, "nesterov": nesterov}
            train(named, opt, 3, start=3 * start)
        found.append(everything(opt))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=EXACT, atol=EXACT)


class Largest(TorchDispatchMode):
    """The largest tensor that operations make, in bytes; what was there before is not counted."""

    def __init__(self, known):
        super().__init__()
        self.known, self.found = {tensor.untyped_storage().data_ptr() for tensor in known}, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for tensor in tree_flatten(made)[0]:
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() not in self.known:
                self.found = max(self.found, tensor.untyped_storage().nbytes())
        return made


@pytest.mark.parametrize("levels", [("global", "layer"), ("global", "unit"), ("global", "layer", "parameter")])
@pytest.mark.parametrize("rule", RULES)
def test_no_operation_makes_a_tensor_larger_than_a_piece(rule, levels, monkeypatch):
    cut(monkeypatch, 4096)
    named = [("l.weight", nn.Parameter(torch.ones(100, 100))), ("l.bias", nn.Parameter(torch.ones(100)))]
    opt = RULES[rule](named, levels=levels, backend="foreach", **FAST)
    train(named, opt, 2)
    known = [tensor for _, p in named for tensor in (p, p.grad, *opt.state[p].values())]
    known += [tensor for leaf in opt.tree.state.leaves for tensor in leaf.tensors().values()]
    with Largest(known) as largest:
        opt.step()
    assert 2048 < largest.found <= 4096


def test_what_is_small_is_not_cut():
    named = tensors(torch.float32)
    opt = camhd.Adam(named, backend="foreach")
    train(named, opt, 1)
    (batch,) = batches(opt)
    assert len(list(batch.pieces(opt.rule.state_names(batch.options)))) == 1


def test_what_a_trace_holds_from_a_step_that_was_cut_short_does_not_count(monkeypatch):
    """Half written, it says nothing: whatever it holds, training goes on as if it were empty."""

    def fail(batches):
        raise KeyboardInterrupt("on purpose")

    ends = []
    for left in (0.0, 7.0):
        named = parameters()[:2]
        opt = camhd.Adam(named, hyper_rule="long_horizon", backend="foreach")
        train(named, opt, 2)
        with monkeypatch.context() as patch:
            patch.setattr(opt.rule, "turn", fail)
            with pytest.raises(KeyboardInterrupt):
                train(named, opt, 1)
        for _, p in named:
            opt.state[p]["trace"].fill_(left)
        train(named, opt, 2)
        ends.append([p.detach() for _, p in named] + [level.rates for level in opt.tree.state.levels])
    assert all(map(torch.equal, *ends))
