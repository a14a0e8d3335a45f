"""How the answer to a command is shown to a person: for each kind of answer its lines. Pure text.

The table of commands names these functions.
"""

from __future__ import annotations

from claimdag_client.cli.render.text import (
    clean,
    clean_lines,
    duration,
    fold,
    number,
    paused_text,
    room_for,
    size,
    some,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from claimdag_client.cli.render.text import Paint

    Answer = Mapping[str, Any]


def gen(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield the generation, for a script."""
    yield f"gen={ok['gen']}"


def lease(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield the generation, and when to speak again."""
    yield f"gen={ok['gen']} expires_in={ok['expires_in']:.0f}"


def claim(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield `id=ID gen=N` for a script, then the summary for a person."""
    yield f"id={clean(ok['id'])} gen={ok['gen']}"
    if summary := clean((ok.get("node") or {}).get("summary", "")):
        yield summary


def ids(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield ids, one a line."""
    yield from map(clean, ok["ids"])


def status(node: Answer, paint: Paint) -> Iterable[str]:
    """Yield a node and its status."""
    yield f"{clean(node['id'])} {clean(node['status'])}"


def completed(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield a node, how it ended, what that made ready, and the next claim."""
    line = f"{clean(ok['node']['id'])} {clean(ok['node']['status'])}"
    if made_ready := ok.get("ready"):
        line += ", ready now: " + " ".join(map(clean, made_ready))
    yield line
    if ok.get("next"):
        yield from claim(ok["next"], paint)


def pong(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield pong: the daemon answers."""
    yield "pong"


def checkpoint(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield the last entry in the snapshot, and its size."""
    yield f"seq={ok['seq']} bytes={ok['bytes']}"


def page(node: Answer, paint: Paint) -> Iterable[str]:
    """Yield every field of a node."""
    from claimdag_client.cli.render.node import page

    return page(node, paint)


def why(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield a node's status and the reasons for it: one is a sentence, several are a list."""
    from claimdag_client.cli.render.node import coloured, sign

    status = ok["status"]
    head = f"{sign(status, paint)} {paint(clean(ok['id']), 'bold')}"
    yield f"{head}  {coloured(clean(status), status, paint)}"
    reasons = [str(reason["text"]) for reason in ok.get("reasons") or () if reason.get("text")]
    said = str(ok.get("text") or "").removeprefix(f"{ok['id']} is {status}: ")
    several = len(reasons) > 1
    for text in reasons if several else [said]:
        lines = [part for line in clean_lines(text) for part in fold(line, room_for(paint, 4 if several else 2))]
        for index, line in enumerate(lines):
            yield f"  {('- ' if not index else '  ') if several else ''}{line}"


def ready(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield nodes in the order of claims, and why one that is ready cannot run now."""
    from claimdag_client.cli.render.node import lines, waits_for

    nodes = ok["nodes"]
    for node, line in zip(nodes, lines(nodes, paint), strict=True):
        yield line
        if node.get("runnable") is False:
            waits = waits_for(node) or "units are kept for another that waits longer"
            yield paint(f"    not now: {waits}", "yellow")


def resource(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield a resource: use, capacity, holders, which nodes wait."""
    line = f"{clean(ok['name'])}  {number(ok['used'])} of {number(ok['capacity'])} in use"
    holders = [holder for holder in ok.get("holders") or () if not holder.get("lender")]
    if holders:
        line += ", by " + some([f"{holder['id']} ({holder['units']})" for holder in holders])
    if waiting := ok.get("waiting"):
        line += f"; awaited by {some(waiting)}"
    yield line


def resources(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield a line for each resource."""
    for each in ok["resources"]:
        yield from resource(each, paint)


def log(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield entries of the ledger."""
    from claimdag_client.cli.render.log import entry_lines

    for entry in ok["entries"]:
        yield from entry_lines(entry, paint)


def paused(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield what is paused after a pause or a resume."""
    yield paused_text(ok.get("paused") or ()) or "nothing is paused"


def stats(ok: Answer, paint: Paint) -> Iterable[str]:
    """Yield the daemon's counts, a line each."""
    for name, value in ok.items():
        for named, text in _stat(name, value):
            for index, line in enumerate(fold(clean(text), room_for(paint, 16))):
                yield f"{'' if index else clean(named):16}{line}"


def _stat(name: str, value: Any) -> Iterable[tuple[str, str]]:
    if name == "paused":
        yield name, paused_text(value) or "nothing"
    elif name == "deadlocks":
        yield from (("deadlock", deadlock_text(deadlock)) for deadlock in value)
    elif isinstance(value, dict):
        yield name, ", ".join(f"{key} {count}" for key, count in value.items()) or "none"
    else:
        forms = {"uptime": duration, "journal_bytes": size, "snapshot_bytes": size}
        yield name, forms.get(name, number)(value) if isinstance(value, (int, float)) else str(value)


def deadlock_text(deadlock: Any) -> str:
    """Return the daemon's words for a deadlock."""
    if isinstance(deadlock, dict):
        return str(deadlock.get("text") or deadlock.get("message") or deadlock)
    return str(deadlock)
