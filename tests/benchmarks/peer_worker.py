"""One worker of one of the peers: claims and completes COUNT jobs through that peer's Python client.

`python -m tests.benchmarks.peer_worker PEER ADDRESS ACTOR COUNT`: says `ready`, waits for a line on stdin, works, and
prints the seconds that it took, the jobs, and its own CPU seconds. Each function here is how a user of that peer would
write a worker that leases a job, and marks it done once it is; the job itself is nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from tests.benchmarks.peer_job import huey_queue

#: Take the first job that is ready and lease it; and mark it done, if it still is ours.
LUA_CLAIM = """
local id = redis.call('ZPOPMIN', KEYS[1])[1]
if not id then return nil end
local gen = redis.call('HINCRBY', KEYS[3], id, 1)
redis.call('ZADD', KEYS[2], ARGV[1], id)
return {id, gen}
"""
LUA_COMPLETE = """
if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[4], ARGV[1], 'done')
return 1
"""
SQL_CLAIM = """
UPDATE jobs SET status = 'claimed', assignee = ?, gen = gen + 1, deadline = ?
WHERE id = (SELECT id FROM jobs WHERE status = 'ready' ORDER BY priority DESC, id LIMIT 1) RETURNING id, gen
"""
SQL_COMPLETE = "UPDATE jobs SET status = 'done', assignee = NULL WHERE id = ? AND gen = ?"
PG_CLAIM = """
UPDATE jobs SET status = 'claimed', assignee = %s, gen = gen + 1, deadline = %s
WHERE id = (SELECT id FROM jobs WHERE status = 'ready' ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, gen
"""
PG_COMPLETE = "UPDATE jobs SET status = 'done', assignee = NULL WHERE id = %s AND gen = %s"

#: Does as many jobs as it is told, over a connection that stands already.
Work = Callable[[int], None]


def each(work: Callable[[], object]) -> Work:
    """One by one."""

    def works(count: int) -> None:
        for _ in range(count):
            work()

    return works


def claimdag_client(address: str, actor: str) -> Work:
    """claimdagd through its own blocking connection."""
    from claimdag_client._transport.endpoint import Endpoint
    from claimdag_client._transport.transport import connect

    connection = connect(Endpoint(address, start=False))
    held: dict[str, Any] = connection.request("claim_next", actor=actor)

    def work() -> None:
        nonlocal held
        held = connection.request("complete", id=held["id"], gen=held["gen"], actor=actor, next={})["next"]

    return each(work)


def claimdag_client_two(address: str, actor: str) -> Work:
    """The same, in two round trips."""
    from claimdag_client._transport.endpoint import Endpoint
    from claimdag_client._transport.transport import connect

    connection = connect(Endpoint(address, start=False))

    def work() -> None:
        held = connection.request("claim_next", actor=actor)
        connection.request("complete", id=held["id"], gen=held["gen"], actor=actor)

    return each(work)


def beanstalkd(address: str, _actor: str) -> Work:
    import greenstalk

    client = greenstalk.Client(address)
    return each(lambda: client.delete(client.reserve()))


def redis(address: str, _actor: str) -> Work:
    import redis

    client = redis.Redis(unix_socket_path=address)
    claim, complete = client.register_script(LUA_CLAIM), client.register_script(LUA_COMPLETE)
    keys = ["ready", "leases", "gens", "status"]

    def work() -> None:
        node_id, gen = claim(keys=keys, args=[time.time() + 900])
        complete(keys=keys, args=[node_id, gen])

    return each(work)


def sqlite(address: str, actor: str) -> Work:
    import sqlite3

    db = sqlite3.connect(address, isolation_level=None, timeout=30)
    db.execute("PRAGMA synchronous = NORMAL")

    def work() -> None:
        node_id, gen = db.execute(SQL_CLAIM, (actor, time.time() + 900)).fetchone()
        db.execute(SQL_COMPLETE, (node_id, gen))

    return each(work)


def postgres(address: str, actor: str) -> Work:
    import psycopg

    db = psycopg.connect(address, autocommit=True)
    db.execute("SET synchronous_commit = off")

    def work() -> None:
        found = db.execute(PG_CLAIM, (actor, time.time() + 900), prepare=True).fetchone()
        assert found is not None
        db.execute(PG_COMPLETE, found, prepare=True)

    return each(work)


def huey(address: str, _actor: str) -> Work:
    queue, _task = huey_queue(address)

    def work() -> None:
        queue.execute(queue.dequeue())

    return each(work)


def rq(address: str, _actor: str) -> Work:
    import redis
    from rq import Queue, SimpleWorker

    connection = redis.Redis(unix_socket_path=address)
    worker = SimpleWorker([Queue("bench", connection=connection)], connection=connection)

    def works(count: int) -> None:
        worker.work(burst=True, max_jobs=count, logging_level="ERROR")

    return works


PEERS: dict[str, Callable[[str, str], Work]] = {
    "client": claimdag_client,
    "client-two": claimdag_client_two,
    "beanstalkd": beanstalkd,
    "redis": redis,
    "sqlite": sqlite,
    "postgres": postgres,
    "huey": huey,
    "rq": rq,
}


def main() -> None:
    peer, address, actor, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    work = PEERS[peer](address, actor)
    work(1)  # scripts are loaded, statements prepared
    print("ready", flush=True)
    sys.stdin.readline()
    began, cpu = time.perf_counter(), time.process_time()
    work(count)
    print(time.perf_counter() - began, count, time.process_time() - cpu, flush=True)


if __name__ == "__main__":
    main()
