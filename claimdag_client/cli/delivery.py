"""What happens to a command whose answer cannot be printed: a claim is given back, every other change is told.

A caller of `claimdag next` learns its claim from the output alone. If that cannot be written, the claim is unknown to
any caller, and the node would be held until the lease ends. This module is imported in that case only.
"""

from __future__ import annotations

from claimdag_client.cli.render.text import clean, counted, paused_text, some
from claimdag_client.errors import ClaimdagError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from claimdag_client.cli.session import Session

#: How long the daemon may take to take a claim back.
GIVE_BACK_TIMEOUT_S = 5.0


def settle_undelivered(session: Session) -> list[str]:
    """Release what the command claimed, and return a clean line for each thing that it did."""
    lines = []
    for request, ok in session.changes:
        if request["op"] in ("claim", "claim_next"):
            lines.append(_give_back(session, request, ok, str(request["actor"])))
            continue
        lines.append(f"done: {_told(request, ok)}")
        following = ok.get("next") if request["op"] == "complete" else None
        if following:
            actor = (request.get("next") or {}).get("actor") or request["actor"]
            lines.append(_give_back(session, request, following, str(actor)))
    session.changes.clear()
    return lines


def _give_back(session: Session, request: Mapping[str, Any], claim: Mapping[str, Any], actor: str) -> str:
    named = f"{clean(claim.get('id'))} (gen {clean(claim.get('gen'))})"
    if request.get("once"):
        # Asked again with its token, the daemon gives the same answer: it must still be true then.
        return f"claimed and kept: {named}; ask again with --once {clean(request['once'])} to see the answer"
    try:
        release = {"op": "release", "id": claim["id"], "gen": claim["gen"], "actor": actor}
        session.connection.ask(release, limit_s=GIVE_BACK_TIMEOUT_S)
    except (ClaimdagError, OSError, KeyError) as exc:
        why = clean(getattr(exc, "message", None) or exc)
        remedy = f"claimdag release {clean(claim.get('id'))} --gen {clean(claim.get('gen'))}"
        return f"claimed, and not given back: {named}: {why}; give it back with {remedy}"
    return f"claimed and given back: {named}"


def _told(request: Mapping[str, Any], ok: Mapping[str, Any]) -> str:
    """Say in a few clean words what a request has changed."""
    op = clean(request["op"])
    if "results" in ok:
        told = [_told({"op": op}, each) for each in ok["results"][:8]]
        more = len(ok["results"]) - len(told)
        return "; ".join(told + ([f"and {more} more"] if more else [])) or f"{op} nothing"
    if op == "complete":
        node = ok.get("node") or {}
        ready = f", ready now: {some(ok['ready'], 8)}" if ok.get("ready") else ""
        return f"{clean(node.get('id'))} {clean(node.get('status'))}{ready}"
    if op == "upsert":
        return f"{'changed' if request.get('id') else 'created'} {clean(ok.get('id'))}"
    if op == "submit":
        ids = ok.get("ids") or ()
        return f"created {counted(len(ids), 'node')}" + (f", {clean(ids[0])} to {clean(ids[-1])}" if ids else "")
    if "ids" in ok:
        return f"{op} {some(ok['ids'], 8) or 'nothing'}"
    if op == "capacity":
        return f"capacity of {clean(request.get('resource'))} is {clean(request.get('units'))}"
    if "paused" in ok:
        return paused_text(ok["paused"]) or "nothing is paused"
    named = ok.get("id", request.get("id"))
    gen = f" gen={clean(ok['gen'])}" if "gen" in ok else ""
    return f"{op}{'' if named is None else ' ' + clean(named)}{gen}"
