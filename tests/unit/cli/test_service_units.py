"""The systemd units: put in place for this user with this installation's daemon, and only ours taken away."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from claimdag_client.cli import systemd_units as service_units

from .conftest import Ran

Cli = Callable[..., Ran]


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "systemd" / "user"


def test_install_puts_both_units_in_place_and_says_what_next(cli: Cli, units: Path) -> None:
    """The service starts the claimdagd of this installation; doing it twice changes nothing."""
    ran = cli("install-service")
    assert ran.status == 0
    assert "systemctl --user enable --now claimdagd.socket" in ran.out
    assert sorted(path.name for path in units.iterdir()) == ["claimdagd.service", "claimdagd.socket"]
    service = (units / "claimdagd.service").read_text()
    assert f"\n  {service_units.daemon_command()} --dir %t/claimdag\n" in service
    assert service_units.DAEMON_IN_UNIT not in service
    assert cli("install-service").status == 0


@pytest.mark.parametrize("name", ["kernel/unprivileged_userns_clone", "user/max_user_namespaces"])
def test_unit_without_user_namespaces_leaves_out_what_needs_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system lets nobody have a user namespace the daemon would not start with that part of the hardening."""
    knob = tmp_path / name
    knob.parent.mkdir()
    assert service_units.has_user_namespaces(tmp_path)
    knob.write_text("0\n")
    assert not service_units.has_user_namespaces(tmp_path)
    monkeypatch.setattr(service_units, "has_user_namespaces", lambda: False)
    text = service_units.contents("claimdagd.service")
    assert "PrivateUsers" not in text
    assert "NoNewPrivileges=yes" in text
    assert "[Install]" in text


def test_a_unit_of_somebody_else_is_left_alone(cli: Cli, units: Path) -> None:
    """Unless that is asked for."""
    units.mkdir(parents=True)
    theirs = units / "claimdagd.socket"
    theirs.write_text("[Socket]\n")
    for verb in ("install-service", "uninstall-service"):
        ran = cli(verb)
        assert ran.status == 1
        assert "--force" in ran.err
        assert theirs.read_text() == "[Socket]\n"
    assert cli("install-service", "--force").status == 0
    assert theirs.read_text().startswith(service_units.MARK)


def test_uninstall_removes_the_units_and_what_enabled_them(cli: Cli, units: Path) -> None:
    """Nothing of ours is left, and nothing is no error."""
    cli("install-service")
    wants = units / "sockets.target.wants"
    wants.mkdir()
    (wants / "claimdagd.socket").symlink_to(units / "claimdagd.socket")
    ran = cli("uninstall-service")
    assert ran.status == 0
    assert "systemctl --user stop" in ran.out
    assert list(units.iterdir()) == [wants]
    assert list(wants.iterdir()) == []
    assert "nothing of claimdag's" in cli("uninstall-service").out


def test_a_path_is_written_as_systemd_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blanks, percent and dollar signs in the interpreter's place."""
    place = tmp_path / "my 100% $venv"
    place.mkdir()
    monkeypatch.setattr(sys, "executable", str(place / "python3"))
    assert service_units.daemon_command() == f'"{tmp_path}/my 100%% $$venv/python3" -P -m claimdagd'
    (place / "claimdagd").touch(mode=0o755)
    assert service_units.daemon_command() == f'"{tmp_path}/my 100%% $$venv/claimdagd"'


def test_graph_by_name_gets_units_of_its_own(cli: Cli, units: Path) -> None:
    """The templates are put in place once; an uninstall takes back what one graph, or all, had."""
    ran = cli("install-service", "--graph", "site")
    assert ran.status == 0
    assert "enable --now claimdagd@site.socket" in ran.out
    assert sorted(path.name for path in units.iterdir()) == ["claimdagd@.service", "claimdagd@.socket"]
    wants = units / "sockets.target.wants"
    wants.mkdir()
    for graph in ("site", "other"):
        (wants / f"claimdagd@{graph}.socket").symlink_to("../claimdagd@.socket")
    assert cli("uninstall-service", "--graph", "site").status == 0
    assert [path.name for path in wants.iterdir()] == ["claimdagd@other.socket"]
    assert (units / "claimdagd@.socket").exists()
    assert cli("uninstall-service", "--graph", "other").status == 0
    assert list(wants.iterdir()) == []
    assert [path.name for path in units.iterdir()] == ["sockets.target.wants"]
    assert cli("install-service", "--graph", "a/b").status == 2


def test_templates_are_the_units_of_the_default_graph_but_for_the_name() -> None:
    """Whatever hardening one has the other has."""
    for kind in ("socket", "service"):
        plain, template = (service_units.contents(f"claimdagd{at}.{kind}") for at in ("", "@"))
        as_plain = template.replace("/graphs/%i", "").replace("@%i.", ".").replace("@.", ".").replace(", graph %i", "")

        def settings(text: str) -> list[str]:
            return [line for line in text.splitlines() if not line.startswith("#")]

        assert settings(as_plain) == settings(plain)
