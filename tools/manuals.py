"""Write the man pages: claimdag(1) and claimdagd(8) from their parsers, claimdag-protocol(7) from its document.

`python tools/manuals.py DIR` writes them below DIR as `man1/claimdag.1` and so on, which the build of a wheel does too.
What a page says is said where it comes from, not here.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from claimdag_client.cli import foreign, main  # noqa: E402  (the checkout is on the path from here on)
from claimdag_client.cli.command import Command  # noqa: E402
from claimdag_client.cli.commands import ALIASES, GROUPS, MODULES  # noqa: E402
from claimdag_client.cli.flags import FLAGS  # noqa: E402
from claimdag_client.cli.parsing import parser_of  # noqa: E402
from claimdagd import __version__  # noqa: E402
from claimdagd.arguments import make_parser  # noqa: E402

#: What every verb takes; told once.
PLACE = "which daemon"
_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\([^)]*\)")


def text(words: str) -> str:
    """Return plain text that means itself in roff."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti")
    return re.sub(r"(?m)^([.'])", r"\\&\1", escaped.replace("`", "\\(ga"))


def bold(words: str) -> str:
    """Return words that are typed as they stand."""
    return f"\\fB{text(words)}\\fP"


def italic(words: str) -> str:
    """Return words that stand for others."""
    return f"\\fI{text(words)}\\fP"


def prose(words: str) -> str:
    """Return running text of a document: `code` and **bold** in bold, links by their words."""
    parts = []
    at = 0
    for found in _INLINE.finditer(words):
        parts.append(text(words[at : found.start()]))
        parts.append(prose(found[3]) if found[3] else bold(found[1] or found[2].replace("`", "")))
        at = found.end()
    parts.append(text(words[at:]))
    joined = "".join(parts)
    # A line that begins with a font has no request; one that begins with a quote or a dot would be one.
    return re.sub(r"(?m)^([.'])", r"\\&\1", joined)


def literal(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines that are not filled, set in."""
    yield from (".PP", ".RS 4", ".nf", *(text(line) or "\\&" for line in lines), ".fi", ".RE")


def heading(name: str, section: int, about: str) -> Iterator[str]:
    """Yield the head of a page."""
    kind = {1: "User Commands", 7: "Miscellaneous", 8: "System Administration"}[section]
    yield f'.TH {text(name.upper())} {section} {_released()} "claimdagd {__version__}" "{kind}"'
    yield from (".nh", ".ad l", ".SH NAME", f"{text(name)} \\- {text(about)}")


def section(title: str, macro: str = "SH") -> str:
    """Return the heading of a section, or with SS of a part of one."""
    return f'.{macro} "{text(title.upper() if macro == "SH" else title)}"'


def _released() -> str:
    """Return the date of the newest release: the same sources always give the same page."""
    found = re.search(r"^## \S+ - (\d{4}-\d{2}-\d{2})$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    return found[1] if found else "1970-01-01"


# ------------------------------------------------------------------------------------------------ from a parser


def described(description: str) -> Iterator[str]:
    """Yield a description: its paragraphs filled, but what is set in left as it is."""
    for paragraph in description.strip("\n").split("\n\n"):
        if "\n " in paragraph or paragraph.startswith(" "):
            yield from literal(paragraph.split("\n"))
        else:
            yield from (".PP", prose(" ".join(paragraph.split())))


def options(parser: argparse.ArgumentParser, *, place: bool) -> Iterator[str]:
    """Yield the arguments and flags of a parser, group by group; of the flags of the place all or none."""
    for group in parser._action_groups:
        if (group.title == PLACE) != place:
            continue
        actions = [each for each in group._group_actions if each.help not in (argparse.SUPPRESS, None)]
        actions = [each for each in actions if "--help" not in each.option_strings]
        if actions and group.title and group.title.startswith("with "):
            yield from (".PP", f"{prose(group.title[0].upper() + group.title[1:])}:")
        for action in actions:
            yield from (".TP", spelling(action), prose(" ".join(str(action.help).split())))


def spelling(action: argparse.Action) -> str:
    """Return a flag in all its spellings, and what it takes."""
    takes = action.metavar if isinstance(action.metavar, str) else "|".join(map(str, action.choices or ()))
    if not action.option_strings:
        return italic(takes or action.dest)
    names = ", ".join(map(bold, action.option_strings))
    return names if action.nargs == 0 else f"{names} {italic(takes or action.dest.upper())}"


def synopsis(verb: str, parser: argparse.ArgumentParser, needs: Iterable[str]) -> str:
    """Return how a verb is typed, with what it needs and no more."""
    needed = {FLAGS[name].dest for name in needs}
    shown = [each for each in parser._actions if each.help != argparse.SUPPRESS]
    flags = [each for each in shown if each.option_strings]
    words = [bold(f"claimdag {verb}")]
    words += [f"{bold(each.option_strings[0])} {italic(str(each.metavar))}" for each in flags if each.dest in needed]
    words.append(f"[{italic('OPTION')} ...]")
    for action in shown:
        if not action.option_strings:
            name = italic(str(action.metavar or action.dest))
            name += " ..." if action.nargs in ("*", "+") else ""
            words.append(name if action.dest in needed else f"[{name}]")
    if verb in foreign.BEHIND:
        words.append(text(foreign.BEHIND[verb]))
    return " ".join(words)


def claimdag() -> Iterator[str]:
    """Yield the page of the command line."""
    yield from heading("claimdag", 1, "hand out the work of one session to agents, scripts and people")
    yield from (".SH SYNOPSIS", f"{bold('claimdag')} [{italic('OPTION')} ...] {italic('VERB')} ...")
    yield from (".br", f"{bold('claimdag help')} {italic('VERB')}")
    yield from (".SH DESCRIPTION", prose(" ".join(main.DESCRIPTION)))
    introduction, more = _at_first_heading(document("docs/reference/command-line.md"))
    yield from sections(introduction)
    first = True
    for title, verbs in GROUPS:
        for verb in verbs:
            command = command_of(verb)
            parser = parser_of(verb, command)
            if first:
                yield from (".SH OPTIONS", "These stand before the verb or after it:")
                yield from options(parser, place=True)
            if first or verb == next(iter(verbs)):
                yield section(title)
            first = False
            yield from _verb(verb, parser, command.needs, command.examples)
    yield from sections(more)
    yield from (".SH SEE ALSO", ", ".join(map(named, (("claimdagd", 8), ("claimdag-protocol", 7)))))


def command_of(verb: str) -> Command:
    """Return the description of a verb, of whichever room."""
    from importlib import import_module

    module = MODULES[verb]
    commands = foreign if ":" in module else import_module(f"claimdag_client.cli.commands.{module}")
    command: Command = commands.COMMANDS[verb]
    return command


def _verb(verb: str, parser: argparse.ArgumentParser, needs: Iterable[str], examples: Iterable[str]) -> Iterator[str]:
    yield from (section(f"claimdag {verb}", "SS"), synopsis(verb, parser, needs))
    yield from described(parser.description or "")
    if others := [other for other, meant in ALIASES.items() if meant == verb]:
        yield from (".PP", f"Also spelt {' or '.join(map(bold, others))}.")
    yield from options(parser, place=False)
    yield from literal(examples)


def claimdagd() -> Iterator[str]:
    """Yield the page of the daemon."""
    parser = make_parser()
    yield from heading("claimdagd", 8, "the daemon that serves one claim graph at one Unix socket")
    yield from (".SH SYNOPSIS", f"{bold('claimdagd')} [{italic('OPTION')} ...]")
    yield ".SH DESCRIPTION"
    yield from described(parser.description or "")
    yield ".SH OPTIONS"
    yield from options(parser, place=False)
    yield ".SH NOTES"
    yield from described(parser.epilog or "")
    yield from (".SH FILES", ".TP", italic("DIR/sock"), "the socket")
    yield from (".TP", italic("DIR/snapshot.jsonl"), "the last snapshot", ".TP", italic("DIR/journal.jsonl"))
    yield from ("every change since", ".TP", italic("DIR/lock"), "held by the daemon that serves DIR")
    yield from (".TP", italic("DIR/output"), "what commands wrote under run and work")
    yield from (".SH SEE ALSO", ", ".join(map(named, (("claimdag", 1), ("claimdag-protocol", 7)))))


def named(page: tuple[str, int]) -> str:
    """Return how another page is named."""
    return f"{bold(page[0])}({page[1]})"


# ---------------------------------------------------------------------------------------------- from a document


def protocol() -> Iterator[str]:
    """Yield the page of the protocol."""
    yield from heading("claimdag-protocol", 7, "how to speak with claimdagd")
    yield ".SH DESCRIPTION"
    yield from sections(document("docs/reference/protocol.md"))
    yield from (".SH SEE ALSO", ", ".join(map(named, (("claimdag", 1), ("claimdagd", 8)))))


def document(name: str) -> list[str]:
    """Return the lines of a document below its title, without its table of contents."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()[1:]
    whole = "\n".join(lines)
    return re.sub(r"(?m)^Contents:(?:.+\n)+", "", whole).splitlines()


def _at_first_heading(lines: list[str]) -> tuple[list[str], list[str]]:
    """Divide a document into what introduces it and the rest."""
    at = next(index for index, line in enumerate(lines) if line.startswith("#"))
    return lines[:at], lines[at:]


def sections(lines: Iterable[str]) -> Iterator[str]:
    """Yield the roff of a document: the headings, paragraphs, lists, tables and fenced blocks that our pages use."""
    rest = iter(lines)
    paragraph: list[str] = []
    in_table = False
    for line in rest:
        if _stays_in(line, paragraph):
            paragraph.append(line.strip())
            continue
        yield from _paragraph(paragraph)
        paragraph = []
        if line.startswith("```"):
            yield from literal(iter(lambda: next(rest), "```"))
        elif line.startswith("#"):
            level, _, title = line.partition(" ")
            yield section(title.replace("`", ""), "SH" if len(level) < 4 else "SS")
        elif line.startswith("|"):
            cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if in_table and not all(set(cell) <= {"-", ":"} for cell in cells):
                yield from _row(cells)
        elif not line.startswith("<!--") and line.strip():
            paragraph.append(line)
        in_table = line.startswith("|")
    yield from _paragraph(paragraph)


def _stays_in(line: str, paragraph: list[str]) -> bool:
    """Say whether a line goes on with the paragraph or the item before it."""
    begins = ("```", "#", "|", "<!--", "- ")
    return bool(paragraph and line.strip() and not line.startswith(begins) and not re.match(r"\d+\. ", line))


def _paragraph(lines: list[str]) -> Iterator[str]:
    if not lines:
        return
    words = " ".join(lines)
    item = re.match(r"(-|\d+\.) +", words)
    if item:
        mark = "\\(bu" if item[1] == "-" else item[1]
        yield from (f".IP {mark} 4", prose(words[item.end() :]))
    else:
        yield from (".PP", prose(words))


def _row(cells: list[str]) -> Iterator[str]:
    """Yield a row: the first cell as a term, then each further one on a line of its own."""
    yield from (".TP", prose(cells[0]) or "\\&")
    yield from "\n.br\n".join(prose(cell) or "\\&" for cell in cells[1:]).split("\n")


PAGES = {"man1/claimdag.1": claimdag, "man8/claimdagd.8": claimdagd, "man7/claimdag-protocol.7": protocol}


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path of each page below the directory of manuals, and its text."""
    for path, lines in PAGES.items():
        # A heading begins a paragraph by itself.
        yield path, re.sub(r"(?m)^(\.S[HS] .*)\n\.PP$", r"\1", "\n".join(lines())) + "\n"


def write(directory: Path) -> list[Path]:
    """Write all pages below a directory, and return where they are."""
    written = []
    for path, content in pages():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")
        written.append(place)
    return written


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/manuals.py DIR")
    write(Path(sys.argv[1]))
