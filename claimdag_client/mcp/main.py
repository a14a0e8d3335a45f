"""The verb `claimdag mcp`: reads its arguments, and says what to install where the SDK is missing."""

from __future__ import annotations

import os
import sys

from claimdag_client.cli.foreign import COMMANDS
from claimdag_client.cli.parsing import parser_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from claimdag_client._transport.endpoint import Endpoint

MISSING = """claimdag mcp: the MCP SDK is not installed
  next: pip install 'claimdagd[mcp]'"""
#: An extra that is not installed is a fault of the installation, as sysexits.h has it.
UNAVAILABLE = 69


def main_mcp(argv: Sequence[str], place: Endpoint) -> int:
    """`claimdag mcp`: serves until its host closes stdin."""
    args = parser_of("mcp", COMMANDS["mcp"]).parse_args(argv)
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
