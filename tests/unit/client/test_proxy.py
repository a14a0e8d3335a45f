"""Both clients and the real daemon with a proxy between that cuts at every message boundary in turn.

Whatever is cut: each node is made once, and its effect happens exactly once per generation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from claimdag_client import connect
from claimdag_client._async.client import Client
from claimdag_client._sync.client import connect as connect_sync
from tests.support.daemon import Client as Raw
from tests.support.daemon import Daemon, running
from tests.unit.client.proxy import Proxy

pytestmark = pytest.mark.slow

NODES = 2


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    import shutil
    import tempfile

    directory = Path(tempfile.mkdtemp(prefix="cd-", dir="/tmp"))
    with running(directory / "claimdag") as daemon:
        yield daemon
    shutil.rmtree(directory, ignore_errors=True)


class Effects:
    """What was done in the world, by node and generation, and what the daemon says of it."""

    def __init__(self, daemon: Daemon) -> None:
        self.done: Counter[tuple[str, int]] = Counter()
        with Raw(daemon.path) as raw:
            self.nodes_before = raw.ask("stats")["nodes"]
            self.seq_before = raw.ask("stats")["seq"]

    def check(self, daemon: Daemon, made: int) -> None:
        with Raw(daemon.path) as raw:
            stats = raw.ask("stats")
            entries = raw.ask("log", **{"from": self.seq_before + 1})["entries"]
        assert stats["nodes"] - self.nodes_before == made
        assert set(self.done.values()) <= {1}, self.done
        completed = [(n["id"], n["gen"]) for e in entries if e["op"] == "complete" for n in e["nodes"]]
        assert Counter(completed) == self.done
        assert len({id for id, _ in self.done}) == made
        assert sum(count for status, count in stats["statuses"].items() if status != "done") == 0


async def a_session(dag: Client, effects: Effects, actor: str, nodes: int = NODES) -> None:
    """Make some nodes and work them all."""
    for n in range(nodes):
        await dag.upsert(summary=str(n))
    async for claim in dag.work(actor, until_empty=True):
        async with claim:
            await claim.running()
            effects.done[claim.id, claim.gen] += 1


@pytest.mark.anyio
async def test_session_cut_at_every_message_boundary_does_everything_once(
    daemon: Daemon, short_dir: Path, anyio_backend_name: str
) -> None:
    """One cut at each boundary of a session in turn, from the first request after hello to the last answer."""
    at, total = 3, 4
    while at <= total:
        effects = Effects(daemon)
        with Proxy(short_dir / "proxy", daemon.path, lambda n, at=at: n == at) as proxy:
            with anyio.fail_after(10):
                async with connect(proxy.path) as dag:
                    await a_session(dag, effects, "a")
            total = max(total, proxy.passed if not proxy.cuts else at + 1)
            cuts = proxy.cuts
        effects.check(daemon, NODES)
        at += 1
        if not cuts:
            break
    assert at > 15


@pytest.mark.anyio
async def test_workers_cut_again_and_again_with_delays_do_everything_once(daemon: Daemon, short_dir: Path) -> None:
    """Several actors on one connection, late messages, a cut at every 23rd (a reconnect of three takes a dozen)."""
    effects = Effects(daemon)
    with Proxy(short_dir / "proxy", daemon.path, lambda n: n > 2 and n % 23 == 0, delay_s=0.004) as proxy:
        with anyio.fail_after(20):
            async with connect(proxy.path) as dag, anyio.create_task_group() as tasks:
                for name in "abc":
                    tasks.start_soon(a_session, dag, effects, name, 6)
        assert proxy.cuts > 3
    effects.check(daemon, 18)


def test_blocking_session_cut_again_and_again_does_everything_once(daemon: Daemon, short_dir: Path) -> None:
    """The blocking client keeps the same promise."""
    for every in (9, 10, 11, 12, 13):
        effects = Effects(daemon)
        with (
            Proxy(short_dir / "proxy", daemon.path, lambda n, every=every: n > 2 and n % every == 0) as proxy,
            connect_sync(proxy.path) as dag,
        ):
            for n in range(NODES):
                dag.upsert(summary=str(n))
            for claim in dag.work("a", until_empty=True):
                with claim:
                    claim.running()
                    effects.done[claim.id, claim.gen] += 1
        assert proxy.cuts
        effects.check(daemon, NODES)
