"""A real `systemd --user` in namespaces of its own, through which the project's units are put: a program for a test.

`python user_manager.py` moves itself into a control group of its own, then into new pid and mount namespaces with a
fresh /run, starts the user manager there, goes through the life of the daemon, and prints one JSON object of what it
saw. Must leave nothing behind outside its namespaces but the empty control group, which the test removes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

GROUP = "claimdag-test"
HOME = Path("/run/claimdag-test-home")
RUNTIME = Path("/run/user/0")
SOCKET = RUNTIME / "claimdag" / "sock"
WAIT_S = 20.0
WATCHDOG_S = 3
#: The directories of the two kinds of control groups in which systemd keeps its own, where they are mounted.
HIERARCHIES = ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")


def control_groups() -> list[Path]:
    """Where this program's own control groups are, or would be."""
    own = {line.split(":")[1]: line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines()}
    found = []
    for base in HIERARCHIES:
        key = "name=systemd" if base.endswith("/systemd") else ""
        path = Path(base + own.get(key, "/")) / GROUP
        if (path.parent / "cgroup.procs").exists():
            found.append(path)
    return found


def outside() -> None:
    """Be in a control group and namespaces of one's own, then go on inside."""
    for path in control_groups():
        path.mkdir(exist_ok=True)
        (path / "cgroup.procs").write_text(str(os.getpid()))
    os.execvp(
        "unshare",
        ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", sys.executable, __file__, "inside"],
    )


def inside() -> None:
    """As pid 1 of the new namespace: a machine's /run, a user manager, and the story."""
    run("mount", "--make-rprivate", "/")
    run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run")
    # What says that systemd runs, and the place where it builds the sandboxes of services.
    for name in ("system", "unit-root"):
        Path("/run/systemd", name).mkdir(parents=True)
    RUNTIME.mkdir(parents=True, mode=0o700)
    HOME.mkdir()
    for name in [name for name in os.environ if name.startswith(("CLAIMDAG_", "XDG_", "DBUS_", "PYTEST_"))]:
        del os.environ[name]
    os.environ.update(HOME=str(HOME), XDG_RUNTIME_DIR=str(RUNTIME))
    with open("/run/manager.log", "wb") as log:
        manager = subprocess.Popen(["systemd", "--user"], stdout=log, stderr=log)
    seen: dict[str, Any] = {}
    try:
        until(lambda: systemctl("is-system-running").strip() in ("running", "degraded"), "a user manager")
        tell(seen)
    except Exception as exc:
        seen["failure"] = f"{type(exc).__name__}: {exc}"
        seen["status"] = systemctl("status", "claimdagd.service", "claimdagd.socket")
    finally:
        manager.kill()
        manager.wait()
    sys.stdout.write(json.dumps(seen) + "\n")


def tell(seen: dict[str, Any]) -> None:
    """The story, step by step; what is noteworthy goes into `seen`."""
    claimdag = [sys.executable, "-P", "-m", "claimdag_client.cli"]
    seen["installed"] = run(*claimdag, "install-service").stdout
    units = HOME / ".config" / "systemd" / "user"
    dropin = units / "claimdagd.service.d" / "test.conf"
    dropin.parent.mkdir()
    # The checkout and its environment may be in /tmp, of which the service gets one of its own.
    root = Path(__file__).parents[2]
    shown = {str(path) for path in (root, Path(sys.prefix)) if str(path).startswith(("/tmp/", "/var/tmp/"))}
    lines = [f"BindReadOnlyPaths={path}" for path in sorted(shown)]
    dropin.write_text("\n".join(["[Service]", f"WatchdogSec={WATCHDOG_S}", *lines, ""]))
    systemctl("daemon-reload")
    paths = [str(units / name) for name in ("claimdagd.socket", SERVICE)]
    verified = run("systemd-analyze", "--user", "verify", *paths)
    seen["verify"] = verified.stdout + verified.stderr
    security = run("systemd-analyze", "--user", "security", "--no-pager", SERVICE).stdout
    seen["exposure"] = float(security.split("Overall exposure level for")[1].split(":")[1].split()[0])

    systemctl("set-environment", "GITHUB_TOKEN=secret", "PYTHONPATH=/nonexistent")
    systemctl("enable", "--now", "claimdagd.socket")
    seen["before"] = [systemctl("is-active", name).strip() for name in ("claimdagd.socket", SERVICE)]
    seen["modes"] = [oct(path.stat().st_mode & 0o7777) for path in (SOCKET.parent, SOCKET)]
    node = ask("upsert", summary="kept")["id"]
    claim = ask("claim", id=node, actor="holder")
    seen["after_first_connection"] = systemctl("is-active", SERVICE).strip()
    seen["status_line"] = show("StatusText")
    environ = Path(f"/proc/{show('MainPID')}/environ").read_bytes().split(b"\0")
    seen["environment"] = [entry.partition(b"=")[0].decode() for entry in environ if entry]

    first = int(show("MainPID"))
    os.kill(first, signal.SIGKILL)
    seen["killed"] = {"pid_changed": pid_other_than(first) != first, "node": get(node)}
    hung = int(show("MainPID"))
    stopped_at = time.monotonic()
    os.kill(hung, signal.SIGSTOP)
    seen["hung"] = {"pid_changed": pid_other_than(hung) != hung, "after_s": time.monotonic() - stopped_at}
    seen["hung"]["node"] = get(node)
    seen["restarts"] = int(show("NRestarts"))

    systemctl("restart", SERVICE)
    seen["restarted"] = get(node)
    inode = SOCKET.stat().st_ino
    systemctl("stop", SERVICE)
    seen["stopped"] = systemctl("is-active", SERVICE).strip()
    seen["result"] = show("Result")
    seen["socket_kept"] = SOCKET.stat().st_ino == inode
    seen["started_again"] = get(node)
    seen["claim"] = {"gen": claim["gen"], "actor": "holder"}
    seen["state_files"] = sorted(path.name for path in SOCKET.parent.iterdir())
    systemctl("disable", "--now", "claimdagd.socket")
    systemctl("stop", SERVICE)
    seen["uninstalled"] = run(*claimdag, "uninstall-service").stdout
    seen["left"] = sorted(str(path.relative_to(units)) for path in units.rglob("*") if "service.d" not in str(path))


SERVICE = "claimdagd.service"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S * 2, stdin=subprocess.DEVNULL)


def systemctl(*arguments: str) -> str:
    return run("systemctl", "--user", "--no-pager", *arguments).stdout


def show(name: str) -> str:
    return systemctl("show", "--value", "-p", name, SERVICE).strip()


def pid_other_than(pid: int) -> int:
    until(lambda: show("MainPID") not in ("0", str(pid)), f"another daemon than {pid}")
    return int(show("MainPID"))


def ask(op: str, **fields: Any) -> Any:
    """One request on a connection of its own; what a daemon that is just going cannot answer is asked of the next."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(WAIT_S)
        sock.connect(str(SOCKET))
        sock.sendall(json.dumps({"op": op, **fields}).encode() + b"\n")
        with sock.makefile("rb") as answers:
            return json.loads(answers.readline())["ok"]


def get(node: str) -> list[Any]:
    found = ask("get", id=node)
    return [found["summary"], found["assignee"], found["gen"]]


def until(condition: Callable[[], Any], what: str) -> None:
    give_up_at = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{what} did not come about")
        time.sleep(0.05)


if __name__ == "__main__":
    inside() if sys.argv[1:] == ["inside"] else outside()
