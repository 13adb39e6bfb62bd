"""Mutants of a module: every small change of a function that a test should notice. Pure.

Only bodies of functions are changed: default values, annotations, decorators, module-level tables, log
events, docstrings, assertions, texts of errors, and ``__repr__`` and ``__str__`` stay as they are.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
UNTESTED_NAMES = {"__repr__", "__str__"}
EVENT_LEVELS = {"debug", "info", "warning", "error"}
EVENT_LOGS = {"log", "events_log", "events"}

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
HEADER_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.FunctionDef: ("args", "decorator_list", "returns"),
    ast.AsyncFunctionDef: ("args", "decorator_list", "returns"),
    ast.AnnAssign: ("annotation",),
}
"""Fields that are evaluated elsewhere or not at all."""
BLOCK_FIELDS = ("body", "orelse", "finalbody")
UNTESTED_NODES = (ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Mutant:
    """One change: ``before`` becomes ``after`` in a function of a module."""

    path: str
    function: str
    function_line: int
    line: int
    block: int
    """First line of the block that the change is in: it matters to tests that enter the block."""
    before: str
    after: str
    node_index: int
    """Place of the changed node in ``ast.walk`` of the module."""
    variant: int

    @property
    def name(self) -> str:
        return f"{self.path}::{self.function}: {self.before} => {self.after}"


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines."""
    tree = ast.parse(source)
    indexes = {id(node): index for index, node in enumerate(ast.walk(tree))}
    mutants = [
        Mutant(
            path,
            function,
            body.lineno,
            getattr(node, "lineno", body.lineno),
            block,
            _text(node),
            _text(changed),
            indexes[id(node)],
            variant,
        )
        for function, body in _functions(tree, "")
        for node, block in _mutable(body, 0)
        for variant, changed in enumerate(_changes(node))
    ]
    return sorted(mutants, key=lambda mutant: (mutant.line, mutant.node_index, mutant.variant))


def mutated(source: str, mutant: Mutant) -> ast.Module:
    """Return the module's tree with the mutant in it."""
    tree = ast.parse(source)
    target = next(node for index, node in enumerate(ast.walk(tree)) if index == mutant.node_index)
    changed = list(_changes(target))[mutant.variant]
    replaced = _Replaced(target, changed).visit(tree)
    assert isinstance(replaced, ast.Module)
    return ast.fix_missing_locations(replaced)


class _Replaced(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, target: ast.AST, changed: ast.AST) -> None:
        self.target, self.changed = target, changed

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self.target:
            return ast.copy_location(self.changed, node)
        replaced: ast.AST = self.generic_visit(node)
        return replaced


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.If | ast.While):
        return f"if {ast.unparse(node.test)}"
    return " ".join(ast.unparse(node).split())


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield functions and methods, not those inside of others: they are part of the outer one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FUNCTIONS):
            if child.name not in UNTESTED_NAMES:
                yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")


def _mutable(node: ast.AST, block: int) -> Iterator[tuple[ast.AST, int]]:
    """Yield the nodes of a function that may be changed, each with the block it is in."""
    for name, value in ast.iter_fields(node):
        if name in HEADER_FIELDS.get(type(node), ()):
            continue
        is_block = name in BLOCK_FIELDS and isinstance(value, list) and bool(value)
        inner = value[0].lineno if is_block else block
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, UNTESTED_NODES) or _is_event(child):
                continue
            yield child, inner
            yield from _mutable(child, inner)


def probed(source: str, probe: str) -> ast.Module:
    """Return the module's tree with a call of ``probe`` at the begin of each block: function and line."""
    tree = ast.parse(source)
    for function, body in _functions(tree, ""):
        for node in list(ast.walk(body)):
            for name in BLOCK_FIELDS:
                block = getattr(node, name, None)
                if isinstance(block, list) and block:
                    place: list[ast.expr] = [ast.Constant(function), ast.Constant(block[0].lineno)]
                    block.insert(0, ast.Expr(ast.Call(ast.Name(probe, ast.Load()), place, [])))
    return ast.fix_missing_locations(tree)


def _is_event(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    called = node.value.func
    return (
        isinstance(called, ast.Attribute)
        and called.attr in EVENT_LEVELS
        and isinstance(called.value, ast.Name)
        and called.value.id in EVENT_LOGS
    )


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a node may become."""
    if isinstance(node, ast.stmt):
        yield from _changed_statements(node)
    elif isinstance(node, ast.expr):
        yield from _changed_expressions(node)


def _changed_statements(node: ast.stmt) -> Iterator[ast.AST]:
    if isinstance(node, ast.If | ast.While):
        values = (True, False) if isinstance(node, ast.If) else (False,)
        for value in values:
            yield _with(node, test=ast.Constant(value))
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _changed_returns(node)
    elif _is_deletable(node):
        yield ast.Pass()
    if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield _with(node, op=ARITHMETIC[type(node.op)]())


def _changed_returns(node: ast.Return) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, ast.Constant) and isinstance(value.value, bool):
        yield _with(node, value=ast.Constant(not value.value))
    elif isinstance(value, ast.Compare | ast.BoolOp) or _is_not(value):
        yield _with(node, value=ast.Constant(True))
        yield _with(node, value=ast.Constant(False))
    elif not (isinstance(value, ast.Constant) and value.value is None):
        yield _with(node, value=ast.Constant(None))


def _is_deletable(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call | ast.Await | ast.Yield | ast.YieldFrom)
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return False
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
    return isinstance(node, ast.Raise | ast.Delete | ast.Continue | ast.Break)


def _is_not(node: ast.AST | None) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _changed_expressions(node: ast.expr) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            if type(op) in COMPARISONS:
                yield _with(node, ops=[*node.ops[:place], COMPARISONS[type(op)](), *node.ops[place + 1 :]])
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not _is_text(node):
        yield _with(node, op=ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and _is_not(node):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield _with(node, test=ast.Constant(True))
        yield _with(node, test=ast.Constant(False))
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)


def _is_text(node: ast.BinOp) -> bool:
    texts = (ast.JoinedStr, ast.List, ast.Tuple)
    return any(
        isinstance(side, texts) or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in (node.left, node.right)
    )


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
