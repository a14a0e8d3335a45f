"""Reads a document in JSON, YAML or TOML, and finds the line of a value in it. Lines are looked for only on demand."""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    #: How a value is reached: names of fields and positions in lists.
    Path = tuple[str | int, ...]

FORMATS = ("json", "yaml", "toml")
_BLANKS = re.compile(r"[ \t\r\n]*")
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?\s*(#.*)?$")
_QUOTES = re.compile(r"\"\"\"|'''")


class BadDocument(Exception):
    """A text that cannot be read at all."""

    def __init__(self, fault: str, remedy: str = "") -> None:
        super().__init__(fault)
        self.remedy = remedy


class Document:
    """A value as it was written, and `line_of` its parts."""

    def __init__(self, value: Any, text: str, root: Any = None) -> None:
        self.value = value
        self._text = text
        #: The root of the composed document, in YAML.
        self._root = root

    def line_of(self, path: Path) -> int | None:
        """Return the line of the deepest part of `path` that is in the text; None where that is unknown."""
        return None


class JsonDocument(Document):
    """A document in JSON: a value is found by passing over those before it."""

    def line_of(self, path: Path) -> int | None:
        """Return the line of the deepest part of `path` that is in the text."""
        at = self._blanks(0)
        for step in path:
            found = self._child(at, step)
            if found is None:
                break
            at = found
        return self._text.count("\n", 0, at) + 1

    def _blanks(self, at: int) -> int:
        match = _BLANKS.match(self._text, at)
        return match.end() if match else at

    def _child(self, at: int, step: str | int) -> int | None:
        opening = self._text[at]
        if opening not in "[{" or (opening == "[") is not isinstance(step, int):
            return None
        decode = json.JSONDecoder().raw_decode
        found = None
        index = 0
        at = self._blanks(at + 1)
        while self._text[at] not in "]}":
            name: str | int = index
            start = at
            if opening == "{":
                name, at = scanstring(self._text, at + 1)
                at = self._blanks(self._blanks(at) + 1)
            if name == step:
                # Where an object has a name twice, the last one counts.
                found = start if opening == "{" and self._text[at] not in "[{" else at
                if opening == "[":
                    return found
            _, at = decode(self._text, at)
            at = self._blanks(at)
            if self._text[at] == ",":
                at = self._blanks(at + 1)
            index += 1
        return found


class YamlDocument(Document):
    """A document in YAML: its parser keeps the place of every value."""

    def line_of(self, path: Path) -> int | None:
        """Return the line of the deepest part of `path` that is in the text."""
        node, line = self._root, 1
        for step in path:
            if isinstance(step, int):
                items = node.value if node.id == "sequence" else []
                if step >= len(items):
                    break
                node = items[step]
                line = node.start_mark.line + 1
            else:
                pairs = node.value if node.id == "mapping" else []
                found = [(key, value) for key, value in pairs if key.value == step]
                if not found:
                    break
                key, node = found[-1]
                line = key.start_mark.line + 1
        return line


class TomlDocument(Document):
    """A document in TOML, whose parser keeps no places: tables are found by their headers, keys by their lines."""

    def line_of(self, path: Path) -> int | None:
        """Return the line of the key, or of the header of the table, that `path` leads to."""
        best: tuple[int, int] | None = None
        for number, place in self._places():
            reached = len(place) if place == path[: len(place)] else 0
            if reached and (best is None or reached > best[0]):
                best = (reached, number)
        return None if best is None else best[1]

    def _places(self) -> Iterator[tuple[int, Path]]:
        """Yield each line that begins a table or a value, with its path."""
        counts: dict[tuple[str, ...], int] = {}
        here: list[str | int] = []
        quote = ""
        for number, line in enumerate(self._text.split("\n"), 1):
            inside, quote = quote, _quote_after(line, quote)
            if inside:
                continue
            header = _HEADER.match(line)
            if header is None:
                key, equals, _ = line.partition("=")
                if equals:
                    yield number, (*here, key.strip().strip("\"'"))
                continue
            names = tuple(part.strip().strip("\"'") for part in header[2].split("."))
            if header[1] == "[[":
                counts[names] = counts.get(names, -1) + 1
                for below in [name for name in counts if name[: len(names)] == names and name != names]:
                    del counts[below]
            here = []
            for depth, name in enumerate(names, 1):
                here.append(name)
                if names[:depth] in counts:
                    here.append(counts[names[:depth]])
            yield number, tuple(here)


def _quote_after(line: str, quote: str) -> str:
    """Return the quotes of the text over several lines that is open after a line, if one is."""
    for found in _QUOTES.findall(line):
        if not quote:
            quote = found
        elif quote == found:
            quote = ""
    return quote


def load(text: bytes, form: str) -> Document:
    """Read a document. BadDocument says why it cannot be read."""
    try:
        decoded = text.removeprefix(b"\xef\xbb\xbf").decode()
        return {"json": _json, "toml": _toml, "yaml": _yaml}[form](decoded)
    except UnicodeDecodeError as exc:
        line = text.count(b"\n", 0, exc.start) + 1
        raise BadDocument(f"line {line}: it is not UTF-8") from None
    except RecursionError:
        raise BadDocument("it is nested too deep") from None


def _json(text: str) -> Document:
    try:
        return JsonDocument(json.loads(text), text)
    except ValueError as exc:
        raise BadDocument(f"it is not JSON: {exc}") from None


def _toml(text: str) -> Document:
    import tomllib

    try:
        return TomlDocument(tomllib.loads(text), text)
    except tomllib.TOMLDecodeError as exc:
        raise BadDocument(f"it is not TOML: {exc}") from None


def _yaml(text: str) -> Document:
    try:
        import yaml
    except ImportError:
        raise BadDocument("plans in YAML need PyYAML", "pip install 'claimdagd[yaml]'") from None
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        return YamlDocument(None if root is None else loader.construct_document(root), text, root)
    except yaml.YAMLError as exc:
        raise BadDocument(f"it is not YAML: {' '.join(str(exc).split())}") from None
    except (ValueError, OverflowError) as exc:  # a date such as 2026-02-31
        raise BadDocument(f"it is not YAML: {exc}") from None
    finally:
        loader.dispose()
