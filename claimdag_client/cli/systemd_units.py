"""Install the systemd user units for this user, and remove them. This module never runs systemctl itself.

A unit file that claimdag did not write is left as it is unless --force is given.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

NAMES = ("claimdagd.socket", "claimdagd.service")
#: The same for a graph with a name, which stands between @ and the dot.
TEMPLATES = ("claimdagd@.socket", "claimdagd@.service")
#: What stands in the service for the path of the daemon.
DAEMON_IN_UNIT = "%h/.local/bin/claimdagd"
MARK = "# Put here by `claimdag install-service`; `claimdag uninstall-service` takes it away."


class UnitNotOursError(Exception):
    """A unit of that name is there and is not ours: `path`."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was not written by claimdag")
        self.path = path


def unit_directory() -> Path:
    """Where systemd looks for this user's own units."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "systemd" / "user"


def sources() -> Path:
    """Where the units came with this package: inside it, or beside it in a checkout. FileNotFoundError if neither."""
    package = Path(__file__).resolve().parents[1]
    for place in (package / "units", package.parent / "systemd"):
        if all((place / name).is_file() for name in (*NAMES, *TEMPLATES)):
            return place
    raise FileNotFoundError(f"the units did not come with this installation: {package}")


def daemon_command() -> str:
    """Return the start of ExecStart: the claimdagd beside this interpreter, else this interpreter with the module."""
    beside = Path(sys.executable).parent / "claimdagd"
    words = [str(beside)] if os.access(beside, os.X_OK) else [sys.executable, "-P", "-m", "claimdagd"]
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """Return a word as systemd reads it: % and $ are its own, and a blank would end it."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"' if any(char.isspace() or char in "\"';" for char in word) else word


def has_user_namespaces(proc: Path = Path("/proc/sys")) -> bool:
    """Say whether an unprivileged process may have a user namespace here, as the hardening needs."""
    refusals = (
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("user/max_user_namespaces", "0"),
    )
    return not any((proc / name).is_file() and (proc / name).read_text().strip() == no for name, no in refusals)


def _without_namespaces(lines: list[str]) -> list[str]:
    """Return the unit without the hardening in a user namespace: with it the daemon could not start here."""
    begin, end = (
        next((i for i, line in enumerate(lines) if line.startswith(mark)), len(lines))
        for mark in ("# BEGIN user namespace", "# END user namespace")
    )
    return lines[:begin] + lines[end + 1 :]


def contents(name: str) -> str:
    """Return a unit as it is to be installed, for this installation on this system."""
    lines = (sources() / name).read_text(encoding="utf-8").splitlines()
    if not has_user_namespaces():
        lines = _without_namespaces(lines)
    lines = [line.replace(DAEMON_IN_UNIT, daemon_command()) for line in lines]
    return "\n".join([MARK, *lines, ""])


def install(*, force: bool = False, graph: str | None = None) -> list[Path]:
    """Write both units, the templates for a named graph; return their paths. UnitNotOursError if one is not ours."""
    directory = unit_directory()
    wanted = {directory / name: contents(name) for name in (TEMPLATES if graph else NAMES)}
    for path in wanted:
        if not force and path.exists() and not _is_ours(path):
            raise UnitNotOursError(path)
    directory.mkdir(parents=True, exist_ok=True)
    for path, text in wanted.items():
        new = path.with_suffix(path.suffix + ".new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    return list(wanted)


def uninstall(*, force: bool = False, graph: str | None = None) -> list[Path]:
    """Remove what `install` wrote and what enabled it; return the paths. UnitNotOursError if a unit is not ours.

    With a graph only that one is disabled, and the templates go if no other graph uses them. Without one all go.
    """
    directory = unit_directory()
    links = {link: _template_of(link.name) for link in directory.glob("*.wants/claimdagd*") if link.is_symlink()}
    ours = [link for link, name in links.items() if name and os.path.basename(os.readlink(link)) == name]
    if graph:
        ours = [link for link in ours if link.name.startswith(f"claimdagd@{graph}.")]
    in_use = any(link not in ours and name in TEMPLATES for link, name in links.items())
    names = (() if in_use else TEMPLATES) if graph else (*NAMES, *TEMPLATES)
    present = [directory / name for name in names if os.path.lexists(directory / name)]
    for path in present:
        if not force and not _is_ours(path):
            raise UnitNotOursError(path)
    for path in (*ours, *present):
        path.unlink()
    return [*ours, *present]


def _template_of(name: str) -> str | None:
    """Return which of our units a link of this name enables; None for another's."""
    start, _, kind = name.rpartition(".")
    unit = f"claimdagd.{kind}" if start == "claimdagd" else f"claimdagd@.{kind}"
    return unit if start.startswith(("claimdagd@", "claimdagd")) and unit in (*NAMES, *TEMPLATES) else None


def _is_ours(path: Path) -> bool:
    try:
        return path.read_text(encoding="utf-8", errors="replace").startswith(MARK)
    except OSError:
        return False
