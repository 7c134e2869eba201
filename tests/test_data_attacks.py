"""Data files made by somebody who means ill: never run, never unpacked without end, never written anywhere.

Published files cannot be forged, because their hashes are known. These attacks come in files that a user vouches for.
"""

import contextlib
import gzip
import io
import os
import pickle
import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io

import datafiles
from camhd.lab import data
from camhd.lab.data import archives, cifar, idx, pickles, svhn


class Evil:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def evil_pickles(target):
    """Pickles that make a folder when they are loaded, in different ways, and prove it."""
    images, labels = datafiles.random_images(2, 3072), [1, 2]
    yield "instead of a batch", pickle.dumps(Evil(target), 2)
    for protocol in (0, 1, 2, 4, 5):
        batch = {"labels": labels, "data": images, "filenames": Evil(target)}
        yield f"beside the data, protocol {protocol}", pickle.dumps(batch, protocol)
        yield f"as the data, protocol {protocol}", pickle.dumps({"labels": labels, "data": Evil(target)}, protocol)
        yield f"as a label, protocol {protocol}", pickle.dumps({"labels": [Evil(target)], "data": images}, protocol)
    path = str(target).encode()
    yield "INST", b"(S'" + path + b"'\nios\nmkdir\n."
    yield "OBJ", b"(cos\nmkdir\nS'" + path + b"'\no."


def test_no_pickle_is_ever_run(tmp_path):
    target = tmp_path / "made"
    count = 0
    for how, content in evil_pickles(target):
        with contextlib.suppress(data.DataError):
            cifar._pickled(content, tmp_path / "data_batch_1", "")
        assert not target.exists(), how
        pickle.loads(content)  # the attack would have worked
        assert target.exists(), how
        target.rmdir()
        count += 1
    assert count == 18


def test_a_pickle_that_only_carries_code_beside_its_data_is_read_without_it(tmp_path):
    images, labels = datafiles.random_images(2, 3072), [1, 2]
    batch = {"labels": labels, "data": images, "filenames": Evil(tmp_path / "made")}
    read, _ = cifar._pickled(pickle.dumps(batch, 2), tmp_path, "")
    assert np.array_equal(read.flatten(1).numpy(), images)
    assert not (tmp_path / "made").exists()


WRONG_BATCHES = {
    "a list": [1],
    "no labels": {"data": np.zeros((2, 3072), np.uint8)},
    "no data": {"labels": [1, 2]},
    "too few labels": {"labels": [1], "data": np.zeros((2, 3072), np.uint8)},
    "another width": {"labels": [1, 2], "data": np.zeros((2, 3071), np.uint8)},
    "floats": {"labels": [1, 2], "data": np.zeros((2, 3072), np.float32)},
    "objects": {"labels": [1, 2], "data": np.array([[None]], dtype=object)},
    "Fortran order": {"labels": [1, 2], "data": np.asfortranarray(np.ones((2, 3072), np.uint8))},
    "a class that is not there": {"labels": [1, 10], "data": np.zeros((2, 3072), np.uint8)},
    "a negative class": {"labels": [1, -1], "data": np.zeros((2, 3072), np.uint8)},
    "labels that are no numbers": {"labels": ["a", "b"], "data": np.zeros((2, 3072), np.uint8)},
    "no images": {"labels": [], "data": np.zeros((0, 3072), np.uint8)},
}


@pytest.mark.parametrize("kind", WRONG_BATCHES)
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_that_is_no_batch_is_refused(kind, protocol, tmp_path):
    with pytest.raises(data.DataError, match="data_batch_1: expected"):
        cifar._pickled(pickle.dumps(WRONG_BATCHES[kind], protocol), tmp_path / "data_batch_1", "")


def test_a_pickle_cut_anywhere_is_refused(tmp_path):
    content = datafiles.python2_batch(datafiles.random_images(1, 3072), datafiles.random_labels(1))
    for length in [*range(220), *range(220, len(content), 97)]:
        with pytest.raises(data.DataError):
            cifar._pickled(content[:length], tmp_path, "")


@pytest.mark.parametrize(
    "content", [b".", b"t.", b"}b.", b"K\x01s.", b"h\x05.", b"q\x05.", b"(.", b"]K\x01K\x02s.", b"}(K\x01u."]
)
def test_a_pickle_of_nonsense_is_a_value_error(content):
    with pytest.raises(ValueError, match=r"pickle|stack|mark|list|dictionar|called|shorter"):
        pickles.load(content)


def member(name, kind=tarfile.REGTYPE, link="", size=0):
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, link, size
    return made


BAD_MEMBERS = {
    "a way up": member("../evil"),
    "a way up in the middle": member("cifar-10-batches-bin/../../evil"),
    "an absolute path": member("/tmp/evil"),
    "a path of Windows": member("C:\\evil"),
    "a way up of Windows": member("..\\evil"),
    "a symbolic link": member("cifar-10-batches-bin/data_batch_1.bin", tarfile.SYMTYPE, "/etc/passwd"),
    "a hard link": member("cifar-10-batches-bin/link", tarfile.LNKTYPE, "cifar-10-batches-bin/test_batch.bin"),
    "a device": member("dev", tarfile.CHRTYPE),
    "a pipe": member("pipe", tarfile.FIFOTYPE),
    "a second member of one name": member("other/test_batch.bin"),
}


@pytest.mark.parametrize("kind", BAD_MEMBERS)
def test_an_archive_with_a_bad_member_is_refused_and_nothing_is_written(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = datafiles.tar_gz(datafiles.cifar_binary(), "cifar-10-batches-bin", BAD_MEMBERS[kind])
    source = datafiles.write(tmp_path / "source", {"cifar-10-binary.tar.gz": content})
    before = datafiles.everything_in(tmp_path)
    with pytest.raises(data.DataError, match=r"cifar-10-binary\.tar\.gz: expected"):
        data.add("cifar10", source, note="mine", folder=tmp_path / "data")
    assert datafiles.everything_in(tmp_path) == before


def bombs():
    """One large member; many members; a member that claims holes of 8 GB; a name of five million letters."""
    yield datafiles.tar_gz(datafiles.cifar_binary(), "x", member("zeros", size=2 * 10**6))
    yield datafiles.tar_gz(datafiles.cifar_binary(), "x", *(member(f"zeros{i}", size=10**5) for i in range(20)))
    header = struct.pack("100s8s8s8s12s12s8sc", b"sparse", b"", b"", b"", b"0", b"0", b" " * 8, b"S")
    header = (header.ljust(483, b"\0") + b"77777777777\0").ljust(512, b"\0")
    yield gzip.compress(header[:148] + b"%06o\0 " % sum(header) + header[156:] + bytes(1024))
    yield datafiles.tar_gz({}, "", member("././@LongLink", tarfile.GNUTYPE_LONGNAME, size=5 * 10**6))


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "LIMIT", 10**6)
    for content in bombs():
        with pytest.raises(data.DataError, match=r"bomb\.tar\.gz: expected"):
            archives.members(content, tmp_path / "bomb.tar.gz", cifar.BINARY, "")


def test_a_packed_idx_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(idx, "LIMIT", 10**6)
    for shape in [(10**3, 10**3, 10**3), (2**32 - 1,) * 3]:
        content = gzip.compress(struct.pack(">4B3I", 0, 0, 8, 3, *shape) + bytes(2 * 10**6))
        with pytest.raises(data.DataError, match="expected 1 to 1,000,000 numbers"):
            idx.parse(content, "bomb.gz", 3, "")
    content = gzip.compress(datafiles.idx(datafiles.random_images(2, 28, 28)) + bytes(10**7))
    with pytest.raises(data.DataError, match="as its header says, found more"):
        idx.parse(content, "bomb.gz", 3, "")


def mat(*elements):
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"".join(elements)


def matrix(name, shape, kind, size, content):
    inner = (
        struct.pack("<IIII", 6, 8, 9, 0)
        + struct.pack("<II", 5, 4 * len(shape))
        + struct.pack(f"<{len(shape)}i", *shape)
    )
    inner += (
        b"\0" * (-4 * len(shape) % 8)
        + struct.pack("<HH4s", 1, len(name), name)
        + struct.pack("<II", kind, size)
        + content
    )
    return inner


def packed(inner, claimed=None):
    content = zlib.compress(struct.pack("<II", 14, claimed or len(inner)) + inner)
    return struct.pack("<II", 15, len(content)) + content


def test_a_bomb_in_a_matlab_file_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(svhn, "LIMIT", 10**6)
    large = packed(matrix(b"X", (32, 32, 3, 1000), 2, 32 * 32 * 3 * 1000, bytes(32 * 32 * 3 * 1000)))
    longer = packed(matrix(b"X", (32, 32, 3, 1), 2, 3072, bytes(3072 + 10**7)))
    lying = packed(matrix(b"X", (32, 32, 3, 2**30), 2, 3072, bytes(3072)))
    described = packed(struct.pack("<II", 6, 2**31) + bytes(10**6))
    for content in (large, longer, lying, described):
        with pytest.raises(data.DataError, match=r"bomb\.mat: expected a whole MATLAB 5 file"):
            svhn._part(mat(content), tmp_path / "bomb.mat", "")


WRONG_MATS = {
    "nothing": b"",
    "no header": b"x" * 200,
    "no variables": mat(),
    "only images": mat(packed(matrix(b"X", (32, 32, 3, 1), 2, 3072, bytes(3072)))),
    "a cell": mat(packed(matrix(b"X", (32, 32, 3, 1), 14, 3072, bytes(3072)))),
    "no padding": mat(struct.pack("<II", 14, 100)),
    "cut": datafiles.svhn()["test_32x32.mat"][:-20],
}


@pytest.mark.parametrize("kind", WRONG_MATS)
def test_a_matlab_file_that_is_not_svhn_is_refused(kind, tmp_path):
    with pytest.raises(data.DataError, match=r"test_32x32\.mat: expected"):
        svhn._part(WRONG_MATS[kind], tmp_path / "test_32x32.mat", "")


@pytest.mark.parametrize(
    ("shape", "labels"), [((32, 32, 3, 2), [1]), ((32, 31, 3, 1), [1]), ((32, 32, 3, 1), [0]), ((32, 32, 3, 1), [11])]
)
def test_svhn_of_another_shape_or_with_other_labels_is_refused(shape, labels, tmp_path):
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"X": np.zeros(shape, np.uint8), "y": np.array(labels, np.uint8)[:, None]})
    with pytest.raises(data.DataError, match="labels"):
        svhn._part(stream.getvalue(), tmp_path, "")


WRONG_IDX = {
    "nothing": b"",
    "another kind of number": b"\0\0\x0d\3" + bytes(16),
    "labels for images": datafiles.idx(datafiles.random_labels(4)),
    "an end in the header": b"\0\0\x08\3\0\0",
    "no numbers": b"\0\0\x08\3" + bytes(12),
    "too few": datafiles.idx(datafiles.random_images(2, 4, 4))[:-1],
    "too many": datafiles.idx(datafiles.random_images(2, 4, 4)) + b"\0",
}


@pytest.mark.parametrize("pack", [lambda content: content, gzip.compress], ids=["plain", "gz"])
@pytest.mark.parametrize("kind", WRONG_IDX)
def test_an_idx_file_that_is_none_is_refused(kind, pack):
    with pytest.raises(data.DataError, match="images: expected"):
        idx.parse(pack(WRONG_IDX[kind]), "images", 3, "")


def test_a_damaged_gzip_file_is_refused():
    content = gzip.compress(datafiles.idx(datafiles.random_images(9, 28, 28)))
    for damaged in (content[:-4], content[:200], content[:20] + bytes(10) + content[30:]):
        with pytest.raises(data.DataError, match="images: expected"):
            idx.parse(damaged, "images", 3, "")


def test_an_archive_with_a_flipped_byte_is_noticed_by_its_checksum(tmp_path):
    content = bytearray(datafiles.tar_gz(datafiles.cifar_binary()))
    content[len(content) // 2] ^= 1
    with pytest.raises(data.DataError, match="a damaged one"):
        archives.members(bytes(content), tmp_path / "a.tar.gz", cifar.BINARY, "")


# Whatever the bytes are: a data set or a clear error, and no other exception

READERS = {
    "idx": (
        lambda: gzip.compress(datafiles.idx(datafiles.random_images(2, 5, 5)), mtime=0),
        lambda c: idx.parse(c, "f", 3, ""),
    ),
    "idx, unpacked": (lambda: datafiles.idx(datafiles.random_images(2, 5, 5)), lambda c: idx.parse(c, "f", 3, "")),
    "pickle": (
        lambda: datafiles.python2_batch(datafiles.random_images(1, 3072), datafiles.random_labels(1)),
        lambda c: cifar._pickled(c, Path("f"), ""),
    ),
    "archive": (
        lambda: datafiles.tar_gz(datafiles.cifar_binary()),
        lambda c: archives.members(c, Path("f"), cifar.BINARY, ""),
    ),
    "archive, unpacked": (
        lambda: gzip.decompress(datafiles.tar_gz(dict.fromkeys(cifar.BINARY, b"x"))),
        lambda c: archives.members(gzip.compress(c, 1), Path("f"), cifar.BINARY, ""),
    ),
    "matlab": (lambda: datafiles.svhn(1, 1)["test_32x32.mat"], lambda c: svhn._part(c, Path("f"), "")),
    "matlab, unpacked": (
        lambda: datafiles.svhn(1, 1, compress=False)["test_32x32.mat"],
        lambda c: svhn._part(c, Path("f"), ""),
    ),
}


@pytest.mark.parametrize("kind", READERS)
def test_any_damage_gives_data_or_a_clear_error(kind):
    make, read = READERS[kind]
    content = np.frombuffer(make(), np.uint8)
    read(content.tobytes())
    generator = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = content.copy()
        # Mostly near the start, where headers are, and a few bytes at a time.
        places = (len(content) * generator.random(generator.integers(1, 4)) ** 4).astype(int)
        damaged[places] = generator.integers(0, 256, len(places))
        try:
            read(damaged[: generator.integers(len(content)) if generator.random() < 0.1 else None].tobytes())
        except data.DataError:
            refused += 1
    assert refused > 30
