"""Published results: records packed small, the page made of them, and running any of them again.

`camhd reproduce` leaves a folder for every run, with everything that was ever written down. `packing` takes the
finished ones into one compressed file for each plan (`archive`), small enough to be kept with the project; it thins
out histories but never changes a number. `page` makes `docs/results.md` and its figures from those files alone;
`questions` answers what a reader wants to know first, `figures` draws. `repeating` runs a single record again and says
whether it came out the same; `sources` gets the sources for that with which it was made,
and `commits` knows what stands in for those that are lost.
"""

from __future__ import annotations

from .archive import Archive, path_of, read, read_all
from .packing import Outcome, pack, unpack
from .page import build
from .repeating import Kept, Repeated, find, repeat, sources_of

__all__ = [
    "Archive",
    "Kept",
    "Outcome",
    "Repeated",
    "build",
    "find",
    "pack",
    "path_of",
    "read",
    "read_all",
    "repeat",
    "sources_of",
    "unpack",
]
