"""Damaged and random input: no crash, no hang, no unbounded memory, and a service that goes on.

A few seconds each here; `make fuzz` (FUZZ_SECONDS) goes on for as long as one likes, with new seeds.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest

from ingest.decode.json_columns import decode_json
from ingest.decode.points import Points
from ingest.decode.protobuf import decode_fields
from ingest.decode.records import Records
from ingest.decode.wire import Signal
from ingest.exceptions import BadRequest
from ingest.normalise.counters import normalise_points
from ingest.normalise.events import normalise

SECONDS = float(os.environ.get("FUZZ_SECONDS", "2"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
# What the service may take at most while it is fed rubbish; an idle one has about 250 MiB.
MOST_MIB = 700


def _mutated(rng: random.Random, body: bytes) -> bytes:
    """A few bytes changed, cut, doubled or put in."""
    content = bytearray(body)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not content:
            break
        at = rng.randrange(len(content))
        size = rng.randrange(1, 17)
        match rng.randrange(6):
            case 0:
                content[at] = rng.randrange(256)
            case 1:
                content[at] ^= 1 << rng.randrange(8)
            case 2:
                del content[at : at + size]
            case 3:
                content[at:at] = rng.randbytes(size)
            case 4:
                content[at:at] = content[at : at + size * 8]
            case _:
                del content[at:]
    return bytes(content)


def _turns() -> Iterator[random.Random]:
    """A generator for each turn, until the time is over."""
    end = time.monotonic() + SECONDS
    turn = 0
    while time.monotonic() < end:
        turn += 1
        yield random.Random(f"{SEED} {turn}")


def _bodies(fixtures: Path, signal: Signal, ending: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(fixtures.glob(f"*/*-{signal}{ending}"))]


@pytest.mark.parametrize("ending", [".pb", ".body.json"])
@pytest.mark.parametrize("signal", list(Signal))
def test_a_damaged_body_is_read_or_refused(otlp: Any, fixtures: Path, signal: Signal, ending: str) -> None:
    bodies = _bodies(fixtures, signal, ending)
    received = np.array([otlp.arrival])
    read = refused = 0
    for rng in _turns():
        body = _mutated(rng, rng.choice(bodies))
        try:
            if signal is Signal.METRICS:
                decode = decode_fields if ending == ".pb" else decode_json
                normalise_points(Points.of(decode(signal, [body])), received, "owner.id", b"k" * 32)
            else:
                of = Records.of_protobuf if ending == ".pb" else Records.of_json
                normalise(of(signal, [body]), received, "owner.id", b"k" * 32)
            read += 1
        except BadRequest:
            refused += 1
    assert read > 0
    assert refused > 0


@pytest.fixture(scope="module")
def service(service_class: Any, tmp_path_factory: Any) -> Iterator[Any]:
    service = service_class(tmp_path_factory.mktemp("fuzz") / "data", only="ingest")
    yield service
    service.kill()


def _goes_on(service: Any, otlp: Any, name: str) -> None:
    body = otlp.logs(otlp.log(otlp.tool_call | {"call_id": name}))
    assert service.process.poll() is None
    assert service.post("logs", body).headers["toolgauge-stored"] == "1"
    assert service.export("logs", body) == b""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    assert int(peak.split()[1]) / 1024 < MOST_MIB


def _say(address: str, content: bytes, patience: float = 0.05) -> None:
    """Say something to a port, listen for a moment, and hang up."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.settimeout(patience)
        try:
            connection.sendall(content)
            while connection.recv(65536):
                pass
        except OSError:
            # It hung up, or has nothing to say: both are fine.
            return


_HEAD = (
    b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
    b"Content-Length: %d\r\n\r\n%s"
)
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.mark.parametrize("port", ["http", "grpc"])
def test_any_bytes_on_a_port(service: Any, otlp: Any, fixtures: Path, port: str) -> None:
    bodies = _bodies(fixtures, Signal.LOGS, ".pb")
    for rng in _turns():
        body = rng.choice(bodies)
        content = rng.choice(
            (
                rng.randbytes(rng.randrange(1, 2000)),
                _mutated(rng, _HEAD % (len(body), body)),
                _PREFACE + rng.randbytes(rng.randrange(1, 200)),
                _mutated(rng, _PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
                _HEAD % (10**12, body),
            )
        )
        _say(service.endpoints[port], content)
    _goes_on(service, otlp, f"after-bytes-on-{port}")


@pytest.mark.parametrize("signal", list(Signal))
def test_any_request(service: Any, otlp: Any, fixtures: Path, signal: Signal) -> None:
    protobuf, text = _bodies(fixtures, signal, ".pb"), _bodies(fixtures, signal, ".body.json")
    statuses: dict[int, int] = {}
    for rng in _turns():
        match rng.randrange(3):
            case 0:
                body = _mutated(rng, rng.choice(protobuf))
                status = _post(service, signal, body, "application/x-protobuf", rng)
            case 1:
                body = _mutated(rng, rng.choice(text))
                status = _post(service, signal, body, "application/json", rng)
            case _:
                status = _export(service, signal, _mutated(rng, rng.choice(protobuf)))
        statuses[status] = statuses.get(status, 0) + 1
    # Never a fault of ours, and never too busy.
    assert set(statuses) <= {200, 400, 413, 415}
    _goes_on(service, otlp, f"after-{signal}")


def _post(service: Any, signal: Signal, body: bytes, media_type: str, rng: random.Random) -> int:
    encoding = rng.choice(("", "", "", "gzip", "deflate", "zstd", "br"))
    headers = {"content_encoding": encoding} if encoding else {}
    response: httpx.Response = service.post(signal, body, content_type=media_type, **headers)
    return response.status_code


def _export(service: Any, signal: Signal, body: bytes) -> int:
    try:
        service.export(signal, body)
    except grpc.RpcError as error:
        return 400 if error.code() is grpc.StatusCode.INVALID_ARGUMENT else 500
    return 200
