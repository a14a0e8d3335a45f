"""The command submit: all nodes of a plan file, or none of them."""

from __future__ import annotations

from claimdag_client._transport.transport import Connection
from claimdag_client.cli.command import Command
from claimdag_client.cli.commands.submission import Progress, read_file, submit_nodes
from claimdag_client.cli.render.text import clean, counted
from claimdag_client.cli.session import DONE, Failed, Session
from claimdag_client.errors import Refused, Unreachable
from claimdag_client.importers import plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable
    from typing import Any


def _submit(args: argparse.Namespace, session: Session) -> int:
    progress = Progress()
    form = args.format or ("json" if args.file == "-" else None)
    connection = _listening(session) if args.dry_run else None
    # Where no daemon is to be asked, bare numbers are left as they are.
    whole_id: Callable[[str], str] = str if args.dry_run and connection is None else session.node_id
    try:
        form = form or plan.format_of(args.file)
        text = read_file(args.file)
        progress.doing = "reading the plan"
        taken = plan.read(text, form, whole_id)
    except plan.BadPlan as exc:
        progress.clear()
        raise Failed(f"{args.file}: {exc}", remedy=exc.remedy) from None
    ids: list[str] = []
    # With faults of its own too, the plan is judged whole, so that all that is wrong is told in one round.
    trial = args.dry_run or bool(taken.faults)
    if not args.dry_run:
        connection = _listening(session) if taken.faults else session.connection
    if connection is not None and taken.nodes:
        try:
            ids = submit_nodes(session, taken.nodes, args, progress, capacities=taken.capacities, dry_run=trial)
        except Refused as exc:
            taken.faults += _faults_of(exc, taken)
    progress.clear()
    if taken.faults:
        for told in taken.told():
            session.note(clean(f"{args.file}: {told}"))
        raise Failed(f"{args.file}: {counted(len(taken.faults), 'fault')}, nothing was created")
    if args.dry_run:
        if connection is None:
            session.note("no daemon listens: ids of nodes that exist and room for these were not checked")
        _say_nodes(taken.nodes, args, session)
        return DONE
    for node, node_id in zip(taken.nodes, ids, strict=True):
        if args.json:
            session.say_json({"ref": node.get("ref"), "id": node_id})
        else:
            session.say(clean(node_id))
    return DONE


def _listening(session: Session) -> Connection | None:
    """Return the connection to a daemon that listens already, or None; none is started."""
    try:
        return session.connect_running()
    except Unreachable:
        return None


def _faults_of(refused: Refused, taken: plan.Plan) -> list[plan.PlanFault]:
    """Return what the daemon refused, each fault at its node. Raises the refusal again if it lists none."""
    faults = refused.details.get("faults") or []
    if not faults and not taken.faults:
        raise refused
    found = []
    for fault in faults or [{"message": str(refused)}]:
        index = fault.get("index")
        known = isinstance(index, int) and 0 <= index < len(taken.paths)
        text = str(fault.get("message", fault.get("code", "refused"))).removeprefix("submit: ")
        found.append(plan.PlanFault(index, taken.paths[index], text) if known else plan.PlanFault(-1, (), text))
    return found


def _say_nodes(nodes: Iterable[dict[str, Any]], args: argparse.Namespace, session: Session) -> None:
    count = 0
    for node in nodes:
        count += 1
        if args.json:
            session.say_json(node)
    if not args.json:
        session.say(f"{counted(count, 'node')} would be created")


COMMANDS = {
    "submit": Command(
        run=_submit,
        needs=("file",),
        flags={
            "file": "a plan in .json, .yaml or .toml; - reads standard input", "plan_format": "",
            "dry_run": "say what submit would say, and create nothing", "actor": "who says so, for the ledger",
            "once": "", "json": "",
        },
        about="Create the nodes of a plan, all of them or none. Prints their ids in the order of the plan.",
        examples=("claimdag submit plan.yaml", "claimdag submit - --format json < plan.json"),
    ),
}  # fmt: skip
