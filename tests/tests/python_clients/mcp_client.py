"""Calls tools of an MCP server through the official Python SDK, which validates every answer against its schema.

Usage: mcp_client.py PROGRAM ARGUMENT...   Reads the calls as JSON from stdin, [{"tool": ..., "arguments": {...}}, ...], and
prints the answers as JSON.
"""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client


async def main() -> None:
    calls = json.load(sys.stdin)
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    progress = []

    async def on_progress(done, total, message) -> None:
        progress.append([done, total, message])

    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
        greeting = await session.initialize()
        tools = await session.list_tools()
        answers = []
        for call in calls:
            result = await session.call_tool(call["tool"], call["arguments"], progress_callback=on_progress)
            answers.append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
    server_name = greeting.model_dump(mode="json", by_alias=True)["serverInfo"]["name"]
    json.dump(
        {
            "server": server_name,
            "tools": [tool.name for tool in tools.tools],
            "answers": answers,
            "progress": progress,
        },
        sys.stdout,
    )


asyncio.run(main())
