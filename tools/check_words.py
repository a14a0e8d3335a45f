"""Check identifiers, docstrings, comments and messages against the word list in tools/words.toml.

Without arguments it checks the rooms that are listed as clean and fails on a hit. With paths it checks the files among
them that are in a clean room, as a commit hook does. `--all` counts the hits of every room and fails on none.
"""

from __future__ import annotations

import argparse
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("claimdagd", "claimdag_client")
#: On a line with this mark a word may stand, for the reason that the line gives.
EXEMPT = "# words:"


class Hit(NamedTuple):
    """A word that is not used here, and where it is."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}: say {self.instead}"


class WordList:
    """The list: identifiers, phrases, exceptions and the clean rooms."""

    def __init__(self, path: Path = ROOT / "tools/words.toml") -> None:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
        self.identifiers: dict[str, str] = read["identifiers"]
        self.phrases: dict[str, str] = read["phrases"]
        self.allowed: dict[str, list[str]] = read["allowed"]
        self.clean: list[str] = read["clean"]
        self._phrase = re.compile(r"\b(" + "|".join(map(re.escape, self.phrases)) + r")\b", re.IGNORECASE)

    def is_clean(self, name: str) -> bool:
        """Return whether a file belongs to a clean room."""
        return any(name == room or name.startswith(f"{room}/") for room in self.clean)

    def hits(self, path: Path) -> Iterator[Hit]:
        """Return the words of one file that are not used here."""
        name = str(path.relative_to(ROOT))
        allowed = self.allowed.get(name, [])
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if EXEMPT in token.line:
                    continue
                if token.type == tokenize.NAME and token.string in self.identifiers:
                    if token.string not in allowed:
                        yield Hit(name, token.start[0], token.string, self.identifiers[token.string])
                elif token.type in (tokenize.COMMENT, tokenize.STRING, FSTRING_MIDDLE):
                    for found in self._phrase.finditer(re.sub(r"\s+", " ", token.string)):
                        yield Hit(name, token.start[0], found[0], self.phrases[found[0].lower()])


#: The text of an f-string is a token of its own since Python 3.12.
FSTRING_MIDDLE = getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)


def all_files() -> list[Path]:
    """Return the modules of both packages."""
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def main(argv: list[str] | None = None) -> int:
    """Check, print the hits, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--all", action="store_true", help="count the hits of every room")
    options = parser.parse_args(argv)
    words = WordList()
    files = [path.resolve() for path in options.paths] or all_files()
    if options.all:
        rooms = Counter(str(Path(hit.path).parent) for path in files for hit in words.hits(path))
        for room, count in sorted(rooms.items()):
            sys.stdout.write(f"{count:5}  {room}\n")
        return 0
    checked = [path for path in files if path.suffix == ".py" and words.is_clean(str(path.relative_to(ROOT)))]
    hits = [hit for path in checked for hit in words.hits(path)]
    sys.stdout.writelines(f"{hit}\n" for hit in hits)
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
