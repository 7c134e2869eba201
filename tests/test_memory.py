"""What an optimizer keeps: counted in bytes against torch's own."""

import pytest
import torch
from torch import nn

import camhd

pytestmark = pytest.mark.usefixtures("papers_form")


def net():
    convolutions = nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.Flatten()
    return nn.Sequential(*convolutions, nn.Linear(64 * 4 * 4, 256), nn.Linear(256, 10))


def run(opt, model):
    for _ in range(2):
        opt.zero_grad()
        model(torch.ones(2, 3, 8, 8)).sum().backward()
        opt.step()


def tensors_in(value, seen):
    """Every tensor that is reachable from an object's attributes, containers included."""
    if isinstance(value, torch.Tensor):
        seen[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
    elif isinstance(value, dict):
        for k, v in value.items():
            tensors_in(k, seen)
            tensors_in(v, seen)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for v in value:
            tensors_in(v, seen)
    elif hasattr(value, "__dict__") and type(value).__module__.startswith(("camhd", "torch.optim")):
        tensors_in(vars(value), seen)
    return seen


def state_bytes(opt, model):
    """All bytes that hang on the optimizer, but for parameters and gradients."""
    held = tensors_in(opt, {})
    for p in model.parameters():
        held.pop(p.untyped_storage().data_ptr(), None)
        held.pop(p.grad.untyped_storage().data_ptr(), None)
    return sum(held.values())


def bytes_of(make):
    model = net()
    opt = make(model)
    run(opt, model)
    return state_bytes(opt, model)


@pytest.mark.parametrize("levels", [("global", "layer"), ("global", "filter")])
def test_the_default_rule_keeps_one_tensor_more(levels):
    theirs = bytes_of(lambda m: torch.optim.Adam(m.parameters()))
    ours = bytes_of(lambda m: camhd.Adam(m, levels=levels, hyper_rule="long_horizon"))
    assert 1.49 * theirs <= ours <= 1.52 * theirs


@pytest.mark.parametrize("levels", [("global", "layer"), ("global", "filter")])
def test_two_level_adam_keeps_no_more_than_torchs_adam(levels):
    theirs = bytes_of(lambda m: torch.optim.Adam(m.parameters()))
    ours = bytes_of(lambda m: camhd.Adam(m, levels=levels))
    assert theirs > 2_000_000
    assert ours <= 1.01 * theirs


PER_SCALAR = [  # tensors as large as the parameter, as docs/state.md says
    ("SGD", lambda m: camhd.SGD(m), 1),
    ("momentum", lambda m: camhd.SGD(m, momentum=0.9), 1),
    ("nesterov", lambda m: camhd.SGD(m, momentum=0.9, nesterov=True), 2),
    ("Adam", lambda m: camhd.Adam(m), 2),
    ("AMSGrad", lambda m: camhd.Adam(m, amsgrad=True), 3),
    ("AdamW", lambda m: camhd.AdamW(m), 2),
    ("AdaBound", lambda m: camhd.AdaBound(m), 2),
    ("AMSBound", lambda m: camhd.AdaBound(m, amsbound=True), 3),
    ("multiplicative", lambda m: camhd.Adam(m, hyper_rule="multiplicative"), 2),
    ("network", lambda m: camhd.Adam(m, combine=camhd.combine.Network()), 2),
    ("wrapped SGD", lambda m: camhd.wrap(torch.optim.SGD(m.named_parameters(), lr=0.1)), 1),
    ("wrapped RMSprop", lambda m: camhd.wrap(torch.optim.RMSprop(m.named_parameters(), lr=0.1)), 2),
    ("Adam to the parameter", lambda m: camhd.Adam(m, levels=("global", "layer", "parameter")), 4),
]


@pytest.mark.parametrize(("make", "tensors"), [case[1:] for case in PER_SCALAR], ids=[case[0] for case in PER_SCALAR])
def test_each_configuration_keeps_as_many_tensors_as_documented(make, tensors):
    parameters = 4 * sum(p.numel() for p in net().parameters())
    assert bytes_of(make) / parameters == pytest.approx(tensors, rel=0.01)
