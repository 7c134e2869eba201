"""Small files in the official formats, made byte by byte or by other packages than ours; and what the files hold."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import scipy.io

from camhd.lab.data import cifar, published
from camhd.lab.data.published import Edition, File

ROOT = Path(__file__).resolve().parents[1]
SHARED = next(
    (path for path in (ROOT.parent / "shared" / "data", Path(os.environ.get("CAMHD_DATA", ""))) if path.is_dir()),
    ROOT / "no such folder",
)


def random_images(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def random_labels(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 10, count, dtype=np.uint8)


def idx(numbers: np.ndarray) -> bytes:
    header = struct.pack(f">HBB{numbers.ndim}I", 0, 8, numbers.ndim, *numbers.shape)
    return header + numbers.tobytes()


def mnist(train: int = 30, test: int = 20, packed: bool = True) -> dict[str, bytes]:
    made = {}
    for seed, (part, count) in enumerate({"train": train, "t10k": test}.items()):
        made[f"{part}-images-idx3-ubyte"] = idx(random_images(count, 28, 28, seed=seed))
        made[f"{part}-labels-idx1-ubyte"] = idx(random_labels(count, seed))
    return {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in made.items()} if packed else made


def cifar_parts() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {name: (random_images(4, 3072, seed=seed), random_labels(4, seed)) for seed, name in enumerate(cifar.PYTHON)}


def cifar_binary() -> dict[str, bytes]:
    return {
        f"{name}.bin": np.concatenate([labels[:, None], images], axis=1).tobytes()
        for name, (images, labels) in cifar_parts().items()
    }


def python2_batch(images: np.ndarray, labels: np.ndarray) -> bytes:
    """The opcodes that Python 2 wrote into the official files, in their order."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    data = images.tobytes()
    return b"".join(
        [
            b"\x80\x02}q\x01(",
            text(b"batch_label") + b"q\x02" + text(b"training batch 1 of 5") + b"q\x03",
            text(b"labels") + b"q\x04]q\x05(" + b"".join(b"K" + bytes([label]) for label in labels) + b"e",
            text(b"data") + b"q\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85",
            text(b"b") + b"\x87Rq\x09(K\x01M" + struct.pack("<H", len(images)) + b"M\x00\x0c\x86cnumpy\ndtype\nq\x0a",
            text(b"u1") + b"K\x00K\x01\x87Rq\x0b(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
            b"\x89T" + struct.pack("<I", len(data)) + data + b"tb",
            text(b"filenames")
            + b"q\x0c]q\x0d("
            + b"".join(text(b"frog_%d.png" % i) for i in range(len(labels)))
            + b"e",
            b"u.",
        ]
    )


def python3_batch(images: np.ndarray, labels: np.ndarray, protocol: int) -> bytes:
    return pickle.dumps({b"labels": labels.tolist(), b"data": images, b"filenames": ["a"] * len(labels)}, protocol)


def cifar_python() -> dict[str, bytes]:
    return {name: python2_batch(*part) for name, part in cifar_parts().items()}


def tar_gz(members: dict[str, bytes], folder: str = "cifar-10-batches-bin", *more: tarfile.TarInfo) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in more:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return gzip.compress(packed.getvalue(), mtime=0)


HEADER = b"MATLAB 5.0 MAT-file".ljust(116)  # SciPy writes the time into it: a second later it is another file


def svhn(train: int = 6, test: int = 5, compress: bool = True) -> dict[str, bytes]:
    made = {}
    for seed, (part, count) in enumerate({"train": train, "test": test}.items()):
        stream = io.BytesIO()
        variables = {"X": random_images(32, 32, 3, count, seed=seed), "y": 1 + random_labels(count, seed)[:, None]}
        scipy.io.savemat(stream, variables, do_compression=compress)
        stream.getbuffer()[: len(HEADER)] = HEADER
        made[f"{part}_32x32.mat"] = stream.getvalue()
    return made


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def edition(kind: str, files: dict[str, bytes], mirrors: tuple[str, ...] = (), note: str = "") -> Edition:
    """These files, as if they had been published."""
    known = (
        File(name, len(content), hashlib.md5(content).hexdigest(), hashlib.sha256(content).hexdigest())
        for name, content in files.items()
    )
    return Edition(kind, tuple(known), mirrors, note)


def publish(monkeypatch, name: str, *editions: Edition) -> None:
    """From now on these editions of the data set are the published ones."""
    monkeypatch.setitem(published.EDITIONS, name, editions)


def everything_in(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, with its content."""
    with contextlib.suppress(FileNotFoundError):
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {}


# One set of small files per format: what makes them, and the data set and folder they belong to.
CASES = {
    "idx.gz": ("mnist", "mnist", mnist),
    "idx": ("mnist", "MNIST/raw", lambda: mnist(packed=False)),
    "fashion": ("fashion-mnist", "FashionMNIST/raw", mnist),
    "cifar-binary": ("cifar10", "cifar-10-batches-bin", cifar_binary),
    "cifar-python": ("cifar10", "cifar-10-batches-py", cifar_python),
    "cifar-binary.tar.gz": ("cifar10", "", lambda: {"cifar-10-binary.tar.gz": tar_gz(cifar_binary())}),
    "cifar-python.tar.gz": (
        "cifar10",
        "cifar10",
        lambda: {"cifar-10-python.tar.gz": tar_gz(cifar_python(), "cifar-10-batches-py")},
    ),
    "svhn": ("svhn", "svhn", svhn),
}


def format_of(case: str) -> str:
    return "idx.gz" if case == "fashion" else case
