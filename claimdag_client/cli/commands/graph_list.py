"""Verb graphs: all graphs of this user, live or not."""

from __future__ import annotations

import os

from claimdag_client.cli.command import Command
from claimdag_client.cli.render.text import clean, columns_of, pad
from claimdag_client.cli.session import DONE, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

DEFAULT_NAME = "(default)"


def _graphs(args: argparse.Namespace, session: Session) -> int:
    from claimdag_client.cli.projects import describe, known_graphs
    from claimdagd.paths import choose_directory

    session.doing = "looking at the graphs"
    base = choose_directory(session.place.directory, os.environ, os.getuid())
    told = [describe(location) for location in known_graphs(base)]
    if args.json:
        for graph in told:
            session.say_json(graph)
        return DONE
    here = session.place.state_directory
    rows = [("", "graph", "daemon", "unfinished", "ready", "claimed", "finished"), *(_row(g, here) for g in told)]
    widths = columns_of(rows)
    lines = []
    for row, trouble in zip(rows, ("", *(str(graph.get("trouble", "")) for graph in told)), strict=True):
        cells = [pad(cell, width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([*cells, clean(trouble)]).rstrip())
    session.say_rows(lines)
    return DONE


def _row(graph: Mapping[str, Any], here: str) -> tuple[str, ...]:
    return (
        "*" if graph["directory"] == here else "",
        clean(graph["name"] or DEFAULT_NAME),
        "live" if graph["live"] else "-",
        *(str(graph.get(count, "?")) for count in ("unfinished", "ready", "claimed", "finished")),
    )


COMMANDS = {
    "graphs": Command(
        run=_graphs,
        about="List the graphs of this user, with counts: the default one and each by its name. * marks the one that is"
        " meant here. What no daemon serves is read from its files; none is started.",
        examples=("claimdag graphs", "claimdag graphs --json"),
        starts=False,
    ),
}
