"""`torch.compile(opt.step)` on plain torch: one graph, compiled for good after three steps, the same numbers."""

import shutil

import pytest
import torch
import torch._dynamo as dynamo
from torch import nn

import camhd
from cases import CLOSE, HYPER

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),  # torch's own, when it compiles
    pytest.mark.usefixtures("papers_form"),
]

RULES = {
    "sgd": lambda p, **o: camhd.SGD(p, weight_decay=0.01, **o),
    "nesterov": lambda p, **o: camhd.SGD(p, momentum=0.9, nesterov=True, **o),
    "adam": lambda p, **o: camhd.Adam(p, **o),
    "amsgrad": lambda p, **o: camhd.Adam(p, amsgrad=True, maximize=True, **o),
    "adamw": lambda p, **o: camhd.AdamW(p, weight_decay=0.3, **o),
    "adabound": lambda p, **o: camhd.AdaBound(p, gamma=0.01, **o),
    "amsbound": lambda p, **o: camhd.AdaBound(p, amsbound=True, final_lr=2.0, bounds="paper", decay_bound="sqrt", **o),
}
TWO, UNITS, THREE = ("global", "layer"), ("global", "unit"), ("global", "layer", "parameter")
ADDITIVE, COSINE = {"hyper_lr": 1e-3, "combine_lr": 1.0}, {"hyper_rule": "multiplicative", "combine_lr": 1.0}
CHAINS = {
    "two": {"levels": TWO, **ADDITIVE},
    "units": {"levels": UNITS, **ADDITIVE},
    "three": {"levels": THREE, **ADDITIVE},
    "cosine": {"levels": UNITS, **COSINE},
    "cosine-three": {"levels": THREE, **COSINE},
}
FORMS = {
    "decay": {"levels": THREE, "decay": 0.01, "lr_limit": 0.02, **ADDITIVE},
    "own decay": {"decay": lambda t: 1 / (1 + t / 100), **ADDITIVE},
    "softmax": {"combine": "softmax", **ADDITIVE},
    "mean": {"hyper_scale": "mean", **ADDITIVE},
    "per-layer": {"combine": camhd.combine.PerLayer(), "levels": THREE, **ADDITIVE},
    "network": {"combine": camhd.combine.Network(), "levels": THREE, **ADDITIVE},
    "regularized": {"combine": camhd.combine.Regularized(1e2), "levels": THREE, "hyper_lr": 1e-3},
    "schedule": {"schedule": "global", **ADDITIVE},
}
QUICK = [("sgd", "three"), ("nesterov", "cosine"), ("adam", "two"), ("adamw", "cosine-three"), ("adabound", "units")]
MAIN = ("sgd", "nesterov", "adam", "adamw", "adabound")
EVERY = [*((rule, chain) for rule in MAIN for chain in CHAINS), ("amsgrad", "units"), ("amsbound", "three")]
# Of these, some in which every rule and every chain is met; the others are thorough.
SOME = [
    *((rule, chain) for i, rule in enumerate(MAIN) for j, chain in enumerate(CHAINS) if (i + j) % 5 == 0),
    *EVERY[-2:],
]
REST = [pytest.param(*case, marks=[] if case in SOME else pytest.mark.thorough) for case in EVERY if case not in QUICK]
TOLERANCE = {torch.float64: HYPER, torch.float32: CLOSE}


class Trainer:
    """An optimizer with a scheduler whose steps are compiled in one graph, or not compiled (`backend=None`)."""

    def __init__(self, make, backend="eager", dtype=torch.float64, lr=None, **options):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Conv2d(1, 3, 2), nn.Linear(4, 2, bias=False)).to(dtype)
        lr = torch.tensor(0.01) if lr is None else lr  # a tensor, as torch asks for with a scheduler
        self.opt = make(self.model, lr=lr, backend="foreach", **options)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, T_max=80)
        self.step = torch.compile(self.opt.step, backend=backend, fullgraph=True) if backend else self.opt.step
        self.steps = 0

    def train(self, steps):
        for _ in range(steps):
            self.steps += 1
            random = torch.Generator().manual_seed(self.steps)
            for param in self.model.parameters():
                noise = torch.randn(param.shape, generator=random, dtype=torch.float64).to(param)
                param.grad = 0.1 * param.detach() + 0.02 * noise
            self.step()
            self.scheduler.step()

    def everything(self):
        state = self.opt.tree.state
        rates = [level.rates for level in state.all_levels()]
        return [*rates, *state.weights.values(), *(param.detach() for param in self.model.parameters())]


def compilations():
    return dynamo.utils.counters["stats"]["unique_graphs"]


def assert_compiled_for_good(make, backend="eager", dtype=torch.float64, **options):
    """A graph break is an error of torch's (`fullgraph`), a late compilation is ours."""
    dynamo.reset()
    dynamo.utils.counters.clear()
    plain, compiled = Trainer(make, None, dtype, **options), Trainer(make, backend, dtype, **options)
    compiled.train(3)
    before = compilations()
    assert 1 <= before <= 3
    compiled.train(47)
    assert compilations() == before, "compiled again after the third step"
    plain.train(50)
    for one, other in zip(compiled.everything(), plain.everything(), strict=True):
        torch.testing.assert_close(one, other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * float(other.abs().max()))
    level = plain.opt.tree.state.all_levels()[-1]
    assert ((level.rates / level.starts - 1).abs() > 1e-3).any(), "the rates hardly learn, so that they prove nothing"
    assert compiled.opt.skipped == plain.opt.skipped == 0


@pytest.mark.parametrize(("rule", "chain"), QUICK)
def test_a_step_is_one_graph_compiled_for_good_and_gives_the_same_numbers(rule, chain):
    assert_compiled_for_good(RULES[rule], **CHAINS[chain])


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "chain"), REST)
def test_so_it_is_for_every_rule_and_chain(rule, chain):
    assert_compiled_for_good(RULES[rule], **CHAINS[chain])


@pytest.mark.alike(4)
@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_so_it_is_for_every_form(form):
    assert_compiled_for_good(RULES["adam"], **FORMS[form])


@pytest.mark.parametrize("rule", ["nesterov", "adam"])
def test_in_float32_too(rule):
    assert_compiled_for_good(RULES[rule], backend="aot_eager", dtype=torch.float32, **CHAINS["units"])


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch's own compiler needs g++ on a CPU")
def test_with_torchs_own_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert_compiled_for_good(RULES["adam"], backend="inductor", dtype=torch.float32, **CHAINS["three"])


def test_param_groups_of_different_lr_are_compiled():
    def make(model, lr, **options):
        convolution, linear = model
        groups = [{"params": convolution.parameters()}, {"params": linear.parameters(), "lr": 2 * lr}]
        return camhd.AdamW(groups, lr=lr, weight_decay=0.1, **options)

    assert_compiled_for_good(make, **CHAINS["units"])


def test_a_restart_is_compiled_once_more_and_no_more():
    dynamo.reset()
    dynamo.utils.counters.clear()
    trainer = Trainer(RULES["adam"], restarts=(5,), **CHAINS["two"])
    trainer.train(4)
    before = compilations()
    trainer.train(1)
    assert compilations() == before + 1
    assert (trainer.opt.tree.state.levels[0].rates == trainer.opt.tree.state.levels[0].starts).all()
    trainer.train(10)
    assert compilations() == before + 1


@pytest.mark.parametrize("kind", ["foreach", "auto"])
def test_compiled_steps_and_others_may_take_turns(kind):
    """What is compiled is plain torch, whatever the backend; between such steps the kernels are as welcome."""
    plain, mixed = Trainer(RULES["adamw"], None, **CHAINS["three"]), Trainer(RULES["adamw"], **CHAINS["three"])
    mixed.opt.backend = camhd.backends.select.Backend(kind)
    plain.train(6)
    mixed.train(2)
    compiled, mixed.step = mixed.step, mixed.opt.step
    mixed.train(2)
    mixed.step = compiled
    mixed.train(2)
    for one, other in zip(mixed.everything(), plain.everything(), strict=True):
        torch.testing.assert_close(one, other, rtol=HYPER, atol=HYPER)


class Broken(camhd.hyper.Additive):
    """A hyper rule that breaks the graph."""

    def update(self, rates, pull, state):
        dynamo.graph_break()
        return super().update(rates, pull, state)


def test_this_file_sees_a_graph_break():
    with pytest.raises(dynamo.exc.Unsupported, match="graph_break"):
        assert_compiled_for_good(RULES["sgd"], levels=TWO, hyper_rule=Broken(), hyper_lr=1e-4)


def test_this_file_sees_a_late_compilation():
    with pytest.raises(AssertionError, match="compiled again after the third step"):
        assert_compiled_for_good(RULES["sgd"], decay=lambda t: 1.0 if t < 10 else 0.5, **CHAINS["two"])


def test_a_scheduler_still_notices_a_missing_step():
    """Our `step` tells the scheduler itself, so that it need not be wrapped in what torch.compile does not follow."""
    trainer = Trainer(RULES["sgd"], None)
    with pytest.warns(UserWarning, match=r"before `optimizer.step\(\)`"):
        trainer.scheduler.step()
    trainer = Trainer(RULES["sgd"], None)
    trainer.train(2)  # no warning
