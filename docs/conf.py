"""Sphinx configuration of the documentation site: `nox -s docs` builds it, and a warning is an error."""

from __future__ import annotations

import re
from typing import Any

from pygments.lexers.special import TextLexer

import claimdagd

project = "claimdagd"
author = "the claimdagd authors"
version = release = claimdagd.__version__
copyright = f"2026, {author}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 4
# Both clients have a class of each name; an annotation within one of them means its own.
suppress_warnings = ["ref.python"]
html_theme = "furo"
html_title = f"claimdagd {release}"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": False, "show-inheritance": True}


def _backquotes(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Show `x` of a docstring as code, as everywhere else; of a module, show the first sentence alone."""
    text = "\n".join(lines[:1] if what == "module" else lines)
    lines[:] = re.sub(r"(?<!`)`([^`]+)`(?!`)", lambda code: f"``{' '.join(code[1].split())}``", text).split("\n")


def setup(app: Any) -> None:
    """Teach Sphinx the fences of these documents, and how docstrings are written."""
    for fence in ("wire", "mermaid"):
        app.add_lexer(fence, TextLexer)
    app.connect("autodoc-process-docstring", _backquotes)
