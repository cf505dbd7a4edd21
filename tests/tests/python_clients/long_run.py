"""Follows a run that takes longer than the client waits for any one answer: each request is given up after 60 seconds.

Usage: long_run.py PROGRAM ARGUMENT...

Reads the first call as JSON from stdin, {"tool": ..., "arguments": {...}}. While an answer says that the run is going on, it
makes the first call that the answer proposes, as it is written there. Prints all answers as JSON.
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters

REQUEST_TIMEOUT_S = 60


def proposed(text):
    """The first proposed call: the name of a tool, then its arguments as JSON."""
    tool, rest = text.split(" ", 1)
    return {"tool": tool, "arguments": json.JSONDecoder().raw_decode(rest)[0]}


async def main() -> None:
    call = json.load(sys.stdin)
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    answers = []
    async with Client(server, read_timeout_seconds=REQUEST_TIMEOUT_S) as client:
        while call:
            result = await client.call_tool(call["tool"], call["arguments"])
            answers.append({"call": call, **result.model_dump(mode="json", by_alias=True, exclude_none=True)})
            data = result.structured_content
            call = proposed(data["next"]) if data.get("state") in ("queued", "running") else None
    json.dump({"answers": answers}, sys.stdout)


asyncio.run(main())
