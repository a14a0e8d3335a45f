"""What may come next on a command line, for the completion of a shell: verbs, flags, values, and the ids of live nodes.

A shell's script asks `claimdag __complete WORD...`, whose last word is the one at the cursor, perhaps empty. Each line
of the answer is a word, and after a tab what it means. No daemon is ever started for it.
"""

from __future__ import annotations

from importlib import import_module

from claimdag_client._transport.transport import connect
from claimdag_client.cli.command import Command
from claimdag_client.cli.commands import ALIASES, GROUPS, MODULES
from claimdag_client.cli.flags import FLAGS, Flag
from claimdag_client.cli.render.text import clean, cut
from claimdag_client.cli.values import DEPENDENCY, ID, ID_OR_NONE
from claimdag_client.errors import ClaimdagError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from claimdag_client._transport.endpoint import Endpoint

    Candidate = tuple[str, str]

#: A daemon that does not answer within this gets no say: a person waits at the keyboard.
LIMIT_S = 0.5
SUMMARY_COLUMNS = 60
#: Flags that stand before every verb and after it, with a path or a name each.
_PLACE = ("--socket", "--dir", "--graph")

BASH = """_claimdag() {
    local word about found=() told=()
    while IFS=$'\\t' read -r word about; do
        found+=("$word"); told+=("$word${about:+  ($about)}")
    done < <(claimdag __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [ "${#found[@]}" -eq 1 ]; then COMPREPLY=("${found[0]}"); else COMPREPLY=("${told[@]}"); fi
}
complete -o default -F _claimdag claimdag
"""
ZSH = """#compdef claimdag
_claimdag() {
    local -a found
    local word about
    while IFS=$'\\t' read -r word about; do
        found+=("${word//:/\\\\:}:$about")
    done < <(claimdag __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#found )); then _describe claimdag found; else _files; fi
}
compdef _claimdag claimdag
"""
FISH = """complete -c claimdag -a '(claimdag __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def candidates(words: Sequence[str], endpoint: Endpoint) -> Iterator[Candidate]:
    """Give each word that may stand in the place of the last of `words`, with what it means."""
    *before, current = words or [""]
    for word, about in _possible(before, current, endpoint):
        if word.startswith(current):
            yield word, about


def _possible(before: list[str], current: str, endpoint: Endpoint) -> Iterator[Candidate]:
    rest = _after_place(before, endpoint)
    if "--" in rest or (before and before[-1] in _PLACE):
        return
    if not rest:
        for _, verbs in GROUPS:
            yield from ((verb, about) for verb, (_, about) in verbs.items())
        return
    verb = ALIASES.get(rest[0], rest[0])
    flags = _flags_of(verb)
    awaited = next((flag for flag in flags if flag.value and rest[-1] in flag.names and not flag.positional), None)
    if awaited is not None:
        yield from _values_of(awaited, endpoint)
    elif current.startswith("-"):
        yield from ((name, flag.about) for flag in flags for name in flag.names if name.startswith("--"))
    else:
        positional = [flag for flag in flags if flag.positional]
        if positional:
            count = sum(not word.startswith("-") for word in rest[1:])
            yield from _values_of(positional[min(count, len(positional) - 1)], endpoint)


def _after_place(before: list[str], endpoint: Endpoint) -> list[str]:
    """Return the words from the verb on, and take the daemon that is named before it."""
    rest = [*before]
    while rest and rest[0].startswith("--"):
        name, equals, value = rest.pop(0).partition("=")
        if name in _PLACE and not equals:
            value = rest.pop(0) if rest else ""
        if name == "--socket":
            endpoint.socket_path = value
        elif name == "--dir":
            endpoint.directory = value
        elif name == "--graph":
            endpoint.graph = value
    return rest


def _flags_of(verb: str) -> list[Flag]:
    module = MODULES.get(verb, ":")
    path = "foreign" if ":" in module else f"commands.{module}"
    command: Command | None = import_module(f"claimdag_client.cli.{path}").COMMANDS.get(verb)
    return [FLAGS[name] for name in command.flags] if command else []


def _values_of(flag: Flag, endpoint: Endpoint) -> Iterator[Candidate]:
    if flag.value is None:
        return
    yield from ((word, "") for word in flag.value.choices)
    if flag.value in (ID, ID_OR_NONE, DEPENDENCY):
        try:
            with connect(endpoint, client="claimdag completion", start=False, limit_s=LIMIT_S) as connection:
                nodes = connection.ask({"op": "list"}, limit_s=LIMIT_S)["nodes"]
        except (ClaimdagError, OSError):
            return
        for node in nodes:
            yield clean(node["id"]), cut(f"{clean(node['status'])}: {clean(node.get('summary', ''))}", SUMMARY_COLUMNS)
