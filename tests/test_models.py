"""The networks of the laboratory: their sizes, their shapes, and that a gradient reaches every parameter."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

import camhd
from camhd.lab import models
from camhd.lab.models import lenet

COUNTS = [
    ("ffnn 100-100", models.ffnn, 89_610),
    ("ffnn 1000-1000", lambda: models.ffnn((1000, 1000)), 1_796_010),
    ("lenet5", models.lenet5, 61_706),
    ("lenet5 in colour", lambda: models.lenet5(channels=3), 62_006),
    ("resnet18", models.resnet18, 11_173_962),
    ("resnet34", models.resnet34, 21_282_122),
]


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("build", "parameters"), [case[1:] for case in COUNTS], ids=[case[0] for case in COUNTS])
def test_a_network_has_as_many_parameters_as_is_published(build, parameters):
    with torch.device("meta"):
        assert count(build()) == parameters


def test_the_large_transformer_has_about_50_million_parameters():
    with torch.device("meta"):
        assert count(models.transformer()) == pytest.approx(50e6, rel=0.01)


NETWORKS = [
    ("ffnn", lambda: models.ffnn((7, 5), inputs=12, classes=3), (4, 3, 2, 2), (4, 3)),
    ("lenet5 28", lambda: models.lenet5(classes=3), (4, 1, 28, 28), (4, 3)),
    ("lenet5 32", lambda: models.lenet5(channels=3), (4, 3, 32, 32), (4, 10)),
    ("resnet18", lambda: models.resnet18(classes=3, width=1 / 16), (4, 3, 32, 32), (4, 3)),
    ("resnet34", lambda: models.resnet34(width=1 / 16), (4, 3, 32, 32), (4, 10)),
    ("resnet18 in grey", lambda: models.resnet18(width=1 / 16, colours=1), (4, 1, 28, 28), (4, 10)),
    ("logistic", lambda: models.logistic(inputs=12, classes=3), (4, 3, 2, 2), (4, 3)),
]


@pytest.mark.parametrize(
    ("build", "inputs", "outputs"), [case[1:] for case in NETWORKS], ids=[case[0] for case in NETWORKS]
)
def test_a_gradient_reaches_every_parameter(build, inputs, outputs):
    model = build()
    logits = model(torch.randn(inputs))
    assert logits.shape == outputs
    torch.nn.functional.cross_entropy(logits, torch.arange(len(logits)) % outputs[1]).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.parametrize("channels", [1, 3])
def test_lenet5_says_the_same_with_and_without_gradients(channels):
    """Pooled by other means; what is not a number must come through too."""
    model, images = models.lenet5(channels), torch.randn(5, channels, 32, 32)
    images[0, 0, 9, 9] = float("nan")
    with torch.no_grad():
        judged = model(images)
    assert judged[0].isnan().all()
    assert not judged[1:].isnan().any()
    torch.testing.assert_close(judged, model(images).detach(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(7, 6, 28, 28), (7, 16, 10, 10)])
def test_lenet5_pools_as_torch_does_to_the_bit(shape, dtype):
    """Also where several are the largest, and where a slope is infinite."""
    ours = torch.randn(shape).mul(2).round().to(dtype).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    pooled, expected = lenet._halved(ours), F.max_pool2d(theirs, 2)
    assert torch.equal(pooled, expected)
    slopes = torch.randn(expected.shape).to(dtype)
    slopes[0, 0, 0, 0] = float("inf")
    pooled.backward(slopes)
    expected.backward(slopes)
    assert torch.equal(ours.grad, theirs.grad)


def test_lenet5_has_second_derivatives_and_can_be_stacked():
    torch.autograd.gradgradcheck(lenet._halved, torch.randn(1, 2, 4, 4, dtype=torch.float64, requires_grad=True))
    model, images = models.lenet5(), torch.randn(3, 1, 28, 28)
    weights = dict(model.named_parameters())

    def loss(weights, image):
        return functional_call(model, weights, image[None]).square().sum()

    each = vmap(grad(loss), (None, 0))(weights, images)
    for number, image in enumerate(images):
        for name, slope in grad(loss)(weights, image).items():
            torch.testing.assert_close(each[name][number], slope)


def test_lenet5_leaves_the_pooling_to_torch_on_other_devices():
    with torch.device("meta"):
        assert models.lenet5()(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_lenet5_sees_a_small_image_as_one_with_a_margin():
    model, image = models.lenet5(), torch.randn(2, 1, 28, 28)
    torch.testing.assert_close(model(image), model(torch.nn.functional.pad(image, (2, 2, 2, 2))))


def test_a_resnet_has_its_channels_last_where_bfloat16_is_faster_so_and_only_there():
    model, images = models.resnet8(), torch.randn(4, 3, 32, 32)
    seen = []
    model.conv1.register_forward_hook(lambda module, given, made: seen.append(made.stride()[1]))
    plain = model(images)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(images)
    assert seen == [32 * 32, 1]
    torch.testing.assert_close(rounded.float(), plain, rtol=0.05, atol=0.05)


def test_width_scales_the_channels_of_a_resnet():
    assert models.resnet18(width=0.25).layer4[0].conv1.weight.shape == (128, 64, 3, 3)


def test_a_transformer_does_not_look_ahead():
    model = models.transformer(models.TransformerShape(width=8, depth=2, heads=2, vocabulary=11, context=6))
    tokens = torch.randint(11, (3, 6))
    changed = tokens.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 11
    before, after = model(tokens), model(changed)
    assert before.shape == (3, 6, 11)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_a_gradient_reaches_every_parameter_of_a_transformer():
    model = models.transformer(models.TransformerShape(width=8, depth=2, heads=2, vocabulary=11, context=6))
    model(torch.randint(11, (3, 6))).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="10 is no multiple of 4"):
        models.transformer(models.TransformerShape(width=10, depth=1, heads=4, vocabulary=5, context=5))


# Gates


@pytest.mark.parametrize("build", [models.lstm, models.gru])
def test_a_character_model_does_not_look_ahead_and_every_parameter_learns(build):
    model = build(vocabulary=11, width=8, depth=2)
    tokens = torch.randint(11, (3, 6))
    changed = tokens.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 11
    before, after = model(tokens), model(changed)
    assert before.shape == (3, 6, 11)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])
    before.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_a_character_model_is_an_embedding_cells_and_a_linear_layer():
    model = models.lstm(vocabulary=11, width=8)
    tokens = torch.randint(11, (3, 6))
    by_hand = nn.LSTM(8, 8, batch_first=True)
    by_hand.load_state_dict(model.lstm.state_dict())
    states, _ = by_hand(model.tokens.weight[tokens])
    torch.testing.assert_close(model(tokens), states @ model.out.weight.T + model.out.bias)


def test_the_gates_of_a_character_model_have_rates_of_their_own():
    optimizer = camhd.Adam(models.lstm(vocabulary=11, width=8), levels=("global", "layer", "gate"))
    gates = {f"lstm.l0.{gate}" for gate in ("input", "forget", "cell", "output")}
    assert set(optimizer.rates()["gate"]) == {"tokens", "out"} | gates


def test_cells_are_of_a_known_kind():
    with pytest.raises(ValueError, match="'cells' must be 'lstm' or 'gru', got 'rnn'"):
        models.CharacterModel("rnn", 5)


# The catalog

FOUND = [
    ("ffnn", (1, 28, 28), 10, "classification", 89_610),
    ("ffnn:1000,1000", (784,), 10, "classification", 1_796_010),
    ("FFNN:16", (10,), 1, "regression", 10 * 16 + 16 + 16 + 1),
    ("logistic", (1, 8, 8), 10, "classification", 650),
    ("lenet5", (1, 28, 28), 10, "classification", 61_706),
    ("lenet5", (3, 32, 32), 10, "classification", 62_006),
    ("resnet18", (3, 32, 32), 10, "classification", 11_173_962),
    ("resnet18:1", (1, 28, 28), 10, "classification", 11_173_962 - 2 * 64 * 9),
    ("resnet34", (3, 32, 32), 10, "classification", 21_282_122),
    # torch's formulas: an embedding V·w; an LSTM layer 4(2w² + 2w), a GRU layer 3(2w² + 2w); the end wV + V
    ("lstm:8", (16,), 50, "language", 50 * 8 + 4 * (2 * 64 + 16) + 8 * 50 + 50),
    ("gru:8,2", (16,), 50, "language", 50 * 8 + 2 * 3 * (2 * 64 + 16) + 8 * 50 + 50),
    # tokens V·w and places T·w; a block 12w² + 13w; the last norm 2w
    ("transformer:8,3,2", (16,), 50, "language", (50 + 16) * 8 + 3 * (12 * 64 + 13 * 8) + 16),
]


@pytest.mark.parametrize(("name", "shape", "classes", "task", "parameters"), FOUND, ids=[case[0] for case in FOUND])
def test_a_network_is_found_by_name_and_fits_the_data(name, shape, classes, task, parameters):
    build = models.find(name, shape, classes, task)
    with torch.device("meta"):
        model = build()
        assert count(model) == parameters
        inputs = torch.zeros(2, *shape, dtype=torch.long if task == "language" else torch.float32)
        assert model(inputs).shape == ((2, *shape, classes) if task == "language" else (2, classes))


MISFITS = [
    ("lenet", (1, 28, 28), "classification", "did you mean 'lenet5'? The choices are ffnn, logistic, lenet5, resnet8"),
    ("ffnn:100,x", (784,), "classification", "must be of the form ffnn[:sizes], with numbers"),
    ("ffnn:100,-1", (784,), "classification", "must have numbers above zero only"),
    ("ffnn:1.5", (784,), "classification", "must have whole numbers"),
    ("ffnn:inf", (784,), "classification", "must have numbers above zero only"),
    ("logistic:5", (784,), "classification", "has 1 numbers, but the form is logistic"),
    ("lenet5", (1, 8, 8), "classification", "28 × 28 or 32 × 32, but these are 8 × 8; take ffnn or resnet18:0.25"),
    ("lenet5", (64,), "classification", "takes images (channels, height, width), but one input has the shape (64,)"),
    ("resnet18:1,2", (3, 32, 32), "classification", "has 2 numbers, but the form is resnet18[:width]"),
    ("ffnn", (16,), "language", "cannot read text; take lstm, gru or transformer"),
    ("lstm", (1, 28, 28), "classification", "reads text, but the task is classification"),
    ("lstm:8,1,1", (16,), "language", "has 3 numbers"),
    ("transformer:10,1,4", (16,), "language", "the width 10 must be a multiple of the number of heads, 4"),
]


@pytest.mark.parametrize(("name", "shape", "task", "message"), MISFITS, ids=[case[0] for case in MISFITS])
def test_a_misfit_is_told_with_a_remedy(name, shape, task, message):
    with pytest.raises(ValueError, match="'model'") as caught:
        models.find(name, shape, 10, task)
    assert message in str(caught.value)


def test_the_catalog_describes_every_name():
    assert [usage.partition("[")[0] for usage in models.describe()] == list(models.NAMES)
