"""What a client can cost: bombs, bodies at the limit, crowds, and those who take their time."""

from __future__ import annotations

import socket
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
import zstandard
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from ingest.exceptions import TooSlow
from ingest.receive.reading import Pace

MIB = 1024 * 1024
_EXPORT = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, service_class: Any) -> Iterator[Any]:
    """A service with the limits that it has by default."""
    service = service_class(tmp_path_factory.mktemp("bounds") / "data", only="ingest")
    yield service
    service.kill()


def _figure(service: Any, name: str) -> float:
    lines = service.http.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


class Peak:
    """How much memory the process of a service takes at most from now on, in bytes."""

    def __init__(self, service: Any) -> None:
        self._process = Path("/proc") / str(service.process.pid)
        (self._process / "clear_refs").write_text("5")
        self._before = self._read("VmRSS")

    def growth(self) -> int:
        return self._read("VmHWM") - self._before

    def _read(self, name: str) -> int:
        status = (self._process / "status").read_text()
        return int(status.split(f"{name}:")[1].split()[0]) * 1024


def _bomb(wbits: int) -> bytes:
    """512 MiB of zeros, but for their end: whoever reads that far has read too far."""
    stream = zlib.compressobj(wbits=wbits)
    head = stream.compress(b"") + stream.flush(zlib.Z_FULL_FLUSH)
    block = stream.compress(bytes(16 * MIB)) + stream.flush(zlib.Z_FULL_FLUSH)
    return head + block * 32


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_a_bomb_over_http_costs_little(service: Any, encoding: str) -> None:
    if encoding == "zstd":
        stream = zstandard.ZstdCompressor().compressobj()
        bomb = b"".join(stream.compress(bytes(16 * MIB)) for _ in range(32)) + stream.flush()
    else:
        bomb = _bomb(31 if encoding == "gzip" else 15)
    peak = Peak(service)
    response = service.post("logs", bomb, content_encoding=encoding)
    assert response.status_code == 413
    assert "larger than 67108864 bytes" in Status.FromString(response.content).message
    assert "retry-after" not in response.headers
    assert peak.growth() < 100 * MIB


@pytest.mark.parametrize(
    # The client compresses it in this very test, which takes its time: one of full size is enough.
    ("compression", "size"),
    [(grpc.Compression.Gzip, 512 * MIB), (grpc.Compression.Deflate, 192 * MIB)],
)
def test_a_bomb_over_grpc_costs_little(service: Any, compression: grpc.Compression, size: int) -> None:
    peak = Peak(service)
    with pytest.raises(grpc.RpcError) as caught:
        _call(service, bytes(size), compression)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert _retry_info(caught.value) is None
    assert peak.growth() < 100 * MIB


def test_the_largest_request_by_default_is_64_mib_on_both_transports(service: Any, otlp: Any) -> None:
    def body(size: int) -> bytes:
        sent: bytes = otlp.logs(
            otlp.log(otlp.tool_call | {"call_id": f"of-{size}", "function_args": "x" * size})
        )
        return sent

    assert _call(service, body(6 * MIB)) == b""
    assert _call(service, body(63 * MIB)) == b""
    assert service.post("logs", body(63 * MIB)).headers["toolgauge-duplicates"] == "1"
    assert service.post("logs", body(65 * MIB)).status_code == 413
    with pytest.raises(grpc.RpcError) as caught:
        _call(service, body(65 * MIB))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert _retry_info(caught.value) is None


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Deflate])
def test_grpc_compression(service: Any, otlp: Any, compression: grpc.Compression) -> None:
    assert _call(service, otlp.logs(otlp.log(otlp.tool_call)), compression) == b""


def test_a_crowd_of_large_requests_over_grpc_waits_and_is_kept(service: Any, otlp: Any) -> None:
    """Twelve times 40 MiB at once, from connections of their own: none is refused, few are in memory."""
    texts = "x" * 40 * MIB
    body = otlp.logs(otlp.log(otlp.tool_call | {"call_id": "crowd", "function_args": texts}))
    peak = Peak(service)
    with ThreadPoolExecutor(12) as pool:
        answers = pool.map(lambda number: _call(service, body, number=number), range(12))
        assert list(answers) == [b""] * 12
    # The documented bound: the queue and one more, four that are read, each of them twice, and the one that
    # is written, with what is decoded of it. All twelve would be 960 MiB, and twice that.
    assert peak.growth() < 128 * MIB + 64 * MIB + 4 * 2 * 40 * MIB + 3 * 40 * MIB


def test_who_waits_in_vain_is_told_to_come_again_and_nothing_answered_is_lost(
    otlp: Any, start_service: Callable[..., Any]
) -> None:
    service = start_service(
        only="ingest",
        TOOLGAUGE_QUEUE_BYTES="1MiB",
        TOOLGAUGE_QUEUE_WAIT_SECONDS="0.05",
        TOOLGAUGE_PUBLISH_INTERVAL_SECONDS="600",
    )
    host, port = service.endpoints["http"].split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        # A body that takes all the room, and does not come.
        head = "POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
        connection.sendall(f"{head}Content-Length: {MIB}\r\n\r\n".encode())
        while _figure(service, "toolgauge_waiting_bytes ") < MIB:
            time.sleep(0.01)
        small = otlp.logs(otlp.log(otlp.tool_call))
        refused = service.post("logs", small)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "2"
        with pytest.raises(grpc.RpcError) as caught:
            _call(service, small)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        info = _retry_info(caught.value)
        assert info is not None
        assert info.retry_delay.seconds == 2

    def send(number: int) -> int:
        """The number of calls that were answered as kept."""
        calls = [
            otlp.log(otlp.tool_call | {"call_id": f"{number}-{n}", "function_args": "x" * 2000})
            for n in range(100)
        ]
        request = otlp.logs(*calls)
        if number % 2:
            response = service.post("logs", request)
            assert response.status_code in (200, 503)
            return 100 if response.status_code == 200 else 0
        try:
            _call(service, request)
        except grpc.RpcError as error:
            code: Any = error
            if code.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return 0
        return 100

    with ThreadPoolExecutor(16) as pool:
        answered = sum(pool.map(send, range(48)))
    assert _figure(service, "toolgauge_waiting_bytes ") == 0
    stored = int(_figure(service, "toolgauge_events_stored_total"))
    # What was refused may not be kept, and what was answered must be.
    assert stored == answered
    service.kill()
    service.start()
    again = sum(
        int(
            service.post(
                "logs",
                otlp.logs(*(otlp.log(otlp.tool_call | {"call_id": f"{number}-{n}"}) for n in range(100))),
            ).headers["toolgauge-duplicates"]
        )
        for number in range(48)
    )
    assert again == answered


def test_clients_that_take_their_time_are_shown_out(service: Any, otlp: Any) -> None:
    """A head that does not end, silence, and a gRPC call whose message does not come: all are over soon."""
    host, port = service.endpoints["http"].split(":")

    def until_closed(sent: bytes) -> bytes:
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(sent)
            answer = b""
            try:
                while received := connection.recv(4096):
                    answer += received
            except ConnectionResetError:
                pass
            return answer

    def silent_call() -> tuple[Any, Any]:
        def nothing() -> Iterator[bytes]:
            time.sleep(30)
            yield b""

        with grpc.insecure_channel(service.endpoints["grpc"]) as channel:
            call: Any = channel.stream_unary(_EXPORT)
            with pytest.raises(grpc.RpcError) as caught:
                call(nothing(), timeout=60)
            error: Any = caught.value
            return error.code(), _retry_info(error)

    with ThreadPoolExecutor(4) as pool:
        head = pool.submit(until_closed, b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nX-")
        silence = pool.submit(until_closed, b"")
        call = pool.submit(silent_call)
        assert service.post("logs", otlp.logs(otlp.log(otlp.tool_call))).status_code == 200
        assert _call(service, otlp.logs(otlp.log(otlp.tool_call))) == b""
        assert head.result() == silence.result() == b""
        code, info = call.result()
    assert code is grpc.StatusCode.UNAVAILABLE
    assert info is not None


def test_headers_without_an_end_are_refused(service: Any) -> None:
    host, port = service.endpoints["http"].split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"POST /v1/logs HTTP/1.1\r\n" + b"X-A: " + b"x" * 100_000)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


def test_a_call_without_a_message_is_malformed(service: Any) -> None:
    with grpc.insecure_channel(service.endpoints["grpc"]) as channel:
        call: Any = channel.stream_unary(_EXPORT)
        with pytest.raises(grpc.RpcError) as caught:
            call(iter(()), timeout=30)
        error: Any = caught.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_pace_is_borne_or_not() -> None:
    fast = Pace()
    for _ in range(50):
        fast.came(64 * 1024, 1.0)
    assert fast.patience() == 5.0
    fast.came(1, 8.0)
    # The longest time of all is near.
    assert fast.patience() == 2.0
    assert fast.missed().seconds == 60
    drip = Pace()
    drip.came(1, 4.9)
    with pytest.raises(TooSlow, match="less than 8192 bytes a second"):
        drip.came(1, 4.9)


def _call(
    service: Any,
    body: bytes,
    compression: grpc.Compression = grpc.Compression.NoCompression,
    number: int = 0,
) -> bytes:
    options = [("grpc.max_send_message_length", -1), ("grpc.enable_retries", 0), ("toolgauge.number", number)]
    with grpc.insecure_channel(service.endpoints["grpc"], options, compression) as channel:
        call: Any = channel.unary_unary(_EXPORT)
        answer: bytes = call(body, timeout=90)
        return answer


def _retry_info(error: Any) -> RetryInfo | None:
    for key, value in error.trailing_metadata():
        if key == "grpc-status-details-bin":
            for detail in Status.FromString(value).details:
                info = RetryInfo()
                if detail.Unpack(info):
                    return info
    return None
