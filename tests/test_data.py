"""Data sets in memory: what ships with other packages, one's own, splits, batches, augmentation."""

import pickle
import re
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
import torch

from camhd.lab import data
from camhd.lab.data import bundled, splits
from camhd.lab.data.errors import MissingData, NeedsPackage

# What ships with scikit-learn and with Python


def test_digits_are_scikit_learns():
    dataset, expected = data.load("digits"), sklearn.datasets.load_digits()
    images = torch.cat([dataset.train.inputs, dataset.test.inputs])[:, 0]
    labels = torch.cat([dataset.train.targets, dataset.test.targets])
    assert np.array_equal(images.numpy(), expected.images)
    assert np.array_equal(labels.numpy(), expected.target)
    assert (dataset.task, dataset.classes, dataset.shape, dataset.note) == ("classification", 10, (1, 8, 8), "")


def test_diabetes_is_scikit_learns():
    dataset, expected = data.load("diabetes"), sklearn.datasets.load_diabetes(scaled=False)
    inputs = torch.cat([dataset.train.inputs, dataset.test.inputs])
    targets = torch.cat([dataset.train.targets, dataset.test.targets])
    scaled = (expected.target - expected.target[:353].mean()) / expected.target[:353].std()
    assert np.allclose(inputs.numpy(), expected.data)
    assert np.allclose(targets[:, 0].numpy(), scaled, atol=1e-6)
    assert (dataset.task, dataset.classes, dataset.shape) == ("regression", 1, (10,))
    assert np.allclose(dataset.mean, expected.data[:353].mean(0))
    assert np.allclose(dataset.std, expected.data[:353].std(0))


@pytest.fixture
def scikit_learn(tmp_path, monkeypatch):
    """A copy of scikit-learn's data that may be damaged."""
    files = Path(sklearn.datasets.__file__).parent / "data"
    folder = tmp_path / "sklearn" / "datasets" / "data"
    folder.mkdir(parents=True)
    for file in [*files.glob("digits*"), *files.glob("diabetes*")]:
        shutil.copy(file, folder)
    spec = types.SimpleNamespace(submodule_search_locations=[str(tmp_path / "sklearn")])
    monkeypatch.setattr(bundled.importlib.util, "find_spec", lambda name: spec)
    return folder


@pytest.mark.parametrize(
    ("name", "file"),
    [("digits", "digits.csv.gz"), ("diabetes", "diabetes_data_raw.csv.gz"), ("diabetes", "diabetes_target.csv.gz")],
)
def test_a_damaged_scikit_learn_is_noticed(name, file, scikit_learn):
    path = scikit_learn / file
    content = path.read_bytes()
    other = (scikit_learn / ("digits.csv.gz" if name == "diabetes" else "diabetes_target.csv.gz")).read_bytes()
    flipped = content[:100] + bytes([content[100] ^ 1]) + content[101:]
    for damaged in (flipped, content[: len(content) // 2], b"", b"wrong", other):
        path.write_bytes(damaged)
        with pytest.raises(data.DataError) as caught:
            data.load(name)
        assert str(caught.value).startswith(f"{path}: expected a ")
        assert "pip install --force-reinstall --no-deps scikit-learn" in str(caught.value)
    path.unlink()
    with pytest.raises(data.MissingData, match="found no such file"):
        data.load(name)


def test_without_scikit_learn_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(bundled.importlib.util, "find_spec", lambda name: None)
    for name in ("digits", "diabetes"):
        with pytest.raises(ValueError, match=rf"'{name}' needs scikit-learn.*pip install 'camhd\[lab\]'"):
            data.load(name)


def test_without_numpy_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ValueError, match=r"needs numpy, which is not installed: pip install 'camhd\[lab\]'"):
        data.load("text", tmp_path)


def test_the_text_is_pythons_reference_and_its_targets_are_one_character_later(tmp_path):
    dataset = data.load("text", tmp_path)
    assert (dataset.task, dataset.shape, dataset.name) == ("language", (64,), "text")
    assert dataset.classes > 60
    for part in (dataset.train, dataset.test):
        stream = torch.cat([part.inputs.flatten(), part.targets[-1, -1:]])
        assert torch.equal(part.targets.flatten(), stream[1:])
        assert int(stream.max()) < dataset.classes
    assert sys.version.split()[0] in dataset.note
    assert data.load("text:128", tmp_path).shape == (128,)


def test_no_paragraph_of_the_texts_test_set_was_seen_before():
    from camhd.lab.data.text import reference

    text, _ = reference()
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    assert len(text) > 300_000
    assert len(set(paragraphs)) == len(paragraphs)


def test_a_python_without_its_reference_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(data.MissingData, match=r"pydoc_data/topics\.py.*camhd data add text"):
        data.load("text", tmp_path)
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", types.SimpleNamespace(topics={"a": "short"}))
    with pytest.raises(data.DataError, match="at least 100,000 characters, found 6"):
        data.load("text", tmp_path)
    package = tmp_path / "pydoc_data"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "topics.py").write_text("topics = {'cut")
    for name in ("pydoc_data", "pydoc_data.topics"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(data.DataError, match="a damaged one"):
        data.load("text", tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "digets",
            "",
            "MNIST",
            "mnist:",
            "mnist:0",
            "mnist:60001",
            "mnist:x",
            "digits:9x9",
            "digits:32x8",
            "digits:0x0",
        ),
        *("mnist:32x32", "diabetes:3", "text:", "text:x", "text:-1"),
    ],
)
def test_an_unknown_name_or_option_is_refused(name):
    with pytest.raises(ValueError, match=r"data set|option"):
        data.load(name)


def test_a_part_of_the_training_images_comes_with_the_whole_test_set():
    whole, part = data.load("digits"), data.load("digits:100")
    assert part.name == "digits:100"
    assert torch.equal(part.train.inputs, whole.train.inputs[:100])
    assert torch.equal(part.test.targets, whole.test.targets)
    assert part.fingerprint != whole.fingerprint
    with pytest.raises(ValueError, match="option"):
        data.load("digits:1438")


def test_larger_digits_have_squares_for_pixels():
    small, large = data.load("digits").train.inputs, data.load("digits:32x32").train.inputs
    assert large.shape == (1437, 1, 32, 32)
    for down in range(4):
        for right in range(4):
            assert torch.equal(large[:, :, down::4, right::4], small)


# One's own


def test_the_task_is_guessed_from_the_targets():
    images, rows = torch.zeros(4, 1, 2, 2), torch.zeros(4, 3, dtype=torch.int64)
    assert data.from_tensors("a", (images, torch.arange(4)), (images, torch.arange(4))).task == "classification"
    assert data.from_tensors("a", (images, torch.zeros(4, 2)), (images, torch.zeros(4, 2))).task == "regression"
    assert data.from_tensors("a", (rows, rows), (rows, rows)).task == "language"
    assert data.from_tensors("a", (images, torch.arange(4)), (images, torch.arange(4))).classes == 4
    assert data.from_tensors("a", (images, torch.zeros(4, 2)), (images, torch.zeros(4, 2))).classes == 2


GOOD = (torch.zeros(4, 1, 2, 2), torch.arange(4))
WRONG = [
    ({"task": "clasification"}, GOOD, "did you mean 'classification'"),
    ({}, (GOOD[0], torch.arange(3)), "as many targets as inputs"),
    ({}, (GOOD[0][:0], torch.arange(0)), "at least one"),
    ({}, (GOOD[0], torch.tensor([-1, 0, 0, 0])), "count from 0, but 'train' has -1"),
    ({"task": "regression"}, GOOD, "a row of floating-point numbers a target"),
    ({"task": "language"}, GOOD, "rows of whole numbers"),
    ({"task": "classification"}, (GOOD[0], torch.zeros(4)), "one whole number a target"),
    ({"classes": 3}, GOOD, "'classes' must be at least 4"),
    ({}, (torch.zeros(4, 1, 3, 3), torch.arange(4)), "of one shape"),
]


@pytest.mark.parametrize(("options", "train", "message"), WRONG, ids=[case[2] for case in WRONG])
def test_tensors_that_make_no_data_set_are_refused(options, train, message):
    with pytest.raises(ValueError, match=message):
        data.from_tensors("mine", train, GOOD, **options)


def test_the_fingerprint_is_of_the_contents_alone():
    inputs, targets = torch.randn(6, 3), torch.arange(6)

    def of(inputs, targets, name="a"):
        return data.from_tensors(name, (inputs, targets), (inputs, targets)).fingerprint

    assert of(inputs, targets) == of(inputs.clone(), targets.clone(), "b")
    assert of(inputs, targets) == of(inputs.t().contiguous().t(), targets)
    changed = inputs.clone()
    changed[3, 1] += 1e-6
    assert of(inputs, targets) != of(changed, targets)
    assert of(inputs, targets) != of(inputs, targets.flip(0))
    assert of(inputs, targets) != of(inputs.double(), targets)


def test_mean_and_std_are_exact():
    images = torch.randint(0, 256, (50, 3, 5, 7), dtype=torch.uint8)
    dataset = data.from_tensors("mine", (images, torch.zeros(50).long()), (images, torch.zeros(50).long()))
    expected = images.double()
    assert np.allclose(dataset.mean, expected.mean((0, 2, 3)), rtol=1e-12)
    assert np.allclose(dataset.std, expected.std((0, 2, 3), correction=0), rtol=1e-12)


def test_a_channel_that_never_varies_is_not_divided_by_zero():
    images = torch.full((5, 1, 2, 2), 7, dtype=torch.uint8)
    dataset = data.from_tensors("mine", (images, torch.zeros(5).long()), (images, torch.zeros(5).long()))
    ((inputs, _),) = data.Batches(dataset.train, 5).epoch(0)
    assert torch.equal(inputs, torch.zeros(5, 1, 2, 2))


# Splits


def numbered(targets, task=None):
    """A data set whose inputs are the numbers of its examples."""
    targets = torch.as_tensor(targets)
    inputs = torch.arange(len(targets), dtype=torch.float32)[:, None]
    return data.from_tensors("numbered", (inputs, targets), (inputs, targets), task=task)


def test_full_is_the_training_and_the_test_set():
    dataset = data.load("digits")
    assert data.split(dataset, "full") == (dataset.train, dataset.test)


@pytest.mark.parametrize("folds", [2, 3, 5, 10])
def test_folds_divide_the_training_set_and_every_class_evenly(folds):
    generator = np.random.default_rng(0)
    targets = generator.choice(4, 500, p=[0.5, 0.3, 0.15, 0.05])
    dataset = numbered(targets)
    seen = []
    for number in range(1, folds + 1):
        train, valid = data.split(dataset, f"fold:{number}/{folds}")
        assert sorted([*train.inputs[:, 0].tolist(), *valid.inputs[:, 0].tolist()]) == list(range(500))
        seen += valid.inputs[:, 0].tolist()
        shares = torch.bincount(valid.targets, minlength=4) - torch.bincount(dataset.train.targets) / folds
        assert shares.abs().max() < 1
        assert abs(len(valid) - 500 / folds) < 1
    assert sorted(seen) == list(range(500))


def test_a_fraction_is_held_out_and_every_class_evenly():
    dataset = data.load("digits")
    train, valid = data.split(dataset, "fraction:0.1", seed=3)
    assert (len(train), len(valid)) == (1293, 144)
    shares = torch.bincount(valid.targets) - torch.bincount(dataset.train.targets) / 10
    assert shares.abs().max() < 1


def test_a_seed_gives_the_same_division_and_another_seed_another():
    dataset = data.load("digits")
    once, again, other = (data.split(dataset, "fold:1/5", seed=seed)[1].inputs for seed in (1, 1, 2))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    # The same on every machine: numpy promises these numbers for ever.
    order = splits._order(numbered(torch.zeros(10, 1), "regression"), 0)
    from numpy.random import MT19937, RandomState, SeedSequence

    assert order.tolist() == RandomState(MT19937(SeedSequence(0))).permutation(10).tolist()


def test_a_text_is_divided_into_stretches():
    rows = torch.arange(360)[:, None].expand(-1, 8)
    dataset = data.from_tensors("t", (rows, rows), (rows, rows))
    _, valid = data.split(dataset, "fold:2/4")
    assert valid.inputs[:, 0].tolist() == list(range(90, 180))
    _, valid = data.split(dataset, "fraction:0.1")
    assert valid.inputs[:, 0].tolist() == list(range(324, 360))


@pytest.mark.parametrize(
    "how", ["", "ful", "fold:0/5", "fold:6/5", "fold:1/1", "fold:1/5000", "fold:-1/5", "fraction:0", "fraction:1",
            "fraction:1.5", "fraction:-0.1", "fraction:x", "fold:1", "full "],
)  # fmt: skip
def test_a_split_that_is_none_is_refused(how):
    with pytest.raises(ValueError, match="'split' must"):
        data.split(data.load("digits"), how)


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="'seed' must be 0 or more"):
        data.split(data.load("digits"), "fold:1/5", seed=-1)


def test_the_python_examples_of_the_page_run(monkeypatch, tmp_path):
    monkeypatch.setenv("CAMHD_DATA", str(tmp_path))
    page = (Path(__file__).resolve().parents[1] / "docs" / "data.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    namespace = {}
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"data.md, example {number}", "exec"), namespace)
    assert namespace["mine"].classes == 7
    assert all(f"`{name}" in page for name in data.NAMES)


@pytest.mark.parametrize(
    "error", [MissingData("train.gz", "9 bytes", "none", "Get it."), NeedsPackage("This data set", "a package")]
)
def test_errors_go_from_one_process_to_another(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
