"""Calls methods over a unix socket with gRPC's C core and default options.

Usage: grpc_client.py SOCKET METHOD...   Calls each METHOD twice over one channel with an empty message, and prints the names
of the status codes as JSON.
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
