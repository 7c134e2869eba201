"""Files of data sets: read as they are published, and told apart from everything else."""

import io
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch

import datafiles
from camhd.lab import data
from camhd.lab.data import cifar, svhn

CASES = [pytest.param(case, id=case) for case in datafiles.CASES]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder of our own, and none of the user's."""
    monkeypatch.delenv("CAMHD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data"


def prepared(case, folder, monkeypatch):
    """The small files of a case, published and on the disk."""
    name, inside, make = datafiles.CASES[case]
    files = make()
    datafiles.publish(monkeypatch, name, datafiles.edition(datafiles.format_of(case), files))
    return name, datafiles.write(folder / inside, files), files


@pytest.mark.parametrize("case", CASES)
def test_files_made_at_another_time_are_the_same(case, monkeypatch):
    """Tests serve some and publish others: where the clock is inside, that fails once in a while."""
    make = datafiles.CASES[case][2]
    files = make()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "asctime", lambda *at: "Thu Jan  1 00:00:00 1970")
    assert make() == files


# What the files hold is what comes out


def test_idx_files_give_their_images_and_labels(folder, monkeypatch):
    name, _, _ = prepared("idx.gz", folder, monkeypatch)
    dataset = data.load(name, folder)
    assert np.array_equal(dataset.train.inputs[:, 0].numpy(), datafiles.random_images(30, 28, 28, seed=0))
    assert np.array_equal(dataset.train.targets.numpy(), datafiles.random_labels(30, 0))
    assert np.array_equal(dataset.test.inputs[:, 0].numpy(), datafiles.random_images(20, 28, 28, seed=1))
    assert np.array_equal(dataset.test.targets.numpy(), datafiles.random_labels(20, 1))
    assert (dataset.shape, dataset.classes, dataset.note) == ((1, 28, 28), 10, "")


@pytest.mark.parametrize("case", ["cifar-binary", "cifar-python", "cifar-binary.tar.gz", "cifar-python.tar.gz"])
def test_every_form_of_cifar_gives_the_same_images(case, folder, monkeypatch):
    name, _, _ = prepared(case, folder, monkeypatch)
    dataset = data.load(name, folder)
    parts = list(datafiles.cifar_parts().values())
    images = np.concatenate([images for images, _ in parts]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for _, labels in parts])
    assert np.array_equal(torch.cat([dataset.train.inputs, dataset.test.inputs]).numpy(), images)
    assert np.array_equal(torch.cat([dataset.train.targets, dataset.test.targets]).numpy(), labels)
    assert (len(dataset.train), len(dataset.test)) == (20, 4)


def test_the_fingerprint_does_not_depend_on_the_form_of_the_files(folder, monkeypatch):
    prints = set()
    for case in ("cifar-binary", "cifar-python", "cifar-binary.tar.gz"):
        name, _, _ = prepared(case, folder / case.replace(".", "-"), monkeypatch)
        prints.add(data.load(name, folder / case.replace(".", "-")).fingerprint)
    assert len(prints) == 1


@pytest.mark.parametrize("compress", [True, False])
def test_svhn_is_read_as_scipy_reads_it(compress, tmp_path):
    for name, content in datafiles.svhn(compress=compress).items():
        images, labels = svhn._part(content, tmp_path / name, "")
        expected = scipy.io.loadmat(io.BytesIO(content))
        assert np.array_equal(images.numpy(), expected["X"].transpose(3, 2, 0, 1))
        assert np.array_equal(labels.numpy(), expected["y"][:, 0] % 10)


def test_labels_of_svhn_may_be_doubles_and_other_variables_are_passed_over(tmp_path):
    stream = io.BytesIO()
    images = datafiles.random_images(32, 32, 3, 4)
    scipy.io.savemat(stream, {"a": "words", "X": images, "y": np.array([[1.0], [10.0], [3.0], [9.5 - 0.5]])})
    _, labels = svhn._part(stream.getvalue(), tmp_path, "")
    assert labels.tolist() == [1, 0, 3, 9]


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_batches_pickled_by_python_3_are_read_too(protocol, tmp_path):
    images, labels = datafiles.random_images(3, 3072), datafiles.random_labels(3)
    read, classes = cifar._pickled(datafiles.python3_batch(images, labels, protocol), tmp_path, "")
    assert np.array_equal(read.flatten(1).numpy(), images)
    assert classes.tolist() == labels.tolist()


# Where files are looked for


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("by", ["argument", "variable", "cache"])
def test_files_are_found_in_the_folder_given_in_camhd_data_or_in_the_cache(case, by, folder, monkeypatch):
    place = data.data_folder() if by == "cache" else folder
    name, _, _ = prepared(case, place, monkeypatch)
    if by == "variable":
        monkeypatch.setenv("CAMHD_DATA", str(folder))
    assert len(data.load(name, folder if by == "argument" else None).train) > 0
    assert [one.state for one in data.describe([name], folder if by == "argument" else None)] == ["here"]


def test_the_cache_is_where_the_platform_has_it(monkeypatch, tmp_path):
    monkeypatch.delenv("CAMHD_DATA", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data.data_folder() == tmp_path / "camhd" / "data"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the standard says: to be ignored
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert data.data_folder() == tmp_path / "home" / ".cache" / "camhd" / "data"
    monkeypatch.setattr("sys.platform", "darwin")
    assert data.data_folder() == tmp_path / "home" / "Library" / "Caches" / "camhd" / "data"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert data.data_folder() == tmp_path / "local" / "camhd" / "data"


def test_unicode_and_spaces_in_paths_are_no_problem(tmp_path, monkeypatch):
    folder = tmp_path / "mes données ▲"
    name, _, _ = prepared("svhn", folder, monkeypatch)
    assert len(data.load(name, folder).train) == 6


def test_packed_and_unpacked_files_side_by_side_are_read_once(folder, monkeypatch):
    packed, unpacked = datafiles.mnist(), datafiles.mnist(packed=False)
    datafiles.publish(monkeypatch, "mnist", datafiles.edition("idx.gz", packed), datafiles.edition("idx", unpacked))
    datafiles.write(folder / "MNIST" / "raw", packed | unpacked)
    whole = data.load("mnist", folder)
    (folder / "MNIST" / "raw" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert data.load("mnist", folder).fingerprint == whole.fingerprint


# What is wrong is told: file, expected, found, remedy


def damage(path, how):
    content = path.read_bytes()
    if how == "flipped":
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    elif how == "truncated":
        path.write_bytes(content[:-1])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "wrong":
        path.write_bytes(b"<html>This file has moved.</html>")
    elif how == "longer":
        path.write_bytes(content + b"\0")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("how", ["flipped", "truncated", "empty", "wrong", "longer"])
def test_a_damaged_file_is_an_error_that_says_everything(case, how, folder, monkeypatch):
    name, place, files = prepared(case, folder, monkeypatch)
    for file, content in files.items():
        path = place / file
        damage(path, how)
        with pytest.raises(data.DataError) as caught:
            data.load(name, folder)
        message = str(caught.value)
        assert str(path) in message
        known = datafiles.edition("", {file: content}).files[0]
        assert f"expected {len(content):,} bytes with md5 {known.md5}" in message
        assert f"found {path.stat().st_size:,} bytes" in message
        assert f"camhd data get {name} --folder {folder}" in message
        assert f"camhd data add {name}" in message
        path.write_bytes(content)
    assert len(data.load(name, folder).train) > 0


@pytest.mark.parametrize("case", CASES)
def test_any_single_flipped_byte_is_noticed(case, folder, monkeypatch):
    name, place, files = prepared(case, folder, monkeypatch)
    path = place / next(iter(files))
    content = path.read_bytes()
    for at in {0, 1, 4, 5, 9, len(content) - 1, *range(0, len(content), max(1, len(content) // 5))}:
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])
        with pytest.raises(data.DataError, match="md5"):
            data.load(name, folder)


@pytest.mark.parametrize("case", CASES)
def test_a_missing_file_is_an_error_that_says_everything(case, folder, monkeypatch):
    name, place, files = prepared(case, folder, monkeypatch)
    if len(files) > 1:
        for file, content in files.items():
            (place / file).unlink()
            with pytest.raises(data.MissingData) as caught:
                data.load(name, folder)
            known = datafiles.edition("", {file: content}).files[0]
            assert f"{place / file}: expected {len(content):,} bytes with md5 {known.md5}" in str(caught.value)
            assert "found no such file" in str(caught.value)
            assert f"camhd data get {name}" in str(caught.value)
            (place / file).write_bytes(content)
    shutil.rmtree(folder)
    with pytest.raises(data.MissingData, match=f"no such folder as {folder}.*camhd data get {name} --folder"):
        data.load(name, folder)


def test_nothing_is_downloaded_by_loading(folder, monkeypatch):
    import socket

    def refuse(*arguments, **named):
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    for name in ("mnist", "fashion-mnist", "cifar10", "svhn"):
        with pytest.raises(data.MissingData):
            data.load(name, folder)
    data.describe(folder=folder)
    data.verify(folder=folder)


def test_a_file_of_another_data_set_is_not_taken(folder, monkeypatch):
    """Fashion-MNIST has the file names of MNIST."""
    files = datafiles.mnist()
    datafiles.publish(monkeypatch, "fashion-mnist", datafiles.edition("idx.gz", files))
    datafiles.write(folder / "mnist", files)
    with pytest.raises(data.DataError, match="f68b3c2dcbeaaa9fbdd348bbdeb94873"):
        data.load("mnist", folder)


def test_a_file_that_may_not_be_read_is_told(folder, monkeypatch):
    name, _, _ = prepared("svhn", folder, monkeypatch)
    really = Path.open

    def refuse(path, *arguments, **named):
        if path.suffix == ".mat":
            raise PermissionError(13, "Permission denied", str(path))
        return really(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(data.DataError, match=r"train_32x32\.mat: expected a file that can be read, found .*Permission"):
        data.load(name, folder)


# The real files, where they are


@pytest.mark.skipif(not (datafiles.SHARED / "mnist").is_dir(), reason="no MNIST beside the project")
def test_the_real_mnist():
    dataset = data.load("mnist", datafiles.SHARED)
    assert (len(dataset.train), len(dataset.test), dataset.note) == (60_000, 10_000, "")
    assert dataset.train.targets.bincount().tolist()[:3] == [5923, 6742, 5958]  # as LeCun's page has them
    assert [round(value / 255, 4) for value in (*dataset.mean, *dataset.std)] == [0.1307, 0.3081]


@pytest.mark.skipif(not (datafiles.SHARED / "svhn-small").is_dir(), reason="no SVHN beside the project")
def test_the_real_svhn_of_20000_crops_carries_its_note():
    dataset = data.load("svhn", datafiles.SHARED)
    assert (len(dataset.train), len(dataset.test)) == (20_000, 6_000)
    assert dataset.note == "SVHN, first 20,000 crops, rebuilt"
    assert dataset.train.targets[:3].tolist() == [1, 9, 2]
