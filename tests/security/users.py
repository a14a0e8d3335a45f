"""Code run as another user of this machine, for tests that are root. Nothing is left behind: no account is made.

The interpreter and the project may lie where only root can read, so all that will be needed is imported before the
uid is given up.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
#: Uids that no account has: nobody's files are theirs.
ALICE, MALLORY = 54_321, 54_322

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

_PRELUDE = """
import importlib, os, pkgutil, sys
sys.path.insert(0, {root!r})
import encodings.idna, json, socket, subprocess, tempfile, traceback
for package in {packages!r}:
    module = importlib.import_module(package)
    for info in pkgutil.walk_packages(module.__path__, package + "."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)
if "claimdagd" in {packages!r}:
    import anyio._backends._asyncio
os.setgroups([])
os.setgid({uid})
os.setuid({uid})
"""


def as_user(uid: int, code: str, *packages: str, environ: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """A Python process of user `uid` that runs `code` with `packages` imported."""
    prelude = _PRELUDE.format(root=str(ROOT), packages=packages, uid=uid)
    return subprocess.Popen(
        [sys.executable, "-I", "-c", prelude + code],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/",
        env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", **(environ or {})},
    )  # fmt: skip


def said(process: subprocess.Popen[str], within: float = 30.0) -> tuple[int, str, str]:
    """Its exit status, and what it wrote."""
    try:
        out, err = process.communicate(timeout=within)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, out, err


def client(uid: int, *argv: str, environ: dict[str, str] | None = None) -> tuple[int, str, str]:
    """`claimdag` as user `uid`; it never starts a daemon."""
    code = f"from claimdag_client.cli.main import main\nsys.exit(main({['--no-start', *argv]!r}))"
    return said(as_user(uid, code, "claimdag_client", environ=environ))


def daemon(uid: int, *argv: str, environ: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """`claimdagd` as user `uid`."""
    code = f"from claimdagd.main import main\nsys.exit(main({['--no-uvloop', *argv]!r}))"
    return as_user(uid, code, "claimdagd", environ=environ)
