"""Words that people try, and the commands that do what they mean. Read only after a word that no command has."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Each word, and the command lines it may mean, the likeliest first.
NEAR_WORDS: dict[str, tuple[str, ...]] = {
    "start": ("claim ID", "run ID -- COMMAND", "running ID"),
    "begin": ("running ID", "claim ID"),
    "take": ("claim ID", "next"),
    "grab": ("next", "claim ID"),
    "pick": ("next",),
    "pop": ("next",),
    "assign": ("claim ID --assignee NAME",),
    "unassign": ("release ID",),
    "lock": ("claim ID",),
    "unlock": ("release ID",),
    "giveup": ("release ID",),
    "give-back": ("release ID",),
    "yield": ("release ID",),
    "return": ("release ID",),
    "finish": ("done ID",),
    "close": ("done ID",),
    "resolve": ("done ID",),
    "end": ("done ID", "cancel ID"),
    "success": ("done ID",),
    "error": ("fail ID --error TEXT",),
    "abort": ("cancel ID", "fail ID"),
    "kill": ("cancel ID",),
    "drop": ("rm ID", "cancel ID"),
    "delete": ("rm ID",),
    "del": ("rm ID",),
    "remove": ("rm ID",),
    "purge": ("rm ID",),
    "retry": ("reopen ID",),
    "redo": ("reopen ID",),
    "undo": ("reopen ID", "log"),
    "restart": ("reopen ID", "shutdown"),
    "block": ("upsert ID --status blocked",),
    "hold": ("upsert ID --status blocked",),
    "unblock": ("upsert ID --status todo",),
    "create": ("add SUMMARY", "upsert --summary TEXT"),
    "new": ("add SUMMARY",),
    "task": ("add SUMMARY",),
    "todo": ("add SUMMARY", "list"),
    "edit": ("upsert ID",),
    "update": ("upsert ID",),
    "set": ("upsert ID", "capacity RESOURCE UNITS"),
    "rename": ("upsert ID --summary TEXT",),
    "move": ("upsert ID --parent ID",),
    "depend": ("link BEFORE AFTER",),
    "dep": ("link BEFORE AFTER",),
    "after": ("link BEFORE AFTER",),
    "before": ("link BEFORE AFTER",),
    "info": ("get ID", "hello"),
    "cat": ("get ID",),
    "view": ("get ID", "status"),
    "explain": ("why ID",),
    "ps": ("status",),
    "top": ("status", "watch"),
    "who": ("status",),
    "history": ("log",),
    "events": ("watch", "log"),
    "tail": ("watch",),
    "follow": ("watch",),
    "find": ("list",),
    "search": ("list",),
    "dot": ("graph --format dot",),
    "draw": ("graph",),
    "load": ("submit FILE", "import FILE"),
    "plan": ("submit FILE",),
    "exec": ("run ID -- COMMAND", "work -- COMMAND"),
    "worker": ("work -- COMMAND",),
    "quit": ("shutdown",),
    "exit": ("shutdown",),
    "alive": ("ping",),
    "heartbeat": ("renew ID",),
    "extend": ("renew ID",),
    "touch": ("renew ID",),
    "save": ("checkpoint",),
    "snapshot": ("checkpoint",),
    "backup": ("checkpoint",),
    "install": ("install-service",),
    "uninstall": ("uninstall-service",),
}


def meant_by(word: str, known: Iterable[str]) -> list[str]:
    """Return the command lines that a word may mean; for a slip of the fingers the nearest of the known commands."""
    if word in NEAR_WORDS:
        return [f"claimdag {line}" for line in NEAR_WORDS[word]]
    from difflib import get_close_matches

    known = [*known]
    near = get_close_matches(word, [*known, *NEAR_WORDS], 1)
    if not near:
        return []
    return [f"claimdag {near[0]} --help"] if near[0] in known else meant_by(near[0], known)
