"""Calls tools of an MCP server through the official Python SDK, which validates every answer against its schema.

Usage: mcp_client.py MODE PROGRAM ARGUMENT...   a server over stdio
       mcp_client.py MODE URL TOKEN             a server over HTTP

MODE is `legacy` for the versions with a handshake, `auto` to ask the server, or a version without one. Reads the calls as JSON
from stdin, [{"tool": ..., "arguments": {...}}, ...], and prints the answers as JSON.
"""

import asyncio
import contextlib
import json
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def main() -> None:
    calls = json.load(sys.stdin)
    mode, server, *arguments = sys.argv[1:]
    progress = []

    async def on_progress(done, total, message) -> None:
        progress.append([done, total, message])

    async with contextlib.AsyncExitStack() as stack:
        if server.startswith("http://"):
            headers = {"Authorization": f"Bearer {arguments[0]}"}
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=300))
            transport = streamable_http_client(server, http_client=http)
        else:
            transport = StdioServerParameters(command=server, args=arguments, env=dict(os.environ))
        client = await stack.enter_async_context(Client(transport, mode=mode))
        tools = await client.list_tools()
        answers = []
        for call in calls:
            result = await client.call_tool(call["tool"], call["arguments"], progress_callback=on_progress)
            answers.append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
        version, name = client.protocol_version, client.server_info and client.server_info.name
    json.dump(
        {
            "server": name,
            "version": version,
            "tools": [tool.name for tool in tools.tools],
            "answers": answers,
            "progress": progress,
        },
        sys.stdout,
    )


asyncio.run(main())
