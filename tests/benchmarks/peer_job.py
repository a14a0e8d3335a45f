"""The job that the peers' workers do, which is nothing, and huey's queue of it: both are found by this name."""

from __future__ import annotations

from typing import Any


def nothing() -> None:
    """The job."""


def huey_queue(address: str) -> tuple[Any, Any]:
    """The queue and its one task; nothing is done."""
    import logging

    from huey import RedisHuey  # type: ignore[import-untyped]

    logging.getLogger("huey").setLevel(logging.ERROR)
    queue = RedisHuey("bench", url=f"unix://{address}")
    return queue, queue.task(name="nothing")(nothing)
