"""Explain a refusal to the person at the shell: its exit status, its details, and the next step."""

from __future__ import annotations

from claimdag_client.cli.render.answers import deadlock_text
from claimdag_client.cli.render.text import duration
from claimdag_client.cli.session import NOTHING_PENDING, NOTHING_RUNNABLE, REFUSED
from claimdag_client.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from claimdag_client.cli.session import Session

#: More faults than this are not read on a screen.
FAULTS_SHOWN = 50
_NEXT = {
    "bad_request": "claimdag hello shows the daemon's version and this client's; --help shows the usage",
    "unknown_op": "this daemon is older or newer than the client: claimdag hello",
    "too_large": "split it into several",
    "not_found": "claimdag list --all shows what there is; an id of an earlier session names nothing here",
    "deps_unsatisfied": "claimdag why {id}",
    "resources_busy": "claimdag resources shows who holds the units; claimdag why {id}",
    "not_assignee": "claimdag get {id} shows who holds it",
    "not_claimable": "claimdag why {id}",
    "bad_status": "claimdag get {id}",
    "terminal": "claimdag reopen {id}, if it is to be done again",
    "not_terminal": "claimdag complete {id}, or claimdag cancel {id}, first",
    "would_not_run": "claimdag capacity {resource} UNITS raises what there is, or let it need less",
    "timeout": "claimdag why {id}",
    "nothing_pending": "all work is finished; claimdag add makes more",
    "full": "claimdag list shows what is unfinished",
    "storage": "make room where the daemon's directory is and ask again; nothing was changed",
    "shutting_down": "ask again: a new daemon starts when this one has left",
    "lagged": "read what was missed with claimdag log",
    "internal": "the daemon's log says more (daemon.log in its directory, or journalctl --user -u claimdagd)",
}


def status_of(code: str) -> int:
    """Return the exit status of a refusal."""
    return {"nothing_runnable": NOTHING_RUNNABLE, "nothing_pending": NOTHING_PENDING}.get(code, REFUSED)


def explain(refused: Refused) -> tuple[list[str], str]:
    """Return lines of detail and the next step. Neither is clean yet."""
    details = refused.details
    if refused.code == "gen_mismatch":
        now = f"it is at generation {details['gen']} now: " if "gen" in details else ""
        return [], f"{now}another actor may hold it; claimdag get {details.get('id', 'ID')}"
    if refused.code == "assignee_busy":
        held = details.get("id", "ID")
        return [], f"claimdag complete {held} --gen {details.get('gen', 'N')}, or claimdag release {held}"
    if refused.code == "cycle":
        path = " -> ".join(str(_id_of(step)) for step in details.get("path", ()))
        return ([f"the cycle: {path}"] if path and path not in refused.message else []), "leave out one of these edges"
    if refused.code == "nothing_runnable":
        return _held_up(details), _way_out(details)
    faults = details.get("faults") or []
    return _faults(faults), _next(refused.code, details)


def wrong_flags(refused: Refused, session: Session) -> list[str]:
    """Say each wrong field of a request as the flag that gave it, the value, and what it takes; else nothing."""
    if refused.code != "bad_request" or session.command is None or "field" not in refused.details:
        return []
    from claimdag_client.cli.flags import FLAGS

    flags = [FLAGS[name] for name in session.command.flags]
    lines = []
    for fault in refused.details.get("faults") or (refused.details,):
        path = str(fault.get("field", "")).replace("[", ".").split(".")
        flag = next((flag for flag in flags if flag.value and {flag.field, f"{flag.dest}s", flag.dest} & {*path}), None)
        value = None if flag is None else getattr(session.args, flag.dest, None)
        if flag is None or value is None or not fault.get("accepted"):
            return []
        lines.append(f"{flag.shown} {value}: it must be {fault['accepted']}")
    return lines


def _next(code: str, details: Mapping[str, Any]) -> str:
    """Return the next step in words, or "" if it would name a node and the refusal names none."""
    if code == "not_claimable" and "paused" in details:
        return f"claimdag resume --under {details['paused']}" if details["paused"] else "claimdag resume"
    step = _NEXT.get(code, "")
    named = [*(details.get("ids") or ()), *(fault.get("id") for fault in details.get("faults") or ())]
    id = details.get("id") or next(iter(named), None)
    if "{id}" in step and id is None:
        return ""
    return step.format(id=id, resource=details.get("resource", "RESOURCE"))


def _id_of(step: Any) -> Any:
    return step.get("id", step) if isinstance(step, dict) else step


def _faults(faults: list[Mapping[str, Any]]) -> list[str]:
    if all("id" in fault for fault in faults):
        # One fault is in the message already.
        lines = [str(fault.get("message", "")).partition(": ")[2] for fault in faults[:FAULTS_SHOWN] if faults[1:]]
        more = [f"and {len(faults) - FAULTS_SHOWN} more"] if len(faults) > FAULTS_SHOWN else []
        return [*lines, *more, *(["nothing was done"] if faults else [])]
    lines = [
        f"node {fault.get('index', '?')}{' (' + str(fault['ref']) + ')' if fault.get('ref') else ''}: "
        f"{fault.get('message', fault.get('code', 'refused'))}"
        for fault in faults[:FAULTS_SHOWN]
    ]
    if len(faults) > FAULTS_SHOWN:
        lines.append(f"and {len(faults) - FAULTS_SHOWN} more")
    return lines


def _held_up(details: Mapping[str, Any]) -> list[str]:
    what = (
        ("deps", "waiting on other nodes"),
        ("blocked", "blocked by hand"),
        ("leases", "held by others"),
        ("resources", "waiting for units of a resource"),
        ("paused", "paused"),
    )
    lines = []
    if counted := ", ".join(f"{details[name]} {words}" for name, words in what if details.get(name)):
        lines.append(counted)
    if details.get("next_expiry") is not None:
        lines.append(f"the next lease runs out in {duration(details['next_expiry'])}")
    if details.get("stuck"):
        lines.append("no live claim can free anything by its end: only a person or new work can help")
    lines.extend(deadlock_text(deadlock) for deadlock in details.get("deadlocks") or ())
    return lines


def _way_out(details: Mapping[str, Any]) -> str:
    """Return what a person can do if nothing can run; if time helps, only where to look."""
    for deadlock in details.get("deadlocks") or ():
        if isinstance(deadlock, dict) and deadlock.get("subtrees") and deadlock.get("resources"):
            more = f"claimdag capacity {deadlock['resources'][0]} UNITS"
            return f"{more} makes more of it, or end one of them: claimdag cancel {deadlock['subtrees'][-1]}"
    if details.get("stuck") and details.get("blocked"):
        return "claimdag list --status blocked, then release one: claimdag upsert ID --status todo"
    if details.get("paused"):
        return "claimdag status says what is paused, claimdag resume lifts it"
    return "claimdag status"
