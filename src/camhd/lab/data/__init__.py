"""Data sets."""

from .batches import Batches
from .catalogue import NAMES, load
from .errors import DataError, MissingData
from .examples import Dataset, Examples, from_tensors
from .splits import split

__all__ = ["NAMES", "Batches", "DataError", "Dataset", "Examples", "MissingData", "from_tensors", "load", "split"]
