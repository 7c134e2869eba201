"""`add`: published files are recognised, others are taken only if somebody vouches for them, and it shows."""

import gzip
import json

import pytest

import datafiles
from camhd.lab import data

CASES = [pytest.param(case, id=case) for case in datafiles.CASES]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("CAMHD_DATA", raising=False)
    return tmp_path / "data"


def source_of(case, tmp_path, inside=""):
    name, _, make = datafiles.CASES[case]
    files = make()
    return name, files, datafiles.write(tmp_path / "downloads" / inside, files)


# Published files


@pytest.mark.parametrize("case", CASES)
def test_published_files_are_recognised_and_copied(case, folder, tmp_path, monkeypatch):
    name, files, source = source_of(case, tmp_path)
    datafiles.publish(monkeypatch, name, datafiles.edition(datafiles.format_of(case), files))
    added = data.add(name, source, folder=folder)
    assert (added.state, added.note) == ("here", "")
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == sorted(files)
    assert data.load(name, folder).note == ""
    assert datafiles.everything_in(source) == files


@pytest.mark.parametrize(
    ("case", "inside"),
    [
        ("idx.gz", "MNIST/raw"),
        ("fashion", "FashionMNIST/raw"),
        ("cifar-binary", "cifar-10-batches-bin"),
        ("svhn", "svhn"),
    ],
)
def test_a_folder_above_the_files_will_do(case, inside, folder, tmp_path, monkeypatch):
    name, files, _ = source_of(case, tmp_path, inside)
    datafiles.publish(monkeypatch, name, datafiles.edition(datafiles.format_of(case), files))
    data.add(name, tmp_path / "downloads", folder=folder)
    assert len(data.load(name, folder).train) > 0


def test_one_of_the_files_will_do(folder, tmp_path, monkeypatch):
    name, files, source = source_of("cifar-python.tar.gz", tmp_path)
    datafiles.publish(monkeypatch, name, datafiles.edition("cifar-python.tar.gz", files))
    data.add(name, source / "cifar-10-python.tar.gz", folder=folder)
    assert len(data.load(name, folder).train) == 20


def test_an_archive_is_unpacked_where_its_members_are_known(folder, tmp_path, monkeypatch):
    batches = datafiles.cifar_python()
    archive = {"cifar-10-python.tar.gz": datafiles.tar_gz(batches, "cifar-10-batches-py")}
    editions = [datafiles.edition("cifar-python", batches), datafiles.edition("cifar-python.tar.gz", archive)]
    datafiles.publish(monkeypatch, "cifar10", *editions)
    data.add("cifar10", datafiles.write(tmp_path / "source", archive), folder=folder)
    assert datafiles.everything_in(folder / "cifar10" / "cifar-10-batches-py") == batches
    assert len(data.load("cifar10", folder).train) == 20


def test_adding_twice_is_adding_once(folder, tmp_path, monkeypatch):
    name, files, source = source_of("svhn", tmp_path)
    datafiles.publish(monkeypatch, name, datafiles.edition("svhn", files))
    data.add(name, source, folder=folder)
    before = datafiles.everything_in(folder)
    data.add(name, source, folder=folder)
    assert datafiles.everything_in(folder) == before


# Files that somebody vouches for


@pytest.mark.parametrize("case", CASES)
def test_unknown_files_are_not_taken_without_a_note(case, folder, tmp_path):
    name, files, source = source_of(case, tmp_path)
    with pytest.raises(data.DataError) as caught:
        data.add(name, source, folder=folder)
    assert str(source / next(iter(files))) in str(caught.value)
    assert "expected" in str(caught.value)
    assert f"camhd data get {name} --folder {folder}" in str(caught.value)
    assert "--note 'what it is'" in str(caught.value)
    assert not folder.exists()


@pytest.mark.parametrize("case", CASES)
def test_with_a_note_they_are_taken_and_the_note_stays_with_them(case, folder, tmp_path):
    name, _, source = source_of(case, tmp_path)
    added = data.add(name, source, note=" five of each  ", folder=folder)
    assert (added.state, added.note) == ("vouched", "five of each")
    assert data.load(name, folder).note == "five of each"
    assert [verdict.message for verdict in data.verify([name], folder)] == ["five of each"]


@pytest.mark.parametrize("case", CASES)
def test_what_was_vouched_for_is_checked_like_anything_else(case, folder, tmp_path):
    name, files, source = source_of(case, tmp_path)
    place = data.add(name, source, note="mine", folder=folder).place
    for file, content in files.items():
        (place / file).write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
        with pytest.raises(data.DataError, match=r"expected .* bytes with sha256 .*, found .* bytes with sha256 "):
            data.load(name, folder)
        (place / file).write_bytes(content)
    (place / "vouched.json").unlink()
    with pytest.raises(data.DataError, match="camhd data add"):
        data.load(name, folder)


def test_files_that_cannot_be_read_cannot_be_vouched_for(folder, tmp_path):
    for case in datafiles.CASES:
        name, files, source = source_of(case, tmp_path, case)
        for file in files:
            (source / file).write_bytes(b"nothing of the kind")
        with pytest.raises(data.DataError, match="expected"):
            data.add(name, source, note="mine", folder=folder)
    assert not datafiles.everything_in(folder)


def test_files_inside_the_data_folder_are_vouched_for_where_they_are(folder):
    source = datafiles.write(folder / "svhn-small", datafiles.svhn())
    data.add("svhn", source, note="a few", folder=folder)
    assert datafiles.everything_in(folder).keys() == {
        "svhn-small/train_32x32.mat",
        "svhn-small/test_32x32.mat",
        "svhn-small/vouched.json",
    }
    assert data.load("svhn", folder).note == "a few"
    data.add("svhn", source, note="a few crops", folder=folder)
    assert data.load("svhn", folder).note == "a few crops"


def test_a_folder_that_was_vouched_for_can_be_added_elsewhere_with_its_note(folder, tmp_path):
    first = tmp_path / "first"
    data.add("svhn", datafiles.write(tmp_path / "source", datafiles.svhn()), note="a few", folder=first)
    data.add("svhn", first / "svhn", folder=folder)
    assert data.load("svhn", folder).note == "a few"


def test_a_known_edition_that_is_not_the_official_one_brings_its_own_note(folder, tmp_path, monkeypatch):
    official, small = datafiles.svhn(9, 9), datafiles.svhn(3, 2)
    editions = [datafiles.edition("svhn", official), datafiles.edition("svhn", small, note="the first three")]
    datafiles.publish(monkeypatch, "svhn", *editions)
    data.add("svhn", datafiles.write(tmp_path / "small", small), folder=folder)
    assert data.load("svhn", folder).note == "the first three"
    assert data.describe(["svhn"], folder)[0].note == "the first three"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"version": 2}', b"\xff", b'{"version": 1, "format": "svhn", "note": "", "files": {}}'],
)
def test_a_damaged_record_of_vouching_is_an_error(content, folder, tmp_path):
    place = data.add("svhn", datafiles.write(tmp_path / "s", datafiles.svhn()), note="mine", folder=folder).place
    (place / "vouched.json").write_bytes(content)
    with pytest.raises(data.DataError, match=r"vouched\.json: expected a record of version 1"):
        data.load("svhn", folder)
    assert data.describe(["svhn"], folder)[0].state == "wrong"


def test_a_record_of_vouching_cannot_name_files_elsewhere(folder, tmp_path):
    place = data.add("svhn", datafiles.write(tmp_path / "s", datafiles.svhn()), note="mine", folder=folder).place
    record = json.loads((place / "vouched.json").read_text())
    record["files"]["../../secret"] = record["files"].pop("test_32x32.mat")
    (place / "vouched.json").write_text(json.dumps(record))
    with pytest.raises(data.DataError, match=r"vouched\.json"):
        data.load("svhn", folder)


def test_a_text_of_ones_own(folder, tmp_path):
    book = tmp_path / "book.txt"
    book.write_text("Übung macht den Meister.\r\n" * 200, encoding="utf-8")
    with pytest.raises(data.DataError, match="--note"):
        data.add("text", book, folder=folder)
    data.add("text", book, note="a proverb", folder=folder)
    dataset = data.load("text:16", folder)
    assert (dataset.note, dataset.shape, dataset.name) == ("a proverb", (16,), "text:16")
    assert dataset.classes == len(set("Übung macht den Meister.\n"))
    assert data.load("text", tmp_path / "elsewhere").note.startswith("the language reference")


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00", b"short", gzip.compress(b"packed" * 1000, mtime=0)],
    ids=["not UTF-8", "short", "packed"],
)
def test_a_file_that_is_no_text_is_refused(content, folder, tmp_path):
    (tmp_path / "book.txt").write_bytes(content)
    with pytest.raises(ValueError, match=r"UTF-8|at least 1,280 characters"):
        data.add("text", tmp_path / "book.txt", note="mine", folder=folder)
    assert not folder.exists()


# What is refused


def test_nothing_is_overwritten(folder, tmp_path):
    one = datafiles.write(tmp_path / "one", datafiles.svhn(3, 2))
    two = datafiles.write(tmp_path / "two", datafiles.svhn(5, 2))
    data.add("svhn", one, note="one", folder=folder)
    before = datafiles.everything_in(folder)
    with pytest.raises(data.DataError, match="expected no file, or the same one, found another file"):
        data.add("svhn", two, note="two", folder=folder)
    assert datafiles.everything_in(folder) == before


def test_what_is_added_is_what_is_found(folder, tmp_path):
    datafiles.write(folder / "cifar10" / "cifar-10-batches-bin", datafiles.cifar_binary())
    source = datafiles.write(tmp_path / "py", datafiles.cifar_python())
    with pytest.raises(data.DataError, match="It would be read instead: remove it first"):
        data.add("cifar10", source, note="mine", folder=folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [("digits", "needs no files"), ("mnst", "did you mean 'mnist'"), ("mnist", "the files of mnist")],
)
def test_what_cannot_be_added_is_told(name, message, folder, tmp_path):
    with pytest.raises(ValueError, match=message):
        data.add(name, tmp_path, folder=folder)
    with pytest.raises(ValueError, match=message if name != "mnist" else "a file or folder, found nothing"):
        data.add(name, tmp_path / "nowhere", folder=folder)


def test_an_empty_note_is_none(folder, tmp_path):
    with pytest.raises(ValueError, match="'note' must say what the files are"):
        data.add("svhn", datafiles.write(tmp_path / "s", datafiles.svhn()), note="  ", folder=folder)


def test_an_incomplete_set_cannot_be_vouched_for(folder, tmp_path):
    files = datafiles.svhn()
    files.pop("test_32x32.mat")
    with pytest.raises(data.MissingData, match=r"test_32x32\.mat"):
        data.add("svhn", datafiles.write(tmp_path / "s", files), note="mine", folder=folder)


def test_training_and_test_images_must_be_of_one_shape(folder, tmp_path):
    files = datafiles.mnist()
    files["t10k-images-idx3-ubyte.gz"] = gzip.compress(datafiles.idx(datafiles.random_images(20, 8, 8)))
    with pytest.raises(data.DataError, match="of one shape"):
        data.add("mnist", datafiles.write(tmp_path / "m", files), note="mine", folder=folder)
    files["t10k-images-idx3-ubyte.gz"] = gzip.compress(datafiles.idx(datafiles.random_images(19, 28, 28)))
    with pytest.raises(data.DataError, match="19 labels, one for each image"):
        data.add("mnist", datafiles.write(tmp_path / "m", files), note="mine", folder=folder)


def test_what_is_here_is_described(folder, monkeypatch):
    files = datafiles.svhn()
    datafiles.publish(monkeypatch, "svhn", datafiles.edition("svhn", files, ("http://127.0.0.1:9/",)))
    size = sum(map(len, files.values()))

    def told():
        one = data.describe(["svhn"], folder)[0]
        return one.state, one.download, one.place

    assert told() == ("missing", size, None)
    place = datafiles.write(folder / "svhn", files)
    assert told() == ("here", 0, place)
    (place / "test_32x32.mat").write_bytes(b"x")
    assert told() == ("wrong", 0, place)
    assert data.verify(["svhn"], folder)[0].state == "wrong"
    (place / "test_32x32.mat").unlink()
    assert told() == ("incomplete", 0, place)
    with pytest.raises(ValueError, match="did you mean 'svhn'"):
        data.describe(["svnh"], folder)
