"""Reads a directed graph in the DOT language of Graphviz: an arrow from a to b lets b wait for a.

Clusters become goals. `reverse` turns the arrows around, for tools that draw them from what waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from msgspec import inspect

from claimdag_client.importers.interface import Dependency, Draft, Item, Options, quoted
from claimdagd.faults import wrong
from claimdagd.wire import SubmitNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_TYPES = {field.encode_name: field.type for field in inspect.type_info(SubmitNode).fields}  # type: ignore[attr-defined]
_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/|^\#[^\n]*)
    |(?P<arrow>->|--)
    |(?P<mark>[{}\[\];,=:+])
    |(?P<name>[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*|-?(?:\.\d+|\d+(?:\.\d*)?))
    |(?P<text>"(?:[^"\\]|\\.)*")
    |(?P<html><(?:[^<>]|<[^<>]*>)*>)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
#: How deep subgraphs may stand in each other.
DEPTH_MAX = 200
FINISHED = frozenset({"done", "closed", "completed"})


class DotImporter:
    """The importer of this source."""

    name = "dot"
    about = "a directed graph in Graphviz' DOT: a -> b lets b wait for a (--reverse: a for b)"

    def looks_like(self, name: str, head: bytes) -> bool:
        """Whether it is one by its name or its first word."""
        return name.lower().endswith((".dot", ".gv")) or bool(
            re.match(rb"\s*(strict\s+)?digraph\b[^{]*\{", head.removeprefix(b"\xef\xbb\xbf"))
        )

    def read(self, pieces: Iterable[bytes], options: Options) -> Draft:
        """Read a graph."""
        draft = Draft()
        try:
            text = b"".join(pieces).removeprefix(b"\xef\xbb\xbf").decode()
        except UnicodeDecodeError:
            draft.fault(1, "line 1", "it is not UTF-8", "the file")
            return draft
        reader = _Reader(draft, [*_tokens(text)], options)
        try:
            reader.graph()
        except _Unexpected as exc:
            draft.fault(exc.line, f"line {exc.line}", f"{exc}; nothing after it was read", "the rest")
        reader.finish()
        return draft


class _Unexpected(Exception):
    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            yield _Token("bad", text[at : at + 20], line)
            return
        if match.lastgroup != "blank":
            yield _Token(str(match.lastgroup), match[0], line)
        line += match[0].count("\n")
        at = match.end()


class _Scope:
    """Where a statement stands: the cluster around it, and the attributes that new nodes get."""

    def __init__(self, cluster: str | None, defaults: dict[str, str]) -> None:
        self.cluster = cluster
        self.defaults = defaults
        self.nodes: dict[str, None] = {}


class _Reader:
    def __init__(self, draft: Draft, tokens: list[_Token], options: Options) -> None:
        self._draft = draft
        self._tokens = tokens
        self._options = options
        self._at = 0
        self._depth = 0
        self._nodes: dict[str, dict[str, str]] = {}
        self._lines: dict[str, int] = {}
        self._parents: dict[str, str | None] = {}
        self._clusters: dict[str, dict[str, str]] = {}
        self._edges: dict[tuple[str, str], int] = {}

    # -------------------------------------------------------------------------------------------------- the grammar

    def _peek(self) -> _Token:
        last = self._tokens[-1].line if self._tokens else 1
        return self._tokens[self._at] if self._at < len(self._tokens) else _Token("end", "", last)

    def _next(self) -> _Token:
        token = self._peek()
        self._at += 1
        return token

    def _is(self, text: str) -> bool:
        token = self._peek()
        return token.kind in ("mark", "arrow", "name") and token.text.lower() == text

    def _take(self, text: str) -> bool:
        if self._is(text):
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            token = self._peek()
            found = quoted(token.text) if token.kind != "end" else "the end of the file"
            raise _Unexpected(token.line, f"{text!r} must stand here, not {found}")

    def graph(self) -> None:
        """Read the whole file."""
        self._take("strict")
        if self._is("graph"):
            raise _Unexpected(self._peek().line, "it is a graph without directions: only a digraph has an order")
        self._expect("digraph")
        if not self._is("{"):
            self._name()
        self._block(_Scope(None, {}))
        if self._peek().kind != "end":
            raise _Unexpected(self._peek().line, "there is more than one graph in the file")

    def _block(self, scope: _Scope) -> None:
        self._expect("{")
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise _Unexpected(self._peek().line, f"subgraphs stand in each other more than {DEPTH_MAX} deep")
        while not self._take("}"):
            self._options.tick()
            self._statement(scope)
            while self._take(";") or self._take(","):
                pass
        self._depth -= 1

    def _statement(self, scope: _Scope) -> None:
        if self._defaults(scope) or self._assignment(scope):
            return
        ends = [self._end(scope)]
        while self._peek().kind == "arrow":
            token = self._next()
            if token.text == "--":
                raise _Unexpected(token.line, "-- has no direction: in a digraph it is ->")
            ends.append(self._end(scope))
            for first, then in product(ends[-2], ends[-1]):
                pair = (then, first) if self._options.reverse else (first, then)
                self._edges.setdefault(pair, token.line)
        attributes = self._attributes()
        if len(ends) == 1:
            for name in ends[0]:
                self._nodes[name].update(attributes)

    def _defaults(self, scope: _Scope) -> bool:
        """Read attributes of the graph, or of all nodes or edges that follow, if these stand here."""
        word = next((word for word in ("graph", "node", "edge") if self._is(word)), None)
        if word is None:
            return False
        self._next()
        attributes = self._attributes()
        if word == "node":
            scope.defaults = {**scope.defaults, **attributes}
        elif word == "graph" and scope.cluster is not None:
            self._clusters[scope.cluster].update(attributes)
        return True

    def _assignment(self, scope: _Scope) -> bool:
        """Read `name = value`, if it stands here."""
        after = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else None
        if after is None or after.kind != "mark" or after.text != "=":
            return False
        name = self._name()
        self._expect("=")
        value = self._name()
        if scope.cluster is not None:
            self._clusters[scope.cluster][name] = value
        return True

    def _end(self, scope: _Scope) -> list[str]:
        """Read a node or a subgraph; the names of the nodes in it."""
        if self._is("subgraph") or self._is("{"):
            name = None
            if self._take("subgraph") and not self._is("{"):
                name = self._name()
            cluster = scope.cluster
            if name is not None and name.startswith("cluster"):
                cluster = name
                self._clusters.setdefault(name, {})
                self._lines.setdefault(f"cluster {name}", self._peek().line)
                self._parents.setdefault(f"cluster {name}", scope.cluster)
            inner = _Scope(cluster, dict(scope.defaults))
            self._block(inner)
            scope.nodes.update(inner.nodes)
            return [*inner.nodes]
        line = self._peek().line
        name = self._name()
        if self._take(":"):
            self._name()
            if self._take(":"):
                self._name()
        self._nodes.setdefault(name, dict(scope.defaults))
        self._lines.setdefault(name, line)
        if self._parents.get(name) is None:
            self._parents[name] = scope.cluster
        scope.nodes[name] = None
        return [name]

    def _name(self) -> str:
        token = self._next()
        if token.kind == "text":
            text = token.text[1:-1]
            while self._take("+"):
                text += self._name()
            return text.replace("\\\n", "").replace('\\"', '"')
        if token.kind == "html":
            return re.sub(r"<[^>]*>", " ", token.text[1:-1])
        if token.kind == "name":
            return token.text
        found = quoted(token.text) if token.kind != "end" else "the end of the file"
        raise _Unexpected(token.line, f"a name must stand here, not {found}")

    def _attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self._take("["):
            while not self._take("]"):
                name = self._name()
                found[name] = self._name() if self._take("=") else "true"
                while self._take(",") or self._take(";"):
                    pass
        return found

    # ---------------------------------------------------------------------------------------------------- the draft

    def finish(self) -> None:
        """Make rows of clusters, nodes and arrows."""
        keys: dict[str, str] = {}
        for name, attributes in self._clusters.items():
            keys[f"cluster {name}"] = key = _key(name)
            self._add(key, attributes, f"cluster {name}", keys, kind="goal")
        for name, attributes in self._nodes.items():
            keys[name] = _key(name)
            self._add(keys[name], attributes, name, keys, kind="task")
        for (first, then), line in self._edges.items():
            item = self._draft.items.get(keys[then])
            if item is not None:
                item.deps.append(Dependency(keys[first], f"(line {line}) waits on"))

    def _add(self, key: str, attributes: dict[str, str], name: str, keys: dict[str, str], *, kind: str) -> None:
        line = self._lines[name]
        place = f"line {line}"
        if attributes.get("status", "").lower() in FINISHED and not self._options.closed:
            self._draft.finish(key, "done", at=line, place=place)
            return
        title = attributes.get("label", "")
        title = " ".join(re.sub(r"\\[nlr]", " ", title).replace("\\N", name).split())
        item = Item(key, "" if title == key else title.removeprefix(f"{key} "), at=line, place=place)
        item.kind = kind
        if not self._draft.add(item):
            return
        parent = self._parents.get(name)
        item.parent = None if parent is None else keys.get(f"cluster {parent}")
        status = attributes.get("status", "todo").lower()
        if status not in ("todo", "ready", "open", *FINISHED):
            self._draft.hold(item, "blocked in the file" if status == "blocked" else f"it has the status {status!r}")
        for field in ("role", "cost", "priority", "kind"):
            if field in attributes:
                self._set(item, field, attributes[field])

    def _set(self, item: Item, field: str, text: str) -> None:
        value: Any = text
        if field in ("cost", "priority"):
            try:
                value = float(text) if field == "cost" else int(text)
            except ValueError:
                value = text
        faults = [*wrong(value, _TYPES[field], field)]
        for fault in faults:
            self._draft.fault(item.at, item.place, f"{item.key}: {fault.message}", f"its {field}")
        if not faults:
            setattr(item, field, value)


def _key(name: str) -> str:
    """Return the name of a node without blanks, since the first word of a summary is the id."""
    return "_".join(name.split()) or "_"
