"""The docstrings of Python's standard library as a text: English with code in it, on every machine with a Python."""

from __future__ import annotations

import ast
import hashlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from .errors import DataError, MissingData
from .examples import Dataset
from .text import LENGTH, from_text

# Modules of every Python from 3.10 on, with much to say.
MODULES = (
    "_pydecimal", "argparse", "ast", "bdb", "cmd", "code", "codecs", "configparser", "contextlib", "datetime",
    "difflib", "doctest", "enum", "fractions", "ftplib", "functools", "imaplib", "inspect", "ipaddress", "mailbox",
    "optparse", "pdb", "pickletools", "platform", "pydoc", "random", "shutil", "smtplib", "socket", "socketserver",
    "ssl", "statistics", "subprocess", "tarfile", "tempfile", "textwrap", "threading", "timeit", "traceback",
    "typing", "uuid",
)  # fmt: skip
_LEAST = 100_000  # characters; there are four times as many in every Python from 3.10 on
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_REMEDY = "Install a Python with the sources of its standard library, or take the data set 'text'"


def dataset(name: str = "docstrings", length: int = LENGTH) -> Dataset:
    """Which character of a docstring comes next?

    Args:
        name: what the records will call it.
        length: of a window, in characters.
    """
    text, note = gathered()
    return from_text(name, text, length, note)


def gathered() -> tuple[str, str]:
    """The docstrings, module by module in the order of the alphabet, and what to say of them.

    Paragraphs that repeat others are taken once only. The sources are read and parsed; nothing is imported. The text
    differs between versions of Python.
    """
    library = Path(os.__file__).parent
    paragraphs: dict[str, str] = {}
    for name in MODULES:
        for docstring in _docstrings(library / f"{name}.py"):
            for paragraph in docstring.split("\n\n"):
                paragraphs.setdefault(" ".join(paragraph.split()), paragraph.rstrip())
    text = "\n\n".join(paragraphs.values()) + "\n"
    if len(text) < _LEAST:
        raise DataError(library, f"docstrings of at least {_LEAST:,} characters", f"{len(text):,}", _REMEDY)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return text, f"the docstrings of the standard library of Python {platform.python_version()}, text {digest}"


def _docstrings(file: Path) -> Iterator[str]:
    """Of a module, its classes and its functions, in the order of the source."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingData(file, "a module of Python's standard library", "no such file", _REMEDY) from None
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(file, "a Python module", f"a damaged one ({error})", _REMEDY) from None
    documented = [node for node in ast.walk(tree) if isinstance(node, _DOCUMENTED)]
    for node in sorted(documented, key=lambda one: getattr(one, "lineno", 0)):
        yield ast.get_docstring(node) or ""
