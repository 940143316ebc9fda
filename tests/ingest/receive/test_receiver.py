"""What both transports do with what goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.status_pb2 import Status
from prometheus_client import CollectorRegistry

from ingest.decode.wire import Signal
from ingest.exceptions import IngestError, InternalError, Overloaded
from ingest.keep.store import Store
from ingest.keep.writer import Encoding, Outcome, Request, Writer
from ingest.receive import responses
from ingest.receive.access import Access
from ingest.receive.admission import Admission
from ingest.receive.receiver import Receiver
from ingest.receive.statuses import answer_to


def test_a_fault_of_ours_is_final_and_quotes_nothing(
    otlp: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same body would meet it again; an exporter that came again would do so for ever."""
    store = Store(tmp_path / "events.duckdb")
    # A key that is none: whoever hashes an owner with it fails, each time.
    no_key: Any = "no bytes"
    writer = Writer(store, "owner.id", no_key)
    answers: list[Outcome | IngestError] = []
    body = otlp.logs(otlp.log(otlp.tool_call), resource=otlp.resource | {"owner.id": "alice@example.com"})
    good = otlp.logs(otlp.log(otlp.tool_call))
    for sent in (body, good, body):
        writer.submit(Request(Signal.LOGS, Encoding.PROTOBUF, sent, otlp.arrival), answers.append)
    writer.close()
    store.close()
    # It takes no other request with it.
    assert answers[1] == Outcome(stored=1)
    for answer in (answers[0], answers[2]):
        assert isinstance(answer, InternalError)
        assert (answer_to(answer).http, answer_to(answer).grpc) == (500, grpc.StatusCode.INTERNAL)
        status = Status.FromString(responses.failure(answer, Encoding.PROTOBUF))
        assert not status.details
        assert "see the service's log" in status.message
        assert "alice" not in status.message
    said = capsys.readouterr()
    assert "request_failed" in said.out + said.err
    assert "alice" not in said.out + said.err


def test_an_error_for_clients_is_answered_as_it_is_and_any_other_is_ours(tmp_path: Path) -> None:
    store = Store(tmp_path / "events.duckdb")
    writer = Writer(store, "owner.id", b"k" * 32)
    receiver = Receiver(writer, Admission(1, 1), CollectorRegistry(), Access())
    overloaded = Overloaded(1)
    assert receiver.refusal(overloaded) is overloaded
    assert isinstance(receiver.refusal(ZeroDivisionError("alice")), InternalError)
    writer.close()
    store.close()
