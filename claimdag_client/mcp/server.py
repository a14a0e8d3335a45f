"""The Model Context Protocol's side: tools, resources and the prompt on the official SDK, over stdio.

It carries calls to the agent and holds no rule of the graph. Everything that is not the protocol goes to stderr.
"""

from __future__ import annotations

import secrets
import sys
import time
from contextlib import ExitStack
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server

from claimdag_client.handoff.holders import announced
from claimdag_client.mcp import texts
from claimdag_client.mcp import vocabulary as v
from claimdag_client.mcp.agent import Agent, Answer
from claimdag_client.mcp.link import DaemonLink
from claimdagd import __version__

#: A host that made no call for this long is asked by a ping whether it is still there.
QUIET_S = 120.0
#: A host that does not answer a ping within this is taken for gone: its claim is renewed no longer.
PING_S = 30.0
#: A host that cannot be asked is believed for this long after its last call.
BELIEVED_S = 4 * 3600.0
#: How many random characters tell two workers of one host apart.
SUFFIX = 4
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"

Context = ServerRequestContext[Any]
STATUS_URI = "claimdag://status"
NODE_URI = "claimdag://node/"


def actor_of(client: str | None) -> str:
    """A name for a worker whose host is called `client`: the name, cut to what an actor may be, and 4 characters."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in client or "agent").strip("-")
    return f"{kept[:48] or 'agent'}-{''.join(secrets.choice(_LETTERS) for _ in range(SUFFIX))}"


class Host:
    """What serves one host: the agent behind it, and what is known of the host itself."""

    def __init__(self, agent: Agent, announcements: ExitStack, socket: str, *, named: bool) -> None:
        self._agent = agent
        self._announcements = announcements
        self._socket = socket
        #: The actor was given, and does not follow from the host's name.
        self._named = named
        self._session: ServerSession | None = None

    # ----------------------------------------------------------------------------------------------- the handshake

    async def introduce(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: name the worker after its host, and say the name in the instructions."""
        self._session = ctx.session
        self._agent.called_at = time.monotonic()
        if ctx.method == "initialize" and not self._named:
            info = (ctx.params or {}).get("clientInfo")
            self._agent.actor = actor_of(info.get("name") if isinstance(info, dict) else None)
            self._named = True
        if ctx.method == "initialize":
            self._announce()
        result = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            return {**result, "instructions": texts.instructions(self._agent.actor, self._agent.graph)}
        return result

    def _announce(self) -> None:
        """Let the host's own hooks find this worker."""
        self._announcements.enter_context(announced(self._socket, self._agent.actor))

    # ---------------------------------------------------------------------------------------------------- the tools

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Every tool with its schemas and annotations."""
        return types.ListToolsResult(tools=TOOLS)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Check the arguments and let the agent do it. A wrong argument is an error that names the field."""
        tool = v.TOOLS.get(params.name)
        if tool is None:
            return _wrong(f"There is no tool {params.name!r}. There are: {', '.join(v.TOOLS)}.")
        try:
            arguments = msgspec.convert(params.arguments or {}, type=tool.arguments)
        except msgspec.ValidationError as exc:
            takes = [field.encode_name for field in msgspec.structs.fields(tool.arguments)]
            return _wrong(texts.argument_fault(params.name, takes, str(exc)))

        async def progress(waited: float, wait: float) -> None:
            await ctx.session.report_progress(round(waited, 1), wait, "waiting for work")

        return _shown(await self._agent.call(params.name, arguments, progress))

    # --------------------------------------------------------------------------------------- resources and the prompt

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """The one resource with a fixed address."""
        status = types.Resource(
            uri=STATUS_URI, name="status", description="the graph at a glance", mime_type="application/json"
        )
        return types.ListResourcesResult(resources=[status])

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Nodes, by their ids."""
        node = types.ResourceTemplate(
            uri_template=f"{NODE_URI}{{id}}", name="node", description="one node", mime_type="application/json"
        )
        return types.ListResourceTemplatesResult(resource_templates=[node])

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """A resource as JSON; a refusal is in it as in a tool's result."""
        uri = str(params.uri)
        if uri == STATUS_URI:
            answer = await self._agent.call("status", v.NoArguments())
        elif uri.startswith(NODE_URI):
            answer = await self._agent.call("get", v.OneNode(id=uri.removeprefix(NODE_URI)))
        else:
            raise ValueError(f"no resource {uri}: there are {STATUS_URI} and {NODE_URI}ID")
        text = msgspec.json.encode(answer.result).decode()
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, text=text, mime_type="application/json")]
        )

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        """The one prompt."""
        role = types.PromptArgument(name="role", description="prefer work for this role", required=False)
        work = types.Prompt(name="work", description="work through the graph until nothing is left", arguments=[role])
        return types.ListPromptsResult(prompts=[work])

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """The prompt in words."""
        if params.name != "work":
            raise ValueError(f"no prompt {params.name}: there is work")
        text = texts.work_prompt(self._agent.actor, (params.arguments or {}).get("role"))
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(messages=[message])

    # --------------------------------------------------------------------------------------- is the host still there

    async def watch_over(self) -> None:
        """Let the claim be renewed only while the host shows that it is there: by calls, or by answering a ping."""
        while True:
            await anyio.sleep(QUIET_S / 4)
            claim = self._agent.claim
            if claim is None:
                continue
            quiet = time.monotonic() - self._agent.called_at
            claim.keep(quiet < QUIET_S or await self._answers(quiet))

    async def _answers(self, quiet: float) -> bool:
        session = self._session
        if session is None:
            return False
        try:
            with anyio.move_on_after(PING_S):
                await session.send_ping()
                return True
        except Exception as exc:  # The SDK raises what its versions please; each means that the host cannot be asked.
            print(f"claimdag mcp: the host takes no ping ({type(exc).__name__})", file=sys.stderr)
            return quiet < BELIEVED_S
        return False


def _tool(name: str, tool: v.Tool) -> types.Tool:
    return types.Tool(
        name=name,
        description=tool.description,
        input_schema=v.schema(tool.arguments),
        output_schema=v.schema(tool.result),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.read_only or tool.idempotent,
            open_world_hint=False,
        ),
    )


TOOLS = [_tool(name, tool) for name, tool in v.TOOLS.items()]


def _shown(answer: Answer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=answer.text)],
        structured_content=msgspec.to_builtins(answer.result),
    )


def _wrong(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


async def serve(link: DaemonLink, socket: str, actor: str | None) -> None:
    """Serve one host on stdin and stdout until it closes them; then the claim goes back.

    `socket` is where the daemon is, whose directory tells the host's hooks which worker is theirs.
    """
    agent = Agent(link, actor or actor_of(None))
    with ExitStack() as announcements:
        async with link, anyio.create_task_group() as tasks:
            host = Host(agent, announcements, socket, named=actor is not None)
            tasks.start_soon(host.watch_over)
            async with stdio_server() as (incoming, outgoing):
                server = _server(host)
                await server.run(incoming, outgoing, server.create_initialization_options())
            tasks.cancel_scope.cancel()


def _server(host: Host) -> Server[Any]:
    server: Server[Any] = Server(
        "claimdag",
        version=__version__,
        on_list_tools=host.list_tools,
        on_call_tool=host.call_tool,
        on_list_resources=host.list_resources,
        on_list_resource_templates=host.list_templates,
        on_read_resource=host.read_resource,
        on_list_prompts=host.list_prompts,
        on_get_prompt=host.get_prompt,
    )
    server.middleware = [host.introduce]
    return server
