"""Which directories are refused, and that a missing one is made for its owner alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from claimdagd.paths import UnsafePathError
from claimdagd.server.host.directory import open_directory

UID = os.geteuid()
as_root = pytest.mark.skipif(UID != 0, reason="only root can make files of another user")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o027])
def test_directory_that_is_missing_is_made_private_under_any_umask(short_dir: Path, umask: int) -> None:
    """Also the directories above it, as far as the umask has a say (law 7.9)."""
    path = short_dir / "a" / "claimdag"
    before = os.umask(umask)
    try:
        os.close(open_directory(str(path), UID))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_directory_that_others_may_read_is_made_private(short_dir: Path) -> None:
    """Nobody else could have written there, so it can be trusted from now on."""
    short_dir.chmod(0o755)
    os.close(open_directory(str(short_dir), UID))
    assert stat.S_IMODE(short_dir.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("mode", "remedy"),
    [(0o770, "chmod 700"), (0o702, "chmod 700"), (0o777, "chmod 700"), (0o1777, "name one of your own")],
)
def test_directory_that_others_may_write_is_refused(short_dir: Path, mode: int, remedy: str) -> None:
    """It is left as it was, and the remedy is named; everybody's directory, such as /tmp, is not to be taken away."""
    short_dir.chmod(mode)
    with pytest.raises(UnsafePathError, match=remedy):
        open_directory(str(short_dir), UID)
    assert stat.S_IMODE(short_dir.stat().st_mode) == mode


def test_directory_below_one_that_everyone_may_write_is_refused(short_dir: Path) -> None:
    """Whoever may rename the directory away may put another in its place; where the sticky bit is set nobody can."""
    above = short_dir / "above"
    above.mkdir()
    (above / "claimdag").mkdir(mode=0o700)
    above.chmod(0o777)
    with pytest.raises(UnsafePathError, match="not sticky"):
        open_directory(str(above / "claimdag"), UID)
    above.chmod(0o1777)
    os.close(open_directory(str(above / "claimdag"), UID))


def test_symbolic_link_in_the_directory_s_place_is_never_followed(short_dir: Path) -> None:
    """Not even to a good one."""
    (short_dir / "good").mkdir(mode=0o700)
    (short_dir / "link").symlink_to(short_dir / "good")
    (short_dir / "dangling").symlink_to(short_dir / "nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(UnsafePathError, match="symbolic link"):
            open_directory(str(short_dir / name), UID)
    assert not (short_dir / "nowhere").exists()


def test_file_in_the_directory_s_place_is_refused(short_dir: Path) -> None:
    """And left alone."""
    (short_dir / "file").write_text("mine")
    with pytest.raises(UnsafePathError, match="not a directory"):
        open_directory(str(short_dir / "file"), UID)
    assert (short_dir / "file").read_text() == "mine"


@as_root
def test_directory_of_another_user_is_refused(short_dir: Path) -> None:
    """As a directory that was planted in /tmp before us is."""
    planted = short_dir / "claimdag"
    planted.mkdir(mode=0o700)
    os.chown(planted, 65534, 65534)
    with pytest.raises(UnsafePathError, match="belongs to user 65534"):
        open_directory(str(planted), UID)
