"""Data sets by name: what there is, what is here, and reading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..choices import choose_a
from . import bundled, docstrings, options, places, synthetic, text
from .errors import DataError
from .examples import Dataset, Task, from_tensors
from .formats import FORMATS


@dataclass(frozen=True)
class About:
    """What is known of a data set before it is read."""

    what: str
    task: Task
    train: int | None  # None: it depends on the copy
    test: int | None
    source: str
    terms: str


ABOUT: Mapping[str, About] = {
    "digits": About(
        "handwritten digits, 8 × 8",
        "classification",
        1437,
        360,
        "https://archive.ics.uci.edu/dataset/80",
        "CC BY 4.0",
    ),
    "mnist": About(
        "handwritten digits, 28 × 28",
        "classification",
        60_000,
        10_000,
        "http://yann.lecun.com/exdb/mnist/",
        "CC BY-SA 3.0",
    ),
    "fashion-mnist": About(
        "clothes, 28 × 28",
        "classification",
        60_000,
        10_000,
        "https://github.com/zalandoresearch/fashion-mnist",
        "MIT",
    ),
    "cifar10": About(
        "ten kinds of things and animals, 3 × 32 × 32",
        "classification",
        50_000,
        10_000,
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        "none stated; cite Krizhevsky (2009)",
    ),
    "svhn": About(
        "house numbers, cropped, 3 × 32 × 32",
        "classification",
        73_257,
        26_032,
        "http://ufldl.stanford.edu/housenumbers/",
        "for non-commercial use",
    ),
    "diabetes": About(
        "442 patients, ten measurements each",
        "regression",
        353,
        89,
        "https://www4.stat.ncsu.edu/~boos/var.select/diabetes.html",
        "none stated; cite Efron et al. (2004)",
    ),
    "text": About(
        "Python's language reference, character by character",
        "language",
        None,
        None,
        "https://docs.python.org/3/reference/",
        "PSF licence",
    ),
    "docstrings": About(
        "docstrings of Python's standard library, character by character",
        "language",
        None,
        None,
        "https://docs.python.org/3/library/",
        "PSF licence",
    ),
    "quadratic": About(
        "an ill-conditioned quadratic: a linear regression", "regression", 256, 256, "computed", "none needed"
    ),
    "noisy-quadratic": About(
        "the same with noise in the training set", "regression", 4096, 4096, "computed", "none needed"
    ),
}
NAMES: tuple[str, ...] = tuple(ABOUT)
BUNDLED = {
    "digits": bundled.digits,
    "diabetes": bundled.diabetes,
    "docstrings": docstrings.dataset,
    "quadratic": synthetic.quadratic,
    "noisy-quadratic": synthetic.noisy_quadratic,
}


def split_name(name: str) -> tuple[str, str]:
    """A name without its option, and the option: "mnist:6000" are the first 6,000 training images of MNIST.

    >>> split_name("text:128"), split_name("mnist")
    (('text', '128'), ('mnist', ''))
    """
    plain, colon, option = name.partition(":")
    choose_a("data set", plain, NAMES)
    if colon:
        options.check(name, plain, option, ABOUT[plain].train)
    return plain, option


def load(name: str, folder: Path | str | None = None) -> Dataset:
    """The data set of that name.

    Nothing is downloaded: `get` does that. Files are compared with their published hashes.

    Args:
        name: one of `NAMES`; `mnist:6000` for the first 6,000 training images and the whole test set, `digits:32x32`
            for larger images, `text:128` for windows of 128 characters.
        folder: where the data sets are; by default `CAMHD_DATA`, or else a folder in the user's cache.

    Raises:
        DataError: if a file is missing or is not what it should be.

    >>> load("digits").shape
    (1, 8, 8)
    >>> load("digets")
    Traceback (most recent call last):
    ValueError: there is no data set 'digets'; did you mean 'digits'? The choices are digits, mnist, ...
    """
    plain, option = split_name(name)
    if option and plain not in options.TEXTS:
        return options.apply(load(plain, folder), option)
    if plain == "docstrings":
        return docstrings.dataset(name, _length(option))
    if plain in BUNDLED:
        return BUNDLED[plain]()
    if plain == "text" and places.locate(places.copies(plain, places.data_folder(folder))) is None:
        content, note = text.reference()
        return text.from_text(name, content, _length(option), note)
    copy = places.found(plain, folder)
    remedy = places.remedy(plain, folder, copy)
    edition, contents = places.check(copy, remedy)
    return build(name, copy, contents, edition.note, remedy)


def build(name: str, copy: places.Copy, contents: Mapping[str, bytes], note: str, remedy: str) -> Dataset:
    """A data set out of the contents of its files."""
    plain, option = split_name(name)
    read = FORMATS[copy.format].read
    if read is None:
        ((file, content),) = contents.items()
        return text.from_text(name, text.decode(content, copy.place / file, remedy), _length(option), note)
    train, test = read(contents, copy.place, remedy)
    if train[0].shape[1:] != test[0].shape[1:]:
        shapes = f"{tuple(train[0].shape[1:])} and {tuple(test[0].shape[1:])}"
        raise DataError(copy.place, "training and test images of one shape", shapes, remedy)
    classes = max(10, *(1 + int(labels.max()) for _, labels in (train, test)))
    return from_tensors(plain, train, test, classes=classes, note=note)


def _length(option: str) -> int:
    """Of the windows of a text."""
    return int(option) if option else text.LENGTH
