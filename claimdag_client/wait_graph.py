"""The wait graph of nodes that are not yet, or not only, in the daemon: to find cycles in a file, and to draw layers.

Each node has three moments: its start waits on the ends of what it depends on and on the starts of the groups above
it; its own result waits on its start; its end waits on its own result and on the ends of its children. Pure; knows
nothing of files or of the daemon.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    Edge = tuple[str, str]

_START, _OWN, _END = 0, 1, 2


class Moments:
    """The wait graph of nodes by name: who is whose parent, which are groups, and the dependencies added so far.

    `parents` must be a forest over the names; parents outside it are ignored.
    """

    def __init__(self, names: Iterable[str], parents: Mapping[str, str | None], groups: Collection[str]) -> None:
        self.names = list(names)
        self._index = {name: index for index, name in enumerate(self.names)}
        self._parents = {name: parent for name in self.names if (parent := parents.get(name)) in self._index}
        self._groups = groups
        #: For each moment, 3 * index + which of the three, the moments that it waits on.
        self.waits: list[list[int]] = [[] for _ in range(3 * len(self.names))]
        for index, name in enumerate(self.names):
            self.waits[3 * index + _OWN].append(3 * index + _START)
            self.waits[3 * index + _END].append(3 * index + _OWN)
            parent = self._parents.get(name)
            if parent is not None:
                self.waits[self.end(parent)].append(self.end(name))
            gate = self._gate(name)
            if gate is not None:
                self.waits[3 * index + _START].append(self.start(gate))

    def start(self, name: str) -> int:
        return 3 * self._index[name] + _START

    def end(self, name: str) -> int:
        return 3 * self._index[name] + _END

    def name_of(self, moment: int) -> str:
        return self.names[moment // 3]

    def label(self, moment: int) -> str:
        """A moment in words: of a group its start and its end are far apart, of work its name says enough."""
        name = self.name_of(moment)
        if name not in self._groups:
            return name
        return f"{name}'s end" if moment % 3 == _END else f"{name}'s start"

    def above(self, name: str) -> list[str]:
        """The ancestors of a node, nearest first."""
        found = []
        parent = self._parents.get(name)
        while parent is not None:
            found.append(parent)
            parent = self._parents.get(parent)
        return found

    def _gate(self, name: str) -> str | None:
        return next((ancestor for ancestor in self.above(name) if ancestor in self._groups), None)

    def target(self, waiting: str, on: str) -> int:
        """The moment of `on` that the start of `waiting` would wait on."""
        if on not in self._groups and on in self.above(waiting):
            return 3 * self._index[on] + _OWN
        return self.end(on)

    def add(self, waiting: str, on: str) -> None:
        """Let `waiting` depend on `on`; it is not checked."""
        self.waits[self.start(waiting)].append(self.target(waiting, on))

    def remove(self, waiting: str, on: str) -> None:
        """Take back what `add` did."""
        self.waits[self.start(waiting)].remove(self.target(waiting, on))

    def path(self, source: int, goal: int, within: Sequence[int] | None = None) -> list[str] | None:
        """In names, a way from one moment to another along what waits on what, or None where there is none.

        With `within`, the strong component of each moment, the way keeps to that of `source`.
        """
        came: dict[int, int] = {source: source}
        stack = [source]
        while stack:
            moment = stack.pop()
            if moment == goal:
                break
            for other in self.waits[moment]:
                if other not in came and (within is None or within[other] == within[source]):
                    came[other] = moment
                    stack.append(other)
        else:
            return None
        names = [self.label(goal)]
        moment = goal
        while moment != source:
            moment = came[moment]
            if self.label(moment) != names[-1]:
                names.append(self.label(moment))
        return names[::-1]

    def components(self) -> list[int]:
        """The strong component of each moment, by number (Tarjan's algorithm, without recursion)."""
        count = len(self.waits)
        order = [-1] * count
        low = [0] * count
        component = [-1] * count
        stack: list[int] = []
        seen = found = 0
        for root in range(count):
            if order[root] >= 0:
                continue
            work = [(root, 0)]
            while work:
                moment, position = work.pop()
                if position == 0:
                    order[moment] = low[moment] = seen
                    seen += 1
                    stack.append(moment)
                for next_position in range(position, len(self.waits[moment])):
                    other = self.waits[moment][next_position]
                    if order[other] < 0:
                        work += [(moment, next_position + 1), (other, 0)]
                        break
                    if component[other] < 0:
                        low[moment] = min(low[moment], order[other])
                else:
                    if low[moment] == order[moment]:
                        while True:
                            member = stack.pop()
                            component[member] = found
                            if member == moment:
                                break
                        found += 1
                    if work:
                        above = work[-1][0]
                        low[above] = min(low[above], low[moment])
        return component


def closing_cycles(
    moments: Moments, edges: Sequence[Edge], tick: Callable[[], None] = lambda: None
) -> list[tuple[int, list[str]]]:
    """Add `edges` (who waits, on whom) one by one; the positions of those that would close a cycle, with its path.

    Those are left out of `moments`. A path begins and ends with the node that waits.
    """
    for waiting, on in edges:
        moments.add(waiting, on)
    component = moments.components()
    suspects = [
        position
        for position, (waiting, on) in enumerate(edges)
        if component[moments.start(waiting)] == component[moments.target(waiting, on)]
    ]
    for position in suspects:
        moments.remove(*edges[position])
    faults = []
    for position in suspects:
        tick()
        waiting, on = edges[position]
        back = moments.path(moments.target(waiting, on), moments.start(waiting), component)
        if back is None:
            moments.add(waiting, on)
        else:
            first = moments.label(moments.start(waiting))
            faults.append((position, [first, *back] if back[0] != first else back))
    return faults


def layers(moments: Moments, groups: Collection[str]) -> dict[str, tuple[int, int]]:
    """The layer of each node, from 0: one past the layers of all the work that it waits on, and its place in it.

    A group takes no layer of its own: it stands where it ends, in the layer of what waits on it, at an earlier place.
    What is in a cycle, which no daemon gives, stands in layer 0.
    """
    count = len(moments.waits)
    waiters: list[list[int]] = [[] for _ in range(count)]
    open_waits = [len(waits) for waits in moments.waits]
    for moment, waits in enumerate(moments.waits):
        for other in waits:
            waiters[other].append(moment)
    layer = [(0, 0)] * count
    due = [moment for moment in range(count) if not open_waits[moment]]
    while due:
        moment = due.pop()
        which = moment % 3
        is_group = moments.name_of(moment) in groups
        for waiter in waiters[moment]:
            after = layer[moment]
            if not is_group and which == _START and waiter == moment + 1:
                after = (after[0] + 1, 0)
            elif is_group and which == _END:
                after = (after[0], after[1] + 1)
            layer[waiter] = max(layer[waiter], after)
            open_waits[waiter] -= 1
            if not open_waits[waiter]:
                due.append(waiter)
    return {name: layer[moments.end(name) if name in groups else moments.start(name)] for name in moments.names}
