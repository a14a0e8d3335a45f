"""Which files each agent host reads, and what stands in them. Data and text; no file is touched here.

A host is here only as far as its documentation says. Hooks are written for Claude Code alone: the other hosts' hook
files differ between versions, so they are left to the user.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from claimdag_client.handoff.edits import HASH, MARKDOWN, Marks

PARAGRAPH = """\
## Work is handed out by claimdag

The tasks of this project are in a claimdag graph. Take work only from there, one node at a time.

- With the claimdag MCP tools: call `next`, do what the summary says, call `complete` with the id and gen (next=true
  gives the next node), or `fail` with the reason. Stop at nothing_pending. When a result says LOST, stop that work.
- In a shell: `claimdag next --actor NAME --wait auto` prints an id and a generation. Then
  `claimdag complete ID --gen GEN`, or with `--status failed --error "why"`. Every ten minutes until then
  `claimdag renew ID --gen GEN`. Exit status 3 means: nothing can run now, ask again. Exit status 4 means: all work is
  finished. With `--pid auto` the claim lasts while your host lives, and a renewal every three hours is enough; leave it
  out where it is refused. If your tool ends a command sooner than after 50 seconds, set CLAIMDAG_TOOL_TIMEOUT to its
  limit.
- Work that you find on the way is a new node (`add`, or `claimdag upsert --summary "..."`); do not do it unasked.
- Before you edit a file that others may edit, your node should need `file:PATH`. That keeps two nodes apart, not two
  editors: it locks nothing for those who do not ask.
"""

SERVER = {"command": "claimdag", "args": ["mcp"]}
STOP_HOOK = {"hooks": [{"type": "command", "command": "claimdag hook stop"}]}
COMPACT_HOOK = {"matcher": "compact", "hooks": [{"type": "command", "command": "claimdag hook compact"}]}
CODEX_SERVER = '[mcp_servers.claimdag]\ncommand = "claimdag"\nargs = ["mcp"]\n'


class Block(NamedTuple):
    """A block between marks in a file of prose or TOML."""

    path: str
    body: str
    marks: Marks = MARKDOWN


class Entry(NamedTuple):
    """An entry of a JSON file, at a path of keys; a last key of "" means an element of an array."""

    path: str
    keys: tuple[str, ...]
    value: Any


Edit = Block | Entry

HOSTS: dict[str, tuple[Edit, ...]] = {
    "claude": (
        Block("CLAUDE.md", PARAGRAPH),
        Entry(".mcp.json", ("mcpServers", "claimdag"), SERVER),
        Entry(".claude/settings.json", ("hooks", "Stop", ""), STOP_HOOK),
        Entry(".claude/settings.json", ("hooks", "SessionStart", ""), COMPACT_HOOK),
    ),
    # Codex reads the project's file only in a project that its user trusts.
    "codex": (Block("AGENTS.md", PARAGRAPH), Block(".codex/config.toml", CODEX_SERVER, HASH)),
    "cursor": (Block("AGENTS.md", PARAGRAPH), Entry(".cursor/mcp.json", ("mcpServers", "claimdag"), SERVER)),
    "gemini": (Block("GEMINI.md", PARAGRAPH), Entry(".gemini/settings.json", ("mcpServers", "claimdag"), SERVER)),
    "copilot": (Block("AGENTS.md", PARAGRAPH), Entry(".vscode/mcp.json", ("servers", "claimdag"), SERVER)),
}
#: What is written where no host is named: the two files of instructions that most hosts read, and their servers.
DEFAULT = ("claude", "codex")


def edits_of(hosts: tuple[str, ...]) -> list[Edit]:
    """The edits for these hosts, each once."""
    found: dict[Edit | str, Edit] = {}
    for host in hosts:
        for edit in HOSTS[host]:
            found.setdefault(repr(edit), edit)
    return list(found.values())
