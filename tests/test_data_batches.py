"""Batches: each example once, the same order for the same seed, from any place on, and augmented as it should be."""

import itertools

import numpy as np
import pytest
import torch

from camhd.lab import data
from camhd.lab.data.augment import HOLE, PADDING


def numbered(count=10, **more):
    return data.Examples(torch.arange(float(count))[:, None], torch.arange(count), **more)


def images(count=40, channels=3, side=32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(1, 256, (count, channels, side, side), dtype=torch.uint8, generator=generator)
    return data.Examples(pixels, torch.arange(count), (0.0,) * channels, (1.0,) * channels)


def targets_of(batches, epoch, start=0):
    return torch.cat([targets for _, targets in batches.epoch(epoch, start)]).tolist()


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("size", "lengths"), [(3, [3, 3, 3, 1]), (5, [5, 5]), (10, [10]), (64, [10])])
def test_an_epoch_holds_every_example_once(shuffle, size, lengths):
    batches = data.Batches(numbered(), size, shuffle=shuffle)
    assert len(batches) == len(lengths)
    assert [len(targets) for _, targets in batches.epoch(0)] == lengths
    assert sorted(targets_of(batches, 0)) == list(range(10))
    assert (targets_of(batches, 0) == list(range(10))) == (not shuffle)


def test_drop_last_leaves_out_what_does_not_fill_a_batch():
    batches = data.Batches(numbered(), 4, drop_last=True)
    assert [len(targets) for _, targets in batches.epoch(0)] == [4, 4]
    assert len(batches) == 2


def test_inputs_and_targets_stay_together():
    for inputs, targets in data.Batches(numbered(100), 7).epoch(3):
        assert torch.equal(inputs[:, 0], targets.float())


def test_the_order_is_a_function_of_seed_and_epoch():
    orders = {
        (seed, epoch): tuple(targets_of(data.Batches(numbered(50), 8, seed=seed), epoch))
        for seed, epoch in itertools.product((0, 1, 2), (0, 1, 2))
    }
    assert len(set(orders.values())) == 9
    again = data.Batches(numbered(50), 8, seed=1)
    assert tuple(targets_of(again, 2)) == orders[1, 2]
    assert tuple(targets_of(again, 0)) == orders[1, 0]  # in whatever sequence epochs are asked for


@pytest.mark.parametrize("augment", [None, "crop-flip", "crop-flip-cutout"])
def test_an_epoch_goes_on_from_any_batch(augment):
    batches = data.Batches(images(20), 3, seed=5, augment=augment)
    whole = list(batches.epoch(4))
    for start in range(len(batches) + 1):
        fresh = data.Batches(images(20), 3, seed=5, augment=augment)
        rest = list(fresh.epoch(4, start))
        assert len(rest) == len(whole) - start
        for (inputs, targets), (expected, classes) in zip(rest, whole[start:], strict=True):
            assert torch.equal(inputs, expected)
            assert torch.equal(targets, classes)


def test_torchs_own_random_numbers_are_neither_used_nor_touched():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    once = [inputs for inputs, _ in data.Batches(images(), 8, augment="crop-flip-cutout").epoch(0)]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again = [inputs for inputs, _ in data.Batches(images(), 8, augment="crop-flip-cutout").epoch(0)]
    assert all(map(torch.equal, once, again))


def test_two_epochs_at_once_do_not_mix():
    batches = data.Batches(images(), 8, augment="crop-flip")
    one, two = batches.epoch(0), batches.epoch(1)
    mixed = [(next(one)[0], next(two)[0]) for _ in range(len(batches))]
    for epoch in (0, 1):
        alone = [inputs for inputs, _ in batches.epoch(epoch)]
        assert all(torch.equal(a, pair[epoch]) for a, pair in zip(alone, mixed, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_is_normalised(dtype):
    digits = data.load("digits")
    ((inputs, targets),) = data.Batches(digits.train, 2000, shuffle=False, dtype=dtype).epoch(0)
    expected = (digits.train.inputs.double() - digits.mean[0]) / digits.std[0]
    assert inputs.dtype == dtype
    assert targets.dtype == torch.int64
    assert torch.allclose(inputs.double(), expected, atol=1e-6)
    assert abs(float(inputs.mean())) < 1e-5
    assert abs(float(inputs.std()) - 1) < 1e-3


def test_features_are_normalised_one_by_one():
    diabetes = data.load("diabetes")
    ((inputs, targets),) = data.Batches(diabetes.train, 1000).epoch(0)
    assert torch.allclose(inputs.mean(0), torch.zeros(10), atol=1e-5)
    assert torch.allclose(inputs.std(0, correction=0), torch.ones(10), atol=1e-5)
    assert targets.dtype == torch.float32


def test_tokens_come_as_whole_numbers(tmp_path):
    text = data.load("text", tmp_path)
    inputs, targets = next(data.Batches(text.train, 4).epoch(0))
    assert inputs.shape == targets.shape == (4, 64)
    assert inputs.dtype == targets.dtype == torch.int64
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("mean", [None, (0.0,)])
def test_what_is_done_to_a_batch_is_not_done_to_the_examples(shuffle, mean):
    examples = numbered(mean=mean, std=None if mean is None else (1.0,))
    for inputs, targets in data.Batches(examples, 4, shuffle=shuffle).epoch(0):
        inputs.fill_(-1)
        targets.fill_(-1)
    assert torch.equal(examples.inputs, numbered().inputs)
    assert torch.equal(examples.targets, numbered().targets)


# Augmentation, compared with numpy, image by image


def crops(image):
    """Every crop of a padded image, flipped or not, by its bytes."""
    padded = np.pad(image, ((0, 0), (PADDING, PADDING), (PADDING, PADDING)))
    height, width = image.shape[1:]
    for down, right in itertools.product(range(2 * PADDING + 1), repeat=2):
        crop = padded[:, down : down + height, right : right + width]
        yield (down, right, False), crop
        yield (down, right, True), crop[:, :, ::-1]


def test_every_image_is_one_of_its_crops_and_all_crops_occur():
    examples = images(60, channels=2, side=12)
    possible = [{crop.tobytes(): move for move, crop in crops(image)} for image in examples.inputs.numpy()]
    moves = []
    batches = data.Batches(examples, 16, augment="crop-flip")
    for epoch in range(20):
        for inputs, targets in batches.epoch(epoch):
            for image, number in zip(inputs.to(torch.uint8).numpy(), targets.tolist(), strict=True):
                moves.append(possible[number][np.ascontiguousarray(image).tobytes()])
    downs, rights, flips = (np.array(values) for values in zip(*moves, strict=True))
    assert len(moves) == 1200
    for shifts in (downs, rights):
        assert np.bincount(shifts, minlength=9).min() > 80  # 133 each on average, deviation 11
    assert abs(flips.mean() - 0.5) < 0.06
    assert abs(np.corrcoef(downs, rights)[0, 1]) < 0.12


def test_images_that_are_not_square_are_cropped_too():
    pixels = torch.randint(1, 256, (5, 1, 6, 10), dtype=torch.uint8)
    examples = data.Examples(pixels, torch.arange(5), (0.0,), (1.0,))
    for inputs, targets in data.Batches(examples, 2, augment="crop-flip").epoch(0):
        for image, number in zip(inputs.to(torch.uint8).numpy(), targets.tolist(), strict=True):
            assert any(np.array_equal(image, crop) for _, crop in crops(pixels[number].numpy()))


def test_what_is_cropped_in_from_outside_is_black_and_then_normalised():
    pixels = torch.full((30, 1, 8, 8), 200, dtype=torch.uint8)
    examples = data.Examples(pixels, torch.zeros(30).long(), (100.0,), (50.0,))
    ((inputs, _),) = data.Batches(examples, 30, augment="crop-flip").epoch(0)
    assert set(inputs.unique().tolist()) == {-2.0, 2.0}


def test_a_hole_is_a_square_of_zeros_wherever_its_middle_is():
    examples = images(200, channels=3, side=32)
    plain = data.Batches(examples, 50, seed=3, augment="crop-flip")
    cut = data.Batches(examples, 50, seed=3, augment="crop-flip-cutout")
    middles = []
    for (inputs, _), (expected, _) in zip(cut.epoch(0), plain.epoch(0), strict=True):
        for image, whole in zip(inputs, expected, strict=True):
            hole = (image != whole).any(0)  # where the crop was not black before
            rows, columns = hole.any(1).nonzero().flatten(), hole.any(0).nonzero().flatten()
            top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
            assert torch.equal(image[:, top:bottom, left:right], torch.zeros(3, bottom - top, right - left))
            kept = torch.ones(32, 32, dtype=torch.bool)
            kept[top:bottom, left:right] = False
            assert torch.equal(image[:, kept], whole[:, kept])
            assert max(bottom - top, right - left) <= HOLE
            middles.append((int(top), int(bottom), int(left), int(right)))
    full = [m for m in middles if m[1] - m[0] == HOLE and m[3] - m[2] == HOLE]
    assert 0.15 < len(full) / 200 < 0.45  # 17 of 32 places in either direction, less what is black: about 0.28


def test_bytes_and_floats_are_augmented_alike():
    examples = images(20)
    floats = data.Examples(examples.inputs.float(), examples.targets)
    for augment in ("crop-flip", "crop-flip-cutout"):
        pairs = zip(
            data.Batches(examples, 6, augment=augment).epoch(1),
            data.Batches(floats, 6, augment=augment).epoch(1),
            strict=True,
        )
        assert all(torch.equal(a, b) for (a, _), (b, _) in pairs)


# Wrong arguments

WRONG = [
    ({"batch_size": 0}, "'batch_size' must be 1 or more, got 0"),
    ({"batch_size": 11, "drop_last": True}, "there would be no batch"),
    ({"batch_size": 2, "augment": "crop"}, "did you mean 'crop-flip'"),
    ({"batch_size": 2, "augment": "crop-flip"}, "'augment' must be None for inputs that are not images"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=[case[1] for case in WRONG])
def test_a_wrong_argument_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        data.Batches(numbered(), **options)


@pytest.mark.parametrize("start", [-1, 5])
def test_a_start_outside_the_epoch_is_refused_at_once(start):
    batches = data.Batches(numbered(), 3)
    with pytest.raises(ValueError, match="'start' must be 0 to 4"):
        batches.epoch(0, start)


def test_examples_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match="same length"):
        data.Examples(torch.zeros(2, 1), torch.zeros(3))
    with pytest.raises(ValueError, match="go together"):
        data.Examples(torch.zeros(2, 1), torch.zeros(2), mean=(1.0,))
    with pytest.raises(ValueError, match="one a channel, got 2"):
        data.Examples(torch.zeros(2, 1), torch.zeros(2), (1.0, 1.0), (1.0, 1.0))
