"""Each rule of a tool call, with the right value written by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest


def test_a_plain_call_becomes_exactly_these_columns(otlp: Any) -> None:
    sent = otlp.tool_call | {
        "parent_call_id": "call-0",
        "response_id": "chatcmpl-1",
        "decision": "auto_accept",
        "content_length": 9_007_199_254_740_993,
        "source": "model",
        "function_args": '{"path": "/home/alice/x"}',
        "success": False,
        "mcp_server_name": "demo",
    }
    record = otlp.log(sent, trace_id=bytes(range(16)), span_id=bytes(range(1, 9)))
    (row,) = otlp.rows(otlp.logs(record))
    identity = row.pop("identity")
    assert b"alice" not in identity
    assert {name: value for name, value in row.items() if name not in ("time", "day", "received_at")} == {
        "arrival": 0,
        "time_unix_nano": 1_796_040_000_000_000_000,
        "time_source": "record",
        "environment": "internal",
        "service_name": "qwen-code",
        "service_version": "0.24.4",
        "owner": None,
        "trace_id": "000102030405060708090a0b0c0d0e0f",
        "span_id": "0102030405060708",
        "session_id": "s-1",
        "route": "screen_or_cli",
        "prompt_id": "s-1########1",
        "call_id": "call-1",
        "parent_call_id": "call-0",
        "response_id": "chatcmpl-1",
        "function_name": "read_file",
        "tool_type": "native",
        "status": "success",
        "execution_status": "success",
        "error_type": None,
        "decision": "auto_accept",
        "duration_ms": 12.0,
        "content_length": 9_007_199_254_740_993,
        "source": "model",
        "contract_violation": False,
    }
    assert row["time"].isoformat() == "2026-11-30T12:00:00+00:00"
    assert row["received_at"].isoformat() == "2026-11-30T12:01:00+00:00"
    assert row["day"].isoformat() == "2026-11-30"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("success", "success"),
        ("error", "error"),
        ("cancelled", "cancelled"),
        ("", "unknown"),
        ("Success", "unknown"),
        (" success", "unknown"),
        ("skipped", "unknown"),
        (True, "unknown"),
        (1, "unknown"),
    ],
)
def test_status_is_one_of_its_words_or_unknown(otlp: Any, sent: Any, kept: str) -> None:
    assert otlp.call(status=sent)["status"] == kept


def test_a_missing_status_is_unknown_whatever_the_legacy_success_says(otlp: Any) -> None:
    assert otlp.call(without=("status",), success=True)["status"] == "unknown"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("not_started", "not_started"),
        ("success", "success"),
        ("error", "error"),
        ("cancelled", "cancelled"),
        ("unknown", "unknown"),
        ("", "unknown"),
        ("SUCCESS", "unknown"),
        ("running", "unknown"),
        (False, "unknown"),
    ],
)
def test_execution_status_is_one_of_its_words_or_unknown(otlp: Any, sent: Any, kept: str) -> None:
    assert otlp.call(execution_status=sent)["execution_status"] == kept


@pytest.mark.parametrize("status", ["success", "error", "cancelled"])
def test_a_missing_execution_status_is_never_inferred(otlp: Any, status: str) -> None:
    row = otlp.call(
        without=("execution_status",),
        status=status,
        success=status == "success",
        error_type="shell_execute_error",
    )
    assert (row["status"], row["execution_status"]) == (status, "unknown")


def test_an_unset_value_is_an_absent_attribute(otlp: Any) -> None:
    row = otlp.call(
        execution_status=otlp.unset, error_type=otlp.unset, source=otlp.unset, content_length=otlp.unset
    )
    assert row["execution_status"] == "unknown"
    assert (row["error_type"], row["source"], row["content_length"]) == (None, None, None)


@pytest.mark.parametrize(
    ("attributes", "kept"),
    [
        ({"status": "error", "error_type": "file_not_found"}, "file_not_found"),
        ({"status": "error", "error_type": "  file_not_found \t"}, "file_not_found"),
        ({"status": "error", "error.type": "mcp_tool_error"}, "mcp_tool_error"),
        ({"status": "error", "error_type": "a", "error.type": "b"}, "a"),
        ({"status": "error", "error_type": "  ", "error.type": "b"}, "b"),
        ({"status": "error", "error_type": ""}, "unknown"),
        ({"status": "error"}, "unknown"),
        ({"status": "success", "error_type": "file_not_found"}, None),
        ({"status": "cancelled", "error_type": "file_not_found"}, None),
        ({"status": "what", "error_type": "file_not_found"}, None),
    ],
)
def test_error_type_stands_only_beside_the_status_error(otlp: Any, attributes: Any, kept: str | None) -> None:
    assert otlp.call(**attributes)["error_type"] == kept


@pytest.mark.parametrize(
    ("attributes", "kept"),
    [
        ({"function_name": "mcp__tracker__search"}, "mcp__tracker__search"),
        ({"function_name": ""}, "unknown_tool"),
        ({"function_name": " \t\n"}, "unknown_tool"),
        ({"function_name": 7}, "unknown_tool"),
        (
            {"function_name": "my secret", "status": "error", "error_type": "tool_not_registered"},
            "unregistered_tool",
        ),
        (
            {"function_name": "x", "status": "error", "error.type": " tool_not_registered "},
            "unregistered_tool",
        ),
        (
            {
                "function_name": "x",
                "status": "error",
                "error_type": "a",
                "error.type": "tool_not_registered",
            },
            "unregistered_tool",
        ),
        ({"function_name": "", "status": "error", "error_type": "tool_not_registered"}, "unknown_tool"),
        ({"function_name": "x", "status": "error", "error_type": "execution_denied"}, "x"),
    ],
)
def test_function_name_is_the_tools_and_never_the_models(otlp: Any, attributes: Any, kept: str) -> None:
    assert otlp.call(**attributes)["function_name"] == kept


def test_a_missing_function_name_is_unknown_tool(otlp: Any) -> None:
    assert otlp.call(without=("function_name",))["function_name"] == "unknown_tool"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("native", "native"), ("mcp", "mcp"), ("MCP", "unknown"), ("", "unknown"), (3, "unknown")],
)
def test_tool_type(otlp: Any, sent: Any, kept: str) -> None:
    assert otlp.call(tool_type=sent)["tool_type"] == kept


@pytest.mark.parametrize(
    ("status", "execution_status", "violation"),
    [
        ("success", "error", True),
        ("success", "cancelled", True),
        ("success", "success", False),
        ("success", "not_started", False),
        ("success", "unknown", False),
        ("error", "error", False),
        ("error", "success", False),
        ("cancelled", "error", False),
        ("unknown", "error", False),
    ],
)
def test_contract_violations(otlp: Any, status: str, execution_status: str, violation: bool) -> None:
    row = otlp.call(status=status, execution_status=execution_status)
    assert row["contract_violation"] is violation


@pytest.mark.parametrize(
    ("prompt_id", "route"),
    [
        ("00fbee2c-11b8-405e-99ba-0afbbbe543fa########0", "screen_or_cli"),
        ("s########12", "screen_or_cli"),
        ("s########3/automatic/1", "automatic"),
        ("s########notification6f8e", "automatic"),
        ("s#general-purpose-call_1#0", "subagent"),
        ("s########x", "unknown"),
        ("bea89ddbc7bff", "unknown"),
        ("", "unknown"),
        ("s#agent#1", "unknown"),
    ],
)
def test_routes_are_told_by_the_prompt_id(otlp: Any, prompt_id: str, route: str) -> None:
    assert otlp.call(prompt_id=prompt_id)["route"] == route


def test_ids_that_are_empty_or_missing_are_null(otlp: Any) -> None:
    row = otlp.call(without=("call_id", "response_id"), prompt_id="", parent_call_id="")
    assert [row[name] for name in ("call_id", "response_id", "prompt_id", "parent_call_id")] == [None] * 4


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (1200, 1200.0),
        (12.5, 12.5),
        ("1200", None),
        (True, None),
        (0, 0.0),
        (-1, -1.0),
        (math.nan, None),
        (math.inf, None),
    ],
)
def test_duration_is_a_number(otlp: Any, sent: Any, kept: float | None) -> None:
    assert otlp.call(duration_ms=sent)["duration_ms"] == kept


@pytest.mark.parametrize("key", ["session.id", "prompt_id", "call_id"])
@pytest.mark.parametrize("value", [7, True, 1.5, b"x", ["s"], {"a": 1}])
def test_a_wrongly_typed_id_rejects_its_record_and_no_other(otlp: Any, key: str, value: Any) -> None:
    body = otlp.logs(
        otlp.log(otlp.tool_call | {"call_id": "good-1"}),
        otlp.log(otlp.tool_call | {key: value}),
        otlp.log(otlp.tool_call | {"call_id": "good-2"}),
    )
    events = otlp.normalised(body)
    assert {reason.value: counts.tolist() for reason, counts in events.rejected.items()} == {
        "impossible_time": [0],
        "wrong_type": [1],
        "wrong_shape": [0],
        "too_long": [0],
        "too_old": [0],
    }
    assert [row["call_id"] for row in otlp.rows(body)] == ["good-1", "good-2"]


@pytest.mark.parametrize("key", ["session.id", "prompt_id", "call_id"])
def test_an_id_that_is_too_long_rejects_its_record(otlp: Any, key: str) -> None:
    good = otlp.log(otlp.tool_call | {"call_id": "good", key: "é" * 2048, "function_args": "x" * 9000})
    bad = otlp.log(otlp.tool_call | {key: "é" * 2048 + "x"})
    body = otlp.logs(good, bad)
    assert otlp.normalised(body).rejected["too_long"].tolist() == [1]
    assert len(otlp.rows(body)) == 1


@pytest.mark.parametrize(
    ("key", "kept"), [("status", "unknown"), ("decision", None), ("response_id", None), ("source", None)]
)
def test_another_text_that_is_too_long_is_not_kept(otlp: Any, key: str, kept: str | None) -> None:
    row = otlp.call(**{key: "é" * 2048 + "x"})
    assert row["call_id"] == "call-1"
    assert row[key] == kept


def test_an_error_type_that_is_too_long_is_unknown(otlp: Any) -> None:
    assert otlp.call(status="error", error_type="x" * 4097)["error_type"] == "unknown"


def test_a_resource_with_a_text_that_is_too_long_rejects_its_records(otlp: Any) -> None:
    bad = otlp.logs(otlp.log(otlp.tool_call), otlp.log(otlp.guard), resource={"service.version": "1" * 4097})
    events = otlp.normalised(otlp.logs(otlp.log(otlp.tool_call)), bad)
    assert events.rejected["too_long"].tolist() == [0, 2]
    assert {rows.dataset: len(rows.table) for rows in events.rows} == {"tool_calls": 1, "rejected": 2}


def test_an_owner_that_is_too_long_is_none(otlp: Any) -> None:
    resource = otlp.resource | {"owner.id": "x" * 4097}
    (row,) = otlp.rows(otlp.logs(otlp.log(otlp.tool_call), resource=resource))
    assert row["owner"] is None


def test_a_name_that_is_too_long_is_no_tools(otlp: Any) -> None:
    assert otlp.call(function_name="x" * 4097)["function_name"] == "unregistered_tool"


def test_the_last_of_a_repeated_key_counts(otlp: Any) -> None:
    attributes = [*otlp.tool_call.items(), ("status", "error"), ("error_type", "a"), ("error_type", "b")]
    (row,) = otlp.rows(otlp.logs(otlp.log(attributes)))
    assert (row["status"], row["error_type"]) == ("error", "b")


def test_an_attribute_with_an_empty_key_is_dropped(otlp: Any) -> None:
    assert otlp.call(**{"": "x"})["call_id"] == "call-1"


@pytest.mark.parametrize(("size", "kept"), [(16, "ab" * 16), (8, None), (17, None), (0, None)])
def test_trace_ids_have_one_size(otlp: Any, size: int, kept: str | None) -> None:
    (row,) = otlp.rows(otlp.logs(otlp.log(otlp.tool_call, trace_id=b"\xab" * size)))
    assert row["trace_id"] == kept


def test_an_all_zero_trace_id_is_none(otlp: Any) -> None:
    (row,) = otlp.rows(otlp.logs(otlp.log(otlp.tool_call, trace_id=bytes(16), span_id=bytes(8))))
    assert (row["trace_id"], row["span_id"]) == (None, None)
