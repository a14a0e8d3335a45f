"""Verbs about resources: resources, capacity."""

from __future__ import annotations

from claimdag_client.cli.parsing import Parser, add_actor, add_json, add_once
from claimdag_client.cli.render.text import clean, number, some
from claimdag_client.cli.session import DONE, Command, Session, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping
    from typing import Any


def resource_lines(resources: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """A line about each resource: use, capacity, holders, how many wait."""
    for resource in resources:
        line = f"{clean(resource['name'])}  {number(resource['used'])} of {number(resource['capacity'])} in use"
        holders = [holder for holder in resource.get("holders") or () if not holder.get("lender")]
        if holders:
            line += ", by " + some([f"{holder['id']} ({holder['units']})" for holder in holders])
        if waiting := resource.get("waiting"):
            line += f"; awaited by {some(waiting)}"
        yield line


def _resources(args: argparse.Namespace, session: Session) -> int:
    resources = session.ask("resources")["resources"]
    if args.json:
        for resource in resources:
            session.say_json(resource)
    else:
        for line in resource_lines(resources):
            session.say(line)
    return DONE


def _capacity_options(parser: Parser) -> None:
    parser.add_argument("resource", metavar="RESOURCE", help="its name")
    parser.add_argument("units", metavar="UNITS", type=int, help="how many there are; holders keep what they have")
    add_actor(parser)
    add_once(parser)
    add_json(parser)


def _capacity(args: argparse.Namespace, session: Session) -> int:
    if args.units < 0:
        raise UsageError("UNITS: at least 0")
    resource = session.ask(
        "capacity", resource=args.resource, units=args.units, actor=args.actor, once=args.once
    )
    if args.json:
        session.say_json(resource)
    else:
        for line in resource_lines([resource]):
            session.say(line)
    return DONE


VERBS = {
    "resources": Command(
        _resources,
        about="Every resource: how many units there are, who uses them, who waits.",
        examples=["claimdag resources"],
    ),
    "capacity": Command(
        _capacity,
        _capacity_options,
        about="Set how many units of a resource there are. One that was never set has 1.",
        examples=["claimdag capacity gpu 2"],
    ),
}
