"""Verbs of those who work: ready, next, claim, renew, running, release, complete, cancel, reopen, reclaim, archive."""

from __future__ import annotations

from claimdag_client.cli.parsing import (
    Parser,
    add_actor,
    add_choice,
    add_gen,
    add_json,
    add_lease,
    add_node,
    add_once,
    node_of,
    seconds,
)
from claimdag_client.cli.render.text import clean
from claimdag_client.cli.session import DONE, REFUSED, Command, Session, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any


# ------------------------------------------------------------------------------------------------ ready, next


def _ready_options(parser: Parser) -> None:
    add_choice(parser)
    parser.add_argument("--limit", type=int, metavar="N", help="the first N of them")
    add_json(parser)


def _ready(args: argparse.Namespace, session: Session) -> int:
    if args.limit is not None and args.limit < 1:
        raise UsageError("--limit: at least 1")
    nodes = session.ask("ready", role=args.role, slack=args.slack, strict=args.strict)["nodes"][: args.limit]
    if args.json:
        for node in nodes:
            session.say_json(node)
        return DONE
    from claimdag_client.cli.render.node import lines, waits_for

    for node, line in zip(nodes, lines(nodes, session.paint), strict=True):
        session.say(line)
        if node.get("runnable") is False:
            waits = waits_for(node) or "units are kept for another that waits longer"
            session.say(session.paint(f"    not now: {waits}", "yellow"))
    return DONE


def _next_options(parser: Parser) -> None:
    add_actor(parser, "who claims", required=True)
    add_choice(parser)
    add_lease(parser)
    parser.add_argument("--bound", action="store_true", default=None, help=_BOUND)
    parser.add_argument("--wait", type=seconds, metavar="S", help="wait so long for something to be runnable")
    add_once(parser)
    add_json(parser)


def _next(args: argparse.Namespace, session: Session) -> int:
    claim = session.ask("claim_next", actor=args.actor, once=args.once, **_choice(args))
    if args.json:
        session.say_json(claim)
    else:
        _say_claim(claim, session)
    return DONE


def _choice(args: argparse.Namespace) -> dict[str, Any]:
    names = ("role", "slack", "strict", "lease", "bound", "wait")
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _say_claim(claim: Mapping[str, Any], session: Session) -> None:
    """For a script the first line, `id=ID gen=N`; for a person the summary below it."""
    session.say(f"id={clean(claim['id'])} gen={claim['gen']}")
    if summary := clean((claim.get("node") or {}).get("summary", "")):
        session.say(summary)


# ------------------------------------------------------------------------------------- claim, renew, running


_BOUND = "the claim ends (after the daemon's grace) with this connection, so with this command"


def _claim_options(parser: Parser) -> None:
    add_node(parser)
    add_actor(parser, "who claims it", required=True)
    add_gen(parser)
    add_lease(parser)
    parser.add_argument("--bound", action="store_true", default=None, help=_BOUND)
    add_once(parser)
    add_json(parser)


def _claim(args: argparse.Namespace, session: Session) -> int:
    node_id = node_of(args, session)
    claim = session.ask(
        "claim", id=node_id, actor=args.actor, gen=args.gen, lease=args.lease, bound=args.bound, once=args.once
    )
    if args.json:
        session.say_json(claim)
    else:
        session.say(f"gen={claim['gen']}")
    return DONE


def _held_line(ok: Mapping[str, Any]) -> str:
    """What renew and running say: the generation, and when to speak again."""
    return f"gen={ok['gen']} expires_in={ok['expires_in']:.0f}"


def _held_options(parser: Parser) -> None:
    add_node(parser)
    add_actor(parser, "who holds it: anybody else is refused")
    add_gen(parser)
    add_lease(parser)
    parser.add_argument("--bound", action="store_true", default=None, help=_BOUND)
    add_once(parser)
    add_json(parser)


def _held(args: argparse.Namespace, session: Session) -> int:
    node_id = node_of(args, session)
    ok = session.ask(
        session.verb, id=node_id, actor=args.actor, gen=args.gen, lease=args.lease, bound=args.bound, once=args.once
    )
    if args.json:
        session.say_json(ok)
    else:
        session.say(_held_line(ok))
    return DONE


# ------------------------------------------------------------------- release, reopen, archive, unarchive, cancel


def _moved_options(parser: Parser) -> None:
    add_node(parser)
    add_actor(parser)
    add_gen(parser)
    add_once(parser)
    add_json(parser)


def _moved(args: argparse.Namespace, session: Session) -> int:
    ok = session.ask(session.verb, id=node_of(args, session), actor=args.actor, gen=args.gen, once=args.once)
    if args.json:
        session.say_json(ok)
    else:
        session.say(f"gen={ok['gen']}")
    return DONE


def _cancel_options(parser: Parser) -> None:
    add_node(parser, "the node: it and everything under it is ended, held or not")
    parser.add_argument("--error", metavar="TEXT", help="why")
    add_actor(parser)
    add_once(parser)
    add_json(parser)


def _cancel(args: argparse.Namespace, session: Session) -> int:
    node_id = node_of(args, session)
    ok = session.ask("cancel", id=node_id, error=args.error, actor=args.actor, once=args.once)
    return _say_ids(ok, args, session)


def _reclaim_options(parser: Parser) -> None:
    add_lease(parser, "take back what has been quiet so long; without it, what is past its own lease")
    add_actor(parser)
    add_once(parser)
    add_json(parser)


def _reclaim(args: argparse.Namespace, session: Session) -> int:
    return _say_ids(session.ask("reclaim", lease=args.lease, actor=args.actor, once=args.once), args, session)


def _say_ids(ok: Mapping[str, Any], args: argparse.Namespace, session: Session) -> int:
    if args.json:
        session.say_json(ok)
    else:
        for node_id in ok["ids"]:
            session.say(clean(node_id))
    return DONE


# ---------------------------------------------------------------------------------------------------- complete


def _complete_options(parser: Parser) -> None:
    add_node(parser)
    parser.add_argument("--status", metavar="STATUS", help="done (default), failed or cancelled")
    parser.add_argument("--summary", metavar="TEXT", help="replaces its summary")
    parser.add_argument("--error", metavar="TEXT", help="what went wrong, of a failed or cancelled one")
    add_actor(parser, "who holds it: anybody else is refused; with --next, who claims that")
    add_gen(parser)
    add_once(parser)
    add_json(parser)
    chained = parser.add_argument_group("with --next, in the same step")
    chained.add_argument("--next", action="store_true", help="claim the next node, as `claimdag next` does")
    add_choice(chained)
    add_lease(chained)
    chained.add_argument("--bound", action="store_true", default=None, help=_BOUND)
    chained.add_argument("--wait", type=seconds, metavar="S", help="wait so long for something to be runnable")


def _complete(args: argparse.Namespace, session: Session) -> int:
    chosen = _choice(args)
    if args.next and args.actor is None:
        raise UsageError("--next needs --actor, who claims it")
    if chosen and not args.next:
        raise UsageError(f"--{next(iter(chosen))} is for --next")
    node_id = node_of(args, session)
    ok = session.ask(
        "complete",
        id=node_id,
        status=args.status,
        summary=args.summary,
        error=args.error,
        actor=args.actor,
        gen=args.gen,
        next=chosen if args.next else None,
        once=args.once,
    )
    claim = ok.get("next")
    if args.json:
        session.say_json(ok)
    else:
        node = ok["node"]
        line = f"{clean(node['id'])} {clean(node['status'])}"
        if made_ready := ok.get("ready"):
            line += ", ready now: " + " ".join(map(clean, made_ready))
        session.say(line)
        if claim:
            _say_claim(claim, session)
    if not args.next or claim:
        return DONE
    # The node is complete; the status says why nothing was claimed after it.
    from claimdag_client.cli.refusals import status_of

    code = str(ok.get("code") or "")
    message = (ok.get("next_error") or {}).get("message") or f"next: {code}"
    session.note(f"{clean(node_id)} is complete; {clean(message)}")
    return status_of(code) if code else REFUSED


def _moved_command(about: str, *examples: str) -> Command:
    return Command(_moved, _moved_options, about=about, examples=examples)


VERBS = {
    "ready": Command(
        _ready,
        _ready_options,
        about="What could be claimed, in the order that `claimdag next` would take it.",
        examples=["claimdag ready", "claimdag ready --role verifier --strict --json"],
    ),
    "next": Command(
        _next,
        _next_options,
        about=(
            "Claim the best node that can run. Prints id=ID gen=N, then its summary. "
            "Exit status 3: nothing can run now; 4: nothing is left to do."
        ),
        examples=[
            "claimdag next --actor alice",
            "claimdag next --actor alice --role implementor --slack 60 --lease 30m --wait 600",
        ],
    ),
    "claim": Command(
        _claim,
        _claim_options,
        about="Claim one node. Prints gen=N: the generation that its holder names from then on.",
        examples=["claimdag claim 7q2f-1 --actor alice", "claimdag claim --id 7q2f-1 --assignee alice --lease 1800"],
    ),
    "renew": Command(
        _held,
        _held_options,
        about="Move the deadline of a claim: the lease starts anew. Prints gen=N expires_in=S.",
        examples=["claimdag renew 7q2f-1 --actor alice --gen 2", "claimdag renew 7q2f-1 --gen 2 --lease 1h"],
    ),
    "running": Command(
        _held,
        _held_options,
        about="Say that the work on a claimed node has begun; it renews the lease too. Prints gen=N expires_in=S.",
        examples=["claimdag running 7q2f-1 --actor alice --gen 2"],
    ),
    "release": _moved_command(
        "Hand a claimed node back, for anybody to claim. Prints gen=N.",
        "claimdag release 7q2f-1 --actor alice --gen 2",
    ),
    "reopen": _moved_command(
        "Bring a finished node back, with what was cancelled because of it. Prints gen=N.",
        "claimdag reopen 7q2f-1",
    ),
    "archive": _moved_command("Hide a finished node from the list. Prints gen=N.", "claimdag archive 7q2f-1"),
    "unarchive": _moved_command("Show an archived node again. Prints gen=N.", "claimdag unarchive 7q2f-1"),
    "complete": Command(
        _complete,
        _complete_options,
        about=(
            "End a node, held or not. Prints its status and what that made ready; with --next also id=ID gen=N of "
            "the next one, or exits with 3 or 4 when there is none. A failure cancels what waits for it to be done: "
            "`claimdag log --limit 1` names that."
        ),
        examples=[
            "claimdag complete 7q2f-1 --actor alice --gen 2",
            'claimdag complete 7q2f-1 --status failed --error "does not compile"',
            "claimdag complete 7q2f-1 --actor alice --gen 2 --next --role implementor",
        ],
    ),
    "cancel": Command(
        _cancel,
        _cancel_options,
        about="End a node and everything under it, held nodes too. Prints the ids of all that was cancelled.",
        examples=['claimdag cancel 7q2f-1 --error "not wanted any more"'],
    ),
    "reclaim": Command(
        _reclaim,
        _reclaim_options,
        about="Take back claims whose holders have gone quiet. Prints their ids.",
        examples=["claimdag reclaim --lease 5m"],
    ),
}
