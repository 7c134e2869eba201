"""What people rely on in a torch.optim.Optimizer holds for ours."""

import copy
import pickle

import pytest
import torch
from torch import nn

import camhd

pytestmark = pytest.mark.usefixtures("papers_form")

EXACT = 1e-12


def net(dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype)


def data(dtype=torch.float64):
    random = torch.Generator().manual_seed(1)
    return torch.randn(16, 4, generator=random, dtype=torch.float64).to(dtype)


def train(model, opt, steps, dtype=torch.float64):
    x = data(dtype)
    for _ in range(steps):
        opt.zero_grad()
        model(x).square().mean().backward()
        opt.step()
    return [p.detach().clone() for p in model.parameters()]


FAST = {"hyper_lr": 1e-4, "combine_lr": 0.1}  # rates that move visibly in a few steps
EVERY_CLASS = {
    "SGD": lambda params, **o: camhd.SGD(params, lr=0.05, **FAST, **o),
    "momentum": lambda params, **o: camhd.SGD(params, lr=0.05, momentum=0.9, weight_decay=1e-3, **FAST, **o),
    "nesterov": lambda params, **o: camhd.SGD(params, lr=0.05, momentum=0.9, nesterov=True, **FAST, **o),
    "Adam": lambda params, **o: camhd.Adam(params, lr=0.01, weight_decay=1e-3, **FAST, **o),
    "AMSGrad": lambda params, **o: camhd.Adam(params, lr=0.01, amsgrad=True, **FAST, **o),
    "AdamW": lambda params, **o: camhd.AdamW(params, lr=0.01, weight_decay=0.1, **FAST, **o),
    "AdaBound": lambda params, **o: camhd.AdaBound(params, lr=0.01, **FAST, **o),
}
every_class = pytest.mark.parametrize("make", EVERY_CLASS.values(), ids=EVERY_CLASS)


@every_class
def test_a_module_its_named_parameters_and_a_group_of_them_are_the_same(make):
    results = []
    for form in (lambda m: m, lambda m: m.named_parameters(), lambda m: [{"params": m.named_parameters()}]):
        model = net()
        results.append(train(model, make(form(model)), 8))
    for other in results[1:]:
        assert all(map(torch.equal, results[0], other))


@every_class
def test_a_closure_is_called_with_gradients_on_and_its_loss_returned(make):
    plain, model = net(), net()
    expected = train(plain, make(plain), 5)
    opt, x = make(model), data()

    def closure():
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    losses = [float(opt.step(closure).detach()) for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert all(map(torch.equal, expected, [p.detach() for p in model.parameters()]))


@every_class
def test_a_gradient_is_never_written_to(make):
    model = net()
    opt, x = make(model), data()
    for _ in range(3):
        opt.zero_grad()
        model(x).square().mean().backward()
        before = [p.grad.clone() for p in model.parameters()]
        opt.step()
        assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), before, strict=True))


@every_class
def test_zeroing_gradients_in_place_changes_nothing(make):
    """Under plain SGD the last direction is p.grad itself, which zero_grad(set_to_none=False) destroys."""
    results = []
    for to_none in (True, False):
        model = net()
        opt, x = make(model), data()
        for _ in range(6):
            model(x).square().mean().backward()
            opt.step()
            opt.zero_grad(set_to_none=to_none)
        results.append([p.detach().clone() for p in model.parameters()])
    assert all(map(torch.equal, *results))


def test_step_hooks_run_around_a_step():
    model, calls = net(), []
    opt = camhd.Adam(model)
    opt.register_step_pre_hook(lambda *_: calls.append("before"))
    opt.register_step_post_hook(lambda *_: calls.append("after"))
    train(model, opt, 2)
    assert calls == ["before", "after"] * 2


def test_state_dict_hooks_see_and_may_replace_the_state():
    model = net()
    opt = camhd.Adam(model, **FAST)
    train(model, opt, 3)
    seen = []
    opt.register_state_dict_post_hook(lambda _, state: seen.append(sorted(state["state"][0])))
    saved = opt.state_dict()
    assert "rate.layer" in seen[0]
    other = camhd.Adam(net(), **FAST)
    other.register_load_state_dict_pre_hook(lambda _, state: copy.deepcopy(saved))
    other.load_state_dict({"nothing": "of use"})
    assert other.rates() == opt.rates()
    other.load_state_dict({"nothing": "of use"})  # the hook is still there


@every_class
def test_parameters_added_in_mid_training_learn_and_the_others_keep_what_they_learned(make):
    model, extra = net(), nn.Linear(3, 2).double()
    opt = make(model.named_parameters(), levels=("global", "layer", "unit", "parameter"))
    train(model, opt, 6)
    learned = opt.rates()
    opt.add_param_group({"params": [(f"head.{n}", p) for n, p in extra.named_parameters()], "lr": 0.02})
    now = opt.rates()
    assert now["global"] == learned["global"]
    assert now["layer"] == {**learned["layer"], "head": 0.02}
    assert torch.equal(now["unit"]["head"], torch.full((2,), 0.02, dtype=torch.float64))
    assert all(torch.equal(now["parameter"][name], value) for name, value in learned["parameter"].items())
    x = data()
    for _ in range(4):
        opt.zero_grad()
        extra(model(x)).square().mean().backward()
        opt.step()
    assert opt.rates()["layer"]["head"] != 0.02
    assert opt.skipped == 0


def test_a_layer_that_gets_its_bias_later_stays_one_layer():
    weight, bias = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.zeros(2))
    opt = camhd.Adam([("fc.weight", weight)], levels=("global", "layer", "unit"), combine=camhd.combine.PerLayer())
    opt.add_param_group({"params": [("fc.bias", bias)]})
    assert list(opt.rates()["layer"]) == ["fc"]
    assert opt.rates()["unit"]["fc"].shape == (2,)
    assert list(opt.combination()) == ["fc"]


def test_a_refused_param_group_leaves_the_optimizer_as_it_was():
    model = net()
    opt = camhd.Adam(model.named_parameters())
    train(model, opt, 2)
    for bad in ({"lr": -1.0}, {"levels": ("global",)}, {"hyper_lr": {"unit": 1.0}}, {"betas": (2.0, 0.5)}):
        with pytest.raises(ValueError, match=r"must|Invalid|holds"):
            opt.add_param_group({"params": [("x.w", nn.Parameter(torch.ones(2)))], **bad})
    assert len(opt.param_groups) == 1
    train(model, opt, 2)


@every_class
def test_rates_of_a_skipped_parameter_stay_and_it_has_no_direction_afterwards(make):
    model = net()
    opt, x = make(model, levels=("layer",)), data()

    def step(skip=None):
        opt.zero_grad()
        model(x).square().mean().backward()
        if skip:
            for p in skip.parameters():
                p.grad = None
        opt.step()
        return opt.rates()["layer"]

    step()
    before = step()
    frozen = [p.detach().clone() for p in model[0].parameters()]
    skipped = step(skip=model[0])
    assert skipped["0"] == before["0"]
    assert skipped["2"] != before["2"]
    assert all(map(torch.equal, frozen, [p.detach() for p in model[0].parameters()]))
    after = step()
    assert after["0"] == before["0"], "it did not move, so there is nothing to look back on"
    assert after["2"] != skipped["2"]
    assert step()["0"] != before["0"]


def test_parameters_that_never_get_a_gradient_do_no_harm():
    model = net()
    model[0].weight.requires_grad_(False)
    opt = camhd.Adam(model)
    train(model, opt, 3)
    assert model[0].weight not in opt.state or not opt.state[model[0].weight]
    camhd.Adam(net()).load_state_dict(opt.state_dict())


def test_a_step_without_any_gradient_moves_nothing():
    model = net()
    opt = camhd.Adam(model)
    before = [p.detach().clone() for p in model.parameters()]
    opt.step()
    assert all(map(torch.equal, before, [p.detach() for p in model.parameters()]))


@every_class
def test_maximize_is_minimising_the_negative(make):
    down, up = net(), net()
    x = data()
    a, b = make(down), make(up, maximize=True)
    for _ in range(6):
        a.zero_grad(), b.zero_grad()
        down(x).square().mean().backward()
        (-up(x).square().mean()).backward()
        a.step(), b.step()
    assert all(map(torch.equal, down.parameters(), up.parameters()))
    assert a.rates() == b.rates()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@every_class
def test_rates_stay_float32_whatever_the_parameters_are(make, dtype):
    model = net(dtype)
    opt = make(model, levels=("global", "layer", "unit", "parameter"))
    first = model(data(dtype)).float().square().mean()
    params = train(model, opt, 10, dtype)
    assert all(p.dtype == dtype for p in params)
    assert all(v.dtype == torch.float32 for v in opt.rates()["parameter"].values())
    assert all(v.dtype == torch.float32 for v in opt.rates()["unit"].values())
    assert model(data(dtype)).float().square().mean() < first
    assert opt.skipped == 0


@pytest.mark.parametrize("theirs", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_complex_parameters_are_pairs_of_reals_as_in_torch(theirs):
    ours = getattr(camhd, theirs.__name__)
    results = []
    for optimizer in (theirs, lambda p, lr: ours(p, lr=lr, hyper_lr=0.0, combine_lr=0.0)):
        torch.manual_seed(0)
        z = nn.Parameter(torch.randn(3, 2, dtype=torch.complex128))
        opt = optimizer([z], lr=0.1)
        for _ in range(20):
            opt.zero_grad()
            (z * (2 + 1j)).abs().square().sum().backward()
            opt.step()
        results.append(z.detach())
    torch.testing.assert_close(results[0], results[1], rtol=EXACT, atol=EXACT)


def test_complex_parameters_learn_rates_at_every_level():
    z = nn.Parameter(torch.randn(3, 2, dtype=torch.complex64))
    opt = camhd.Adam([("a.z", z)], levels=("global", "unit", "parameter"), **FAST)
    for _ in range(5):
        opt.zero_grad()
        z.abs().square().sum().backward()
        opt.step()
    assert opt.rates()["unit"]["a.z"].shape == (3,)
    assert opt.rates()["parameter"]["a.z"].shape == (3, 2, 2)


@every_class
def test_the_memory_layout_of_a_parameter_changes_nothing(make):
    def run(change):
        torch.manual_seed(0)
        conv = nn.Conv2d(3, 4, 3).double()
        conv.weight = nn.Parameter(change(conv.weight.detach()))
        opt = make(conv, levels=("global", "filter", "parameter"))
        x = torch.randn(2, 3, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        for _ in range(6):
            opt.zero_grad()
            conv(x).square().mean().backward()
            opt.step()
        return conv.weight.detach(), opt

    plain, _ = run(lambda w: w)
    last, opt = run(lambda w: w.to(memory_format=torch.channels_last))
    strided, _ = run(lambda w: torch.stack([w, w], -1)[..., 0])
    torch.testing.assert_close(last, plain, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(strided, plain, rtol=1e-9, atol=1e-12)
    state = next(v for v in opt.state.values() if v)
    moment = next(v for k, v in state.items() if v.dim() == 4)
    assert moment.is_contiguous(memory_format=torch.channels_last)


def test_sparse_gradients_are_refused_by_name_before_anything_moves():
    embedding, linear = nn.Embedding(5, 3, sparse=True), nn.Linear(3, 1)
    opt = camhd.Adam(nn.Sequential(linear, embedding))
    before = linear.weight.detach().clone()
    linear(embedding(torch.tensor([1, 2]))).sum().backward()
    with pytest.raises(RuntimeError, match=r"gradients.*'1\.weight' is sparse; use torch\.optim\.SparseAdam"):
        opt.step()
    assert torch.equal(linear.weight, before)
    assert not opt.state


@every_class
def test_a_deep_copy_and_a_pickle_go_on_as_the_original_does(make):
    model = net()
    opt = make(model, levels=("global", "layer", "unit", "parameter"))
    train(model, opt, 4)
    model2, opt2 = copy.deepcopy((model, opt))
    model3, opt3 = pickle.loads(pickle.dumps((model, opt)))
    results = [train(m, o, 4) for m, o in ((model, opt), (model2, opt2), (model3, opt3))]
    assert all(map(torch.equal, results[0], results[1]))
    assert all(map(torch.equal, results[0], results[2]))


def test_an_lr_given_as_a_tensor_is_the_same_lr():
    results = []
    for lr in (0.01, torch.tensor(0.01, dtype=torch.float64)):
        model = net()
        opt = camhd.Adam(model, lr=lr, **FAST)
        scheduler = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
        for _ in range(3):
            train(model, opt, 2)
            scheduler.step()
        results.append([p.detach().clone() for p in model.parameters()])
    torch.testing.assert_close(results[0], results[1], rtol=EXACT, atol=EXACT)


def test_a_person_sees_levels_rates_and_their_range():
    model = net()
    opt = camhd.Adam(model, lr=1e-3, levels=("global", "layer", "unit", "parameter"))
    text = repr(opt)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[2:6]}
    assert {name: row[0] for name, row in rows.items()} == {"global": "1", "layer": "2", "unit": "9", "parameter": "51"}
    assert all(row[-1] == "1.000e-03" for row in rows.values())
    assert "backend f" in text
    assert "skipped 0" in text
    assert "by layer" in repr(camhd.Adam(net(), combine=camhd.combine.PerLayer()))
