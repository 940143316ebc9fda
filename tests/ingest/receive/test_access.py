"""Who may send, and how often: the rules by themselves, and over real sockets."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.status_pb2 import Status
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.exceptions import TokenUnusable, TooManyRequests, Unauthenticated
from ingest.receive.access import Access, Caller, ClientRates, is_loopback, read_tokens

TOKEN = "0123456789abcdef-the-first"
OTHER = "0123456789abcdef-the-other"
_EXPORT = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


def _caller(authorization: str = "", has_certificate: bool = False, address: str = "192.0.2.1") -> Caller:
    return Caller(address, authorization, has_certificate)


def test_tokens_of_both_settings_count(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# the new one\n{OTHER}\n\n")
    assert read_tokens(f"{TOKEN}, {TOKEN}2 ", file) == (TOKEN, f"{TOKEN}2", OTHER)
    assert read_tokens("", None) == ()


@pytest.mark.parametrize("given", ["short", "ünlikely-to-be-a-token", "0123456789abcdef\x7f"])
def test_bad_tokens_are_refused_without_being_shown(given: str) -> None:
    with pytest.raises(TokenUnusable, match=r"^ingest_token: a token") as caught:
        read_tokens(given, None)
    assert given not in str(caught.value)


@pytest.mark.parametrize("content", [None, b"", b"# only words\n", b"\xff\xfe", b"short\n"])
def test_a_token_file_must_hold_tokens(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "tokens"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(TokenUnusable, match=r"^ingest_token_file: "):
        read_tokens("", file)


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer  {OTHER} ", f"BEARER {OTHER}"])
def test_any_of_the_tokens_lets_in(header: str) -> None:
    Access([TOKEN, OTHER]).check(_caller(header))


@given(st.text(max_size=40) | st.text(max_size=40).map("Bearer {}".format))
@settings(max_examples=30)
def test_anything_else_does_not(header: str) -> None:
    access = Access([TOKEN, OTHER])
    for wrong in (header, TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"):
        with pytest.raises(Unauthenticated):
            access.check(_caller(wrong))
        with pytest.raises(Unauthenticated):
            access.check_reader(wrong)


def test_without_tokens_none_is_needed() -> None:
    Access().check(_caller())
    Access().check_reader("")


def test_a_certificate_and_a_token_are_both_needed_but_by_the_program_itself() -> None:
    access = Access([TOKEN], local_pass="f" * 64, certificate_needed=True)
    access.check(_caller(f"Bearer {TOKEN}", has_certificate=True))
    access.check(_caller("Bearer " + "f" * 64))
    with pytest.raises(Unauthenticated, match="client certificate"):
        access.check(_caller(f"Bearer {TOKEN}"))
    with pytest.raises(Unauthenticated, match="token"):
        access.check(_caller(has_certificate=True))


@example([1.7139849781280425, 1.926471963875441, 0.0], 0.125, 1)
@given(st.lists(st.floats(0, 3), max_size=60), st.floats(0.1, 20), st.integers(1, 10))
def test_no_client_gets_more_than_its_burst_and_its_rate(
    pauses: list[float], rate: float, burst: int
) -> None:
    rates = ClientRates(rate, burst)
    now, taken = 0.0, 0
    for pause in pauses:
        now += pause
        try:
            rates.take("192.0.2.1", now)
            taken += 1
        except TooManyRequests as error:
            # Whoever comes again when told to is let in.
            now += error.retry_after_seconds
            rates.take("192.0.2.1", now)
            taken += 1
    assert taken <= burst + rate * now + 1e-6


def test_clients_are_counted_apart_and_forgotten_when_there_are_too_many() -> None:
    rates = ClientRates(0.001, 1)
    for number in range(25_000):
        rates.take(f"client-{number}", 1.0)
    assert len(rates._buckets) == 10_000
    with pytest.raises(TooManyRequests):
        rates.take("client-24999", 2.0)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, service_class: Any) -> Iterator[Any]:
    """A service that can be reached from elsewhere, and wants one of two tokens."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tokens").write_text(OTHER)
    service = service_class(
        folder / "data",
        "--host",
        "0.0.0.0",
        only="ingest",
        TOOLGAUGE_INGEST_TOKEN=TOKEN,
        TOOLGAUGE_INGEST_TOKEN_FILE=str(folder / "tokens"),
    )
    yield service
    service.kill()


def _export(service: Any, body: bytes, **metadata: str) -> bytes:
    call: Any = service.channel.unary_unary(_EXPORT)
    answer: bytes = call(body, timeout=60, metadata=tuple(metadata.items()))
    return answer


def test_both_transports_want_a_token(guarded: Any, otlp: Any) -> None:
    body = otlp.logs(otlp.log(otlp.tool_call))
    for headers in ({}, {"authorization": f"Bearer {TOKEN}0"}, {"authorization": f"Basic {TOKEN}"}):
        response = guarded.post("logs", body, **headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        status = Status.FromString(response.content)
        assert status.code == grpc.StatusCode.UNAUTHENTICATED.value[0]
        assert status.message == "a token (Authorization: Bearer …) is needed to send telemetry here"
        with pytest.raises(grpc.RpcError) as caught:
            _export(guarded, body, **headers)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    in_json = guarded.post("logs", b"{}", "application/json")
    assert (in_json.status_code, in_json.json()["code"]) == (401, 16)
    assert guarded.post("logs", body, authorization=f"Bearer {TOKEN}").headers["toolgauge-stored"] == "1"
    assert guarded.post("logs", body, authorization=f"bearer {OTHER}").headers["toolgauge-duplicates"] == "1"
    assert _export(guarded, body, authorization=f"Bearer {OTHER}") == b""


def test_only_health_is_told_without_a_token(guarded: Any) -> None:
    assert guarded.http.get("/healthz").status_code == 200
    assert guarded.http.get("/readyz").status_code == 200
    assert guarded.http.get("/metrics").status_code == 401
    told = guarded.http.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"})
    assert 'result="Unauthenticated"' in told.text


def test_the_program_itself_needs_no_token(guarded: Any, otlp: Any, toolgauge: Any, tmp_path: Path) -> None:
    (tmp_path / "logs.pb").write_bytes(otlp.logs(otlp.log(otlp.tool_call | {"call_id": "imported"})))
    data_dir = ["--data-dir", str(guarded.data_dir)]
    done = toolgauge("import", str(tmp_path / "logs.pb"), "--format", "json", *data_dir)
    assert json.loads(done.stdout)[0]["stored"] == 1, done.stderr
    shown = toolgauge("sql", "SELECT count(*) AS n FROM tool_calls WHERE call_id = 'imported'", *data_dir)
    assert shown.stderr == ""
    assert shown.stdout.split() == ["n", "-", "1"]


def test_it_says_who_can_reach_it_and_shows_no_token(guarded: Any, toolgauge: Any, tmp_path: Path) -> None:
    log = guarded.log.read_text()
    assert "listening_beyond_loopback" in log
    assert "set tls_certificate and tls_key" in log
    shown = toolgauge("config", TOOLGAUGE_INGEST_TOKEN=TOKEN)
    assert "hidden" in shown.stdout
    # A crash of the settings, and the process list, show none either.
    wrong = toolgauge("config", TOOLGAUGE_INGEST_TOKEN=TOKEN, TOOLGAUGE_GRPC_PORT="x")
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    written = "".join(
        file.read_bytes().decode("latin-1") for file in guarded.data_dir.rglob("*") if file.is_file()
    )
    for text in (log, shown.stdout, wrong.stderr, processes, written):
        assert TOKEN not in text
        assert OTHER not in text


def test_beyond_loopback_without_a_token_it_does_not_start(toolgauge: Any, tmp_path: Path) -> None:
    ports = ["--grpc-port", "0", "--http-port", "0"]
    done = toolgauge(
        "serve", "--only", "ingest", "--host", "0.0.0.0", "--data-dir", str(tmp_path / "d"), *ports
    )
    assert done.returncode == 2
    assert "error: 0.0.0.0 is no loopback address" in done.stderr
    assert "set TOOLGAUGE_INGEST_TOKEN or ingest_token_file" in done.stderr


def test_a_client_that_sends_too_often_is_told_when_to_come_again(
    otlp: Any, start_service: Callable[..., Any]
) -> None:
    service = start_service(
        only="ingest", TOOLGAUGE_CLIENT_REQUESTS_PER_SECOND="0.01", TOOLGAUGE_CLIENT_REQUEST_BURST="2"
    )
    body = otlp.logs(otlp.log(otlp.tool_call))
    assert service.post("logs", body).status_code == 200
    assert service.export("logs", body) == b""
    refused = service.post("logs", body)
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 100
    caught: Any
    with pytest.raises(grpc.RpcError) as caught:
        service.export("logs", body)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert any(key == "grpc-status-details-bin" for key, _ in caught.value.trailing_metadata())


def test_an_import_sends_nothing_to_a_service_that_is_another(
    otlp: Any, start_service: Callable[..., Any], toolgauge: Any, tmp_path: Path
) -> None:
    """The addresses were left by a killed service, and its port is another's now."""
    service = start_service(only="ingest")
    stranger = start_service(only="ingest", data_dir=tmp_path / "other")
    written = json.loads((service.data_dir / "endpoints.json").read_text())
    (tmp_path / "logs.pb").write_bytes(otlp.logs(otlp.log(otlp.tool_call)))
    command = ["import", str(tmp_path / "logs.pb"), "--data-dir", str(service.data_dir), "--format", "json"]
    (service.data_dir / "endpoints.json").write_text(
        json.dumps(written | {"http": stranger.endpoints["http"]})
    )
    done = toolgauge(*command)
    assert done.returncode == 1
    assert "is not the service of this data directory (it has another store)" in done.stderr
    assert stranger.http.get("/readyz").json()["committed"] == 0
    (service.data_dir / "endpoints.json").write_text(json.dumps(written))
    assert json.loads(toolgauge(*command).stdout)[0]["stored"] == 1


def test_a_token_on_loopback_is_wanted_too(otlp: Any, start_service: Callable[..., Any]) -> None:
    service = start_service(only="ingest", TOOLGAUGE_INGEST_TOKEN=TOKEN)
    assert service.post("logs", b"").status_code == 401
    assert service.post("logs", b"", authorization=f"Bearer {TOKEN}").status_code == 200
    assert "listening_beyond_loopback" not in service.log.read_text()
    assert os.environ.get("TOOLGAUGE_INGEST_TOKEN") is None
    host, port = service.endpoints["http"].split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        head = "POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
        connection.sendall(f"{head}Content-Length: 999999\r\n\r\n".encode())
        # Before any of the body has come.
        assert connection.recv(100).startswith(b"HTTP/1.1 401")
