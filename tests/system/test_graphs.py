"""One user, several projects: each with a daemon, socket and directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import claimdag_client.sync
from tests.support.daemon import running

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def claimdag(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs `claimdag` in a directory below a home of its own; the daemons that it starts are ended."""
    home = short_dir / "h"
    home.mkdir(mode=0o700)
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}

    def run(*arguments: str, cwd: Path = home, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "claimdag_client.cli.main", *arguments]
        environment = {**environ, "PYTHONPATH": os.getcwd(), **more}
        return subprocess.run(command, env=environment, cwd=cwd, text=True, capture_output=True, check=False)

    yield run
    for sock in [*home.rglob("sock")]:
        run("--no-start", "--socket", str(sock), "shutdown")


def project(home: Path, name: str, text: str | None = None) -> Path:
    path = home / name / "src"
    path.mkdir(parents=True)
    (path.parent / ".claimdag.toml").write_text(f'graph = "{name}"\n' if text is None else text)
    return path


def test_projects_do_not_see_each_other_nor_the_default_graph(short_dir: Path, claimdag: Run) -> None:
    """By project file, by --graph and by CLAIMDAG_GRAPH the same graph is meant; without any, the default one
    (law 11.1, 11.4)."""
    home = short_dir / "h"
    one, two = project(home, "one"), project(home, "two")
    assert claimdag("upsert", "--summary", "of one", cwd=one).returncode == 0
    assert claimdag("--graph", "two", "upsert", "--summary", "of two").returncode == 0
    assert claimdag("upsert", "--summary", "of nobody").returncode == 0

    def summaries(*arguments: str, **more: object) -> list[str]:
        listed = claimdag(*arguments, "list", "--json", **more)  # type: ignore[arg-type]
        return [json.loads(line)["summary"] for line in listed.stdout.splitlines()]

    assert summaries(cwd=one) == summaries(cwd=one.parent) == summaries("--graph", "one") == ["of one"]
    assert summaries(cwd=two) == summaries("--graph=two", cwd=one) == summaries(CLAIMDAG_GRAPH="two") == ["of two"]
    assert summaries() == ["of nobody"]
    assert "graph one (" in claimdag("status", cwd=one).stdout
    foreign = json.loads(claimdag("list", "--json", cwd=one).stdout)["id"]
    refused = claimdag("get", foreign, cwd=two)
    assert refused.returncode == 1
    assert "asked was graph two (" in refused.stderr
    state = home / ".local/state/claimdag"
    assert {path.parent.relative_to(state) for path in state.rglob("sock")} == {
        Path("."), Path("graphs/one"), Path("graphs/two")
    }  # fmt: skip


def test_project_file_that_is_malformed_is_refused_by_every_command(short_dir: Path, claimdag: Run) -> None:
    """With the file's name, status 69, and nothing started; --graph goes past it."""
    inside = project(short_dir / "h", "one", "graph = ???")
    refused = claimdag("list", cwd=inside)
    assert refused.returncode == 69
    assert ".claimdag.toml" in refused.stderr
    assert "not valid TOML" in refused.stderr
    assert not (short_dir / "h" / ".local").exists()
    assert claimdag("--graph", "one", "list", cwd=inside).returncode == 0


def test_daemon_serves_the_graph_that_it_is_told(short_dir: Path) -> None:
    """`claimdagd --graph NAME` is in DIR/graphs/NAME, says so, and a client connects by the name."""
    with running(short_dir / "graphs/site", "--dir", str(short_dir), "--graph", "site") as daemon:
        with claimdag_client.sync.connect(directory=str(short_dir), graph="site") as client:
            assert client.daemon.name == "site"
            client.upsert(summary="x")
        assert (short_dir / "graphs/site/journal.jsonl").exists()
        assert not (short_dir / "journal.jsonl").exists()
        daemon.terminate()
    assert "graph site" in daemon.stderr


def test_init_binds_a_project_and_graphs_lists_all(short_dir: Path, claimdag: Run) -> None:
    """By the directory's name or one that is given; live or not, each graph is listed with its counts."""
    site, tool = short_dir / "h" / "my site", short_dir / "h" / "tool"
    for path in (site, tool):
        path.mkdir()
    made = claimdag("init", cwd=site)
    assert (made.returncode, made.stderr) == (0, "")
    assert (site / ".claimdag.toml").read_text() == 'graph = "my-site"\n'
    assert claimdag("init", "tools", cwd=tool).returncode == 0
    assert "already" in claimdag("init", "tools", cwd=tool).stdout
    other = claimdag("init", "another", cwd=tool)
    assert other.returncode == 1
    assert "names another graph" in other.stderr
    assert claimdag("init", "a/b", cwd=tool).returncode == 2
    for path in (site, tool):
        assert claimdag("upsert", "--summary", "x", cwd=path).returncode == 0
    assert claimdag("next", "--actor", "a", cwd=tool).returncode == 0
    assert claimdag("--no-start", "shutdown", cwd=tool).returncode == 0
    told = {graph["name"]: graph for graph in map(json.loads, claimdag("graphs", "--json").stdout.splitlines())}
    assert told.keys() == {None, "my-site", "tools"}
    assert (told["my-site"]["live"], told["my-site"]["ready"], told["my-site"]["unfinished"]) == (True, 1, 1)
    assert (told["tools"]["live"], told["tools"]["claimed"], told["tools"]["finished"]) == (False, 1, 0)
    assert (told[None]["live"], told[None]["unfinished"]) == (False, 0)
    shown = claimdag("graphs", cwd=site).stdout
    assert [line.split()[:2] for line in shown.splitlines() if line.startswith("*")] == [["*", "my-site"]]
    assert "graph my-site stays" in claimdag("init", "--remove", "--yes", cwd=site).stdout
    assert not (site / ".claimdag.toml").exists()


def test_init_remove_leaves_a_project_file_that_somebody_changed(short_dir: Path, claimdag: Run) -> None:
    """It takes back what it wrote, and nothing else."""
    inside = project(short_dir / "h", "one", 'graph = "one"  # ours\n')
    claimdag("init", "--remove", "--yes", cwd=inside.parent)
    assert (inside.parent / ".claimdag.toml").exists()


@pytest.mark.slow
def test_agents_of_two_projects_are_never_handed_the_others_work(short_dir: Path, claimdag: Run) -> None:
    """Two projects, four agents, 300 nodes each."""
    home = short_dir / "h"
    projects = {name: project(home, name) for name in ("one", "two")}
    for name, path in projects.items():
        plan = path / "plan.json"
        plan.write_text(json.dumps({"nodes": [{"ref": f"n{i}", "summary": f"{name} {i}"} for i in range(300)]}))
        assert claimdag("submit", str(plan), cwd=path).returncode == 0
    command = ("work", "--until-empty", "-n", "4", "--", "sh", "-c", 'echo "$CLAIMDAG_SUMMARY" >> done.txt')
    agents = [(name, number) for name in projects for number in range(2)]

    def work(agent: tuple[str, int]) -> subprocess.CompletedProcess[str]:
        name, number = agent
        verb, *rest = command
        return claimdag(verb, "--assignee", f"agent-{number}", *rest, cwd=projects[name])

    with ThreadPoolExecutor(len(agents)) as pool:
        for ran in pool.map(work, agents):
            assert ran.returncode == 0, ran.stderr
    for name, path in projects.items():
        assert sorted((path / "done.txt").read_text().split("\n")[:-1]) == sorted(f"{name} {i}" for i in range(300))
