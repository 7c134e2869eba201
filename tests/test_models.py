"""The networks of the laboratory: their sizes, their shapes, and that a gradient reaches every parameter."""

import pytest
import torch

from camhd.lab import models

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


def test_lenet5_sees_a_small_image_as_one_with_a_margin():
    model, image = models.lenet5(), torch.randn(2, 1, 28, 28)
    torch.testing.assert_close(model(image), model(torch.nn.functional.pad(image, (2, 2, 2, 2))))


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
