"""Graphs of any size in the shapes that a scheduler finds hard, as the submits of 4,000 nodes that build them.

Ids are foreseen: the n-th node of a fresh graph is TAG-n. Must not depend on how the graph is reached, so the same
shapes can be built in the core, in the service and over the socket.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from claimdagd.model import Dep, Kind
from claimdagd.wire import Submit, SubmitNode

BATCH = 4000
#: Nodes in each layer of the layered graph.
WIDTH = 64

#: The node with number `n` of a graph, given a way to name an earlier one.
Maker = Callable[[int, Callable[[int], str], random.Random], SubmitNode]


def _layered(n: int, name: Callable[[int], str], chance: random.Random) -> SubmitNode:
    layer = (n - 1) // WIDTH
    deps: tuple[Dep, ...] = ()
    if layer:
        first = (layer - 1) * WIDTH + 1
        deps = tuple(Dep(name(first + i)) for i in sorted(chance.sample(range(WIDTH), chance.randint(1, 3))))
    return SubmitNode(ref=str(n), deps=deps, cost=float(chance.randint(1, 20)))


def _chain(n: int, name: Callable[[int], str], _chance: random.Random) -> SubmitNode:
    return SubmitNode(ref=str(n), deps=(Dep(name(n - 1)),) if n > 1 else ())


def _star(n: int, name: Callable[[int], str], _chance: random.Random) -> SubmitNode:
    return SubmitNode(ref=str(n), deps=(Dep(name(1)),) if n > 1 else ())


def _resource(n: int, _name: Callable[[int], str], _chance: random.Random) -> SubmitNode:
    return SubmitNode(ref=str(n), needs={"gpu": 1})


def _group(n: int, name: Callable[[int], str], _chance: random.Random) -> SubmitNode:
    return SubmitNode(ref=str(n), kind=Kind.GOAL) if n == 1 else SubmitNode(ref=str(n), parent=name(1))


def _plain(n: int, _name: Callable[[int], str], _chance: random.Random) -> SubmitNode:
    return SubmitNode(ref=str(n))


SHAPES: dict[str, Maker] = {
    "layered": _layered,
    "chain": _chain,
    "star": _star,
    "resource": _resource,
    "group": _group,
    # The star the other way: its centre, which waits on all others, is added by the caller.
    "fan-in": _plain,
}


def batches(shape: str, count: int, tag: str, seed: int = 1) -> Iterator[Submit]:
    """The submits that build `shape` with `count` nodes in the empty graph `tag`."""
    make = SHAPES[shape]
    chance = random.Random(seed)
    for start in range(1, count + 1, BATCH):

        def name(n: int, start: int = start) -> str:
            return str(n) if n >= start else f"{tag}-{n}"

        end = min(start + BATCH, count + 1)
        yield Submit(nodes=tuple([make(n, name, chance) for n in range(start, end)]), returns=())
