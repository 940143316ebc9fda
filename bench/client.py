"""A client in a process of its own, with its requests serialised before the clock starts.

`python -m bench.client TRANSPORT ADDRESS REQUESTS PER_REQUEST CONNECTIONS` prints one line of JSON.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from collections.abc import Callable

import grpc

from bench.traffic import tool_call_requests

_METHOD = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


def main() -> None:
    """Send, and print how many requests were answered, in how many seconds, and their latencies."""
    transport, address = sys.argv[1:3]
    requests, per_request, connections = map(int, sys.argv[3:6])
    # A seed of its own for each transport: what one has sent must be new when the other sends.
    bodies = list(tool_call_requests(requests, per_request, seed=sum(map(ord, transport)) + per_request))
    latencies: list[float] = []
    left = iter(bodies)
    lock = threading.Lock()

    def work(send: Callable[[bytes], None]) -> None:
        while True:
            with lock:
                body = next(left, None)
            if body is None:
                return
            started = time.perf_counter()
            send(body)
            latencies.append(time.perf_counter() - started)

    senders = [
        _http(address) if transport == "http" else _grpc(address, number) for number in range(connections)
    ]
    threads = [threading.Thread(target=work, args=(send,)) for send in senders]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    latencies.sort()
    print(
        json.dumps(
            {
                "requests": len(latencies),
                "records": len(latencies) * per_request,
                "seconds": seconds,
                "p50_ms": latencies[len(latencies) // 2] * 1000,
                "p99_ms": latencies[len(latencies) * 99 // 100] * 1000,
            }
        )
    )


def _http(address: str) -> Callable[[bytes], None]:
    connection = http.client.HTTPConnection(address)

    def send(body: bytes) -> None:
        connection.request("POST", "/v1/logs", body, {"Content-Type": "application/x-protobuf"})
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise RuntimeError(f"answered {response.status}")

    return send


def _grpc(address: str, number: int) -> Callable[[bytes], None]:
    # Channels with equal options share a connection; a number of its own keeps them apart.
    channel = grpc.insecure_channel(address, [("toolgauge.connection", number)])
    export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_METHOD)

    def send(body: bytes) -> None:
        export(body)

    return send


if __name__ == "__main__":
    main()
