"""Read a plan (docs/reference/plan.md), in JSON, YAML or TOML, into nodes for `submit`.

Finds what is wrong with the form of a plan, all of it at once; what is wrong with the graph (unknown refs, cycles,
needs that can never be met) is the daemon's to say. It asks nothing of the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

FORMATS = ("json", "yaml", "toml")
_ENDINGS = {"json": "json", "yaml": "yaml", "yml": "yaml", "toml": "toml"}
#: Fields that go to the daemon as they are.
_PLAIN = ("ref", "kind", "status", "role", "summary", "cost", "priority", "needs", "max_attempts")
_FIELDS = frozenset((*_PLAIN, "parent", "deps", "after", "after_any", "children"))
_TOP = frozenset({"nodes", "capacities"})


class BadPlan(Exception):
    """A plan that cannot be taken: `faults` says all that is wrong with it, each with its place."""

    def __init__(self, faults: list[str], remedy: str = "") -> None:
        super().__init__(faults[0] if len(faults) == 1 else f"{len(faults)} faults")
        self.faults = faults
        self.remedy = remedy


class Plan:
    """What a plan asks for: nodes for `submit`, the place of each in the file, and capacities to set first."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.places: list[str] = []
        self.capacities: dict[str, int] = {}


def format_of(path: str) -> str:
    """The format that a file's ending names. BadPlan when it names none."""
    ending = path.rpartition(".")[2].lower() if "." in path else ""
    if ending not in _ENDINGS:
        raise BadPlan([f"{path}: a plan ends in .json, .yaml, .yml or .toml"], "or say which with --format")
    return _ENDINGS[ending]


def read(text: bytes, form: str, node_id: Callable[[str], str]) -> Plan:
    """Read a plan. `node_id` makes a whole id of what is no ref of the plan. BadPlan says all that is wrong."""
    try:
        document = _load(text.removeprefix(b"\xef\xbb\xbf").decode(), form)
    except UnicodeDecodeError:
        raise BadPlan(["it is not UTF-8"]) from None
    except RecursionError:
        raise BadPlan(["it is nested too deep"]) from None
    if isinstance(document, list):
        document = {"nodes": document}
    if not isinstance(document, dict):
        raise BadPlan(["a plan is a list of nodes, or has one under the name nodes"])
    reader = _Reader(node_id)
    reader.read(document)
    if reader.faults:
        raise BadPlan(reader.faults)
    return reader.plan


def _load(text: str, form: str) -> Any:
    if form == "json":
        import json

        try:
            return json.loads(text)
        except ValueError as exc:
            raise BadPlan([f"it is not JSON: {exc}"]) from None
    if form == "toml":
        import tomllib

        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as exc:
            raise BadPlan([f"it is not TOML: {exc}"]) from None
    try:
        import yaml
    except ImportError:
        raise BadPlan(["plans in YAML need PyYAML"], "pip install 'claimdagd[yaml]'") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise BadPlan([f"it is not YAML: {' '.join(str(exc).split())}"]) from None


class _Reader:
    """Walks a document once for its refs, and once more for its nodes; keeps every fault."""

    def __init__(self, node_id: Callable[[str], str]) -> None:
        self.plan = Plan()
        self.faults: list[str] = []
        self._node_id = node_id
        self._refs: dict[str, str] = {}

    def read(self, document: Mapping[Any, Any]) -> None:
        for name in document:
            if name not in _TOP:
                self.faults.append(f"unknown field {name!r} at the top: there are nodes and capacities")
        capacities = document.get("capacities") or {}
        if isinstance(capacities, dict) and all(map(_is_count, capacities.values())):
            self.plan.capacities = {str(name): units for name, units in capacities.items()}
        else:
            self.faults.append("capacities: it is a table of whole numbers, as in {gpu: 2}")
        nodes = document.get("nodes")
        if isinstance(nodes, list) and nodes:
            self._name_all(nodes, "nodes")
            self._take_all(nodes, "nodes", None)
        else:
            self.faults.append("nodes: there must be a list of at least one node")

    def _name_all(self, nodes: list[Any], place: str) -> None:
        for index, node in enumerate(nodes):
            if not isinstance(node, dict):
                continue
            here = f"{place}[{index}]"
            ref = node.get("ref")
            if ref is not None:
                name = str(ref)
                if name in self._refs:
                    self.faults.append(f"{here}: ref {name!r} is taken by {self._refs[name]}")
                else:
                    self._refs[name] = here
            if isinstance(node.get("children"), list):
                self._name_all(node["children"], f"{here}.children")

    def _take_all(self, nodes: list[Any], place: str, parent: str | None) -> None:
        for index, node in enumerate(nodes):
            here = f"{place}[{index}]"
            if isinstance(node, dict):
                self._take(node, here, parent)
            else:
                self.faults.append(f"{here}: a node is a table of fields, not {node!r}")

    def _take(self, node: dict[Any, Any], here: str, parent: str | None) -> None:
        for name in node:
            if name not in _FIELDS:
                self.faults.append(f"{here}: unknown field {name!r}")
        taken = {name: node[name] for name in _PLAIN if name in node}
        for name, value in taken.items():
            if not _FORMS[name][0](value):
                self.faults.append(f"{here}.{name}: {value!r} is not {_FORMS[name][1]}")
        if "ref" in taken:
            taken["ref"] = str(taken["ref"])
        if parent is not None:
            taken["parent"] = parent
            if "parent" in node:
                self.faults.append(f"{here}: it stands under a parent and names one too")
        elif node.get("parent") is not None:
            taken["parent"] = self._target(node["parent"], f"{here}.parent")
        deps = self._deps(node, here)
        if deps:
            taken["deps"] = deps
        children = node.get("children")
        if children is not None and not isinstance(children, list):
            self.faults.append(f"{here}.children: it is a list of nodes")
            children = None
        if children and "ref" not in taken:
            taken["ref"] = self._made_up(here)
        self.plan.nodes.append(taken)
        self.plan.places.append(here)
        if children:
            self._take_all(children, f"{here}.children", taken["ref"])

    def _deps(self, node: Mapping[Any, Any], here: str) -> list[dict[str, str]]:
        found: dict[tuple[str, str], None] = {}
        for name, when in (("after", "after_ok"), ("after_any", "after_any")):
            for target in _as_list(node.get(name)):
                found[self._target(target, f"{here}.{name}"), when] = None
        for index, dep in enumerate(_as_list(node.get("deps"))):
            place = f"{here}.deps[{index}]"
            if not isinstance(dep, dict):
                found[self._target(dep, place), "after_ok"] = None
                continue
            # In YAML 1.1 a bare `on` is the word for true.
            fields = {"on" if name is True else name: value for name, value in dep.items()}
            when = fields.pop("when", "after_ok")
            if when not in ("after_ok", "after_any"):
                self.faults.append(f"{place}: when is after_ok or after_any, not {when!r}")
                continue
            found[self._target(fields.pop("on", None), place), when] = None
            self.faults.extend(f"{place}: unknown field {name!r}" for name in fields)
        return [{"on": on} if when == "after_ok" else {"on": on, "when": when} for on, when in found]

    def _target(self, named: object, place: str) -> str:
        """A ref of this plan, else the id of a node that exists."""
        if not isinstance(named, (str, int)) or isinstance(named, bool) or named == "":
            self.faults.append(f"{place}: {named!r} names no node")
            return ""
        name = str(named)
        return name if name in self._refs else self._node_id(name)

    def _made_up(self, here: str) -> str:
        ref = f"({here})"
        while ref in self._refs:
            ref += "'"
        self._refs[ref] = here
        return ref


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e308 < value < 1e308


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_needs(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(k, str) and _is_count(v) for k, v in value.items())


#: What each plain field must look like, and how that is said. Ranges and spellings are the daemon's to judge.
_FORMS: dict[str, tuple[Callable[[object], bool], str]] = {
    "ref": (lambda value: isinstance(value, (str, int)) and not isinstance(value, bool) and value != "", "a name"),
    "kind": (_is_text, "a word"),
    "status": (_is_text, "a word"),
    "role": (_is_text, "a word"),
    "summary": (_is_text, "text: put it in quotes"),
    "cost": (_is_number, "a number"),
    "priority": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    "needs": (_are_needs, "a table of whole numbers, as in {gpu: 1}"),
    "max_attempts": (lambda value: value is None or _is_count(value), "a whole number"),
}


def _as_list(value: object) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
