"""What is read from the resource, and how an event is recognised."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Any

import pytest

from ingest.decode.wire import Signal


def _row(otlp: Any, resource: dict[str, Any], **options: Any) -> dict[str, Any]:
    (row,) = otlp.rows(otlp.logs(otlp.log(otlp.tool_call), resource=resource), **options)
    return row


@pytest.mark.parametrize(
    ("resource", "environment"),
    [
        ({"deployment.environment": "old"}, "old"),
        ({"deployment.environment.name": "new"}, "new"),
        ({"deployment.environment": "old", "deployment.environment.name": "new"}, "new"),
        ({"deployment.environment": "old", "deployment.environment.name": ""}, "old"),
        ({"deployment.environment": "  "}, "unset"),
        ({"deployment.environment": 5}, "unset"),
        ({}, "unset"),
    ],
)
def test_environment(otlp: Any, resource: dict[str, Any], environment: str) -> None:
    assert _row(otlp, resource)["environment"] == environment


def test_missing_service_name_and_version_are_unknown(otlp: Any) -> None:
    row = _row(otlp, {})
    assert (row["service_name"], row["service_version"]) == ("unknown", "unknown")


def test_a_record_without_any_resource_is_kept(otlp: Any) -> None:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.append(otlp.log(otlp.tool_call))
    (row,) = otlp.rows(request.SerializeToString())
    assert (row["environment"], row["service_version"], row["call_id"]) == ("unset", "unknown", "call-1")


def test_the_owner_is_a_keyed_hash_of_the_trimmed_lower_case_name(otlp: Any) -> None:
    expected = hmac.new(otlp.owner_key, b"alice@example.com", sha256).hexdigest()
    for sent in ("alice@example.com", " Alice@Example.COM\n"):
        assert _row(otlp, {"owner.id": sent})["owner"] == expected
    assert _row(otlp, {"owner.id": "bob"})["owner"] != expected
    assert _row(otlp, {"owner.id": "  "})["owner"] is None


def test_the_owner_attribute_is_a_setting(otlp: Any) -> None:
    resource = {"team.name": "blue", "owner.id": "alice"}
    expected = hmac.new(otlp.owner_key, b"blue", sha256).hexdigest()
    assert _row(otlp, resource, owner_attribute="team.name")["owner"] == expected


def test_service_instance_is_no_owner(otlp: Any) -> None:
    assert _row(otlp, {"service.instance.id": "daemon:12"})["owner"] is None


def test_a_records_own_session_wins_over_the_resources(otlp: Any) -> None:
    assert _row(otlp, {"session.id": "of-the-resource"})["session_id"] == "s-1"
    record = otlp.log({k: v for k, v in otlp.tool_call.items() if k != "session.id"})
    (row,) = otlp.rows(otlp.logs(record, resource={"session.id": "of-the-resource"}))
    assert row["session_id"] == "of-the-resource"


@pytest.mark.parametrize(
    ("event_name", "attribute", "is_call"),
    [
        ("qwen-code.tool_call", None, True),
        ("", "qwen-code.tool_call", True),
        ("qwen-code.tool_call", "qwen-code.api_response", True),
        ("qwen-code.api_response", "qwen-code.tool_call", False),
        ("", "other.tool_call", False),
        ("", None, False),
        ("", 3, False),
    ],
)
def test_the_event_name_field_comes_before_the_attribute(
    otlp: Any, event_name: str, attribute: Any, is_call: bool
) -> None:
    sent = {k: v for k, v in otlp.tool_call.items() if k != "event.name"}
    if attribute is not None:
        sent["event.name"] = attribute
    rows = otlp.rows(otlp.logs(otlp.log(sent, event_name=event_name)))
    assert len(rows) == is_call


def test_the_body_is_never_looked_at(otlp: Any) -> None:
    for body in ("qwen-code.tool_call", {"event.name": "qwen-code.tool_call"}, otlp.unset):
        sent = {k: v for k, v in otlp.tool_call.items() if k != "event.name"}
        assert otlp.rows(otlp.logs(otlp.log(sent, body=otlp.value(body)))) == []
        assert len(otlp.rows(otlp.logs(otlp.log(otlp.tool_call, body=otlp.value(body))))) == 1


def test_a_bridged_span_is_a_call_and_other_spans_are_not(otlp: Any) -> None:
    (row,) = otlp.rows(otlp.spans(otlp.span(otlp.tool_call)), signal=Signal.TRACES)
    assert (row["call_id"], row["time_unix_nano"]) == ("call-1", otlp.noon)
    assert otlp.rows(otlp.spans(otlp.span(otlp.tool_call, name="qwen-code.tool")), signal=Signal.TRACES) == []


def test_records_of_many_requests_keep_their_request(otlp: Any) -> None:
    bodies = [otlp.logs(otlp.log(otlp.tool_call | {"call_id": f"c{n}"})) for n in range(3)]
    events = otlp.normalised(bodies[0], b"", bodies[1], otlp.logs(otlp.log({"event.name": "x"})), bodies[2])
    (rows,) = events.rows
    requests = events.arrivals.request[rows.table["arrival"].to_numpy()]
    assert list(zip(requests, rows.table["call_id"].to_pylist(), strict=True)) == [
        (0, "c0"),
        (2, "c1"),
        (4, "c2"),
    ]
