"""The public door of the blocking client: `from claimdag_client.sync import connect`."""

from claimdag_client._sync.client import Claim, Client, connect

__all__ = ["Claim", "Client", "connect"]
