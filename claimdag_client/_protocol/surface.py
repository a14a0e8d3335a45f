"""The methods of both clients and of their claims, declared once.

`Surface` names every operation, `ClaimSurface` every step of a claim. A client derives from one of the Async or
Blocking variants, which turn each declaration into a method of the client's own class when that class is made: a
coroutine function, or a plain function. A type checker sees the same through `__get__`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from claimdag_client._protocol import requests, several
from claimdag_client._protocol.claim_base import BaseClaim, Step
from claimdag_client._protocol.held_claim import HeldClaim
from claimdag_client._protocol.requests import Request
from claimdagd import wire

P = ParamSpec("P")
T = TypeVar("T")
#: What claiming gives: the claim of the blocking client, the pending claim of the async one.
ClaimT = TypeVar("ClaimT")
AsyncT = TypeVar("AsyncT", bound="AsyncClaimSurface")
BlockingT = TypeVar("BlockingT", bound="BlockingClaimSurface")


class Operation(Generic[P, T]):
    """A method that makes one request: `build` has its parameters and its documentation."""

    def __init__(self, build: Callable[P, Request[T]]) -> None:
        self.build = build

    if TYPE_CHECKING:

        @overload
        def __get__(self, client: AsyncSurface[Any], owner: object) -> Callable[P, Coroutine[Any, Any, T]]: ...
        @overload
        def __get__(self, client: BlockingSurface[Any], owner: object) -> Callable[P, T]: ...
        def __get__(self, client: object, owner: object) -> Any: ...


class ClaimOperation(Generic[P]):
    """A method that makes one request whose reply is a claim."""

    def __init__(self, build: Callable[P, Request[wire.Claimed]]) -> None:
        self.build = build

    if TYPE_CHECKING:

        def __get__(self, client: Surface[ClaimT], owner: object) -> Callable[P, ClaimT]: ...


class ClaimStep(Generic[P, T]):
    """A method of a claim that takes one step: `build` has its parameters and its documentation."""

    def __init__(self, build: Callable[Concatenate[Any, P], Step[T]]) -> None:
        self.build = build

    if TYPE_CHECKING:

        @overload
        def __get__(self, claim: AsyncClaimSurface, owner: object) -> Callable[P, Coroutine[Any, Any, T]]: ...
        @overload
        def __get__(self, claim: BlockingClaimSurface, owner: object) -> Callable[P, T]: ...
        def __get__(self, claim: object, owner: object) -> Any: ...


class ClaimNextStep(Generic[P]):
    """A method of a claim that ends it and returns the next claim, or None."""

    def __init__(self, build: Callable[Concatenate[Any, P], Step[wire.Completed]]) -> None:
        self.build = build

    if TYPE_CHECKING:

        @overload
        def __get__(self, claim: AsyncT, owner: object) -> Callable[P, Coroutine[Any, Any, AsyncT | None]]: ...
        @overload
        def __get__(self, claim: BlockingT, owner: object) -> Callable[P, BlockingT | None]: ...
        def __get__(self, claim: object, owner: object) -> Any: ...


class Surface(Generic[ClaimT]):
    """Every operation of the protocol."""

    ping = Operation(requests.ping)
    upsert = Operation(requests.upsert)
    submit = Operation(requests.submit)
    get = Operation(requests.get)
    why = Operation(requests.why)
    list = Operation(requests.list_nodes)
    ready = Operation(requests.ready)
    claim = ClaimOperation(requests.claim)
    claim_next = ClaimOperation(requests.claim_next)
    renew = Operation(requests.renew)
    running = Operation(requests.running)
    release = Operation(requests.release)
    reopen = Operation(requests.reopen)
    archive = Operation(requests.archive)
    unarchive = Operation(requests.unarchive)
    complete = Operation(requests.complete)
    cancel = Operation(requests.cancel)
    renew_many = Operation(several.renew_many)
    running_many = Operation(several.running_many)
    release_many = Operation(several.release_many)
    reopen_many = Operation(several.reopen_many)
    reopen_failed = Operation(several.reopen_failed)
    archive_many = Operation(several.archive_many)
    unarchive_many = Operation(several.unarchive_many)
    complete_many = Operation(several.complete_many)
    cancel_many = Operation(several.cancel_many)
    cancel_under = Operation(several.cancel_under)
    reclaim = Operation(requests.reclaim)
    link = Operation(requests.link)
    unlink = Operation(requests.unlink)
    resources = Operation(requests.resources)
    capacity = Operation(requests.capacity)
    pause = Operation(requests.pause)
    resume = Operation(requests.resume)
    wait = Operation(requests.wait)
    log = Operation(requests.log)
    stats = Operation(requests.stats)
    checkpoint = Operation(requests.checkpoint)
    shutdown = Operation(requests.shutdown)

    def _claim(self, request: Request[wire.Claimed]) -> ClaimT:
        """Make a claim of the client's kind from `request`."""
        raise NotImplementedError


class AsyncSurface(Surface[ClaimT]):
    """The operations as coroutine functions that `ask`."""

    async def ask(self, request: Request[T]) -> T:
        """Make a request and return its result."""
        raise NotImplementedError

    def __init_subclass__(cls) -> None:
        _install(cls, Surface, Operation, _async_operation)
        _install(cls, Surface, ClaimOperation, _claim_operation)


class BlockingSurface(Surface[ClaimT]):
    """The operations as functions that `ask`."""

    def ask(self, request: Request[T]) -> T:
        """Make a request and return its result."""
        raise NotImplementedError

    def __init_subclass__(cls) -> None:
        _install(cls, Surface, Operation, _blocking_operation)
        _install(cls, Surface, ClaimOperation, _claim_operation)


class ClaimSurface(BaseClaim):
    """Every step of a claim, for the holder to take by hand."""

    running = ClaimStep(BaseClaim._running_step)
    renew = ClaimStep(BaseClaim._renew_step)
    complete = ClaimStep(BaseClaim._complete_step)
    fail = ClaimStep(BaseClaim._fail_step)
    release = ClaimStep(BaseClaim._release_step)
    complete_and_next = ClaimNextStep(BaseClaim._complete_and_next_step)

    def _claim(self, claimed: wire.Claimed, held: HeldClaim) -> Self:
        """Make a claim of the same kind, of the same client."""
        raise NotImplementedError

    def _next(self, completed: wire.Completed, held: HeldClaim | None) -> Self | None:
        """Return the claim that came with the end of this one, if there is one."""
        if completed.next is None or held is None:
            return None
        return self._claim(completed.next, held)


class AsyncClaimSurface(ClaimSurface):
    """The steps as coroutine functions."""

    async def _take(self, step: Step[T]) -> tuple[T, HeldClaim | None]:
        """Make the request of a step and note what its reply means; return that, and the claim that it brought."""
        raise NotImplementedError

    def __init_subclass__(cls) -> None:
        _install(cls, ClaimSurface, ClaimStep, _async_step)
        _install(cls, ClaimSurface, ClaimNextStep, _async_next_step)


class BlockingClaimSurface(ClaimSurface):
    """The steps as functions."""

    def _take(self, step: Step[T]) -> tuple[T, HeldClaim | None]:
        """Make the request of a step and note what its reply means; return that, and the claim that it brought."""
        raise NotImplementedError

    def __init_subclass__(cls) -> None:
        _install(cls, ClaimSurface, ClaimStep, _blocking_step)
        _install(cls, ClaimSurface, ClaimNextStep, _blocking_next_step)


def _install(cls: type, surface: type, kind: type, make: Callable[[Any], Any]) -> None:
    """Give `cls` a method for each declaration of `kind` in `surface`, with its name, parameters and documentation."""
    for name, declared in vars(surface).items():
        if isinstance(declared, kind):
            build = declared.build  # type: ignore[attr-defined]
            method = make(build)
            method.__doc__ = build.__doc__
            method.__name__ = name
            method.__qualname__ = f"{cls.__name__}.{name}"
            method.__module__ = cls.__module__
            method.__signature__ = _signature(build, kind)
            setattr(cls, name, method)


def _signature(build: Callable[..., Any], kind: type) -> inspect.Signature:
    """Return the signature of the method that `build` is declared for: with `self`, and the result of what is built."""
    shape = inspect.signature(build)
    own = [] if kind in (ClaimStep, ClaimNextStep) else [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
    # As text, "Request[wire.NodeView]" gives "wire.NodeView".
    _, _, result = str(shape.return_annotation).removesuffix("]").partition("[")
    returned = {ClaimOperation: inspect.Signature.empty, ClaimNextStep: "Claim | None"}.get(kind, result)
    return shape.replace(parameters=[*own, *shape.parameters.values()], return_annotation=returned)


def _async_operation(build: Callable[..., Request[Any]]) -> Callable[..., Awaitable[Any]]:
    async def method(self: AsyncSurface[Any], /, *args: Any, **kwargs: Any) -> Any:
        return await self.ask(build(*args, **kwargs))

    return method


def _blocking_operation(build: Callable[..., Request[Any]]) -> Callable[..., Any]:
    def method(self: BlockingSurface[Any], /, *args: Any, **kwargs: Any) -> Any:
        return self.ask(build(*args, **kwargs))

    return method


def _claim_operation(build: Callable[..., Request[wire.Claimed]]) -> Callable[..., Any]:
    def method(self: Surface[Any], /, *args: Any, **kwargs: Any) -> Any:
        return self._claim(build(*args, **kwargs))

    return method


def _async_step(build: Callable[..., Step[Any]]) -> Callable[..., Awaitable[Any]]:
    async def method(self: AsyncClaimSurface, /, *args: Any, **kwargs: Any) -> Any:
        return (await self._take(build(self, *args, **kwargs)))[0]

    return method


def _async_next_step(build: Callable[..., Step[wire.Completed]]) -> Callable[..., Awaitable[Any]]:
    async def method(self: AsyncClaimSurface, /, *args: Any, **kwargs: Any) -> Any:
        return self._next(*await self._take(build(self, *args, **kwargs)))

    return method


def _blocking_step(build: Callable[..., Step[Any]]) -> Callable[..., Any]:
    def method(self: BlockingClaimSurface, /, *args: Any, **kwargs: Any) -> Any:
        return self._take(build(self, *args, **kwargs))[0]

    return method


def _blocking_next_step(build: Callable[..., Step[wire.Completed]]) -> Callable[..., Any]:
    def method(self: BlockingClaimSurface, /, *args: Any, **kwargs: Any) -> Any:
        return self._next(*self._take(build(self, *args, **kwargs)))

    return method
