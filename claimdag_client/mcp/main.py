"""The verb `claimdag mcp`: reads its arguments, and says what to install where the SDK is missing."""

from __future__ import annotations

import os
import sys

from claimdag_client.cli.parsing import add_actor, make_parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from claimdag_client._transport.endpoint import Endpoint

ABOUT = """Serve one agent over the Model Context Protocol, on stdin and stdout. An agent's host starts it; a person has
no use for it. The process is one worker: its claims go back when the host closes it.

A host's configuration, as in .mcp.json: {"mcpServers": {"claimdag": {"command": "claimdag", "args": ["mcp"]}}}"""
MISSING = """claimdag mcp: the MCP SDK is not installed
  next: pip install 'claimdagd[mcp]'"""
#: An extra that is not installed is a fault of the installation, as sysexits.h has it.
UNAVAILABLE = 69


def main_mcp(argv: Sequence[str], place: Endpoint) -> int:
    """`claimdag mcp`: serves until its host closes stdin."""
    parser = make_parser("mcp", ABOUT, ["claimdag mcp", "claimdag mcp --actor codex-3"])
    add_actor(parser, "this worker's name (else CLAIMDAG_ACTOR, else the host's name and 4 characters)")
    args = parser.parse_args(argv)
    try:
        import anyio

        from claimdag_client.mcp.link import DaemonLink
        from claimdag_client.mcp.server import serve
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in ("mcp", "mcp_types", "pydantic"):
            raise
        print(MISSING, file=sys.stderr)
        return UNAVAILABLE
    place.take(args)
    actor = args.actor or os.environ.get("CLAIMDAG_ACTOR") or None

    async def main() -> None:
        # Events belong to a loop: the link is made inside it.
        await serve(DaemonLink(place), place.socket, actor)

    try:
        anyio.run(main)
    except KeyboardInterrupt:
        return 130
    return 0
