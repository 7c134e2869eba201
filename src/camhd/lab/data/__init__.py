"""Data sets: read from the files they were published in, checked, and given out in batches.

`load` reads one, `split` divides it and `Batches` gives it out. `get` downloads, `add` takes over files that are
already on the disk, `describe` and `verify` say what is here.

    dataset = data.load("mnist")
    train, valid = data.split(dataset, "fold:1/5")
    batches = data.Batches(train, batch_size=64, seed=0)
    for epoch in range(10):
        for inputs, targets in batches.epoch(epoch):
            ...

`published` lists the files with their hashes and addresses, `places` finds them, `formats` reads them (`idx`, `cifar`,
`svhn`; `archives` and `pickles` open what must not be trusted), `bundled`, `text` and `docstrings` are what ships with
other packages and with Python, `synthetic` is computed.
"""

from .adding import add
from .augment import AUGMENTS
from .batches import Batches
from .catalogue import NAMES, load
from .download import get
from .errors import DataError, MissingData
from .examples import Dataset, Examples, Task, from_tensors
from .inventory import Description, Verdict, describe, verify
from .places import data_folder
from .splits import split
from .text import from_text

__all__ = [
    "AUGMENTS",
    "NAMES",
    "Batches",
    "DataError",
    "Dataset",
    "Description",
    "Examples",
    "MissingData",
    "Task",
    "Verdict",
    "add",
    "data_folder",
    "describe",
    "from_tensors",
    "from_text",
    "get",
    "load",
    "split",
    "verify",
]
