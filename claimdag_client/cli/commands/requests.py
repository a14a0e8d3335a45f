"""The commands that are one request and its answer, as a table: op, flags, how the answer is shown, help.

`cli.render.answers` has the functions that `show` names.
"""

from __future__ import annotations

from claimdag_client.cli.command import Command

_SCOPE = "only this node and what is below it"
_EDGE = {"before": "", "after": "", "when": "", "actor": "who says so, for the ledger", "once": "", "json": ""}

COMMANDS: dict[str, Command] = {
    "ready": Command(
        op="ready", show="ready", rows="nodes",
        flags={"role": "", "slack": "", "strict": "", "under": _SCOPE, "limit": "", "json": ""},
        about="List the nodes that can be claimed, in the order in which `claimdag next` takes them.",
        examples=("claimdag ready", "claimdag ready --role verifier --strict --json"),
    ),
    "next": Command(
        op="claim_next", show="claim", needs=("actor",),
        flags={"actor": "who claims it", "role": "", "slack": "", "strict": "", "lease": "", "bound": "", "pid": "",
               "wait": "", "under": _SCOPE, "once": "", "json": ""},
        about=(
            "Claim the best node that can run. Prints id=ID gen=N, then its summary. "
            "Exit status 3: nothing can run now; 4: nothing is left to do."
        ),
        examples=(
            "claimdag next --actor alice",
            "claimdag next --actor alice --role implementor --slack 60 --lease 30m --wait 600",
            "claimdag next --actor alice --pid auto",
        ),
    ),
    "claim": Command(
        op="claim", needs=("id", "actor"), show="gen",
        flags={"id": "", "actor": "who claims it", "gen": "", "lease": "", "bound": "", "once": "", "json": "",
               "pid": ""},
        about="Claim one node. Prints gen=N: the generation that its holder names from then on.",
        examples=("claimdag claim 7q2f-1 --actor alice", "claimdag claim --id 7q2f-1 --assignee alice --lease 1800"),
    ),
    "reclaim": Command(
        op="reclaim", flags={"quiet_for": "", "actor": "", "once": "", "json": ""}, show="ids",
        about="End the claims of holders that have gone quiet, so that their nodes are ready. Prints their ids.",
        examples=("claimdag reclaim --lease 5m",),
    ),
    "link": Command(
        op="link", flags=_EDGE, needs=("before", "after"), show="status",
        about="Let AFTER wait on BEFORE. Prints AFTER and its status.",
        examples=("claimdag link 7q2f-1 7q2f-2", "claimdag link 7q2f-1 7q2f-3 --when after_any"),
    ),
    "unlink": Command(
        op="unlink", flags=_EDGE | {"when": "only an edge of this kind: after_ok or after_any"},
        needs=("before", "after"), show="status",
        about="Let AFTER no longer wait on BEFORE. Prints AFTER and its status.",
        examples=("claimdag unlink 7q2f-1 7q2f-2",),
    ),
    "resources": Command(
        op="resources", show="resources", rows="resources",
        about="List every resource: how many units there are, which nodes use them, which wait.",
        examples=("claimdag resources",),
    ),
    "capacity": Command(
        op="capacity", flags={"resource": "", "units": "", "actor": "", "once": "", "json": ""},
        needs=("resource", "units"), show="resource",
        about="Set how many units of a resource there are. One that was never set has 1.",
        examples=("claimdag capacity gpu 2",),
    ),
    "pause": Command(
        op="pause", flags={"under": _SCOPE, "actor": "", "once": "", "json": ""}, show="paused",
        about="Let nothing new be claimed, in the graph or under a node. What is held goes on. Says what is paused.",
        examples=("claimdag pause", "claimdag pause --under 7q2f-1"),
    ),
    "resume": Command(
        op="resume", flags={"under": _SCOPE, "actor": "", "once": "", "json": ""}, show="paused",
        about="Lift the pause of the graph, or of a node, and no other. Says what is paused still.",
        examples=("claimdag resume", "claimdag resume --under 7q2f-1"),
    ),
    "ping": Command(
        op="ping", show="pong",
        about="Ask whether the daemon answers. Prints pong.",
        examples=("claimdag ping",),
    ),
    "stats": Command(
        op="stats", show="stats", flags={"under": "count only this node and what is below it", "json": ""},
        about="Show the daemon's counts: nodes by status, live claims, connections, sizes, pauses, deadlocks.",
        examples=("claimdag stats", "claimdag stats --json"),
    ),
    "checkpoint": Command(
        op="checkpoint", show="checkpoint",
        about="Let the daemon write a snapshot now and start its journal anew.",
        examples=("claimdag checkpoint",),
    ),
}  # fmt: skip
