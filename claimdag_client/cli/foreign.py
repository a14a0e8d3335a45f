"""The verbs that other rooms run, as plain data: what each is for and its flags.

Their help, their completion and their manual are made from here, without an import of the room that runs them. A verb
whose module is named as `module:function` in `cli.commands` belongs here.
"""

from __future__ import annotations

from claimdag_client.cli.command import Command

RUN_ABOUT = """Claim one node, run a command for it, and complete the node by the command's exit status.

The command finds CLAIMDAG_ID, CLAIMDAG_GEN, CLAIMDAG_SUMMARY and CLAIMDAG_SOCKET in its environment.
The exit status is the command's (128+n when signal n killed it); 126 or 127 when it cannot be started,
and the node is handed back. Told to stop (SIGTERM, SIGINT, SIGHUP) it ends the command, hands the node
back and exits with 128+n. Everything that the command started ends with the claim, in a session of its own too,
unless --leave-daemons says otherwise. What it writes is kept for `claimdag output ID`, unless it has the terminal.
With exit status 75 the node is tried again after its retry delay, whether it has retries or not; with 100 it fails at
once, even if retries are left."""

WORK_ABOUT = """Run a command for node after node, each claimed when the one before is finished.

As `claimdag run` for every node. It waits for work indefinitely; with --until-empty it ends with 0 once all
work is finished, failed or not, and with 3 where what is left needs a person. With -n N it
is N workers, NAME/1 to NAME/N. What the commands write is shown as lines with the node's id before
them, standard error too, and kept for `claimdag output ID`."""

MCP_ABOUT = """Serve one agent over the Model Context Protocol, on stdin and stdout. An agent's host starts it; a person
has no use for it. The process is one worker: its claims go back when the host closes it.

A host's configuration, as in .mcp.json: {"mcpServers": {"claimdag": {"command": "claimdag", "args": ["mcp"]}}}"""

#: What `run` and `work` share.
_RUNNER = {
    "actor": "who works",
    "lease": "seconds of quiet after which the node goes to another (also 90s, 15m)",
    "kill_after": "", "leave_daemons": "", "final_exit": "", "no_capture": "", "output_max": "", "output_total": "",
}  # fmt: skip

COMMANDS: dict[str, Command] = {
    "run": Command(
        about=RUN_ABOUT,
        examples=("claimdag run --assignee alice 7q2f-17 -- make test",),
        flags={"id": "", "gen": "", "capture": "", **_RUNNER},
        needs=("id", "actor"),
    ),
    "work": Command(
        about=WORK_ABOUT,
        examples=(
            "claimdag work --assignee alice -- ./agent.sh",
            "claimdag work --assignee bot --role verifier -n 4 --until-empty -- make -C tests",
        ),
        flags={
            "role": "", "slack": "", "strict": "", "under": "only this node and what is below it", "workers": "",
            "until_empty": "", **_RUNNER,
        },
        needs=("actor",),
    ),
    "mcp": Command(
        about=MCP_ABOUT,
        examples=("claimdag mcp", "claimdag mcp --actor codex-3"),
        flags={"actor": "this worker's name (else CLAIMDAG_ACTOR, else the host's name and 4 characters)"},
    ),
}  # fmt: skip
#: What stands after the options of a verb.
BEHIND = {"run": "-- COMMAND [ARGUMENT ...]", "work": "-- COMMAND [ARGUMENT ...]"}
