"""The man pages say all there is, and every formatter that is here takes them without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from claimdag_client.cli.commands import ALIASES, MODULES
from claimdag_client.cli.flags import FLAGS
from claimdagd.arguments import make_parser
from claimdagd.wire import AnyRequest
from tests.contract.markdown import ROOT
from tools import manuals

#: Each formatter, and how it is told to be strict.
FORMATTERS = {
    "mandoc": ("mandoc", "-T", "lint", "-W", "warning"),
    "groff": ("groff", "-man", "-Tutf8", "-ww", "-z"),
    "man": ("man", "--warnings", "-l"),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All pages by their names, made as a build makes them."""
    directory = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, str(ROOT / "tools/manuals.py"), str(directory)], check=True)
    return {page.name: page for page in directory.glob("man*/*")}


def plain(page: Path) -> str:
    """A page's words without its fonts and escapes."""
    return re.sub(r"\\f[A-Z]", "", page.read_text(encoding="utf-8")).replace("\\-", "-").replace("\\(ga", "`")


@pytest.mark.parametrize("formatter", sorted(FORMATTERS))
def test_every_formatter_takes_the_pages_without_a_warning(formatter: str, written: dict[str, Path]) -> None:
    """Where it is installed."""
    if shutil.which(formatter) is None:
        pytest.skip(f"no {formatter}")
    assert set(written) == {"claimdag.1", "claimdagd.8", "claimdag-protocol.7"}
    for page in written.values():
        ran = subprocess.run([*FORMATTERS[formatter], str(page)], capture_output=True, text=True, timeout=50)
        complaint = ran.stdout if formatter == "mandoc" else ran.stderr
        assert (page.name, ran.returncode, complaint) == (page.name, 0, "")


def test_manual_has_every_verb_with_every_flag(written: dict[str, Path]) -> None:
    """Below the heading of its verb, in each spelling that help tells."""
    parts = dict(re.findall(r'\.SS "claimdag ([a-z-]+)"\n(.*?)(?=\n\.S[SH]|\Z)', plain(written["claimdag.1"]), re.S))
    assert set(parts) == set(MODULES)
    for verb, part in parts.items():
        told = set(part.split("\n"))
        for name in manuals.command_of(verb).flags:
            flag = FLAGS[name]
            spelt = flag.names[0] if flag.positional else ", ".join(flag.names)
            assert {spelt, f"{spelt} {flag.metavar}"} & told, (verb, spelt)
    assert all(f"{other}" in parts[verb] for other, verb in ALIASES.items())


def test_manual_of_the_daemon_has_every_flag(written: dict[str, Path]) -> None:
    """But the one that is for tests alone."""
    page = plain(written["claimdagd.8"])
    flags = [each for each in make_parser()._actions if each.help != "==SUPPRESS==" and each.dest != "help"]
    assert [name for each in flags for name in each.option_strings if f"\n{name}" not in page] == []


def test_manual_of_the_protocol_has_every_op(written: dict[str, Path]) -> None:
    """As a part of its own."""
    page = plain(written["claimdag-protocol.7"])
    ops = [kind.__struct_config__.tag for kind in AnyRequest.__args__]
    assert [op for op in ops if f'\n.SS "{op}"\n' not in page] == []


def test_text_of_a_document_acts_on_no_formatter() -> None:
    """A dot at a line's start, a backslash and a font within a font are text."""
    lines = list(manuals.sections([".so /etc/passwd", "", "**`a\\b` c**", "", "- 'x' [`y`](z.md)"]))
    assert lines == [
        ".PP", "\\&.so /etc/passwd", ".PP", "\\fBa\\eb c\\fP", ".IP \\(bu 4", "\\&'x' \\fBy\\fP",
    ]  # fmt: skip
