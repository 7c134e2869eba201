"""How a change gets into a process that has imported everything already: functions get other code."""

from __future__ import annotations

import ast
import gc
import importlib
import sys
import types
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .mutants import Mutant, apply

Functions = dict[str, list[types.FunctionType]]


def compile_nothing() -> None:
    """Let optimizers take plain torch, but for the tests that run kernels as plain Python.

    Machine code is made from the sources as they are on disk, so it cannot show a change; and it takes minutes.
    """
    from camhd.backends import select as backends

    backends.why_no_numba = lambda: "the mutation tester compiles nothing"


def functions_of(root: Path, files: list[str]) -> Functions:
    """All functions there are, by the file they come from: also those that decorators and classes hold."""
    names = {str(root / file): file for file in files}
    found: Functions = defaultdict(list)
    for thing in gc.get_objects():
        if type(thing) is types.FunctionType and thing.__code__.co_filename in names:
            found[names[thing.__code__.co_filename]].append(thing)
    return found


def put_in(root: Path, mutant: Mutant, functions: Functions) -> bool:
    """Make the change here. Whether there was anything to change."""
    tree = apply(root, mutant)
    try:
        made = compile(tree, str(root / mutant.file), "exec")
    except (SyntaxError, TypeError, ValueError):
        return False
    codes = {(code.co_qualname, code.co_firstlineno): code for code in _codes(made)}
    done = False
    for function in functions[mutant.file]:
        old = function.__code__
        new = codes.get((old.co_qualname, old.co_firstlineno))
        if new is not None and new != old and new.co_freevars == old.co_freevars:
            function.__code__ = new
            done = True
    return _outside_functions(mutant, tree) or done


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)


def _outside_functions(mutant: Mutant, tree: ast.Module) -> bool:
    """A change of a module's or a class's constants, or of a default: the names are bound anew, wherever they are."""
    module_name = mutant.file.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    done = False
    for module in [importlib.import_module(module_name), *_twins(module_name)]:
        holder, body = _holder(module, tree, mutant.scope)
        for statement in body:
            here = statement.lineno <= mutant.line <= (statement.end_lineno or 0)
            if here and isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
                done |= _bind(module, holder, statement)
    function = _function_node(tree, mutant.scope)
    if function is not None and mutant.line < function.body[0].lineno:
        done |= _defaults(module_name, mutant.scope, function)
    return done


def _twins(name: str) -> list[types.ModuleType]:
    """The same module loaded once more by tests that run kernels without a compiler."""
    twin = name.replace(".fused.", ".interpreted.")
    return [sys.modules[twin]] if twin != name and twin in sys.modules else []


def _holder(module: types.ModuleType, tree: ast.Module, scope: str) -> tuple[Any, list[ast.stmt]]:
    holder: Any = module
    body = tree.body
    for name in scope.split(".") if scope else []:
        node = next((n for n in body if isinstance(n, ast.ClassDef) and n.name == name), None)
        if node is None:
            return module, []
        holder, body = getattr(holder, name), node.body
    return holder, body


def _function_node(tree: ast.Module, scope: str) -> ast.FunctionDef | None:
    body: list[ast.stmt] = tree.body
    node: Any = None
    for name in scope.split(".") if scope else []:
        node = next((n for n in body if isinstance(n, (ast.ClassDef, ast.FunctionDef)) and n.name == name), None)
        if node is None:
            return None
        body = node.body
    return node if isinstance(node, ast.FunctionDef) else None


def _bind(module: types.ModuleType, holder: Any, statement: ast.stmt) -> bool:
    names: dict[str, Any] = {}
    plain = statement
    if isinstance(statement, ast.AnnAssign):
        assert statement.value is not None
        plain = ast.copy_location(ast.Assign([statement.target], statement.value), statement)
    exec(compile(ast.Module([plain], []), "changed", "exec"), dict(vars(module)), names)
    for name, value in names.items():
        old = vars(holder).get(name)
        setattr(holder, name, value)
        if holder is not module:
            for maker in ("__init__", "__new__"):
                _rebind_default(vars(holder).get(maker), name, value)
            continue
        for other in list(sys.modules.values()):
            if getattr(other, "__name__", "").startswith("camhd") and vars(other).get(name, holder) is old:
                setattr(other, name, value)
    return bool(names)


def _rebind_default(function: Any, name: str, value: Any) -> None:
    """A field's default lives in the signature that its class was given."""
    if not isinstance(function, types.FunctionType):
        return
    arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    with_default = arguments[len(arguments) - len(defaults) :]
    function.__defaults__ = tuple(value if n == name else d for n, d in zip(with_default, defaults, strict=True))
    if function.__kwdefaults__ and name in function.__kwdefaults__:
        function.__kwdefaults__ = {**function.__kwdefaults__, name: value}


def _defaults(module_name: str, scope: str, node: ast.FunctionDef) -> bool:
    thing: Any = importlib.import_module(module_name)
    names = dict(vars(thing))
    for name in scope.split("."):
        thing = vars(thing).get(name) if isinstance(thing, type) else getattr(thing, name, None)
    thing = getattr(thing, "__func__", thing)
    while hasattr(thing, "__wrapped__"):
        thing = thing.__wrapped__
    if not isinstance(thing, types.FunctionType):
        return False

    def value(expression: ast.expr) -> Any:
        return eval(compile(ast.Expression(expression), "default", "eval"), names)

    thing.__defaults__ = tuple(map(value, node.args.defaults)) or None
    keyed = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    thing.__kwdefaults__ = {arg.arg: value(default) for arg, default in keyed if default is not None} or None
    return True
