"""Any other optimizer with learning rates that learn: against our own classes, against autograd, or refused."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

import camhd

pytestmark = pytest.mark.usefixtures("papers_form")

HYPER = 1e-10
FAST = {"hyper_lr": 1e-3, "combine_lr": 0.5}
DEEP = ("global", "layer", "unit", "parameter")


def net(dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype)


def batch(t, dtype=torch.float64):
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(t), dtype=torch.float64).to(dtype)


def train(model, opt, steps, scheduler=None):
    for t in range(steps):
        opt.zero_grad()
        model(batch(t, next(model.parameters()).dtype)).square().mean().backward()
        opt.step()
        if scheduler is not None:
            scheduler.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


NATIVE = {
    "SGD": (lambda p: torch.optim.SGD(p, lr=0.05), lambda m, **o: camhd.SGD(m, lr=0.05, **o)),
    "momentum, L2": (
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.1, weight_decay=0.1),
        lambda m, **o: camhd.SGD(m, lr=0.05, momentum=0.9, dampening=0.1, weight_decay=0.1, **o),
    ),
    "nesterov": (
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
        lambda m, **o: camhd.SGD(m, lr=0.05, momentum=0.9, nesterov=True, **o),
    ),
    "Adam, L2": (
        lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
        lambda m, **o: camhd.Adam(m, lr=0.01, weight_decay=0.1, **o),
    ),
    "AMSGrad": (
        lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
        lambda m, **o: camhd.Adam(m, lr=0.01, amsgrad=True, **o),
    ),
    "AdamW": (
        lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.5),
        lambda m, **o: camhd.AdamW(m, lr=0.01, weight_decay=0.5, **o),
    ),
    "maximize": (
        lambda p: torch.optim.Adam(p, lr=0.01, maximize=True),
        lambda m, **o: camhd.Adam(m, lr=0.01, maximize=True, **o),
    ),
}


@pytest.mark.parametrize("levels", [("global", "layer"), DEEP], ids=["two", "four"])
@pytest.mark.parametrize(("inner", "native"), NATIVE.values(), ids=NATIVE)
def test_a_wrapped_torch_optimizer_is_our_own_class(inner, native, levels):
    ours, theirs = net(), net()
    a = native(ours, levels=levels, **FAST)
    b = camhd.wrap(inner(theirs.parameters()), theirs, levels=levels, **FAST)
    drop = torch.optim.lr_scheduler.ExponentialLR
    expected = train(ours, a, 60, drop(a, 0.97))
    torch.testing.assert_close(train(theirs, b, 60, drop(b, 0.97)), expected, rtol=1e-9, atol=1e-11)
    for name, rate in a.rates()["layer"].items():
        assert b.rates()["layer"][name] == pytest.approx(rate, rel=1e-9)
        assert rate != pytest.approx(a.param_groups[0]["lr0"], rel=1e-3)
    assert b.combination() == pytest.approx(a.combination(), rel=1e-9)


OTHERS = {
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "RMSprop, centered, momentum, L2": lambda p: torch.optim.RMSprop(
        p, lr=0.01, centered=True, momentum=0.5, weight_decay=0.1
    ),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "NAdam, decoupled": lambda p: torch.optim.NAdam(p, lr=0.01, weight_decay=0.3, decoupled_weight_decay=True),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.1),
    "Adadelta": lambda p: torch.optim.Adadelta(p, lr=0.5),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.01, weight_decay=0.1),
    "Adam, L2": NATIVE["Adam, L2"][0],
    "AdamW": NATIVE["AdamW"][0],
}
L2 = {"RMSprop, centered, momentum, L2", "Adamax", "Adam, L2"}


@pytest.mark.parametrize("name", OTHERS)
def test_the_hypergradient_of_a_wrapped_optimizer_is_autograds(name):
    """A twin of the plain torch optimizer gives the direction; autograd differentiates the loss after that move."""
    model, twin = net(), net()
    opt = camhd.wrap(OTHERS[name](model.named_parameters()), levels=("layer",), hyper_lr=1e-3)
    plain = OTHERS[name](twin.parameters())
    decay = plain.param_groups[0].get("weight_decay", 0) if name in L2 else 0
    previous = direction = None
    for t in range(6):
        rates = opt.rates()["layer"]
        before = {n: p.detach().clone() for n, p in model.named_parameters()}
        expected = dict(rates)
        if direction is not None:
            alpha = {n: torch.tensor(r, dtype=torch.float64, requires_grad=True) for n, r in rates.items()}
            moved = {n: previous[n] - alpha[n.split(".")[0]] * direction[n] for n in previous}
            loss = functional_call(model, moved, (batch(t),)).square().mean()
            loss = loss + decay / 2 * sum(p.square().sum() for p in moved.values())
            slopes = torch.autograd.grad(loss, list(alpha.values()))
            expected = {n: rates[n] - 1e-3 * float(h) for n, h in zip(alpha, slopes, strict=True)}
        opt.zero_grad()
        model(batch(t)).square().mean().backward()
        with torch.no_grad():
            for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
                theirs.copy_(ours)
                theirs.grad = ours.grad.clone()
        plain.param_groups[0]["lr"] = 1.0
        plain.step()
        direction = {n: before[n] - p.detach() for n, p in twin.named_parameters()}
        previous = before
        opt.step()
        for layer, rate in opt.rates()["layer"].items():
            change = expected[layer] - rates[layer]
            assert rate - rates[layer] == pytest.approx(change, rel=HYPER, abs=1e-16)
            if t > 1:
                assert change != 0
    assert opt.skipped == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_direction_loses_no_digits_in_low_precision(dtype):
    """With β = δ = 0 the wrapped optimizer is the optimizer itself, up to rounding of its own precision."""
    plain, wrapped = net(dtype), net(dtype)
    expected = train(plain, torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9), 20)
    opt = camhd.wrap(torch.optim.SGD(wrapped.parameters(), lr=0.1, momentum=0.9), hyper_lr=0.0, combine_lr=0.0)
    found = train(wrapped, opt, 20)
    assert (found - expected).abs().max() <= 8 * torch.finfo(dtype).eps


def test_the_wrapped_optimizer_keeps_its_own_lr_and_gets_scheduled_momentum():
    model = net()
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    opt = camhd.wrap(inner, model)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=10)
    seen = []
    for t in range(9):
        opt.zero_grad()
        model(batch(t)).square().mean().backward()
        opt.step()
        seen.append(inner.param_groups[0]["momentum"])
        scheduler.step()
    assert inner.param_groups[0]["lr"] == 0.1
    assert len(set(seen)) > 5, "OneCycleLR cycles the momentum, and the inner optimizer uses it"


def test_an_inner_step_that_fails_gives_parameters_and_lr_back():
    model = net()
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    opt = camhd.wrap(inner, model)
    train(model, opt, 2)
    before = [p.detach().clone() for p in model.parameters()]
    inner.register_step_post_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("broken hook")))
    with pytest.raises(RuntimeError, match="broken hook"):
        train(model, opt, 1)
    assert all(map(torch.equal, before, model.parameters()))
    assert inner.param_groups[0]["lr"] == 0.1


def test_parameters_added_later_reach_the_wrapped_optimizer():
    model, head = net(), nn.Linear(3, 2).double()
    inner = torch.optim.RMSprop(model.named_parameters(), lr=0.01)
    opt = camhd.wrap(inner, **FAST)
    train(model, opt, 2)
    opt.add_param_group(
        {"params": [(f"head.{n}", p) for n, p in head.named_parameters()], "lr": 0.02, "hyper_lr": 1e-3}
    )
    assert len(inner.param_groups) == 2
    before = head.weight.detach().clone()
    for t in range(3):
        opt.zero_grad()
        head(model(batch(t))).square().mean().backward()
        opt.step()
    assert not torch.equal(before, head.weight)
    assert opt.rates()["layer"]["head"] != 0.02


class Clipped(torch.optim.Optimizer):
    """SGD whose steps are clipped, as AdaBound's are."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_((group["lr"] * p.grad).clamp(-0.1, 0.1))


class FixedDecay(Clipped):
    """SGD with a decay that does not go through lr."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.mul_(0.999).sub_(group["lr"] * p.grad)


class Slow(Clipped):
    """SGD that also keeps an average of the weights in its state."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * p.grad)
                self.state[p]["average"] = 0.9 * self.state[p].get("average", p) + 0.1 * p


REFUSED = {
    "LBFGS": (lambda p: torch.optim.LBFGS(p), r"its step\(\) failed on a trial .*closure"),
    "Rprop": (lambda p: torch.optim.Rprop(p), "the state after a step depends on lr"),
    "ASGD": (lambda p: torch.optim.ASGD(p), "(is not .* times the step|depends on lr)"),
    "Adafactor": (lambda p: torch.optim.Adafactor(p), "is not .* times the step"),
    "SparseAdam": (lambda p: torch.optim.SparseAdam(list(p)), "failed on a trial with dense gradients"),
    "clipped": (lambda p: Clipped(p, 0.01), "is not .* times the step"),
    "fixed decay": (lambda p: FixedDecay(p, 0.01), "is not .* times the step"),
    "averaging": (lambda p: Slow(p, 0.01), "the state after a step depends on lr"),
}


@pytest.mark.parametrize(("inner", "message"), REFUSED.values(), ids=REFUSED)
def test_an_optimizer_that_is_not_linear_in_lr_is_refused_with_the_reason(inner, message):
    model = net()
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(ValueError, match=rf"wrap\(\).*{message}"):
        camhd.wrap(inner(model.parameters()))
    assert all(map(torch.equal, before, model.parameters())), "trials do not touch the model"


def test_trials_leave_the_optimizer_and_its_hooks_alone():
    model, calls = net(), []
    inner = torch.optim.Adam(model.parameters(), lr=0.01)
    inner.register_step_pre_hook(lambda *_: calls.append(1))
    torch.optim.lr_scheduler.StepLR(inner, 2)  # patches inner.step
    camhd.wrap(inner)
    assert not calls
    assert not inner.state


@pytest.mark.parametrize(
    ("argument", "message"),
    [(lambda m: camhd.Adam(m), "learn already"), (lambda m: m, "needs a torch.optim.Optimizer, got Sequential")],
)
def test_wrapping_what_is_no_plain_optimizer_is_a_type_error(argument, message):
    with pytest.raises(TypeError, match=message):
        camhd.wrap(argument(net()))


def test_a_model_that_does_not_own_the_parameters_is_refused():
    with pytest.raises(ValueError, match="'model' must own all parameters"):
        camhd.wrap(torch.optim.Adam(net().parameters()), net())
