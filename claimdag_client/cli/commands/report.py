"""The command report: the state of the work, for people to paste where they planned it. Writes to no tracker."""

from __future__ import annotations

from claimdag_client.cli.command import Command
from claimdag_client.cli.render import report
from claimdag_client.cli.session import DONE, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def _report(args: argparse.Namespace, session: Session) -> int:
    under = None if args.under is None else session.node_id(args.under)
    nodes = session.ask("list", all=True, under=under)["nodes"]
    nodes = sorted(nodes, key=lambda node: int(node["id"].rpartition("-")[2]))
    if args.format == "json":
        for node in nodes:
            session.say_json(node)
        return DONE
    make = {"tasks": report.tasks, "csv": report.table, "github-comment": report.comment}[args.format]
    for line in make(nodes):
        session.say(line)
    return DONE


COMMANDS = {
    "report": Command(
        run=_report,
        flags={"report_format": "", "under": ""},
        about=(
            "Print the state of the work to paste elsewhere: a check list in Markdown, JSON lines, a table in CSV, "
            "or a comment for GitHub, which mentions no person. Finished work that was pruned is not in it. "
            "Nothing is written to any tracker."
        ),
        examples=("claimdag report", "claimdag report --format github-comment --under 3 | gh issue comment 12 -F -"),
    ),
}
