"""The project's tasks: `nox -l` lists them, `nox -s lint types` runs some. CONTRIBUTING.md says when to run which."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "types", "quick", "docs"]

ROOT = Path(__file__).parent
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
#: The oldest versions that pyproject.toml admits: the lower bounds of the dependencies and of the extra `trio`.
LOWEST = ["anyio==4.10", "msgspec==0.19", "trio==0.26.1"]


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, its format too, and the word list."""
    session.install("ruff>=0.9")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("python", "tools/check_words.py")


@nox.session
def types(session: nox.Session) -> None:
    """mypy, strict."""
    session.install("-e", ".[dev]")
    session.run("mypy")


@nox.session
def quick(session: nox.Session) -> None:
    """The inner loop: everything but the slow tests."""
    session.install("-e", ".[test]")
    session.run("pytest", "-q", "-m", "not slow", *session.posargs)


@nox.session(python=PYTHONS)
@nox.parametrize("dependencies", ["newest", "lowest"])
@nox.parametrize("uvloop", [False, True])
def tests(session: nox.Session, uvloop: bool, dependencies: str) -> None:
    """All tests."""
    session.install("-e", ".[test,uvloop]" if uvloop else ".[test]")
    if dependencies == "lowest":
        session.install(*LOWEST)
    session.run("pytest", "-q", *session.posargs)


@nox.session
def cov(session: nox.Session) -> None:
    """Branch coverage of all tests, daemons and other child processes included."""
    session.install("-e", ".[test]", "coverage>=7.10")
    data = ROOT / ".coverage"
    # A daemon that the command line starts gets an environment of its own, so that a variable would not reach it: the
    # interpreter itself begins to measure.
    site = session.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", silent=True)
    start = Path(str(site).strip()) / "measure_children.pth"
    start.write_text(
        f"import os; os.environ['COVERAGE_PROCESS_START'] = {str(ROOT / 'pyproject.toml')!r}; "
        f"os.environ['COVERAGE_FILE'] = {str(data)!r}; import coverage; coverage.process_startup()\n"
    )
    try:
        session.run("coverage", "erase")
        # Some tests want a bare interpreter (what it imports, a deleted directory) and fail while it is measured. The
        # session `tests` is the judge of them all.
        session.run("pytest", "-q", *session.posargs, success_codes=[0, 1])
    finally:
        start.unlink()
    session.run("coverage", "combine", "-q")
    session.run("coverage", "html", "-q")
    session.run("coverage", "report", "--skip-covered")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site in docs/_build; a warning is an error."""
    session.install("-e", ".[docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-q", "-b", "html", "docs", "docs/_build", *session.posargs)


@nox.session
def man(session: nox.Session) -> None:
    """The man pages in docs/_build/man: `man -l docs/_build/man/man1/claimdag.1`."""
    session.run("python", "tools/manuals.py", str(ROOT / "docs/_build/man"))


@nox.session
def bench(session: nox.Session) -> None:
    """The benchmarks, `--quick` unless arguments say otherwise."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.benchmarks", *(session.posargs or ["--quick"]))


@nox.session
def build(session: nox.Session) -> None:
    """Build sdist and wheel, and work a plan off with the wheel in an environment of its own."""
    session.install("build", "twine")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    session.run("python", "-m", "build", "--quiet", str(ROOT))
    session.run("twine", "check", "--strict", *map(str, (ROOT / "dist").iterdir()))
    (wheel,) = (ROOT / "dist").glob("*.whl")
    with tempfile.TemporaryDirectory(prefix="claimdag-wheel-") as name:
        fresh = Path(name)
        session.run("python", "-m", "venv", str(fresh / "venv"))
        commands = fresh / "venv" / "bin"
        session.run(str(commands / "pip"), "install", "-q", str(wheel), external=True)
        pages = {page.name for page in (fresh / "venv/share/man").glob("man*/*")}
        if pages != {"claimdag.1", "claimdagd.8", "claimdag-protocol.7"}:
            session.error(f"the wheel brings other manuals than it should: {pages}")
        environment = {"CLAIMDAG_DIR": str(fresh / "state"), "PATH": f"{commands}:{os.environ['PATH']}"}
        session.chdir(fresh)  # away from the checkout, so that the wheel is what is imported
        for command in (
            ["claimdag", "--version"],
            ["claimdag", "submit", str(ROOT / "docs/examples/release.toml")],
            ["claimdag", "work", "--assignee", "wheel", "--until-empty", "--", "true"],
            ["claimdag", "shutdown"],
        ):
            session.run(str(commands / command[0]), *command[1:], external=True, env=environment)
