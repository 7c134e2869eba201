"""Parameters without modules, several optimizers on one model, and two networks that play against each other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, grad_and_value, stack_module_state, vmap

import camhd
from cases import EXACT
from models import backward, batch, build, loss_at

pytestmark = pytest.mark.usefixtures("papers_form")

FAST: dict[str, Any] = {"lr": 0.02, "hyper_lr": 1e-4, "combine_lr": 0.1}
DEEP = ("global", "layer", "unit", "parameter")


def values(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_parameters_in_a_dict_with_gradients_of_torch_func_are_the_module(kind: str) -> None:
    """`torch.func.grad` gives gradients as values; they are put where an optimizer looks for them."""
    model = build("gru")
    usual = getattr(camhd, kind)(model.named_parameters(), levels=DEEP, **FAST)
    params = {name: nn.Parameter(p.detach().clone()) for name, p in model.named_parameters()}
    shell = copy.deepcopy(model)
    functional = getattr(camhd, kind)(params.items(), levels=DEEP, **FAST)
    for t in range(1, 11):
        backward(model, t)
        usual.step()
        found = grad(lambda theta, t=t: loss_at(shell, theta, t))({n: p.detach() for n, p in params.items()})
        for name, p in params.items():
            p.grad = found[name]
        functional.step()
    for name, p in model.named_parameters():
        torch.testing.assert_close(params[name].detach(), p.detach(), rtol=1e-10, atol=EXACT)
    assert functional.rates()["layer"] == pytest.approx(usual.rates()["layer"], rel=1e-10)
    assert list(functional.rates()["layer"]) == ["rnn.gru", "head"]
    assert usual.rates()["global"] != 0.02


def test_an_ensemble_stacked_for_vmap_trains_as_one_model() -> None:
    """The members of `stack_module_state` are rows of every tensor, so the unit level gives each member its rate."""
    members = [build("mlp", seed=seed) for seed in range(3)]
    params, buffers = stack_module_state(members)
    params = {name: nn.Parameter(p.detach().clone()) for name, p in params.items()}
    optimizer = camhd.SGD(params.items(), lr=0.05, levels=("unit",), hyper_lr=1e-2)
    alone = [camhd.SGD(m, lr=0.05, levels=("layer",), hyper_lr=1e-2) for m in members]
    shell = build("mlp")

    def loss(theta: dict[str, Tensor], rest: dict[str, Tensor], x: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(functional_call(shell, (theta, rest), (x,)), target)

    for t in range(1, 11):
        x, target = batch(shell, t)
        found, _ = vmap(grad_and_value(loss), (0, 0, None, None))(
            {n: p.data for n, p in params.items()}, buffers, x, target
        )
        for name, p in params.items():
            p.grad = found[name]
        optimizer.step()
        for member, own in zip(members, alone, strict=True):
            backward(member, t)
            own.step()
    for i, member in enumerate(members):
        for name, p in member.named_parameters():
            torch.testing.assert_close(params[name][i].detach(), p.detach(), rtol=1e-10, atol=EXACT)
    rates = optimizer.rates()["unit"]["fc1"]
    assert rates.tolist() == pytest.approx([own.rates()["layer"]["fc1"] for own in alone], rel=1e-10)
    assert len(set(rates.tolist())) == 3


def test_several_optimizers_on_parts_of_a_model_are_as_good_as_alone() -> None:
    """Each knows its own parameters only: what another does between its steps changes nothing of its rates' rule."""
    model, one = build("mlp"), build("mlp")
    parts = [(n, p) for n, p in model.named_parameters() if n.startswith(("fc1", "fc2"))]
    head = [(n, p) for n, p in model.named_parameters() if n.startswith("fc3")]
    body = camhd.Adam(parts, lr=0.01, hyper_lr=1e-4, levels=("layer",))
    top = camhd.Adam(head, lr=0.01, hyper_lr=1e-4, levels=("layer",))
    together = camhd.Adam(one, lr=0.01, hyper_lr=1e-4, levels=("layer",))
    for t in range(1, 16):
        backward(model, t)
        body.step()
        top.step()
        backward(one, t)
        together.step()
    assert all(map(torch.equal, values(model), values(one)))
    assert body.rates()["layer"] | top.rates()["layer"] == together.rates()["layer"]


@pytest.mark.parametrize("kinds", [("SGD", "AdamW"), ("Adam", "wrapped")])
def test_two_optimizers_save_and_go_on_together(kinds: tuple[str, str]) -> None:
    def made(model: nn.Module) -> list[Any]:
        halves = [
            [(n, p) for n, p in model.named_parameters() if n.startswith("fc1") is wanted] for wanted in (True, False)
        ]
        return [
            camhd.wrap(torch.optim.RMSprop(named, lr=0.02), **{k: v for k, v in FAST.items() if k != "lr"})
            if kind == "wrapped"
            else getattr(camhd, kind)(named, **FAST)
            for kind, named in zip(kinds, halves, strict=True)
        ]

    def train(model: nn.Module, optimizers: list[Any], steps: range) -> None:
        for t in steps:
            backward(model, t)
            for optimizer in optimizers:
                optimizer.step()

    model, second = build("mlp"), build("mlp")
    optimizers, resumed = made(model), made(second)
    train(model, optimizers, range(1, 6))
    saved = copy.deepcopy((model.state_dict(), [optimizer.state_dict() for optimizer in optimizers]))
    train(model, optimizers, range(6, 11))
    second.load_state_dict(saved[0])
    for optimizer, state in zip(resumed, saved[1], strict=True):
        optimizer.load_state_dict(state)
    train(second, resumed, range(6, 11))
    assert all(map(torch.equal, values(model), values(second)))


class Game:
    """A generator and a discriminator; `freeze` says how gradients of the other player are kept away."""

    def __init__(self, freeze: str, optimizers: Any) -> None:
        torch.manual_seed(0)
        self.generator = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)).double()
        self.discriminator = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()
        self.freeze = freeze
        self.ours, self.theirs = optimizers(self.generator), optimizers(self.discriminator)

    def play(self, t: int) -> None:
        random = torch.Generator().manual_seed(t)
        noise, real = (torch.randn(16, 2, generator=random, dtype=torch.float64) for _ in range(2))
        bce = nn.functional.binary_cross_entropy_with_logits
        fake = self.generator(noise)
        self.theirs.zero_grad()
        verdicts = self.discriminator(fake.detach()), self.discriminator(real + 2)
        (bce(verdicts[0], torch.zeros_like(verdicts[0])) + bce(verdicts[1], torch.ones_like(verdicts[1]))).backward()
        self.theirs.step()
        self.ours.zero_grad()
        if self.freeze == "requires_grad":
            self.discriminator.requires_grad_(False)
        verdict = self.discriminator(fake)
        bce(verdict, torch.ones_like(verdict)).backward()
        if self.freeze == "requires_grad":
            self.discriminator.requires_grad_(True)
        self.ours.step()

    def values(self) -> list[Tensor]:
        return values(self.generator) + values(self.discriminator)


@pytest.mark.parametrize("freeze", ["requires_grad", "zero_grad"])
def test_a_game_without_learning_is_torchs(freeze: str) -> None:
    still = {"hyper_lr": 0.0, "combine_lr": 0.0, "betas": (0.5, 0.9)}
    ours = Game(freeze, lambda model: camhd.Adam(model, lr=0.01, **still))
    theirs = Game(freeze, lambda model: torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.5, 0.9)))
    for t in range(40):
        ours.play(t)
        theirs.play(t)
    for one, other in zip(ours.values(), theirs.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("freeze", ["requires_grad", "zero_grad"])
def test_in_a_game_each_player_looks_back_on_its_own_steps(freeze: str) -> None:
    """Its hypergradient is its own gradient times its own last direction, whatever the other has done in between."""
    beta = 1e-2
    game = Game(freeze, lambda model: camhd.SGD(model, lr=0.05, levels=("global",), hyper_lr=beta))
    last: dict[int, list[Tensor]] = {}
    rates: dict[int, float] = {}

    def check(player: Any, *_: Any) -> None:
        grads = [p.grad.clone() for group in player.param_groups for p in group["params"]]
        if id(player) in last:
            product = sum(float((g * d).sum()) for g, d in zip(grads, last[id(player)], strict=True))
            assert player.rates()["global"] - rates[id(player)] == pytest.approx(beta * product, rel=1e-9)
        last[id(player)], rates[id(player)] = grads, player.rates()["global"]

    for player in (game.ours, game.theirs):
        player.register_step_post_hook(check)
    for t in range(10):
        game.play(t)
    assert len(last) == 2
    assert game.ours.rates()["global"] != game.theirs.rates()["global"]


def test_two_players_in_one_optimizer_take_turns_by_missing_gradients() -> None:
    """A player without a gradient stays where it is, and has nothing to look back on at its next turn."""
    a, b = (nn.Parameter(torch.ones(2, dtype=torch.float64)) for _ in range(2))
    optimizer = camhd.SGD([("a.x", a), ("b.x", b)], lr=0.1, levels=("layer",), hyper_lr=1e-2)
    for t in range(6):
        mine, other = (a, b) if t % 2 else (b, a)
        mine.grad, other.grad = torch.ones_like(a), None
        before = other.detach().clone()
        optimizer.step()
        assert torch.equal(other, before)
    assert optimizer.rates()["layer"] == {"a": 0.1, "b": 0.1}
