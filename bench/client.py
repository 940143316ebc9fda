"""A client in a process of its own, with its requests serialised before the clock starts.

`python -m bench.client FORM ADDRESS REQUESTS PER_REQUEST CONNECTIONS [--rate R] [--seed S]` prints one
line of JSON. FORM is http, json (OTLP/JSON over HTTP) or grpc.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

import grpc
import uvloop

from bench.traffic import Stream, as_json, tool_call_requests

_METHOD = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
_MEDIA_TYPES = {"http": "application/x-protobuf", "json": "application/json"}

Send = Callable[[bytes], Awaitable[None]]


class Refused(Exception):
    """The service asks to come again."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent and answered.

    Attributes:
        seconds: from the first request to the last answer.
        p50_ms, p99_ms: latency of a request; under a rate, from when it was due.
        refused: how often the service asked to come again.
    """

    requests: int
    records: int
    seconds: float
    p50_ms: float
    p99_ms: float
    refused: int


def main() -> None:
    """Send, and print what became of it."""
    parser = argparse.ArgumentParser(prog="bench.client", description=__doc__)
    parser.add_argument("form", choices=("http", "json", "grpc"))
    parser.add_argument("address")
    parser.add_argument("requests", type=int)
    parser.add_argument("per_request", type=int)
    parser.add_argument("connections", type=int)
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second; 0: as fast as it goes")
    parser.add_argument(
        "--stream", action="store_true", help="make requests while sending, each from one by a few bytes"
    )
    parser.add_argument("--patient", action="store_true", help="send again what was refused for now")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    # A seed of its own for each form: what one has sent must be new when another sends.
    seed = options.seed or sum(map(ord, options.form)) + options.per_request
    if options.stream:
        make: Callable[[int], bytes] = Stream(options.per_request, seed).request
    else:
        bodies = list(tool_call_requests(options.requests, options.per_request, seed))
        make = [as_json(body) if options.form == "json" else body for body in bodies].__getitem__
    sending = send_all(
        options.form,
        options.address,
        make,
        options.requests,
        options.connections,
        options.rate,
        options.patient,
    )
    sent = uvloop.run(sending)
    print(json.dumps(asdict(sent) | {"records": sent.requests * options.per_request}))


async def send_all(
    form: str,
    address: str,
    make: Callable[[int], bytes],
    requests: int,
    connections: int,
    rate: float,
    patient: bool = False,
) -> Sent:
    """Send requests over some connections, each the next one when it has an answer.

    Args:
        make: gives the body of a request's number.
        patient: whether to send again, a second later, what was refused for now.

    Raises:
        RuntimeError: one was refused for good.
        Refused: one was refused for now, without patience.
    """
    open_one = _open_grpc if form == "grpc" else _open_http
    senders = [await open_one(address, form, number) for number in range(connections)]
    latencies: list[float] = []
    refused = 0
    numbers = iter(range(requests))
    started = time.perf_counter()

    async def work(send: Send) -> None:
        for number in numbers:
            due = started + number / rate if rate else time.perf_counter()
            if (pause := due - time.perf_counter()) > 0:
                await asyncio.sleep(pause)
            body = make(number)
            while True:
                try:
                    await send(body)
                    break
                except Refused:
                    if not patient:
                        raise
                    nonlocal refused
                    refused += 1
                    await asyncio.sleep(1)
            latencies.append(time.perf_counter() - due)

    await asyncio.gather(*(work(send) for send in senders))
    seconds = time.perf_counter() - started
    latencies.sort()
    return Sent(
        requests=len(latencies),
        records=0,
        seconds=seconds,
        p50_ms=latencies[len(latencies) // 2] * 1000,
        p99_ms=latencies[len(latencies) * 99 // 100] * 1000,
        refused=refused,
    )


async def _open_http(address: str, form: str, number: int) -> Send:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /v1/logs HTTP/1.1\r\nHost: {address}\r\nContent-Type: {_MEDIA_TYPES[form]}\r\n"

    async def send(body: bytes) -> None:
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = answer.partition("content-length:")[2].partition("\r\n")[0]
        await reader.readexactly(int(length))
        if " 503 " in answer.partition("\r\n")[0]:
            raise Refused
        if " 200 " not in answer.partition("\r\n")[0]:
            raise RuntimeError(f"answered {answer.partition(chr(13))[0]}")

    return send


async def _open_grpc(address: str, form: str, number: int) -> Send:
    # Channels with equal options share a connection; a number of its own keeps them apart.
    channel = grpc.aio.insecure_channel(address, [("toolgauge.connection", number)])
    export: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_METHOD)

    async def send(body: bytes) -> None:
        await export(body)

    return send


if __name__ == "__main__":
    main()
