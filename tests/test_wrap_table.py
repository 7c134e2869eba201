"""`camhd.wrap` over every optimizer in torch.optim and over those of other packages: autograd agrees, or it is refused.

Neither oracle knows our code. `goes_straight` steps the plain optimizer through the same points with one learning rate
and with changing ones: is each step proportional to its own, and the next one unchanged? `torch.autograd`
differentiates the loss after the move that a plain twin with lr = 1 makes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

import camhd
from cases import HYPER

NOT_LINEAR = r"(is not .* times the step|the state after a step depends on lr)"
CLOSURE = r"its step\(\) failed on a trial with dense gradients and no closure"
BETA = 1e-3
STEPS = 9

Make = Callable[[Any], torch.optim.Optimizer]


@dataclass(frozen=True)
class Row:
    """An optimizer, and what `wrap` must say of it: a reason, or nothing."""

    make: Make
    refused: str = ""
    l2: float = 0.0  # its decay is L2, and so part of the gradient
    bias: bool = True


def of_torch(name: str, refused: str = "", l2: float = 0.0, bias: bool = True, **options: Any) -> Row:
    return Row(lambda params: getattr(torch.optim, name)(params, **options), refused, l2, bias)


TORCH = {
    "Adadelta": of_torch("Adadelta", lr=0.5),
    "Adafactor": of_torch("Adafactor", NOT_LINEAR, lr=0.01),  # min(lr, 1/√t)
    "Adagrad": of_torch("Adagrad", lr=0.05, lr_decay=0.1),
    "Adam": of_torch("Adam", l2=0.1, lr=0.01, weight_decay=0.1),
    "AdamW": of_torch("AdamW", lr=0.01, weight_decay=0.5, amsgrad=True),
    "Adamax": of_torch("Adamax", l2=0.1, lr=0.01, weight_decay=0.1),
    "ASGD": of_torch("ASGD", NOT_LINEAR, lr=0.01),  # keeps an average of the weights
    "LBFGS": of_torch("LBFGS", CLOSURE, lr=0.1),
    "Muon": of_torch("Muon", bias=False, lr=0.01),
    "NAdam": of_torch("NAdam", lr=0.01, weight_decay=0.3, decoupled_weight_decay=True),
    "RAdam": of_torch("RAdam", lr=0.01),
    "RMSprop": of_torch("RMSprop", l2=0.1, lr=0.01, centered=True, momentum=0.5, weight_decay=0.1),
    "Rprop": of_torch("Rprop", NOT_LINEAR, lr=0.01),  # its step sizes only begin at lr
    "SGD": of_torch("SGD", l2=0.1, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1),
    "SparseAdam": of_torch("SparseAdam", CLOSURE, lr=0.01),
}


def _package(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name}, whose optimizers are wrapped, is not installed")


def of_pypi(name: str, refused: str = "", l2: float = 0.0, bias: bool = True, **options: Any) -> Row:
    """From `pytorch_optimizer`, or from `package.Name`."""
    package, _, kind = f"pytorch_optimizer.{name}".rpartition(".")
    package = package.removeprefix("pytorch_optimizer.") if "." in name else package

    def make(params: Any) -> torch.optim.Optimizer:
        found: torch.optim.Optimizer = getattr(_package(package), kind)(params, **options)
        return found

    return Row(make, refused, l2, bias)


def muon_and_adam(params: Iterable[tuple[str, Tensor]]) -> torch.optim.Optimizer:
    """As it is used: matrices by Muon, the rest by AdamW."""
    muon = _package("pytorch_optimizer").Muon
    named = dict(params)
    groups = [[p for p in named.values() if (p.dim() > 1) is wanted] for wanted in (True, False)]
    made: torch.optim.Optimizer = muon(
        [{"params": groups[0], "use_muon": True}, {"params": groups[1], "use_muon": False}], lr=0.01, adamw_lr=0.01
    )
    return made


def lookahead(params: Any) -> torch.optim.Optimizer:
    found: torch.optim.Optimizer = _package("pytorch_optimizer").Lookahead(torch.optim.SGD(params, lr=0.1))
    return found


PYPI = {
    "AdaBelief": of_pypi("AdaBelief", lr=0.01, weight_decay=0.1),
    "AdaBound": of_pypi("AdaBound", lr=0.01),  # its released code scales both bounds with lr
    "Adan": of_pypi("Adan", lr=0.01),
    "AdamP": of_pypi("AdamP", lr=0.01),
    "DiffGrad": of_pypi("DiffGrad", lr=0.01),
    "Lamb": of_pypi("Lamb", lr=0.01),
    "LARS": of_pypi("LARS", lr=0.1),
    "Lion": of_pypi("Lion", lr=0.001, weight_decay=0.1),
    "Muon": Row(muon_and_adam),
    "NovoGrad": of_pypi("NovoGrad", lr=0.01),
    "RAdam": of_pypi("RAdam", lr=0.01),
    "SGDW": of_pypi("SGDW", lr=0.01, momentum=0.9, weight_decay=0.1),
    "SOAP, no decay": of_pypi("SOAP", lr=0.01, weight_decay=0.0),
    "Shampoo": of_pypi("Shampoo", lr=0.01),
    "Tiger": of_pypi("Tiger", lr=0.001),
    "Yogi": of_pypi("Yogi", lr=0.01),
    "AdaFactor": of_pypi("AdaFactor", NOT_LINEAR, lr=0.01),
    "AdaHessian": of_pypi("AdaHessian", r"its step\(\) failed on a trial", lr=0.01),
    "AdaMod": of_pypi("AdaMod", NOT_LINEAR, lr=0.01),
    "D-Adaptation": of_pypi("dadaptation.DAdaptAdam", NOT_LINEAR, lr=1.0),
    "LaProp": of_pypi("LaProp", NOT_LINEAR, lr=0.01),
    "Lookahead": Row(lookahead, "it steps another optimizer, its 'optimizer'; wrap that one instead"),
    "MADGRAD": of_pypi("MADGRAD", NOT_LINEAR, lr=0.01),
    "Prodigy": of_pypi("prodigyopt.Prodigy", NOT_LINEAR, lr=1.0),
    "Ranger": of_pypi("Ranger", NOT_LINEAR, lr=0.01),  # Lookahead, at every sixth step
    "Schedule-Free": of_pypi("ScheduleFreeAdamW", NOT_LINEAR, lr=0.01),
    "SOAP, decay": of_pypi("SOAP", NOT_LINEAR, lr=0.01, weight_decay=0.1),  # decays after it has moved
    "A2Grad": of_pypi("A2Grad", "needs an optimizer with 'lr' in its param groups"),
}
ROWS = {**{f"torch.optim.{name}": row for name, row in TORCH.items()}, **PYPI}
ACCEPTED = [name for name, row in ROWS.items() if not row.refused]
REFUSED = [name for name, row in ROWS.items() if row.refused]

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),  # torch and some packages, on import
    pytest.mark.usefixtures("papers_form"),
]


def network(bias: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6, bias=bias), nn.Tanh(), nn.Linear(6, 3, bias=bias)).double()


def batch(t: int) -> Tensor:
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(t), dtype=torch.float64)


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr


def directions(row: Row, lrs: Sequence[float]) -> Tensor:
    """How far each step goes, over its lr; points and gradients do not depend on it."""
    model = network(row.bias)
    optimizer = row.make(model.named_parameters())
    random = torch.Generator().manual_seed(3)
    found = []
    for t in range(STEPS):
        lr = lrs[t % len(lrs)]
        set_lr(optimizer, lr)
        for p in model.parameters():
            p.data = torch.randn(p.shape, generator=random, dtype=torch.float64)
            p.grad = torch.randn(p.shape, generator=random, dtype=torch.float64)
        before = copy.deepcopy(list(model.parameters()))
        optimizer.step()
        moves = zip(before, model.parameters(), strict=True)
        found.append(torch.cat([((a - b) / lr).detach().flatten() for a, b in moves]))
    return torch.stack(found)


def goes_straight(row: Row) -> bool:
    """Whether a step is lr times something that no lr has touched, now or before."""
    return torch.allclose(directions(row, [0.01]), directions(row, [0.01, 4.0, 0.3]), rtol=1e-8, atol=1e-11)


def test_the_table_has_every_optimizer_of_torch() -> None:
    kinds = [kind for kind in vars(torch.optim).values() if isinstance(kind, type)]
    found = {kind.__name__ for kind in kinds if issubclass(kind, torch.optim.Optimizer)} - {"Optimizer"}
    assert set(TORCH) >= found  # an older torch has fewer


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_lr_times_a_direction_is_refused_with_the_reason(name: str) -> None:
    row = ROWS[name]
    model = network(row.bias)
    for p in model.parameters():
        p.grad = torch.ones_like(p)  # as in mid-training
    before = copy.deepcopy(model.state_dict())
    inner = row.make(model.named_parameters())
    with pytest.raises(ValueError, match=rf"wrap\(\).*{row.refused}"):
        camhd.wrap(inner, model)
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), "trials do not touch the model"
    if row.refused == NOT_LINEAR:
        assert not goes_straight(row)


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_hypergradient_of_what_is_accepted_is_autograds(name: str) -> None:
    row = ROWS[name]
    if name == "torch.optim.Muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    assert goes_straight(row)
    model, twin = network(row.bias), network(row.bias)
    optimizer = camhd.wrap(row.make(model.named_parameters()), model, levels=("layer",), hyper_lr=BETA)
    plain = row.make(twin.named_parameters())
    lr0 = float(optimizer.param_groups[0]["lr"])
    set_lr(plain, 1.0)
    before: dict[str, Tensor] = {}
    direction: dict[str, Tensor] = {}
    learned = set()
    for t in range(STEPS):
        rates = optimizer.rates()["layer"]
        wanted = rates if t == 0 else expected(model, before, direction, rates, row.l2, t)
        optimizer.zero_grad()
        model(batch(t)).square().mean().backward()
        before = {key: p.detach().clone() for key, p in model.named_parameters()}
        for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            theirs.data.copy_(ours.data)
            assert ours.grad is not None
            theirs.grad = ours.grad.clone()
        plain.step()
        direction = {key: before[key] - p.detach() for key, p in twin.named_parameters()}
        optimizer.step()
        for layer, rate in optimizer.rates()["layer"].items():
            change = wanted[layer] - rates[layer]
            assert rate - rates[layer] == pytest.approx(change, rel=HYPER, abs=1e-15)
            if change:
                learned.add(layer)
        for key, p in model.named_parameters():
            moved = before[key] - optimizer.rates()["layer"][key.split(".")[0]] * direction[key]
            torch.testing.assert_close(p.detach(), moved, rtol=1e-9, atol=1e-12)
    assert learned == {"0", "2"}, "nothing was learned, which proves nothing"
    assert optimizer.skipped == 0
    assert all(rate != lr0 for rate in optimizer.rates()["layer"].values())


def expected(
    model: nn.Module,
    before: dict[str, Tensor],
    direction: dict[str, Tensor],
    rates: dict[str, float],
    l2: float,
    t: int,
) -> dict[str, float]:
    """The rates after one step down autograd's slope of this step's loss through the last move."""
    alpha = {layer: torch.tensor(rate, dtype=torch.float64, requires_grad=True) for layer, rate in rates.items()}
    moved = {key: before[key] - alpha[key.split(".")[0]] * direction[key] for key in before}
    loss = functional_call(model, moved, (batch(t),)).square().mean()
    loss = loss + l2 / 2 * sum((p.square().sum() for p in moved.values()), torch.zeros(()))
    slopes = torch.autograd.grad(loss, list(alpha.values()))
    return {layer: rates[layer] - BETA * float(slope) for layer, slope in zip(alpha, slopes, strict=True)}
