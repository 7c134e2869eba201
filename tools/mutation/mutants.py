"""Which changes are made: one small mistake at a time, of a kind that a person could have made."""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .sources import source

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
SYMMETRIC = {"max", "min", "zip", "isinstance", "equal", "maximum", "minimum", "dot", "broadcast_tensors", "range"}
TEXT_ONLY = {"__repr__", "__str__", "describe"}  # functions whose result is read by people


@dataclass(frozen=True)
class Mutant:
    """One change.

    Args:
        file: path of the source file, from the root of the project.
        scope: the function or class it is in, or "" for the module itself.
        before: source text of what is changed.
        after: what stands there instead.
        number: which of several equal changes in the scope, from 0 on.
        line: where it stands today.
        last_line: where the statement (or its head) ends.
        first: where its scope begins.
        at_import: whether it is no part of what a call carries out: a constant, a default.
        place: the node's number in a walk over the module, and the number of the variant.
        stamp: a hash of the scope's code: a record holds as long as that is the same.
    """

    file: str
    scope: str
    before: str
    after: str
    number: int
    line: int
    last_line: int
    first: int
    at_import: bool
    place: tuple[int, int]
    stamp: str

    @property
    def key(self) -> str:
        """What it is called in records and in the list of survivors; stays when lines move."""
        number = f" #{self.number}" if self.number else ""
        return f"{self.file} :: {self.scope or '-'} :: {self.before} -> {self.after}{number}"


def find(root: Path, file: str) -> list[Mutant]:
    """All mutants of a file."""
    tree = ast.parse(source(root, file))
    numbers = {id(node): i for i, node in enumerate(ast.walk(tree))}
    found: list[Mutant] = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for node, scope, owner, statement in _places(tree):
        for variant, (before, after) in enumerate(_texts(node)):
            named = (scope, before, after)
            found.append(
                Mutant(
                    file, scope, before, after, seen[named], node.lineno, _end_of_head(statement),
                    getattr(owner, "lineno", 0), _at_import(owner, statement), (numbers[id(node)], variant),
                    _stamp(owner),
                )
            )  # fmt: skip
            seen[named] += 1
    return found


def apply(root: Path, mutant: Mutant) -> ast.Module:
    """The module with the change in it."""
    tree = ast.parse(source(root, mutant.file))
    wanted, variant = mutant.place
    target = next(node for i, node in enumerate(ast.walk(tree)) if i == wanted)
    changed = _variants(target)[variant]
    return ast.fix_missing_locations(_Replace(target, changed).visit(tree))


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, changed: ast.AST) -> None:
        self.target, self.changed = target, changed

    def visit(self, node: ast.AST) -> ast.AST:
        return self.changed if node is self.target else self.generic_visit(node)


def _places(tree: ast.Module) -> Iterator[tuple[ast.AST, str, ast.AST, ast.stmt]]:
    """Every node that may change, its scope's name, the scope and the statement it belongs to."""

    def walk(node: ast.AST, scope: str, owner: ast.AST, statement: ast.stmt | None) -> Iterator[tuple]:
        for child in _children(node):
            inner, inside, around = scope, owner, statement
            if isinstance(child, ast.stmt):
                around = child
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                if child.name in TEXT_ONLY:
                    continue
                inner, inside = f"{scope}.{child.name}" if scope else child.name, child
            assert around is not None
            yield child, inner, inside, around
            yield from walk(child, inner, inside, around)

    yield from walk(tree, "", tree, None)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one, without types, messages, docstrings, decorators, imports and enumerations."""
    if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
        return
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Assign) and _is_enumeration(node):
        return
    if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
        return
    skipped = {"annotation", "returns", "decorator_list", "bases", "ctx", "type_comment"}
    for name, value in ast.iter_fields(node):
        if name in skipped or (isinstance(node, ast.keyword) and node.arg == "strict"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_text(child):
                yield child


def _is_enumeration(node: ast.Assign) -> bool:
    """`A, B, C = 0, 1, 2`: names of places in a table. Another number is another layout, and no mistake."""
    values = node.value.elts if isinstance(node.value, ast.Tuple) else []
    return isinstance(node.targets[0], ast.Tuple) and bool(values) and all(isinstance(v, ast.Constant) for v in values)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _texts(node: ast.AST) -> list[tuple[str, str]]:
    before = _short(node)
    return [(before, _short(changed)) for changed in _variants(node)]


def _short(node: ast.AST) -> str:
    """One line of source; of a statement with a body only its head."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Constant):
        return "pass"
    if isinstance(node, ast.Return) and isinstance(node.value, ast.IfExp) and _is_true(node.value.test):
        return "return None"
    if isinstance(node, (ast.If, ast.While)):
        word = "if" if isinstance(node, ast.If) else "while"
        return f"{word} {ast.unparse(node.test)}"
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return f"raise {ast.unparse(node.exc.func)}"
    return " ".join(ast.unparse(node).split())


def _is_true(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _variants(node: ast.AST) -> list[ast.AST]:
    """What may stand in place of a node, in an order that never changes."""
    for kinds, make in _MAKERS:
        if isinstance(node, kinds):
            return make(node)
    return []


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _of_operation(node: ast.BinOp | ast.AugAssign) -> list[ast.AST]:
    found = [_with(node, op=ARITHMETIC[type(node.op)]())] if type(node.op) in ARITHMETIC else []
    return found + ([_nothing(node)] if isinstance(node, ast.AugAssign) else [])


def _of_comparison(node: ast.Compare) -> list[ast.AST]:
    return [
        _with(node, ops=[*node.ops[:i], other(), *node.ops[i + 1 :]])
        for i, op in enumerate(node.ops)
        for other in COMPARISONS[type(op)][: None if len(node.ops) == 1 else 1]
    ]


def _of_boolean(node: ast.BoolOp) -> list[ast.AST]:
    return [_with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())]


def _of_sign(node: ast.UnaryOp) -> list[ast.AST]:
    return [node.operand] if isinstance(node.op, (ast.USub, ast.Not)) else []


def _of_constant(node: ast.Constant) -> list[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        return [_with(node, value=not value)]
    if isinstance(value, int):
        return [_with(node, value=value + 1)]
    if isinstance(value, float):
        return [_with(node, value=value * 2 if value else 1.0)]
    return []


def _of_condition(node: ast.If | ast.While | ast.IfExp) -> list[ast.AST]:
    test = node.test
    if isinstance(test, (ast.Compare, ast.UnaryOp, ast.Constant)):
        return []  # changed where they stand
    if isinstance(test, ast.Name) and test.id == "TYPE_CHECKING":
        return []  # types are left as they are
    return [_with(node, test=ast.UnaryOp(ast.Not(), test))]


def _of_call(node: ast.Call) -> list[ast.AST]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    args = node.args
    if name in SYMMETRIC or len(args) < 2 or any(isinstance(arg, ast.Starred) for arg in args[:2]):
        return []
    if ast.dump(args[0]) == ast.dump(args[1]):
        return []
    return [_with(node, args=[args[1], args[0], *args[2:]])]


def _of_return(node: ast.Return) -> list[ast.AST]:
    if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
        return []
    return [_with(node, value=ast.IfExp(ast.Constant(True), ast.Constant(None), node.value))]


def _of_assignment(node: ast.Assign) -> list[ast.AST]:
    kept = any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets)
    return [_nothing(node)] if kept else []


def _nothing(node: ast.AST) -> ast.AST:
    """A statement that is never carried out; it stays, so that the function keeps its names: `super()` needs one."""
    return ast.copy_location(ast.If(ast.Constant(False), [node], []), node)


def _of_statement(node: ast.stmt) -> list[ast.AST]:
    return [_nothing(node)]


_MAKERS = (
    ((ast.BinOp, ast.AugAssign), _of_operation),
    (ast.Compare, _of_comparison),
    (ast.BoolOp, _of_boolean),
    (ast.UnaryOp, _of_sign),
    (ast.Constant, _of_constant),
    ((ast.If, ast.While, ast.IfExp), _of_condition),
    (ast.Call, _of_call),
    (ast.Return, _of_return),
    (ast.Assign, _of_assignment),
    ((ast.Expr, ast.Raise, ast.Continue, ast.Break), _of_statement),
)


def _at_import(owner: ast.AST, statement: ast.stmt) -> bool:
    return not isinstance(owner, ast.FunctionDef) or statement is owner


def _end_of_head(statement: ast.stmt) -> int:
    """The last line of a simple statement, or of what stands before the body of a compound one."""
    body = getattr(statement, "body", None)
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) or not body:
        return statement.end_lineno or statement.lineno
    return max(statement.lineno, body[0].lineno - 1)


def _stamp(owner: ast.AST) -> str:
    return hashlib.sha256(ast.dump(owner).encode()).hexdigest()[:12]
