"""Install the systemd user units for this user, and remove them. This module never runs systemctl itself.

A unit file that claimdag did not write is left as it is unless --force is given.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

NAMES = ("claimdagd.socket", "claimdagd.service")
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
        if all((place / name).is_file() for name in NAMES):
            return place
    raise FileNotFoundError(f"the units did not come with this installation: {package}")


def daemon_command() -> str:
    """The start of ExecStart: the claimdagd beside this interpreter, else this interpreter with the module."""
    beside = Path(sys.executable).parent / "claimdagd"
    words = [str(beside)] if os.access(beside, os.X_OK) else [sys.executable, "-P", "-m", "claimdagd"]
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """A word as systemd reads it: % and $ are its own, and a blank would end it."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"' if any(char.isspace() or char in "\"';" for char in word) else word


def has_user_namespaces(proc: Path = Path("/proc/sys")) -> bool:
    """Whether this system lets an unprivileged process have a whole user namespace, as the hardening wants."""
    refusals = (
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("user/max_user_namespaces", "0"),
    )
    return not any((proc / name).is_file() and (proc / name).read_text().strip() == no for name, no in refusals)


def _without_namespaces(lines: list[str]) -> list[str]:
    """The unit without the hardening that is done in a user namespace: with it the daemon would not start."""
    begin, end = (
        next((i for i, line in enumerate(lines) if line.startswith(mark)), len(lines))
        for mark in ("# BEGIN user namespace", "# END user namespace")
    )
    return lines[:begin] + lines[end + 1 :]


def contents(name: str) -> str:
    """A unit as it is to be installed, for this installation on this system."""
    lines = (sources() / name).read_text(encoding="utf-8").splitlines()
    if not has_user_namespaces():
        lines = _without_namespaces(lines)
    lines = [line.replace(DAEMON_IN_UNIT, daemon_command()) for line in lines]
    return "\n".join([MARK, *lines, ""])


def install(*, force: bool = False) -> list[Path]:
    """Write both units; the paths written. UnitNotOursError when one is there that is not ours."""
    directory = unit_directory()
    wanted = {directory / name: contents(name) for name in NAMES}
    for path in wanted:
        if not force and path.exists() and not _is_ours(path):
            raise UnitNotOursError(path)
    directory.mkdir(parents=True, exist_ok=True)
    for path, text in wanted.items():
        new = path.with_suffix(path.suffix + ".new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    return list(wanted)


def uninstall(*, force: bool = False) -> list[Path]:
    """Remove both units and what enabled them; the paths removed. UnitNotOursError when one is not ours."""
    directory = unit_directory()
    present = [directory / name for name in NAMES if os.path.lexists(directory / name)]
    for path in present:
        if not force and not _is_ours(path):
            raise UnitNotOursError(path)
    enabled = [
        link
        for name in NAMES
        for link in directory.glob(f"*.wants/{name}")
        if link.is_symlink() and os.path.basename(os.readlink(link)) == name
    ]
    for path in (*enabled, *present):
        path.unlink()
    return [*enabled, *present]


def _is_ours(path: Path) -> bool:
    try:
        return path.read_text(encoding="utf-8", errors="replace").startswith(MARK)
    except OSError:
        return False
