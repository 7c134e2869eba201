"""The files that are changed, as text."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def source(root: Path, file: str) -> str:
    """A file as it was when this process began, and as it was imported."""
    return (root / file).read_text()


def scopes(text: str) -> dict[int, tuple[str, int]]:
    """For each line of a file the innermost function or class it is in, and the line where that begins."""
    found: dict[int, tuple[str, int]] = {}

    def walk(node: ast.AST, scope: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                inner = f"{scope}.{child.name}" if scope else child.name
                for line in range(child.lineno, (child.end_lineno or child.lineno) + 1):
                    found[line] = (inner, child.lineno)
            walk(child, inner)

    walk(ast.parse(text), "")
    return found
