"""The protocol edge, over real sockets: what is accepted, what is refused, and in which words."""

from __future__ import annotations

import gzip
import json
import socket
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import zstandard
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, service_class: Any) -> Iterator[Any]:
    """One service for all tests here; each test sends calls of its own."""
    service = service_class(
        tmp_path_factory.mktemp("edge") / "data", only="ingest", TOOLGAUGE_MAX_REQUEST_BYTES="8MiB"
    )
    yield service
    service.kill()


@pytest.fixture
def body(otlp: Any, request: pytest.FixtureRequest) -> bytes:
    """A request with one call that no other test sends."""
    sent: bytes = otlp.logs(otlp.log(otlp.tool_call | {"call_id": request.node.nodeid}))
    return sent


def _stored(response: Any) -> int:
    assert response.status_code == 200, response.text
    return int(response.headers["toolgauge-stored"])


@pytest.mark.parametrize(
    "content_type",
    ["application/x-protobuf", "Application/X-Protobuf", "application/x-protobuf; charset=utf-8"],
)
def test_protobuf_content_types(service: Any, body: bytes, content_type: str) -> None:
    response = service.post("logs", body, content_type)
    assert _stored(response) == 1
    assert response.headers["content-type"] == "application/x-protobuf"
    assert response.content == b""


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; Charset=UTF-8"])
def test_json_content_types(service: Any, content_type: str) -> None:
    response = service.post("logs", b'{"resourceLogs":[]}', content_type)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {}


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "", "json"])
def test_other_content_types_are_415(service: Any, body: bytes, content_type: str) -> None:
    response = service.post("logs", body, content_type)
    assert response.status_code == 415
    status = Status.FromString(response.content)
    assert status.message == "Content-Type must be application/x-protobuf or application/json"
    assert status.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstandard.ZstdCompressor().compress)],
)
def test_compressed_bodies(
    service: Any, body: bytes, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    assert _stored(service.post("logs", compress(body), content_encoding=encoding)) == 1
    broken = service.post("logs", compress(body)[:-4], content_encoding=encoding)
    assert broken.status_code == 400
    assert "ends too early" in Status.FromString(broken.content).message


def test_other_encodings_are_415(service: Any, body: bytes) -> None:
    assert service.post("logs", body, content_encoding="br").status_code == 415


@pytest.mark.parametrize("path", ["/v1/logs", "/v1/logs/", "/a/b/v1/logs", "/otlp/v1/logs"])
def test_any_prefix(service: Any, body: bytes, path: str) -> None:
    assert _stored(service.post("logs", body, path=path)) == 1


@pytest.mark.parametrize("path", ["/v1/logs", "/v1/traces", "/otlp/v1/metrics"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PROPFIND"])
def test_other_methods_are_405(service: Any, path: str, method: str) -> None:
    response = service.http.request(method, path, headers={"content-type": "application/json"})
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    if method != "HEAD":
        assert response.json() == {"code": 12, "message": "this path takes POST only"}


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PROPFIND"])
def test_other_paths_are_404_in_the_requests_encoding(service: Any, method: str) -> None:
    in_json = service.http.request(method, "/nowhere", headers={"content-type": "application/json"})
    assert (in_json.status_code, in_json.json()["code"]) == (404, 12)
    in_protobuf = service.http.request(method, "/nowhere")
    assert in_protobuf.status_code == 404
    assert "/v1/logs" in Status.FromString(in_protobuf.content).message


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_an_empty_body_of_any_encoding_is_an_empty_request(service: Any, encoding: str) -> None:
    assert service.post("logs", b"", content_encoding=encoding).status_code == 200


def test_gzip_padded_with_zeros_is_taken(service: Any, body: bytes) -> None:
    assert _stored(service.post("logs", gzip.compress(body) + bytes(512), content_encoding="gzip")) == 1


def _talk(service: Any, *parts: bytes) -> bytes:
    """Send parts over a connection of its own, each after something was answered; all that was answered."""
    host, port = service.endpoints["http"].split(":")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        for number, part in enumerate(parts):
            if number:
                answer += connection.recv(4096)
            connection.sendall(part)
        while received := connection.recv(4096):
            answer += received
    return answer


def test_http_1_0_and_expect_and_chunks(service: Any, body: bytes) -> None:
    head = b"Host: x\r\nContent-Type: application/x-protobuf\r\n"
    length = b"Content-Length: %d\r\n" % len(body)
    old = _talk(service, b"POST /v1/logs HTTP/1.0\r\n" + head + length + b"\r\n" + body)
    assert b" 200 OK\r\n" in old
    assert b"toolgauge-stored: 1" in old
    head += b"Connection: close\r\n"
    asked = b"POST /v1/logs HTTP/1.1\r\n" + head + length + b"Expect: 100-continue\r\n\r\n"
    expected = _talk(service, asked, body)
    assert expected.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    chunked = _talk(
        service, b"POST /v1/logs HTTP/1.1\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    )
    assert b"toolgauge-duplicates: 1" in chunked


@given(noise=st.binary(max_size=400), port=st.sampled_from(["http", "grpc"]))
@hypothesis_settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_no_noise_ends_the_process(service: Any, noise: bytes, port: str) -> None:
    host, number = service.endpoints[port].split(":")
    prefix = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" if port == "grpc" else b"POST /v1/logs HTTP/1.1\r\n"
    for sent in (noise, prefix + noise):
        with socket.create_connection((host, int(number)), timeout=5) as connection:
            connection.sendall(sent)
    assert service.http.get("/healthz").status_code == 200
    assert service.process.poll() is None


def test_the_grpc_health_service(service: Any) -> None:
    with grpc.insecure_channel(service.endpoints["grpc"]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", "opentelemetry.proto.collector.logs.v1.LogsService"):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=30)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as caught:
            stub.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=30)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        # There is no reflection: what is served is public, and what is not asked for need not be there.
        reflect: Any = channel.stream_unary("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        with pytest.raises(grpc.RpcError) as caught:
            reflect(iter([b""]), timeout=30)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("path", ["/", "/v1/", "/v1/log", "/v2/logs", "/v1/logs/x", "/xv1/logs"])
def test_other_paths_are_404(service: Any, body: bytes, path: str) -> None:
    response = service.post("logs", body, path=path)
    assert response.status_code == 404
    assert "/v1/logs, /v1/metrics or /v1/traces" in Status.FromString(response.content).message


@pytest.mark.parametrize("signal", ["logs", "traces", "metrics"])
def test_empty_requests_succeed(service: Any, signal: str) -> None:
    assert service.post(signal, b"").status_code == 200
    assert service.post(signal, b"{}", "application/json").json() == {}
    assert service.export(signal, b"") == b""


@pytest.mark.parametrize("signal", ["logs", "traces", "metrics"])
def test_malformed_requests_are_refused_on_both_transports(service: Any, signal: str) -> None:
    response = service.post(signal, b"\xff\xffnonsense")
    assert response.status_code == 400
    assert f"not an OTLP export request of {signal}" in Status.FromString(response.content).message
    response = service.post(signal, b'{"resourceLogs"', "application/json")
    assert response.status_code == 400
    assert "not valid JSON at line 1" in response.json()["message"]
    with pytest.raises(grpc.RpcError) as caught:
        service.export(signal, b"\xff\xffnonsense")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert _retry_info(caught.value) is None


def test_metrics_and_traces_are_accepted(service: Any, otlp: Any) -> None:
    metrics = ExportMetricsServiceRequest()
    by_scope = metrics.resource_metrics.add().scope_metrics.add()
    counter = by_scope.metrics.add(name="qwen-code.tool.call.count").sum
    counter.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    counter.is_monotonic = True
    counter.data_points.add(as_int=3)
    assert service.post("metrics", metrics.SerializeToString()).content == b""
    spans = otlp.spans(otlp.span(otlp.tool_call | {"call_id": "as-a-span"}))
    assert _stored(service.post("traces", spans)) == 1


def test_records_that_cannot_be_kept_are_a_partial_success(service: Any, otlp: Any) -> None:
    records = [
        otlp.log(otlp.tool_call | {"call_id": "kept-of-three"}),
        otlp.log({k: v for k, v in otlp.tool_call.items() if k != "event.timestamp"}, time=1),
        otlp.log(otlp.tool_call | {"call_id": 12}),
    ]
    response = service.post("logs", otlp.logs(*records))
    assert _stored(response) == 1
    answer = ExportLogsServiceResponse.FromString(response.content).partial_success
    assert answer.rejected_log_records == 2
    assert answer.error_message == (
        "1 rejected: neither the record's time nor event.timestamp lies between 2020-01-01 and one day after "
        "arrival; 1 rejected: session.id, prompt_id or call_id is not a string"
    )
    over_grpc = ExportLogsServiceResponse.FromString(service.export("logs", otlp.logs(*records)))
    assert over_grpc.partial_success == answer


@pytest.mark.parametrize("size", [6 * MIB, 9 * MIB])
def test_the_size_limit_is_the_same_on_both_transports(service: Any, otlp: Any, size: int) -> None:
    name = f"of-{size}"
    body = otlp.logs(otlp.log(otlp.tool_call | {"call_id": name, "function_args": "x" * size}))
    if size < 8 * MIB:
        assert _stored(service.post("logs", body)) == 1
        assert service.export("logs", body) == b""
        return
    for response in (
        service.post("logs", body),
        service.post("logs", gzip.compress(body), content_encoding="gzip"),
    ):
        assert response.status_code == 413
        assert "larger than 8388608 bytes" in Status.FromString(response.content).message
    with pytest.raises(grpc.RpcError) as caught:
        service.export("logs", body)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert _retry_info(caught.value) is None


def test_a_client_that_goes_away_half_way_harms_nobody(service: Any, body: bytes) -> None:
    host, port = service.endpoints["http"].split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = "POST /v1/logs HTTP/1.1\r\nHost: x\r\n"
        head += "Content-Type: application/x-protobuf\r\nContent-Length: 999\r\n\r\n"
        connection.sendall(head.encode() + body[:10])
    assert _stored(service.post("logs", body)) == 1


def test_a_client_that_falls_silent_is_refused_and_gives_its_room_back(service: Any, body: bytes) -> None:
    host, port = service.endpoints["http"].split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        head = "POST /v1/logs HTTP/1.1\r\nHost: x\r\n"
        head += f"Content-Type: application/x-protobuf\r\nContent-Length: {7 * MIB}\r\n\r\n"
        connection.sendall(head.encode() + body)
        answer = b""
        while b"seconds" not in answer:
            received = connection.recv(4096)
            assert received, answer
            answer += received
    # Not 408, which would be final to an OTLP exporter.
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 5" in answer
    assert b"nothing of the body came for 5 seconds" in answer
    assert _stored(service.post("logs", body)) == 1
    assert "toolgauge_waiting_bytes 0.0" in service.http.get("/metrics").text


def test_a_grpc_client_that_gives_up_gets_its_request_stored_once_all_the_same(
    service: Any, otlp: Any
) -> None:
    calls = [otlp.log(otlp.tool_call | {"call_id": f"gave-up-{n}"}) for n in range(2000)]
    request = otlp.logs(*calls)
    with pytest.raises(grpc.RpcError) as caught:
        service.export("logs", request, timeout=0.01)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    again = service.post("logs", request)
    assert int(again.headers["toolgauge-stored"]) + int(again.headers["toolgauge-duplicates"]) == 2000
    assert "toolgauge_waiting_bytes 0.0" in service.http.get("/metrics").text


@pytest.mark.parametrize(
    "noise", [b"\x00" * 64, b"GET / HTTP/9\r\n\r\n", b"\x16\x03\x01\x02\x00" + b"x" * 600]
)
@pytest.mark.parametrize("port", ["http", "grpc"])
def test_noise_on_a_port_harms_nobody(service: Any, body: bytes, noise: bytes, port: str) -> None:
    host, number = service.endpoints[port].split(":")
    with socket.create_connection((host, int(number)), timeout=5) as connection:
        connection.sendall(noise)
        connection.shutdown(socket.SHUT_WR)
    assert _stored(service.post("logs", body)) == 1


def test_pages_for_the_watcher(service: Any, body: bytes) -> None:
    service.post("logs", body)
    assert service.http.get("/healthz").json() == {"status": "ok"}
    ready = service.http.get("/readyz")
    assert (ready.status_code, ready.json()["ready"]) == (200, True)
    assert ready.json()["committed"] >= 1
    metrics = service.http.get("/metrics").text
    assert 'toolgauge_requests_total{result="ok",signal="logs",transport="http"}' in metrics
    assert 'toolgauge_events_stored_total{signal="logs",transport="http"}' in metrics
    for name in (
        "toolgauge_waiting_bytes_limit 1.34217728e+08",
        "toolgauge_request_seconds_bucket",
        "toolgauge_group_requests_bucket",
        "toolgauge_published",
        "process_resident_memory_bytes",
    ):
        assert name in metrics
    # What telemetry says is in no label.
    assert "read_file" not in metrics


def test_a_store_in_trouble_is_503_and_unavailable_for_the_whole_request(
    otlp: Any, start_service: Callable[..., Any], tmp_path: Path
) -> None:
    """The disk is full: a file system of 3 MiB, so that the error is the real one."""
    small = tmp_path / "small"
    small.mkdir()
    if not _mount_small(small):
        pytest.skip("a small file system cannot be mounted here (needs root)")
    try:
        service = start_service(data_dir=small / "data", only="ingest")
        answered: list[str] = []
        refused: Any = None
        for number in range(400):
            calls = [f"{number}-{n}-" + "x" * 400 for n in range(40)]
            request = otlp.logs(*(otlp.log(otlp.tool_call | {"call_id": call}) for call in calls))
            response = service.post("logs", request)
            if response.status_code == 503:
                refused = response
                break
            assert _stored(response) == 40
            answered += calls
        assert refused is not None
        assert refused.headers["retry-after"] == "5"
        assert "nothing of this request is kept" in Status.FromString(refused.content).message
        with pytest.raises(grpc.RpcError) as caught:
            service.export("logs", request)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        info = _retry_info(caught.value)
        assert info is not None
        assert info.retry_delay.seconds == 5
        assert service.http.get("/readyz").status_code == 503
        with grpc.insecure_channel(service.endpoints["grpc"]) as channel:
            watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=30)
            assert any(each.status == health_pb2.HealthCheckResponse.NOT_SERVING for each in watched)
        service.kill()
        assert _calls_in(small / "data" / "events.duckdb", tmp_path) == sorted(answered)
    finally:
        _unmount(small)


def _mount_small(folder: Path) -> bool:
    import subprocess

    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)], capture_output=True
    )
    return done.returncode == 0


def _unmount(folder: Path) -> None:
    import subprocess

    subprocess.run(["umount", "-l", str(folder)], check=True)


def _calls_in(store: Path, elsewhere: Path) -> list[str]:
    """The calls of a store whose disk has no room to open it: a copy is opened."""
    import shutil

    import duckdb

    for file in (store, store.with_name(store.name + ".wal")):
        if file.exists():
            shutil.copy(file, elsewhere / file.name)
    with duckdb.connect(str(elsewhere / store.name)) as connection:
        rows = connection.execute("SELECT call_id FROM tool_calls ORDER BY call_id").fetchall()
    return [call for (call,) in rows]


def _retry_info(error: Any) -> RetryInfo | None:
    for key, value in error.trailing_metadata():
        if key == "grpc-status-details-bin":
            for detail in Status.FromString(value).details:
                info = RetryInfo()
                if detail.Unpack(info):
                    return info
    return None


def test_every_error_has_a_row_in_the_table() -> None:
    from ingest import exceptions
    from ingest.receive.statuses import ANSWERS

    def leaves(kind: type[BaseException]) -> set[type[BaseException]]:
        below = kind.__subclasses__()
        return {kind} if not below else set().union(*map(leaves, below))

    asked = leaves(exceptions.BadRequest) | leaves(exceptions.TryAgain)
    assert set(ANSWERS) == asked | {exceptions.InternalError}
    assert all(answer.section for answer in ANSWERS.values())
    for kind, answer in ANSWERS.items():
        again = issubclass(kind, exceptions.TryAgain)
        assert (answer.http in (429, 502, 503, 504)) is again
        assert (answer.grpc is grpc.StatusCode.UNAVAILABLE) is again


def test_json_errors_are_json(service: Any) -> None:
    response = service.post("logs", b'{"resourceLogs":[{"scopeLogs":7}]}', "application/json")
    assert response.status_code == 400
    assert json.loads(response.content) == {
        "code": 3,
        "message": "the body is not an OTLP export request of logs: resourceLogs[0].scopeLogs must be a list",
    }
