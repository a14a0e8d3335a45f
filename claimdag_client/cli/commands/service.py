"""Commands install-service and uninstall-service: the daemon under systemd, for this user."""

from __future__ import annotations

from claimdag_client.cli import systemd_units as service_units
from claimdag_client.cli.command import Command
from claimdag_client.cli.render.text import clean
from claimdag_client.cli.session import DONE, Failed, Session, UsageError
from claimdagd.paths import UnsafePathError, check_graph_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path


def _guarded(act: Callable[..., list[Path]], force: bool, graph: str | None) -> list[Path]:
    try:
        if graph:
            check_graph_name(graph)
        return act(force=force, graph=graph)
    except UnsafePathError as exc:
        raise UsageError(str(exc)) from None
    except service_units.UnitNotOursError as exc:
        raise Failed(str(exc), remedy="look at it, then use --force") from None
    except OSError as exc:
        where = f"{exc.filename}: " if exc.filename else ""
        raise Failed(f"{where}{exc.strerror or exc}") from None


def _install(args: argparse.Namespace, session: Session) -> int:
    graph = session.place.graph
    for path in _guarded(service_units.install, bool(args.force), graph):
        session.say(f"wrote {clean(path)}")
    session.say("next:")
    session.say("  systemctl --user daemon-reload")
    session.say(f"  systemctl --user enable --now claimdagd{f'@{graph}' if graph else ''}.socket")
    session.say("and, for the graph to stay when you are logged out: loginctl enable-linger")
    return DONE


def _uninstall(args: argparse.Namespace, session: Session) -> int:
    graph = session.place.graph
    removed = _guarded(service_units.uninstall, bool(args.force), graph)
    if not removed:
        session.say(f"nothing of claimdag's is in {clean(service_units.unit_directory())}")
        return DONE
    for path in removed:
        session.say(f"removed {clean(path)}")
    session.say("next:")
    name = f"claimdagd@{graph}" if graph else "claimdagd"
    session.say(f"  systemctl --user stop {name}.socket {name}.service")
    session.say("  systemctl --user daemon-reload")
    return DONE


COMMANDS = {
    "install-service": Command(
        run=_install,
        flags={"force": ""},
        about="Put systemd units in place for this user, by which the first connection starts the daemon.",
        examples=("claimdag install-service", "claimdag install-service --graph website"),
        starts=False,
    ),
    "uninstall-service": Command(
        run=_uninstall,
        flags={"force": ""},
        about="Remove the units that install-service put in place.",
        examples=("claimdag uninstall-service",),
        starts=False,
    ),
}
