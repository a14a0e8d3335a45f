"""Read the project's own plan format, in JSON, YAML or TOML, into nodes for `submit`: docs/reference/plan.md.

Every fault that can be seen without a daemon is found at once: form, values, names of nothing, needs over the plan's
own capacities, cycles. What is left without the faulty parts is a submission of its own, so that the daemon can be
asked for its faults in the same round.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from msgspec import inspect

from claimdag_client.importers.documents import FORMATS, BadDocument, Document, load
from claimdag_client.wait_graph import WaitGraph
from claimdagd.faults import wrong
from claimdagd.wire import Submit, SubmitNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from claimdag_client.importers.documents import Path
    from claimdagd.faults import Fault

__all__ = ["FORMATS", "BadPlan", "Plan", "PlanFault", "format_of", "read"]

_ENDINGS = {"json": "json", "yaml": "yaml", "yml": "yaml", "toml": "toml"}
_TYPES = {field.encode_name: field.type for field in inspect.type_info(SubmitNode).fields}  # type: ignore[attr-defined]
_CAPACITIES = next(
    field.type
    for field in inspect.type_info(Submit).fields  # type: ignore[attr-defined]
    if field.encode_name == "capacities"
)
#: Fields that go to the daemon as they are.
_PLAIN = tuple(name for name in _TYPES if name not in ("parent", "deps"))
_FIELDS = frozenset((*_PLAIN, "parent", "deps", "after", "after_any", "children"))
_TOP = frozenset({"nodes", "capacities"})
_ID = re.compile(r"[0-9a-z]{4}-[0-9]+|[0-9]+")
_GROUPS = ("goal", "molecule")


class BadPlan(Exception):
    """A file that cannot be read as a plan at all."""

    def __init__(self, fault: str, remedy: str = "") -> None:
        super().__init__(fault)
        self.remedy = remedy


class PlanFault:
    """What is wrong at a place. `at` is the number of the node, or -1 for what is not of one node."""

    __slots__ = ("at", "path", "text")

    def __init__(self, at: int, path: Path, text: str) -> None:
        self.at = at
        self.path = path
        self.text = text


class Plan:
    """What a plan asks for: nodes for `submit`, capacities, and what is wrong with it."""

    def __init__(self, document: Document) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.capacities: dict[str, int] = {}
        self.faults: list[PlanFault] = []
        #: Where each of `nodes` is in the document.
        self.paths: list[Path] = []
        self._document = document
        #: Whether the document is the list of nodes itself.
        self.is_list = isinstance(document.value, list)

    def place_of(self, path: Path) -> str:
        """Return a place in words: `line 7: nodes[1].children[0].cost`."""
        written = path[1:] if self.is_list else path
        line = self._document.line_of(written)
        words = spelled(path)
        return words if line is None else f"line {line}: {words}"

    def told(self) -> Iterator[str]:
        """Yield each fault with its place, in the order of the file."""
        for fault in sorted(self.faults, key=lambda fault: fault.at):
            place = self.place_of(fault.path)
            yield f"{place}: {fault.text}" if fault.path else fault.text


def spelled(path: Path) -> str:
    """Return a path as it is written: `nodes[1].children[0].cost`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def format_of(path: str) -> str:
    """Return the format that a file's ending names. BadPlan when it names none."""
    ending = path.rpartition(".")[2].lower() if "." in path else ""
    if ending not in _ENDINGS:
        raise BadPlan(f"{path}: a plan ends in .json, .yaml, .yml or .toml", "or say which with --format")
    return _ENDINGS[ending]


def read(text: bytes, form: str, node_id: Callable[[str], str]) -> Plan:
    """Read a plan. `node_id` makes a whole id of what is no ref of the plan. BadPlan if it cannot be read."""
    try:
        document = load(text, form)
    except BadDocument as exc:
        raise BadPlan(str(exc), exc.remedy) from None
    value = document.value
    if isinstance(value, list):
        value = {"nodes": value}
    if not isinstance(value, dict):
        raise BadPlan("a plan is a list of nodes, or has one under the name nodes")
    reader = _Reader(Plan(document), node_id)
    try:
        reader.read(value)
    except RecursionError:
        raise BadPlan("it is nested too deep") from None
    return reader.plan


class _Reader:
    """Walks a document once for its refs, and once more for its nodes; keeps every fault."""

    def __init__(self, plan: Plan, node_id: Callable[[str], str]) -> None:
        self.plan = plan
        self._node_id = node_id
        self._refs: dict[str, Path] = {}
        #: How often nodes are named, by the number of the node and the name, with the place.
        self._edges: dict[tuple[str, str], tuple[int, Path]] = {}
        self._bad_resources = False

    def read(self, document: Mapping[Any, Any]) -> None:
        """Read the whole document."""
        for name in document:
            if name not in _TOP:
                self._fault((), f"unknown field {name!r} at the top; accepted are capacities, nodes", at=-1)
        self._take_capacities(document.get("capacities"))
        nodes = document.get("nodes")
        if isinstance(nodes, list) and nodes:
            self._name_all(nodes, ("nodes",))
            self._take_all(nodes, ("nodes",), None)
            self._break_parent_cycles()
            self._break_cycles()
        else:
            self._fault(("nodes",), "there must be a list of at least one node", at=-1)

    def _fault(self, path: Path, text: str, at: int | None = None) -> None:
        self.plan.faults.append(PlanFault(len(self.plan.nodes) if at is None else at, path, text))

    def _take_capacities(self, value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, dict):
            self._bad_resources = True
            self._fault(("capacities",), "it must be a table of whole numbers, as in {gpu: 2}", at=-1)
            return
        for name, units in value.items():
            faults = [*wrong({name: units} if isinstance(name, str) else name, _CAPACITIES, "capacities")]
            for fault in faults:
                self._fault(("capacities", str(name)), _without_path(fault), at=-1)
            if faults:
                self._bad_resources = True
            else:
                self.plan.capacities[name] = units

    def _name_all(self, nodes: list[Any], path: Path) -> None:
        """Collect every ref, so that a name may be used before its node."""
        for index, node in enumerate(nodes):
            if not isinstance(node, dict):
                continue
            here = (*path, index)
            if _is_name(node.get("ref")):
                self._refs.setdefault(str(node["ref"]), here)
            if isinstance(node.get("children"), list):
                self._name_all(node["children"], (*here, "children"))

    def _take_all(self, nodes: list[Any], path: Path, parent: str | None) -> None:
        for index, node in enumerate(nodes):
            here = (*path, index)
            if isinstance(node, dict):
                self._take(node, here, parent)
            else:
                self._fault(here, f"a node must be a table of fields, not {_shown(node)}")

    def _take(self, node: dict[Any, Any], here: Path, parent: str | None) -> None:
        self.plan.nodes.append({})
        at = len(self.plan.nodes) - 1
        taken = self.plan.nodes[at]
        self.plan.paths.append(here)
        for name, value in node.items():
            if name not in _FIELDS:
                self._fault(here, f"unknown field {name!r}; accepted are {', '.join(sorted(_FIELDS))}", at)
            elif name in _PLAIN:
                self._take_value(taken, name, value, (*here, name), at)
        ref = taken.get("ref")
        if ref is not None and self._refs.get(ref) != here:
            self._fault((*here, "ref"), f"ref {ref!r} is taken by {spelled(self._refs[ref])}", at)
            del taken["ref"]
        # A node without a name gets one, for its children and for what closes a cycle.
        name = taken.get("ref") or self._made_up(here)
        self._take_parent(taken, node, here, parent, at, name)
        deps = [*self._deps(node, here, at, name)]
        if deps:
            taken["deps"] = deps
        children = node.get("children")
        if children is not None and not isinstance(children, list):
            self._fault((*here, "children"), "it must be a list of nodes", at)
        elif children:
            taken["ref"] = name
            self._take_all(children, (*here, "children"), name)

    def _take_value(self, taken: dict[str, Any], name: str, value: Any, path: Path, at: int) -> None:
        if name == "ref" and _is_name(value):
            value = str(value)
        if name == "not_before" and isinstance(value, (str, datetime)):
            value = self._time(value, path, at)
            if value is None:
                return
        faults = [*wrong(value, _TYPES[name], name)]
        if faults:
            hint = ": put it in quotes" if name == "summary" else ""
            for fault in faults:
                below = fault.field.removeprefix(name).lstrip(".")
                where = (*path, below) if below and isinstance(value, dict) else path
                self._fault(where, f"{_without_path(fault)}{hint}", at)
        elif name == "needs":
            taken[name] = self._needs(value, path, at)
        else:
            taken[name] = value

    def _time(self, value: str | datetime, path: Path, at: int) -> float | None:
        """Return a time that is written with its zone in Unix seconds."""
        try:
            time = datetime.fromisoformat(value) if isinstance(value, str) else value
        except ValueError:
            self._fault(path, f"it must be a time such as 2030-01-31T18:30:00+01:00, not {value!r}", at)
            return None
        if time.tzinfo is None:
            self._fault(path, "a time must have a zone, as in 2030-01-31T18:30:00+01:00", at)
            return None
        return time.timestamp()

    def _needs(self, needs: dict[str, int], path: Path, at: int) -> dict[str, int]:
        """Return those needs that the plan's own capacities can meet."""
        sound = {}
        for resource, units in needs.items():
            capacity = self.plan.capacities.get(resource)
            if capacity is not None and units > capacity:
                text = f"it needs {units} of {resource}, whose capacity in this plan is {capacity}"
                self._fault((*path, resource), text, at)
            elif not self._bad_resources:
                sound[resource] = units
        return sound

    def _take_parent(
        self, taken: dict[str, Any], node: dict[Any, Any], here: Path, parent: str | None, at: int, name: str
    ) -> None:
        place = (*here, "parent")
        if parent is not None:
            taken["parent"] = parent
            if "parent" in node:
                self._fault(place, "it stands under a parent and names one too", at)
        elif node.get("parent") is not None:
            target = self._target(node["parent"], place, at)
            if target is not None:
                taken["parent"] = target

    def _deps(self, node: Mapping[Any, Any], here: Path, at: int, name: str) -> Iterator[dict[str, str]]:
        seen: set[tuple[str, str]] = set()
        for target, when, place in self._named(node, here, at):
            if (target, when) in seen:
                continue
            seen.add((target, when))
            if target == node.get("ref"):
                self._fault(place, f"{target} cannot wait on itself", at)
                continue
            self._edges.setdefault((name, target), (at, place))
            yield {"on": target} if when == "after_ok" else {"on": target, "when": when}

    def _named(self, node: Mapping[Any, Any], here: Path, at: int) -> Iterator[tuple[str, str, Path]]:
        """Yield each node that is waited on, when that is met, and where it is named."""
        for field, when in (("after", "after_ok"), ("after_any", "after_any")):
            for index, named in enumerate(_as_list(node.get(field))):
                place = (*here, field, index) if isinstance(node[field], list) else (*here, field)
                target = self._target(named, place, at)
                if target is not None:
                    yield target, when, place
        for index, dep in enumerate(_as_list(node.get("deps"))):
            place = (*here, "deps", index) if isinstance(node["deps"], list) else (*here, "deps")
            if not isinstance(dep, dict):
                target = self._target(dep, place, at)
                when = "after_ok"
            else:
                # In YAML 1.1 a bare `on` is the word for true.
                fields = {"on" if name is True else name: value for name, value in dep.items()}
                when = fields.pop("when", "after_ok")
                target = self._target(fields.pop("on", None), (*place, "on"), at)
                for name in fields:
                    self._fault(place, f"unknown field {name!r}; accepted are on, when", at)
                if when not in ("after_ok", "after_any"):
                    text = f"it must be one of after_ok, after_any, not {_shown(when)}"
                    self._fault((*place, "when"), text, at)
                    continue
            if target is not None:
                yield target, when, place

    def _target(self, named: object, place: Path, at: int) -> str | None:
        """Return a ref of this plan, else the id of a node that may exist; None, and a fault, for anything else."""
        if not _is_name(named):
            self._fault(place, f"it must name a node, not {_shown(named)}", at)
            return None
        name = str(named)
        if name in self._refs:
            return name
        if _ID.fullmatch(name):
            return self._node_id(name)
        self._fault(place, f"{name!r} is no ref of this plan, and no id of a node", at)
        return None

    def _made_up(self, here: Path) -> str:
        ref = f"({spelled(here)})"
        while ref in self._refs:
            ref += "'"
        self._refs[ref] = here
        return ref

    def _names(self) -> list[str]:
        pairs = zip(self.plan.nodes, self.plan.paths, strict=True)
        return [node.get("ref") or f"({spelled(path)})" for node, path in pairs]

    def _break_parent_cycles(self) -> None:
        """Report each cycle of parents at the node in it that comes last, and let that node have no parent."""
        numbers = {name: at for at, name in enumerate(self._names())}
        sound: set[str] = set()
        for first in numbers:
            path: dict[str, None] = {}
            name: str | None = first
            while name in numbers and name not in sound and name not in path:
                path[name] = None
                name = self.plan.nodes[numbers[name]].get("parent")
            if name is not None and name in path:
                around = [*path][[*path].index(name) :]
                last = max(around, key=numbers.__getitem__)
                start = around.index(last)
                words = " -> ".join([*around[start:], *around[:start], last])
                at = numbers[last]
                self._fault((*self.plan.paths[at], "parent"), f"it closes a cycle of parents: {words}", at)
                del self.plan.nodes[at]["parent"]
            sound.update(path)

    def _break_cycles(self) -> None:
        """Report each dependency that closes a cycle, and leave it out."""
        names = self._names()
        numbers = {name: at for at, name in enumerate(names)}
        parents = {name: node.get("parent") for name, node in zip(names, self.plan.nodes, strict=True)}
        groups = {name for name in names if self.plan.nodes[numbers[name]].get("kind") in _GROUPS}
        edges = [edge for edge in self._edges if edge[0] in numbers and edge[1] in numbers]
        for position, cycle in WaitGraph(parents, groups).closing_cycles(edges):
            waiting, on = edges[position]
            at, place = self._edges[waiting, on]
            self._fault(place, f"it closes a cycle: {' -> '.join(cycle)}", at)
            node = self.plan.nodes[at]
            node["deps"] = [dep for dep in node["deps"] if dep["on"] != on]


def _without_path(fault: Fault) -> str:
    """Say a fault of a value without its path, which is told before it: `it must be ...`."""
    return fault.message.replace(f"{fault.field} must be ", "it must be ", 1)


def _is_name(value: object) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool) and value != ""


def _shown(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "a table" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _as_list(value: object) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
