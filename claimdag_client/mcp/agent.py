"""One agent as a worker: what it holds, what it lost, and each tool as a method over the async client.

A refusal is a result with its next step, since an agent can act on it. The protocol of the host is not known here.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import anyio
import msgspec

from claimdag_client import Claim, Client
from claimdag_client.errors import (
    ClaimdagError,
    ClaimLost,
    Malformed,
    NothingPending,
    NothingRunnable,
    Refused,
    Unreachable,
)
from claimdag_client.mcp import texts
from claimdag_client.mcp import vocabulary as v
from claimdag_client.mcp.link import REACH_S, DaemonLink
from claimdagd import wire

#: A call without a wait of its own ends after this, also where the daemon does not answer.
CALL_S = REACH_S + 5.0
#: How many held and ready nodes `status` shows.
SHOWN = 20

#: Told the seconds waited and those that it may take, while `next` waits.
Progress = Callable[[float, float], Awaitable[None]]


async def no_progress(waited: float, wait: float) -> None:
    """For a host that did not ask for progress."""


class Answer(NamedTuple):
    """What a tool gives: the typed result, and the same in words."""

    result: v.Result
    text: str


class Agent:
    """The worker that one `claimdag mcp` process is. It holds at most one claim."""

    def __init__(self, link: DaemonLink, actor: str) -> None:
        self.actor = actor
        self._daemon = link
        self._claim: Claim | None = None
        self._lost: list[str] = []
        #: Monotonic seconds of the last call: a silent host is asked before its claim is renewed for longer.
        self.called_at = time.monotonic()

    @property
    def graph(self) -> str | None:
        """The graph's tag, once a daemon answered."""
        return None if self._daemon.client is None else self._daemon.client.graph

    @property
    def claim(self) -> Claim | None:
        """The claim that this worker holds, if it still does."""
        if self._claim is not None and (self._claim.ended or self._claim.lost is not None):
            self._claim = None
        return self._claim

    async def call(self, tool: str, arguments: v.Arguments, progress: Progress = no_progress) -> Answer:
        """Run a tool. Refusals and an unreachable daemon are answers; what raises is a fault of this program."""
        self.called_at = time.monotonic()
        wait = getattr(arguments, "wait", 0.0)
        result_type = v.TOOLS[tool].result
        try:
            with anyio.fail_after(CALL_S + wait):
                dag = await self._daemon.get()
                if isinstance(arguments, v.Next):
                    answer = await self._next(dag, arguments, progress)
                else:
                    method: Callable[[Client, Any], Awaitable[Answer]] = getattr(self, f"_{tool}")
                    answer = await method(dag, arguments)
        except ClaimLost as exc:
            gone = Refused({"code": "gen_mismatch", "message": f"{tool}: the claim was lost: {exc.why}", "id": exc.id})
            answer = _refused(result_type, gone)
        except Refused as exc:
            answer = _refused(result_type, exc)
        except Malformed as exc:
            answer = _refused(result_type, Refused({"code": "bad_request", "message": f"{tool}: {exc}"}))
        except (TimeoutError, ClaimdagError) as exc:
            what = str(exc) or "the daemon does not answer"
            answer = _refused(result_type, Refused({"code": "unreachable", "message": f"{tool}: {what}"}))
        return self._with_losses(answer)

    def _with_losses(self, answer: Answer) -> Answer:
        lost, self._lost = self._lost, []
        if not lost:
            return answer
        return Answer(msgspec.structs.replace(answer.result, lost=lost), f"{texts.lost_text(lost)}\n{answer.text}")

    def _take(self, claim: Claim) -> None:
        self._claim = claim

        def lost() -> None:
            self._lost.append(f"{claim.id} at generation {claim.gen} ({claim.lost})")

        claim.on_lost(lost)

    # -------------------------------------------------------------------------------------------------------- tools

    async def _status(self, dag: Client, arguments: v.NoArguments) -> Answer:
        stats = await dag.stats()
        live = await dag.list()
        ready = await dag.ready()
        held = [node for node in live if node.assignee is not None and node.assignee != self.actor]
        result = v.StatusResult(
            actor=self.actor,
            graph=dag.graph,
            counts={name: count for name, count in stats["statuses"].items() if count},
            held=[_node(node) for node in held[:SHOWN]],
            ready=[_node(node) for node in ready[:SHOWN]],
            waiting=sum(1 for node in live if node.status == "todo"),
            mine=None if self.claim is None else await self._claim_of(dag, self.claim),
        )
        return Answer(result, texts.status_text(result))

    async def _next(self, dag: Client, arguments: v.Next, progress: Progress) -> Answer:
        async def tell() -> None:
            began = time.monotonic()
            while True:
                await progress(time.monotonic() - began, arguments.wait)
                await anyio.sleep(5.0)

        choice: dict[str, Any] = {"role": arguments.role, "slack": arguments.slack, "strict": arguments.strict or None}
        if arguments.under is not None:
            choice["under"] = _full(arguments.under, dag)
        claim: Claim | None = None
        no: ClaimdagError | None = None
        async with anyio.create_task_group() as tasks:
            if arguments.wait:
                tasks.start_soon(tell)
            try:
                claim = await dag.claim_next(self.actor, wait=arguments.wait or None, **choice)
            except ClaimdagError as exc:
                no = exc
            tasks.cancel_scope.cancel()
        if claim is None:
            return _nothing(no)
        try:
            shown = await self._claim_of(dag, claim)
        except BaseException:
            # The host no longer waits for this call: it must not hold what it was never told of.
            await claim.hand_back()
            raise
        self._take(claim)
        return Answer(v.NextResult(claim=shown), texts.claim_text(shown))

    async def _complete(self, dag: Client, arguments: v.Complete) -> Answer:
        return await self._end(dag, arguments, status="done", summary=arguments.summary)

    async def _fail(self, dag: Client, arguments: v.Fail) -> Answer:
        return await self._end(dag, arguments, status="failed", error=arguments.error)

    async def _end(self, dag: Client, arguments: v.Complete | v.Fail, **how: Any) -> Answer:
        id = _full(arguments.id, dag)
        claim = self.claim
        mine = claim if claim is not None and (claim.id, claim.gen) == (id, arguments.gen) else None
        following: Claim | None = None
        if mine is not None and arguments.next:
            following = await mine.complete_and_next(**how)
            ended = mine.completed
            assert ended is not None
            if following is not None:
                self._take(following)
        elif mine is not None:
            ended = await mine.complete(**how)
        else:
            # Of a claim before this process, or said again: the generation decides.
            ended = await dag.complete(id, gen=arguments.gen, actor=self.actor, **how)
        result = v.EndResult(node=_node(ended.node), ready=list(ended.ready))
        text = texts.end_text(result)
        if not arguments.next:
            return Answer(result, text)
        if following is None:
            code = str(ended.code) if ended.code else ""
            if mine is None or not code:
                more = await self._next(dag, v.Next(), no_progress)
                assert isinstance(more.result, v.NextResult)
                fields = {"claim": more.result.claim, "nothing": more.result.nothing, "stuck": more.result.stuck}
                return Answer(msgspec.structs.replace(result, **fields), f"{text}\n{more.text}")
            details = dict(ended.next_error or {})
            nothing = msgspec.structs.replace(result, nothing=code, stuck=bool(details.get("stuck")))
            return Answer(nothing, f"{text}\n{texts.nothing_text(code, details)}")
        shown = await self._claim_of(dag, following)
        return Answer(msgspec.structs.replace(result, claim=shown), f"{text}\n{texts.claim_text(shown)}")

    async def _renew(self, dag: Client, arguments: v.Renew) -> Answer:
        held = await dag.renew(
            _full(arguments.id, dag), actor=self.actor, gen=arguments.gen, lease=arguments.lease, bound=True
        )
        if self.claim is not None and self.claim.id == held.id and arguments.lease is not None:
            await self.claim.renew(arguments.lease)
        result = v.LeaseResult(id=held.id, gen=held.gen, expires_in=held.expires_in)
        return Answer(result, f"You hold {held.id} for another {held.expires_in:.0f} s.")

    async def _release(self, dag: Client, arguments: v.Held) -> Answer:
        id = _full(arguments.id, dag)
        claim = self.claim
        if claim is not None and (claim.id, claim.gen) == (id, arguments.gen):
            await claim.release()
            return Answer(v.LeaseResult(id=id), f"{id} is handed back. Call `next` for other work.")
        moved = await dag.release(id, actor=self.actor, gen=arguments.gen)
        return Answer(v.LeaseResult(id=moved.id, gen=moved.gen), f"{id} is handed back. Call `next` for other work.")

    async def _add(self, dag: Client, arguments: v.NewNode) -> Answer:
        return await self._submit(dag, [_fields(arguments)])

    async def _plan(self, dag: Client, arguments: v.Plan) -> Answer:
        return await self._submit(dag, [_fields(node) for node in arguments.nodes])

    async def _submit(self, dag: Client, nodes: list[dict[str, Any]]) -> Answer:
        ids = list(await dag.submit(nodes, actor=self.actor))
        return Answer(v.IdsResult(ids=ids), f"Made {', '.join(ids)}.")

    async def _list(self, dag: Client, arguments: v.List) -> Answer:
        under = None if arguments.under is None else _full(arguments.under, dag)
        nodes = await dag.list(all=arguments.all, status=arguments.status, under=under, assignee=arguments.assignee)
        shown = [_node(node) for node in nodes[: arguments.limit]]
        result = v.NodesResult(nodes=shown, more=len(nodes) - len(shown))
        return Answer(result, texts.nodes_text(result))

    async def _get(self, dag: Client, arguments: v.OneNode) -> Answer:
        node = _node(await dag.get(_full(arguments.id, dag)))
        return Answer(v.NodeResult(node=node), texts.node_text(node))

    async def _why(self, dag: Client, arguments: v.OneNode) -> Answer:
        why = await dag.why(_full(arguments.id, dag))
        result = v.WhyResult(id=why.id, status=why.status, reasons=list(why.reasons), text=why.text)
        return Answer(result, f"{why.id} is {why.status}. {why.text}")

    async def _link(self, dag: Client, arguments: v.Link) -> Answer:
        ends = _full(arguments.before, dag), _full(arguments.after, dag)
        node = _node(await dag.link(*ends, when=arguments.when, actor=self.actor))
        return Answer(v.NodeResult(node=node), f"{ends[1]} waits for {ends[0]}: {texts.node_text(node)}")

    async def _cancel(self, dag: Client, arguments: v.Cancel) -> Answer:
        ids = list(await dag.cancel(_full(arguments.id, dag), error=arguments.error, actor=self.actor))
        return Answer(v.IdsResult(ids=ids), f"Cancelled {', '.join(ids)}. `reopen` brings it back.")

    async def _reopen(self, dag: Client, arguments: v.OneNode) -> Answer:
        moved = await dag.reopen(_full(arguments.id, dag), actor=self.actor)
        return Answer(
            v.LeaseResult(id=moved.id, gen=moved.gen), f"{moved.id} is open again, at generation {moved.gen}."
        )

    # ------------------------------------------------------------------------------------------------------- results

    async def _claim_of(self, dag: Client, claim: Claim) -> v.Claim:
        """The claim with the summaries of what it waited for, which say what was done before it."""
        deps = []
        for dep in claim.node.deps:
            try:
                node = await dag.get(dep.on)
            except Refused:
                continue  # Pruned by now: there is nothing left to tell of it.
            deps.append(v.Dependency(id=node.id, status=str(node.status), summary=node.summary))
        return v.Claim(
            id=claim.id,
            gen=claim.gen,
            summary=claim.node.summary,
            expires_in=round(claim.expires_in, 1),
            role=str(claim.node.role),
            parent=claim.node.parent,
            deps=deps,
        )


def _nothing(exc: ClaimdagError | None) -> Answer:
    """No claim: nothing_runnable and nothing_pending are results; anything else is raised."""
    if not isinstance(exc, NothingRunnable | NothingPending):
        raise exc or Unreachable("the daemon does not answer")
    result = v.NextResult(nothing=exc.code, stuck=bool(exc.details.get("stuck")))
    return Answer(result, texts.nothing_text(exc.code, exc.details))


def _refused(result_type: type[v.Result], exc: Refused) -> Answer:
    step = texts.next_step(exc.code, exc.details)
    refused = v.Refused(code=exc.code, message=exc.message, next_step=step)
    return Answer(result_type(refused=refused), texts.refusal_text(refused, exc.details))


def _full(id: str, dag: Client) -> str:
    """The whole id: a bare number means a node of this graph, as on the command line."""
    return f"{dag.graph}-{id}" if id.isascii() and id.isdigit() else id


def _fields(node: v.NewNode) -> dict[str, Any]:
    """The fields of `submit` for a node; what was not given is not sent."""
    fields: dict[str, Any] = msgspec.to_builtins(node)
    if "deps" in fields:
        fields["deps"] = [{"on": dep} for dep in fields["deps"]]
    return {name: value for name, value in fields.items() if value is not None}


def _node(view: wire.NodeView) -> v.Node:
    return v.Node(
        id=view.id,
        status=str(view.status),
        summary=view.summary,
        kind=str(view.kind),
        role=str(view.role),
        parent=view.parent,
        deps=[dep.on for dep in view.deps],
        needs=dict(view.needs),
        assignee=view.assignee,
        gen=view.gen,
        error=view.error,
        expires_in=view.expires_in,
    )
