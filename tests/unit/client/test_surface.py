"""The one declaration of both clients' methods, and what each client makes of it."""

from __future__ import annotations

import inspect
from typing import Any

import anyio
import pytest

from claimdag_client._protocol import requests
from claimdag_client._protocol.claim_base import Step
from claimdag_client._protocol.held_claim import HeldClaim
from claimdag_client._protocol.requests import Request
from claimdag_client._protocol.surface import (
    AsyncClaimSurface,
    AsyncSurface,
    BlockingClaimSurface,
    BlockingSurface,
    ClaimStep,
    ClaimSurface,
    Surface,
)
from claimdag_client.errors import ClaimLost
from claimdagd import wire


class Asking(AsyncSurface[str]):
    async def ask(self, request: Request[Any]) -> Any:
        return request

    def _claim(self, request: Request[wire.Claimed]) -> str:
        return f"pending {request.op}"


class Waiting(BlockingSurface[str]):
    def ask(self, request: Request[Any]) -> Any:
        return request

    def _claim(self, request: Request[wire.Claimed]) -> str:
        return f"claim {request.op}"


OPERATIONS = [name for name in vars(Surface) if not name.startswith("_")]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_a_method_of_both_kinds(name: str) -> None:
    """With the parameters and the words of its request."""
    build = getattr(vars(Surface)[name], "build")  # noqa: B009 - no type has it for all kinds
    for cls in (Asking, Waiting):
        method = getattr(cls, name)
        assert [*inspect.signature(method).parameters][1:] == [*inspect.signature(build).parameters]
        assert method.__doc__ == build.__doc__
        assert method.__qualname__ == f"{cls.__name__}.{name}"


def test_an_operation_asks_what_its_request_says() -> None:
    """The async one when it is awaited."""
    assert Waiting().get("t3st-1") == requests.get("t3st-1")
    coroutine = Asking().get("t3st-1")
    assert inspect.iscoroutine(coroutine)
    assert anyio.run(lambda: coroutine) == requests.get("t3st-1")


def test_claiming_gives_what_the_client_makes_of_it() -> None:
    """A claim, or one that is still to be awaited."""
    assert Waiting().claim_next("a") == "claim claim_next"
    assert Asking().claim("t3st-1", actor="a") == "pending claim"


def test_a_method_refuses_what_its_request_does_not_take() -> None:
    """Before anything is asked."""
    with pytest.raises(TypeError, match="colour"):
        Waiting().upsert(colour="red")  # type: ignore[call-arg]


class Steps:
    """A claim of either kind, without a client."""

    def __init__(self, kind: type[ClaimSurface]) -> None:
        self.taken: list[Request[Any]] = []
        self.held = HeldClaim("t3st-1", 2, actor="a", lease=9.0, bound=True)
        taken = self.taken

        class Blocking(BlockingClaimSurface):
            def _take(self, step: Step[Any]) -> Any:
                taken.append(step.request)
                return step.finish(None), None

        class Async(AsyncClaimSurface):
            async def _take(self, step: Step[Any]) -> Any:
                taken.append(step.request)
                return step.finish(None), None

        cls: Any = Blocking if kind is BlockingClaimSurface else Async
        self.claim = cls.__new__(cls)
        self.claim._held, self.claim._ended = self.held, False

    def take(self, name: str, *args: Any, **kwargs: Any) -> Any:
        result = getattr(self.claim, name)(*args, **kwargs)
        return anyio.run(lambda: result) if inspect.iscoroutine(result) else result


@pytest.mark.parametrize("kind", [AsyncClaimSurface, BlockingClaimSurface])
def test_every_step_names_node_holder_and_generation(kind: type[ClaimSurface]) -> None:
    """The fence is in each request."""
    steps = Steps(kind)
    for name in [name for name, value in vars(ClaimSurface).items() if isinstance(value, ClaimStep)]:
        steps.take(name, *(["it broke"] if name == "fail" else []))
    assert [request.op for request in steps.taken] == ["running", "renew", "complete", "complete", "release"]
    for request in steps.taken:
        assert {**request.fields, "id": "t3st-1", "actor": "a", "gen": 2} == request.fields


@pytest.mark.parametrize("kind", [AsyncClaimSurface, BlockingClaimSurface])
def test_a_released_claim_has_ended_and_a_renewed_one_has_its_new_lease(kind: type[ClaimSurface]) -> None:
    """What the reply means is noted once, for both."""
    steps = Steps(kind)
    steps.take("renew", 30.0)
    assert (steps.held.lease, steps.taken[-1].fields["lease"], steps.claim.ended) == (30.0, 30.0, False)
    steps.take("release")
    assert steps.claim.ended


def test_a_lost_claim_says_so() -> None:
    """By `check`, and in its text."""
    steps = Steps(BlockingClaimSurface)
    steps.claim.check()
    steps.held.lost = "expired"
    with pytest.raises(ClaimLost, match="expired"):
        steps.claim.check()
    assert repr(steps.claim) == "<Claim t3st-1 gen 2 of a, lost: expired>"
