"""The verbs of the command line: which module has which, and a line about each. Imports none of them.

A module of this package has a dict COMMANDS of `cli.command.Command`; only the module of the verb at hand is imported.
"""

from __future__ import annotations

#: Heading, then for each verb: its module (or module:function, for those that read their own arguments) and what it
#: does. The order is that of `claimdag --help`.
GROUPS: tuple[tuple[str, dict[str, tuple[str, str]]], ...] = (
    (
        "See what is going on",
        {
            "status": ("status", "one screen: who holds what, what is ready, what waits on what"),
            "list": ("listing", "nodes, newest first; unfinished ones by default (also: ls)"),
            "get": ("several", "all of one node (also: show)"),
            "why": ("several", "why a node is not running, and what to do about it"),
            "output": ("output", "what the command of a node wrote, under run or work"),
            "tree": ("graphs", "nodes under their parents"),
            "graph": ("graphs", "the order of the work, as text, dot or mermaid"),
            "report": ("report", "the state of the work, to paste elsewhere"),
            "log": ("ledger", "the ledger: every change, oldest first"),
            "watch": ("watch_wait", "the ledger as it grows"),
        },
    ),
    (
        "Make work",
        {
            "add": ("words", "create nodes, one for each summary; prints their ids"),
            "upsert": ("upsert", "create a node, or change one; prints its id"),
            "submit": ("plans", "create the nodes of a plan file, all or none"),
            "import": ("imports", "create nodes from a tracker's export or a check list"),
            "link": ("requests", "let one node wait on another"),
            "unlink": ("requests", "take that back"),
            "capacity": ("requests", "set how many units of a resource there are"),
            "resources": ("requests", "every resource: used by whom, awaited by whom"),
        },
    ),
    (
        "Work",
        {
            "work": ("claimdag_client.worker.runner:main_work", "run a command for node after node"),
            "run": ("claimdag_client.worker.runner:main_run", "run a command for one node"),
            "ready": ("requests", "what could be claimed, best first"),
            "next": ("requests", "claim the best node that can run (also: claim_next)"),
            "claim": ("requests", "claim one node; prints gen=N"),
            "renew": ("several", "move the deadline of a claim"),
            "running": ("several", "say that the work has begun"),
            "release": ("several", "hand a claimed node back"),
            "done": ("words", "end nodes as done"),
            "fail": ("words", "end nodes as failed"),
            "complete": ("complete", "end a node: done, failed or cancelled"),
            "wait": ("watch_wait", "wait until nodes are finished"),
        },
    ),
    (
        "Change course",
        {
            "cancel": ("several", "end a node and everything under it"),
            "rm": ("words", "cancel nodes and hide them from the list"),
            "reopen": ("several", "bring a finished node back"),
            "pause": ("requests", "let nothing new be claimed"),
            "resume": ("requests", "lift a pause"),
            "reclaim": ("requests", "end claims that have gone quiet"),
            "archive": ("several", "hide a finished node from the list"),
            "unarchive": ("several", "show it there again"),
        },
    ),
    (
        "Agents",
        {
            "mcp": ("claimdag_client.mcp.main:main_mcp", "serve one agent over the Model Context Protocol"),
            "init": ("handoff", "bind this project to a graph, prepare it for agents, or take that back"),
            "hook": ("handoff", "what agent hosts call at a turn's end and after a compaction"),
        },
    ),
    (
        "The daemon",
        {
            "ping": ("requests", "ask whether it answers"),
            "hello": ("daemon", "its version, protocol, graph and limits (also: version)"),
            "stats": ("requests", "its counts"),
            "graphs": ("graph_list", "every graph of this user, live or not, with counts"),
            "checkpoint": ("requests", "let it write a snapshot now"),
            "shutdown": ("daemon", "let it leave; its state is kept (also: stop)"),
            "completion": ("completion", "the script that completes verbs, flags and ids in a shell"),
            "install-service": ("service", "let systemd start it for this user"),
            "uninstall-service": ("service", "take that back"),
        },
    ),
)

MODULES: dict[str, str] = {verb: module for _, verbs in GROUPS for verb, (module, _) in verbs.items()}
ALIASES = {
    "show": "get",
    "ls": "list",
    "claim_next": "next",
    "claim-next": "next",
    "version": "hello",
    "stop": "shutdown",
    "install_service": "install-service",
    "uninstall_service": "uninstall-service",
}
