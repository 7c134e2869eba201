"""The fused kernels without a compiler: their sources once more, as plain Python, on numpy numbers.

What Numba compiles is Python, so Python can run it too, one number at a time. That is thousands of times slower, and
right for two things: sizes can be so small that a few scalars cross every boundary there is (`small`), and a mutation
tester can change a kernel without compiling it. The twin is a second copy of the package under another name, whose
`jit` is the stand-in below; the compiled one stays as it is.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

NAME = "camhd.backends.interpreted"
PATIENCE = 2000  # looks at a number that nobody changes, one millisecond apart, before a wait counts as endless

_lock = threading.Lock()


def _pointer(address: int, like: np.ndarray[Any, Any]) -> tuple[int, Any]:
    return int(address), like.dtype


def _carray(where: tuple[int, Any], shape: Any) -> np.ndarray[Any, Any]:
    address, dtype = where
    count = int(np.prod(shape))
    if count <= 0:
        return np.zeros(shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


def _fetch_add(array: np.ndarray[Any, Any], index: int, value: int) -> int:
    with _lock:
        before = int(array[index])
        array[index] += value
    return before


def _patient_fetch() -> Any:
    looks: dict[tuple[int, int, int], int] = {}

    def fetch(array: np.ndarray[Any, Any], index: int) -> int:
        found = int(array[index])
        place = (array.ctypes.data, index, found)
        looks[place] = so_far = looks.get(place, 0) + 1  # another thread may `forget` meanwhile
        if so_far > 50:
            time.sleep(0.001)
        assert so_far < PATIENCE, "a thread waits for what no other thread will bring"
        return found

    def forget() -> None:
        looks.clear()

    fetch.forget = forget  # type: ignore[attr-defined] # functions may have attributes
    return fetch


def _store(array: np.ndarray[Any, Any], index: int, value: int) -> None:
    array[index] = value


def _stand_in() -> ModuleType:
    made: Any = ModuleType(f"{NAME}.jit")
    made.kernel = made.kernel_for_python = made.dividing = made.exact = lambda function: function
    made.pointer, made.fetch_add, made.fetch, made.store = _pointer, _fetch_add, _patient_fetch(), _store
    made.number_from, made.FINGERPRINT = lambda address: 0, 0
    return made


def load() -> Any:
    """The package of the kernels, as plain Python."""
    if NAME in sys.modules:
        return sys.modules[NAME]
    import camhd.backends.fused as compiled

    folder = Path(compiled.__file__).parent
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package: Any = importlib.util.module_from_spec(spec)
    sys.modules[NAME], sys.modules[f"{NAME}.jit"] = package, _stand_in()
    package.jit = sys.modules[f"{NAME}.jit"]
    spec.loader.exec_module(package)
    entries: Any
    threads: Any
    entries, threads = (importlib.import_module(f"{NAME}.{name}") for name in ("entries", "threads"))

    def entry(dtype: Any, traced: bool = False) -> Any:
        function = entries._traced_function if traced else entries._function
        enter = function(np.float32 if dtype == np.float32 else np.float64)

        def call(address: int) -> None:
            package.jit.fetch.forget()
            with np.errstate(all="ignore"):
                enter((address, np.dtype(np.int64)))

        return entries.Entry(call, 0, None)

    for name, module in list(sys.modules.items()):
        if name.startswith(f"{NAME}."):
            for stand_in, value in (("carray", _carray), ("entry", entry)):
                if hasattr(module, stand_in):
                    setattr(module, stand_in, value)
    threads.torchs_are_there = lambda: False
    return package


def wait_for_helpers() -> None:
    """Until every helper is through with what it was called for.

    Nobody else waits for one that wakes up late, because it finds nothing left to do. But as plain Python it looks a
    function up when it calls it: if a later test has exchanged that, it may take an item after all, and write to
    parameters that are gone.
    """
    package = sys.modules.get(NAME)
    if package is None:
        return
    helpers = package.threads._helpers
    all_of_them = threading.Barrier(helpers.count + 1, timeout=60)
    for _ in range(helpers.count):
        helpers.queue.put((lambda address: all_of_them.wait(), 0, None))
    all_of_them.wait()


def use(monkeypatch: pytest.MonkeyPatch, threads: int = 1, small: bool = True) -> Any:
    """Let optimizers step with the twin; with sizes so small that a few scalars cross every boundary."""
    package = load()
    monkeypatch.setattr("camhd.backends.fused.fused", package.fused)
    monkeypatch.setattr("camhd.backends.select.why_no_numba", lambda: None)  # this needs no compiler
    monkeypatch.setattr(package.threads, "how_many", lambda scalars: threads)
    if small:
        sizes = {
            "LONG": 9,
            "PIECE": 7,
            "LARGEST_CHUNK": 4,
            "AT_ONCE": 5,
            "SMALLEST_ITEM": 8,
            "LARGEST_ITEM": 68,
            "ITEMS": 5,
        }
        for module in [module for name, module in sys.modules.items() if name.startswith(f"{NAME}.")]:
            for name, value in sizes.items():
                if hasattr(module, name) and not (name == "ITEMS" and module is package.block):
                    monkeypatch.setattr(module, name, value)
    return package
