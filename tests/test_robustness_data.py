"""The data sets of the study that need no files, the small ResNet, and batch norm under Schedule-Free."""

from __future__ import annotations

import inspect
import sys
import textwrap

import pytest
import torch
from torch import nn

from camhd.lab import data, models
from camhd.lab.data import docstrings
from camhd.lab.optimizers import Driver
from camhd.lab.train import norms, train
from digits import needs


@pytest.mark.parametrize("name", ["quadratic", "noisy-quadratic"])
def test_a_quadratic_is_exact_and_has_the_eigenvalues_it_says(name):
    dataset = data.load(name)
    inputs = dataset.train.inputs.double()
    assert torch.equal(inputs * 1024, (inputs * 1024).round()), "few bits: no rounding anywhere"
    moments = torch.linalg.eigvalsh(inputs.T @ inputs / len(inputs))
    wanted = torch.tensor([4.0**-k for k in range(8) for _ in range(8)], dtype=torch.float64).sort().values
    torch.testing.assert_close(moments, wanted, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(inputs.mean(0), torch.zeros(64, dtype=torch.float64))
    assert dataset.task == "regression"


def test_the_noise_is_in_the_training_set_alone_and_a_linear_model_fits_the_test_set():
    noisy = data.load("noisy-quadratic")
    inputs, targets = noisy.test.inputs.double(), noisy.test.targets.double()
    found = torch.linalg.lstsq(inputs, targets).solution
    torch.testing.assert_close(inputs @ found, targets, rtol=1e-9, atol=1e-9)
    noise = noisy.train.targets.double() - targets
    assert torch.equal(noisy.train.inputs, noisy.test.inputs)
    assert float(noise.std()) == pytest.approx(0.5, rel=0.02)
    assert abs(float(noise.mean())) < 0.03
    plain = data.load("quadratic")
    assert torch.equal(plain.train.targets, plain.test.targets)


def test_no_part_of_a_quadratic_can_be_had():
    with pytest.raises(ValueError, match="an option that there is not"):
        data.load("quadratic:100")


def test_docstrings_are_gathered_without_importing_anything():
    before = set(sys.modules)
    text, note = docstrings.gathered()
    assert "imaplib" not in set(sys.modules) - before
    assert len(text) > 300_000
    assert inspect.cleandoc(textwrap.dedent.__doc__).split("\n\n")[0] in text
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in note


def test_a_standard_library_without_sources_is_said_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(docstrings.os, "__file__", str(tmp_path / "os.py"))
    with pytest.raises(data.MissingData, match=r"_pydecimal\.py(.|\n)*take the data set 'text'"):
        data.load("docstrings")
    (tmp_path / "_pydecimal.py").write_text("def (")
    with pytest.raises(data.DataError, match=r"a damaged one"):
        data.load("docstrings")
    for name in docstrings.MODULES:
        (tmp_path / f"{name}.py").write_text('"""Short."""')
    with pytest.raises(data.DataError, match=r"at least 100,000 characters"):
        data.load("docstrings")


def test_resnet8_has_three_stages_and_the_larger_ones_have_their_names_and_shapes_still():
    small = models.find("resnet8:0.5", (1, 28, 28), 10)()
    assert small(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    assert {name.partition(".")[0] for name, _ in small.named_parameters()} == {
        *("conv1", "bn1", "layer1", "layer2", "layer3", "fc")
    }
    assert small.fc.in_features == 32
    large = models.resnet18()
    shapes = [large.get_submodule(f"layer{stage}").get_submodule("0.conv1").weight.shape[0] for stage in (1, 2, 3, 4)]
    assert shapes == [64, 128, 256, 512]


# Batch norm


def test_batch_norms_see_the_batches_and_nothing_else_trains():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).eval()
    batches = [(3 + torch.randn(64, 3), torch.zeros(64)) for _ in range(60)]
    state = torch.get_rng_state()
    norms.refresh(model, batches)
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(part.training for part in model.modules())
    with torch.no_grad():
        wanted = model[0](torch.cat([inputs for inputs, _ in batches[:50]])).mean(0)
    torch.testing.assert_close(model[1].running_mean, wanted, rtol=0.1, atol=0.1)
    assert int(model[1].num_batches_tracked) == 50


def test_a_model_without_batch_norms_is_left_alone():
    norms.refresh(nn.Linear(3, 4).eval(), iter([("no", "tensor")]))


def test_only_what_is_judged_elsewhere_is_refreshed(monkeypatch):
    plain = Driver(torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1))
    assert not plain.elsewhere
    asked = []
    monkeypatch.setattr(norms, "refresh", lambda model, batches: asked.append(model))
    train("resnet8:0.0625", "digits:100", "sgd", epochs=1, options={"lr": 0.01})
    assert not asked


def test_schedule_free_with_batch_norm_is_judged_by_the_means_of_its_own_weights():
    assert needs("schedule-free-adamw").build(nn.Linear(2, 2)).elsewhere
    with_means = train("resnet8:0.25", "digits:500", "schedule-free-adamw", epochs=1, options={"lr": 0.01})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(norms, "refresh", lambda model, batches: None)
        without = train("resnet8:0.25", "digits:500", "schedule-free-adamw", epochs=1, options={"lr": 0.01})
    assert with_means.final["train_loss"] == without.final["train_loss"], "training is the same"
    assert with_means.final["valid_loss"] < without.final["valid_loss"]
