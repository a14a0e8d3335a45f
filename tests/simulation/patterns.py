"""Find a place in Python source by the shape of its syntax tree, and replace it.

A pattern is Python source. A name of an underscore and a capital (`_A`) stands for any expression, the same one each
time; `_` alone stands for any expression; `ANY` as an attribute stands for any attribute; `...` in a list of arguments,
operands or statements stands for any number of them. `HERE(x)` marks the part that is replaced; without it the whole
match is. Names of local variables, formatting and comments do not matter, so a pattern outlives most refactorings.
This module knows nothing of claimdagd.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

#: The name of what is outside all functions.
MODULE = "<module>"
Nodes: TypeAlias = list[tuple[str, ast.AST]]
_METAVARIABLE = re.compile(r"_[A-Z]")
_ANY_ATTRIBUTE = "ANY"
_IGNORED = {"ctx", "type_comment", "kind", "lineno", "col_offset", "end_lineno", "end_col_offset"}


@dataclass
class Match:
    """One place that fits a pattern: the function around it, the parts to replace and what the metavariables are."""

    function: str
    target: list[ast.AST]
    names: dict[str, ast.expr] = field(default_factory=dict)


def find(nodes: Nodes, pattern: str, where: str = ".*") -> list[Match]:
    """Return every match of `pattern` in functions whose qualified name fits the regular expression `where`."""
    wanted = ast.parse(pattern).body
    single = wanted[0].value if len(wanted) == 1 and isinstance(wanted[0], ast.Expr) else None
    found = []
    for function, node in nodes:
        if re.fullmatch(where, function) is None:
            continue
        if single is not None and isinstance(node, ast.expr):
            match = Match(function, [node])
            if _fits(single, node, match):
                found.append(match)
        elif single is None:
            for block in _blocks(node):
                for at in range(len(block) - len(wanted) + 1):
                    run = block[at : at + len(wanted)]
                    match = Match(function, list(run))
                    if _fit_all(wanted, run, match):
                        found.append(match)
    return found


def replace(tree: ast.Module, match: Match, replacement: str) -> ast.Module:
    """Return the tree with the target of `match` replaced; metavariables stand for what they matched."""
    body = ast.parse(replacement).body
    new: Any = [_Fill(match.names).visit(node) for node in body]
    if isinstance(match.target[0], ast.expr):
        new = new[0].value
    return ast.fix_missing_locations(_Put(match.target, new).visit(tree))


def nodes_of(tree: ast.Module) -> Nodes:
    """Return every node of a module with the qualified name of the function around it, the module itself first."""
    return [(MODULE, tree), *_walk(tree, MODULE)]


def _walk(node: ast.AST, function: str, scope: str = "") -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{scope}{child.name}"
            inner = function if isinstance(child, ast.ClassDef) else name
            yield inner, child
            yield from _walk(child, inner, f"{name}.")
        else:
            yield function, child
            yield from _walk(child, function, scope)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def _fits(pattern: Any, node: Any, match: Match) -> bool:
    if isinstance(pattern, ast.Call) and isinstance(pattern.func, ast.Name) and pattern.func.id == "HERE":
        match.target = [node]
        return _fits(pattern.args[0], node, match)
    if isinstance(pattern, ast.Name) and isinstance(node, ast.expr):
        if pattern.id == "_":
            return True
        if _METAVARIABLE.fullmatch(pattern.id):
            bound = match.names.setdefault(pattern.id, node)
            return ast.unparse(bound) == ast.unparse(node)
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, ast.Call):
        return _fits(pattern.func, node.func, match) and _fit_arguments(pattern, node, match)
    if isinstance(pattern, ast.Attribute) and pattern.attr == _ANY_ATTRIBUTE:
        return _fits(pattern.value, node.value, match)
    if isinstance(pattern, ast.AST):
        return all(
            _fits(getattr(pattern, name, None), getattr(node, name, None), match)
            for name in pattern._fields
            if name not in _IGNORED
        )
    if isinstance(pattern, list):
        return _fit_all(pattern, node, match)
    return bool(pattern == node)


def _fit_arguments(pattern: ast.Call, node: ast.Call, match: Match) -> bool:
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    wanted = {keyword.arg: keyword.value for keyword in pattern.keywords}
    open_ended = any(map(_is_dots, pattern.args))
    if not (wanted.keys() <= given.keys() if open_ended else wanted.keys() == given.keys()):
        return False
    return _fit_all(pattern.args, node.args, match) and all(
        _fits(value, given[name], match) for name, value in wanted.items()
    )


def _fit_all(patterns: list[Any], nodes: list[Any], match: Match) -> bool:
    if not patterns:
        return not nodes
    if _is_dots(patterns[0]):
        for skipped in range(len(nodes) + 1):
            attempt = Match(match.function, match.target, dict(match.names))
            if _fit_all(patterns[1:], nodes[skipped:], attempt):
                match.target, match.names = attempt.target, attempt.names
                return True
        return False
    return bool(nodes) and _fits(patterns[0], nodes[0], match) and _fit_all(patterns[1:], nodes[1:], match)


def _is_dots(node: Any) -> bool:
    if isinstance(node, ast.Expr):
        node = node.value
    return isinstance(node, ast.Constant) and node.value is ...


class _Fill(ast.NodeTransformer):
    """Put what the metavariables stand for into a replacement."""

    def __init__(self, names: dict[str, ast.expr]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._names.get(node.id, node)


class _Put(ast.NodeTransformer):
    """Replace the nodes of a target, which are told by identity: the first by `new`, the others by nothing."""

    def __init__(self, target: list[ast.AST], new: Any) -> None:
        self._target = target
        self._new = new

    def visit(self, node: ast.AST) -> Any:
        if node is self._target[0]:
            return self._new
        if any(node is other for other in self._target[1:]):
            return None
        return self.generic_visit(node)
