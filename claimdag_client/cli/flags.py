"""Every flag of every command, once: its spellings, the value it takes, the field of the wire it fills, its help.

One flag means the same everywhere. The names of this catalogue are those that commands list.
"""

from __future__ import annotations

from claimdag_client.cli import values
from claimdag_client.cli.values import Value
from claimdagd.limits import ROLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The environment variable that stands for --actor, --assignee and every other name of who acts.
ACTOR_VARIABLE = "CLAIMDAG_ACTOR"


class Flag:
    """A flag, or an argument without dashes. Without a `value` it is a switch."""

    __slots__ = ("about", "default", "dest", "environ", "field", "many", "metavar", "names", "value")

    def __init__(
        self,
        *names: str,
        about: str,
        value: Value | None = None,
        metavar: str | None = None,
        dest: str = "",
        field: str = "",
        many: bool = False,
        environ: str = "",
        default: Any = None,
    ) -> None:
        self.names = names
        self.about = about
        self.value = value
        self.metavar = metavar
        self.dest = dest or names[0].lstrip("-").replace("-", "_").lower()
        #: The field of the request, or "" if it is not sent as it is.
        self.field = field
        #: Whether it may be given several times; then it gives a list.
        self.many = many
        #: The environment variable that is read if it is not given.
        self.environ = environ
        self.default = default

    @property
    def positional(self) -> bool:
        """Say whether it is an argument without dashes."""
        return not self.names[0].startswith("-")

    @property
    def shown(self) -> str:
        """Return the spelling that messages use."""
        return self.names[0]


def _choice_flags() -> dict[str, Flag]:
    """Return the flags by which the next node is chosen."""
    return {
        "role": Flag("--role", value=values.ROLE, metavar="ROLE", field="role",
                     about=f"what this worker does best: {', '.join(ROLES)}"),
        "slack": Flag("--slack", value=values.SLACK, metavar="COST", field="slack",
                      about="prefer a node of this role if its depth is at most COST below the deepest"),
        "strict": Flag("--strict", field="strict", about="take no node of another role"),
    }  # fmt: skip


def _claim_flags() -> dict[str, Flag]:
    return {
        "actor": Flag("--actor", "--assignee", value=values.NAME, metavar="NAME", field="actor", environ=ACTOR_VARIABLE,
                      about="who does it"),
        "gen": Flag("--gen", value=values.GEN, metavar="N", field="gen",
                    about="only if the node is at this generation"),
        "lease": Flag("--lease", value=values.LEASE, metavar="S", field="lease",
                      about="seconds until the claim ends by itself (also 90s, 15m, 2h)"),
        "quiet_for": Flag("--lease", value=values.SECONDS, metavar="S", field="lease",
                          about="reclaim what has been quiet so long; without it, what is past its own lease"),
        "bound": Flag("--bound", field="bound",
                      about="the claim ends (after the daemon's grace) with this connection, so with this command"),
        "pid": Flag("--pid", value=values.PID, metavar="N", field="pid",
                    about="the claim ends (after the daemon's grace) with process N; auto: with the nearest process "
                          "above this command that outlives it, such as an agent's host. Its lease is 4h by default"),
        "wait": Flag("--wait", value=values.WAIT, metavar="S", field="wait",
                     about="wait so long until a node is runnable; auto: less than CLAIMDAG_TOOL_TIMEOUT, or 45 s"),
        "once": Flag("--once", value=values.TOKEN, metavar="TOKEN", field="once",
                     about="a request repeated with the same token gets the first answer and changes nothing"),
        "next": Flag("--next", about="claim the next node, as `claimdag next` does"),
    }  # fmt: skip


def _naming_flags() -> dict[str, Flag]:
    """Return the flags that say which nodes a command is about."""
    return {
        "id": Flag("ID", "--id", value=values.ID, field="id", about="the node: its id, or the number in it"),
        "ids": Flag("ID", value=values.ID, dest="ids", many=True, about="nodes: their ids, or the numbers in them"),
        "some": Flag("ID", "--id", value=values.ID, dest="ids", field="ids", many=True,
                     about="the node, or several in one step, all or none: their ids, or the numbers in them"),
        "failed": Flag("--failed", field="failed", about="all that failed, with what they had cancelled"),
        "all_done": Flag("--done", dest="all_done", about="all that are done"),
        "before": Flag("BEFORE", value=values.ID, field="before", about="the node that must end first"),
        "after": Flag("AFTER", value=values.ID, field="after", about="the node that waits on it"),
    }  # fmt: skip


def _node_flags() -> dict[str, Flag]:
    return {
        "kind": Flag("--kind", value=values.KIND, metavar="KIND", field="kind",
                     about="task (default), step, or a group: goal, molecule"),
        "set_status": Flag("--status", value=values.STATUS, metavar="STATUS", field="status",
                           about="todo or ready (the dependencies decide), or blocked"),
        "outcome": Flag("--status", value=values.OUTCOME, metavar="STATUS", field="status",
                        about="done (default), failed or cancelled"),
        "node_role": Flag("--role", value=values.ROLE, metavar="ROLE", field="role",
                          about=f"the role it is for: {', '.join(ROLES)}"),
        "parent": Flag("--parent", value=values.ID_OR_NONE, metavar="ID",
                       about="the node it is part of; none takes it out"),
        "summary": Flag("--summary", value=values.SUMMARY, metavar="TEXT", field="summary",
                        about="what is to be done; - reads it from standard input"),
        "new_summary": Flag("--summary", value=values.SUMMARY, metavar="TEXT", field="summary",
                            about="replaces its summary"),
        "summaries": Flag("SUMMARY", value=values.SUMMARY, dest="summaries", many=True,
                          about="what is to be done; - reads summaries from standard input, one a line"),
        "wait_for": Flag("--after", "--dep", value=values.DEPENDENCY, metavar="ID[:after_any]", dest="wait_for",
                         many=True, about="the node it waits on; repeat for several"),
        "cost": Flag("--cost", value=values.COST, metavar="N", field="cost",
                     about="estimated work, in seconds or any one unit"),
        "priority": Flag("--priority", value=values.PRIORITY, metavar="N", field="priority",
                         about="-100 to 100, higher first"),
        "need": Flag("--need", value=values.UNITS, metavar="R=U", many=True,
                     about="units of a resource; repeat for several"),
        "dep": Flag("--dep", value=values.DEPENDENCY, metavar="ID[:after_any]", many=True,
                    about="the node it waits on; repeat for several"),
        "no_needs": Flag("--no-needs", about="it needs no resources any more"),
        "no_deps": Flag("--no-deps", about="it waits on nothing any more"),
        "max_attempts": Flag("--max-attempts", value=values.ATTEMPTS, metavar="N",
                             about="after so many expired claims it fails; none: never"),
        "retries": Flag("--retries", value=values.RETRIES, metavar="N", field="retries",
                        about="so many failures are tried again (0)"),
        "retry_delay": Flag("--retry-delay", value=values.SECONDS, metavar="TIME", field="retry_delay",
                            about="before the first such try (30s), doubled for each further one, at most 1h"),
        "begin_in": Flag("--in", value=values.SECONDS, metavar="TIME", dest="begin_in",
                         about="it does not begin before this time is over"),
        "begin_at": Flag("--at", value=values.AT, metavar="TIME", dest="begin_at",
                         about="it does not begin before then: the next 18:30, or 2026-12-24T18:30"),
        "final": Flag("--final", field="final", about="a failure is not tried again, with retries left or not"),
        "error": Flag("--error", value=values.ERROR, metavar="TEXT", field="error", about="why"),
        "when": Flag("--when", value=values.WHEN, metavar="WHEN", field="when",
                     about="after_ok (default): BEFORE must succeed; after_any: it must end"),
        "resource": Flag("RESOURCE", value=values.NAME, field="resource", about="its name"),
        "units": Flag("UNITS", value=values.CAPACITY, field="units",
                      about="how many there are; holders keep what they have"),
    }  # fmt: skip


def _list_flags() -> dict[str, Flag]:
    return {
        "terminal": Flag("--terminal", field="terminal", about="finished ones too"),
        "archived": Flag("--archived", field="archived", about="archived ones too"),
        "all": Flag("--all", field="all", about="finished and archived ones too"),
        "status": Flag("--status", value=values.STATUS, metavar="STATUS", field="status",
                       about="only those with this status"),
        "under": Flag("--under", "--parent", value=values.ID, metavar="ID", field="under",
                      about="only what is under this node"),
        "assignee": Flag("--assignee", "--actor", value=values.NAME, metavar="NAME", field="assignee",
                         about="only what NAME holds"),
        "limit": Flag("--limit", value=values.COUNT, metavar="N", about="the first N of them"),
        "since": Flag("--since", value=values.SINCE, metavar="TIME",
                      about="only what changed since: so long ago (90s, 15m, 2h, 1d), or 14:30, or 2026-12-24T14:30"),
        "entries": Flag("--limit", value=values.COUNT, metavar="N", field="limit", about="at most so many entries"),
        "match": Flag("--match", value=values.TEXT, metavar="TEXT",
                      about="only those with TEXT in their summary, id or holder, in any case"),
        "sort": Flag("--sort", value=values.SORT, metavar="FIELD",
                     about=f"by {values.SORT.takes}; what is most comes first"),
        "columns": Flag("--columns", value=values.COLUMNS, metavar="FIELDS",
                        about="a table of these fields, with commas between them"),
        "output": Flag("-o", "--output", value=values.OUTPUT, metavar="FORM", dest="output",
                       about="table (default), json (one array), jsonl (one node a line, as --json) or ids"),
        "quiet": Flag("-q", "--quiet", dest="quiet", about="ids alone, as -o ids"),
        "offline": Flag("--offline", about="from the state files, without a daemon"),
        "json": Flag("--json", about="JSON for programs, one object a line"),
        "from": Flag("--from", value=values.SEQ, metavar="SEQ", dest="from_seq", field="from",
                     about="from this entry on"),
        "report_format": Flag("--format", value=values.REPORT_FORMAT, metavar="FORMAT", default="tasks",
                              about="tasks (a check list; the default), json, csv or github-comment"),
        "graph_format": Flag("--format", value=values.GRAPH_FORMAT, metavar="FORMAT", default="text",
                             about="text (default), dot, mermaid, or svg by Graphviz"),
        "svg": Flag("--svg", about="as --format svg"),
        "to_file": Flag("-o", "--output", value=values.TEXT, metavar="FILE", dest="to_file",
                        about="write it there"),
        "timeout": Flag("--timeout", value=values.SECONDS, metavar="S",
                        about="give up after so long (also 90s, 15m, 2h)"),
    }  # fmt: skip


def _file_flags() -> dict[str, Flag]:
    return {
        "file": Flag("FILE", value=values.TEXT, about="the file; - reads standard input"),
        "plan_format": Flag("--format", value=values.PLAN_FORMAT, metavar="FORMAT",
                            about="json, yaml or toml: of standard input, or of a file with another ending"),
        "source_and_file": Flag("[SOURCE] FILE", value=values.TEXT, dest="words", many=True,
                                about="the source, and the file or -"),
        "prune_missing": Flag("--prune-missing", about="cancel unfinished nodes that the file does not have any more"),
        "renamed": Flag("--renamed", about="take rows for the same though most titles differ"),
        "watch": Flag("--watch", about="do it again whenever the file changes"),
        "guess": Flag("--guess", about="read dependencies in free text too (github)"),
        "tag": Flag("--tag", value=values.TEXT, metavar="TAG", about="the list of the file to read (taskmaster)"),
        "reverse": Flag("--reverse", about="arrows point at what comes first (dot)"),
        "dry_run": Flag("--dry-run", about="say what would be done, and create nothing"),
        "skip_bad": Flag("--skip-bad",
                         about="go on without what is faulty; what that leaves in doubt is held back"),
        "keep_holders": Flag("--keep-holders", about="hold back what a person has in hand there"),
        "verbose": Flag("--verbose", about="tell each row that is held back or left out"),
        "force": Flag("--force", about="also a unit that claimdag did not write"),
        "graph_name": Flag("NAME", value=values.GRAPH_NAME, dest="graph_name",
                           about="the graph of this project; without it the directory's name"),
        "agents": Flag("--agents", about="write what agents' hosts read: instructions, MCP, hooks"),
        "hosts": Flag("--for", value=values.TEXT, metavar="HOSTS", dest="hosts",
                      about="of claude, codex, cursor, gemini, copilot"),
        "remove": Flag("--remove", about="take exactly that back"),
        "yes": Flag("--yes", about="write without asking"),
        "shell": Flag("SHELL", value=values.SHELL, about="bash, zsh or fish"),
        "event": Flag("EVENT", value=values.HOOK_EVENT, about="what happened in the host: stop or compact"),
    }  # fmt: skip


def _worker_flags() -> dict[str, Flag]:
    return {
        "workers": Flag("-n", "--workers", value=values.WORKERS, metavar="N", dest="workers", default=1,
                        about="how many run at once"),
        "until_empty": Flag("--until-empty", about="end when all work is finished"),
        "capture": Flag("--capture", about="keep what the command writes though it has a terminal"),
        "final_exit": Flag("--final-exit", value=values.EXIT_STATUS, metavar="N", default=100,
                           about="the command's exit status that fails the node even if retries are left (100)"),
        "no_capture": Flag("--no-capture", about="keep nothing: the command has this command's own streams"),
        "output_max": Flag("--output-max", value=values.BYTES, metavar="BYTES", default=1 << 20,
                           about="keep so much of one attempt, and leave out the middle (1M)"),
        "output_total": Flag("--output-total", value=values.BYTES, metavar="BYTES", default=256 << 20,
                             about="keep so much of all attempts, and remove the oldest (256M)"),
        "attempt": Flag("--attempt", value=values.COUNT, metavar="N",
                        about="of this attempt; without it, of the last one that is kept"),
        "follow": Flag("-f", "--follow", dest="follow", about="go on while the command writes, until it has ended"),
        "leave_daemons": Flag(
            "--leave-daemons",
            about="end only the command's process group, and nothing that it left running when it ended by itself",
        ),
        "kill_after": Flag("--kill-after", value=values.SECONDS, metavar="S", default=5.0,
                           about="seconds between SIGTERM and SIGKILL when the command must end (5)"),
    }  # fmt: skip


FLAGS: dict[str, Flag] = {
    **_choice_flags(),
    **_claim_flags(),
    **_naming_flags(),
    **_node_flags(),
    **_list_flags(),
    **_file_flags(),
    **_worker_flags(),
}
