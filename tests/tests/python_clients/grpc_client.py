"""Calls methods over a unix socket with gRPC's C core and no option of any kind.

Usage: grpc_client.py SOCKET METHOD...   Each METHOD is called twice over one channel, with an empty message; the names of the
status codes go as JSON to stdout. Must not know what is expected of them.
"""

import json
import sys

import grpc


def code(channel: grpc.Channel, method: str) -> str:
    try:
        channel.unary_unary(method)(b"", timeout=60)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


def main() -> None:
    with grpc.insecure_channel(f"unix:{sys.argv[1]}") as channel:
        json.dump([code(channel, method) for _ in range(2) for method in sys.argv[2:]], sys.stdout)


main()
