"""A command as plain data, and how one that is a single request is asked.

Imports nothing that costs: the table of commands is read at every start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Protocol

    from claimdag_client.cli.render.text import Paint

    class Asking(Protocol):
        """What a command needs of the session that it runs in."""

        named: str | None
        paint: Paint

        def ask(self, op: str, /, **fields: Any) -> dict[str, Any]: ...
        def node_id(self, text: str) -> str: ...
        def say_all(self, lines: Iterable[str]) -> None: ...
        def say_rows(self, lines: Iterable[str]) -> None: ...
        def say_json(self, value: object) -> None: ...


class Command:
    """One command. The names of `flags` are those of `claimdag_client.cli.flags`, each with words of its own or "".

    A command that is one request has an `op`, which takes the flags as fields; `show` names the function of
    `claimdag_client.cli.render.answers` that makes its lines, and `rows` the list of the answer that --json prints one
    by one. Any other command has a function `run` of the arguments and the Session, which returns the exit status.
    """

    __slots__ = ("about", "examples", "flags", "needs", "op", "rows", "run", "show", "starts")

    def __init__(
        self,
        *,
        about: str,
        examples: Sequence[str],
        flags: Mapping[str, str] | None = None,
        needs: Sequence[str] = (),
        op: str = "",
        show: str = "",
        rows: str = "",
        run: Callable[..., int] | None = None,
        starts: bool = True,
    ) -> None:
        self.about = about
        self.examples = examples
        self.flags = {"json": ""} if flags is None else flags
        #: The flags that must be given.
        self.needs = needs
        self.op = op
        self.show = show
        self.rows = rows
        self.run = run
        #: Whether it may start a daemon if none listens.
        self.starts = starts


def ask(command: Command, args: Namespace, session: Asking) -> int:
    """Ask what the command asks, and show the answer: the exit status."""
    ok = session.ask(command.op, **fields_of(command, args, session))
    limit = getattr(args, "limit", None)
    if command.rows and limit is not None:
        ok = {**ok, command.rows: ok[command.rows][:limit]}
    show(command, ok, args, session)
    return 0


def fields_of(command: Command, args: Namespace, session: Asking) -> dict[str, Any]:
    """Return the fields of the request that flags fill as they are; what was not given is left out."""
    if len(command.flags) == 1:
        return {}
    from claimdag_client.cli.flags import FLAGS
    from claimdag_client.cli.values import ID

    fields = {}
    for flag in map(FLAGS.__getitem__, command.flags):
        value = getattr(args, flag.dest)
        if not flag.field or value is None:
            continue
        if flag.field == "ids":
            fields.update(naming(value, session))
            continue
        if flag.value is ID:
            value = session.node_id(value)
            if flag.field in ("id", "after"):
                session.named = value
        fields[flag.field] = value
    return fields


def naming(texts: Iterable[str], session: Asking) -> dict[str, Any]:
    """Return the field of a request that names nodes: `id` for one, `ids` for several, nothing for none."""
    ids = list(dict.fromkeys(map(session.node_id, texts)))
    if len(ids) == 1:
        session.named = ids[0]
        return {"id": ids[0]}
    return {"ids": ids} if ids else {}


def results_of(ok: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what an answer says of each node that its request named, one or several."""
    results: list[dict[str, Any]] = ok.get("results", [ok])
    return results


def show(command: Command, ok: Mapping[str, Any], args: Namespace, session: Asking) -> None:
    """Write an answer: for programs as JSON, a row a line if it has rows; for people as the command says."""
    if args.json:
        for row in ok[command.rows] if command.rows else (ok,):
            session.say_json(row)
        return
    from claimdag_client.cli.render import answers

    say = session.say_rows if command.rows else session.say_all
    say(getattr(answers, command.show)(ok, session.paint))
