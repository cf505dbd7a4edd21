"""The same as mcp_client.py through the first generation of the SDK, which knows only versions with a handshake.

Usage: mcp_client_v1.py MODE PROGRAM ARGUMENT...   a server over stdio
       mcp_client_v1.py MODE URL TOKEN             a server over HTTP
"""

import asyncio
import contextlib
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def main() -> None:
    calls = json.load(sys.stdin)
    _, server, *arguments = sys.argv[1:]
    progress = []

    async def on_progress(done, total, message) -> None:
        progress.append([done, total, message])

    async with contextlib.AsyncExitStack() as stack:
        if server.startswith("http://"):
            headers = {"Authorization": f"Bearer {arguments[0]}"}
            streams = await stack.enter_async_context(streamablehttp_client(server, headers=headers))
        else:
            parameters = StdioServerParameters(command=server, args=arguments, env=dict(os.environ))
            streams = await stack.enter_async_context(stdio_client(parameters))
        client = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
        server_info = await client.initialize()
        tools = await client.list_tools()
        answers = []
        for call in calls:
            result = await client.call_tool(call["tool"], call["arguments"], progress_callback=on_progress)
            answers.append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
    json.dump(
        {
            "server": server_info.serverInfo.name,
            "version": server_info.protocolVersion,
            "tools": [tool.name for tool in tools.tools],
            "answers": answers,
            "progress": progress,
        },
        sys.stdout,
    )


asyncio.run(main())
