"""Stopping: in order, at once when told twice, and once for a whole group."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import httpx


def _half_a_request(service: Any, body: bytes) -> socket.socket:
    """A connection with a request whose last byte is to come: the service cannot be done before it."""
    host, port = service.endpoints["http"].split(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    head = "POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:-1])
    return connection


def _wait_for(service: Any, event: str) -> None:
    deadline = time.monotonic() + 40
    while f'"event": "{event}"' not in service.log.read_text():
        assert time.monotonic() < deadline, service.log.read_text()
        time.sleep(0.02)


def _wait_until_nobody_listens(service: Any) -> None:
    """The listener closes soon after the word, not with it."""
    host, port = service.endpoints["http"].split(":")
    deadline = time.monotonic() + 40
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=30).close()
        except ConnectionRefusedError:
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_was_begun_is_kept_and_answered_and_nothing_new_is_let_in(
    otlp: Any, start_service: Callable[..., Any]
) -> None:
    service = start_service(only="ingest")
    body = otlp.logs(otlp.log(otlp.tool_call))
    with _half_a_request(service, body) as connection:
        service.process.send_signal(signal.SIGTERM)
        _wait_for(service, "draining")
        _wait_until_nobody_listens(service)
        connection.sendall(body[-1:])
        assert b"toolgauge-stored: 1" in connection.recv(4096)
    assert service.process.wait(timeout=40) == 0


def test_a_second_signal_ends_at_once_and_loses_nothing_answered(
    otlp: Any, start_service: Callable[..., Any]
) -> None:
    service = start_service(only="ingest")
    answered = otlp.logs(otlp.log(otlp.tool_call))
    assert service.post("logs", answered).status_code == 200
    with _half_a_request(service, answered):
        service.process.send_signal(signal.SIGTERM)
        _wait_for(service, "draining")
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(timeout=40) == 130
    service.start()
    assert service.post("logs", answered).headers["toolgauge-duplicates"] == "1"


def test_a_signal_to_the_whole_group_is_one_wish(otlp: Any, start_service: Callable[..., Any]) -> None:
    service = start_service()
    body = otlp.logs(otlp.log(otlp.tool_call))
    with _half_a_request(service, body) as connection:
        os.killpg(service.process.pid, signal.SIGTERM)
        _wait_for(service, "draining")
        # However late the supervisor passes the signal on, it is the same.
        time.sleep(1)
        connection.sendall(body[-1:])
        assert b"toolgauge-stored: 1" in connection.recv(4096)
    assert service.process.wait(timeout=40) == 0
    assert '"event": "stopped"' in service.log.read_text()


def test_two_signals_to_the_whole_group_end_it_at_once(otlp: Any, start_service: Callable[..., Any]) -> None:
    service = start_service()
    body = otlp.logs(otlp.log(otlp.tool_call))
    with _half_a_request(service, body):
        os.killpg(service.process.pid, signal.SIGTERM)
        _wait_for(service, "draining")
        os.killpg(service.process.pid, signal.SIGTERM)
        assert service.process.wait(timeout=40) == 130
    assert not (service.data_dir / "endpoints.json").exists()
    assert '"event": "stopped"' not in service.log.read_text()


def test_requests_that_meet_the_end_are_kept_or_may_come_again(
    otlp: Any, start_service: Callable[..., Any]
) -> None:
    """Sixteen clients over both transports while it stops: whatever was answered as kept is there after."""
    service = start_service(only="ingest")
    answered: list[str] = []

    def send(number: int) -> None:
        for n in range(200):
            call = f"{number}-{n}"
            body = otlp.logs(otlp.log(otlp.tool_call | {"call_id": call}))
            try:
                if number % 2:
                    service.export("logs", body, timeout=20)
                else:
                    response = service.post("logs", body)
                    assert response.status_code in (200, 503), response.status_code
                    if response.status_code == 503:
                        return
            except (grpc.RpcError, httpx.TransportError):
                return
            answered.append(call)
            if len(answered) == 100:
                service.process.send_signal(signal.SIGTERM)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(send, range(16)))
    assert service.process.wait(timeout=40) == 0
    service.start()
    kept = otlp.logs(*(otlp.log(otlp.tool_call | {"call_id": call}) for call in answered))
    assert int(service.post("logs", kept).headers["toolgauge-duplicates"]) == len(answered)
