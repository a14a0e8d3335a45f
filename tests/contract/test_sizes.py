"""Modules stay within 400 lines and functions within 50, so that each is read once. Exceptions are argued here."""

from __future__ import annotations

import ast

from tests.contract.markdown import ROOT
from tests.contract.rooms import PACKAGES

MODULE_LINES = 400
FUNCTION_LINES = 50
#: Longer ones, each with why it may be.
LONG_MODULES = {
    "claimdagd/wire.py": "one page of types: every request and reply, no logic",
}
SOURCES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}


def test_modules_are_short() -> None:
    """400 lines, or a reason."""
    long = {name for name, text in SOURCES.items() if text.count("\n") > MODULE_LINES}
    assert long == LONG_MODULES.keys()


def test_functions_are_short() -> None:
    """50 lines, docstring and all."""
    long = {
        (name, node.name)
        for name, text in SOURCES.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES
    }
    assert long == set()
