"""Numbers and words that more than one part of the project must agree on. Standard library only, imports nothing.

The types of the wire and of the disk are in `model` and `wire`; what stands here is needed where those are too slow to
import, or in rooms that must not know them.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: The version of the wire protocol.
PROTOCOL: "Final" = 1
#: The longest request line, in bytes, without its newline.
LINE_MAX_BYTES: "Final" = 4 * 1024 * 1024
#: No answer comes near this: what sends a longer line is not a daemon, and would fill the client's memory.
ANSWER_MAX_BYTES: "Final" = 1024 * 1024 * 1024
#: The longest socket path: `sun_path` is 108 bytes on Linux, with its closing zero.
SOCKET_PATH_MAX_BYTES: "Final" = 107
SUMMARY_MAX_BYTES: "Final" = 4096
ERROR_MAX_BYTES: "Final" = 1024
#: The longest lease or delay, in seconds: a year of 366 days.
LEASE_MAX_S: "Final" = 366 * 86400.0
#: How many `once` tokens the daemon remembers, on disk too.
ONCE_TOKENS_MAX: "Final" = 4096
#: How many journal entries the daemon keeps in memory for `log` and `watch`.
LEDGER_ENTRIES_MAX: "Final" = 16_384

ROLES: "Final" = ("unset", "explore", "architect", "implementor", "verifier", "orchestrator", "general")
KINDS: "Final" = ("task", "step", "goal", "molecule")
#: Kinds that cannot be claimed: their children decide them.
GROUPS: "Final" = ("goal", "molecule")
#: Statuses that only `reopen` leaves.
TERMINAL: "Final" = ("done", "failed", "cancelled")
#: Statuses of a node that is held under a lease.
LIVE: "Final" = ("claimed", "running")

# Exit statuses of the daemon, by the numbers of sysexits.h.
#: The state on disk cannot be read: a person has to look (EX_DATAERR).
EXIT_CORRUPT: "Final" = 65
#: An error in claimdagd itself (EX_SOFTWARE).
EXIT_BUG: "Final" = 70
#: The system does not give what the daemon needs, such as open files (EX_OSERR).
EXIT_OS: "Final" = 71
#: The state cannot be written, or its directory, lock or socket was taken away (EX_IOERR).
EXIT_STORAGE: "Final" = 74
#: Another daemon holds the directory or socket (EX_TEMPFAIL).
EXIT_ALREADY_RUNNING: "Final" = 75
#: The directory or socket path cannot be trusted (EX_NOPERM).
EXIT_UNSAFE: "Final" = 77
