"""Records of finished tool calls become rows of `tool_calls`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.attributes import Located
from ingest.decode.vectors import NO_TEXT, arrow, booleans, constant
from ingest.normalise.columns import not_empty, one_of, routes, trimmed
from ingest.normalise.identity import call_identities, record_identities
from ingest.normalise.table import Chosen, EventTable
from sli.schemas import TOOL_CALLS
from sli.vocabulary import (
    CONTRACT_VIOLATIONS,
    TOOL_NOT_REGISTERED,
    UNKNOWN_ERROR_TYPE,
    UNKNOWN_TOOL,
    UNREGISTERED_TOOL,
    ExecutionStatus,
    Status,
    ToolType,
)

ATTRIBUTES: tuple[str, ...] = (
    "event.timestamp",
    "session.id",
    "prompt_id",
    "call_id",
    "parent_call_id",
    "response_id",
    "function_name",
    "tool_type",
    "status",
    "execution_status",
    "error_type",
    "error.type",
    "decision",
    "duration_ms",
    "content_length",
    "source",
)
"""The only attributes of a tool call that are read one by one. The identity of a call without an id
covers all of them, as a digest."""


def tool_call_columns(chosen: Chosen) -> dict[str, pa.Array]:
    """The columns of `tool_calls` beside the shared ones, and the identity."""
    found, session_id = chosen.found, chosen.session_id
    prompt_id = not_empty(found["prompt_id"].text)
    call_id = not_empty(found["call_id"].text)
    status = one_of(found["status"].text, Status, Status.UNKNOWN.value)
    execution_status = one_of(found["execution_status"].text, ExecutionStatus, ExecutionStatus.UNKNOWN.value)
    sent_error_type = pc.coalesce(trimmed(found["error_type"].text), trimmed(found["error.type"].text))
    return {
        "identity": _identities(chosen, session_id, prompt_id, call_id, status, execution_status),
        "session_id": session_id,
        "route": routes(prompt_id),
        "prompt_id": prompt_id,
        "call_id": call_id,
        "parent_call_id": not_empty(found["parent_call_id"].text),
        "response_id": not_empty(found["response_id"].text),
        "function_name": _function_names(found),
        "tool_type": one_of(found["tool_type"].text, ToolType, ToolType.UNKNOWN.value),
        "status": status,
        "execution_status": execution_status,
        "error_type": pc.if_else(
            pc.equal(status, constant(Status.ERROR.value)),
            pc.fill_null(sent_error_type, constant(UNKNOWN_ERROR_TYPE)),
            NO_TEXT,
        ),
        "decision": not_empty(found["decision"].text),
        "duration_ms": found["duration_ms"].number,
        "content_length": found["content_length"].integer,
        "source": not_empty(found["source"].text),
        "contract_violation": _violations(status, execution_status),
    }


def _function_names(found: Located) -> pa.StringArray:
    """The tool's name, unless the model invented it: then the text is nobody's name but a leak."""
    sent = found["function_name"]
    known = pc.if_else(pc.is_null(trimmed(sent.text)), constant(UNKNOWN_TOOL), sent.text)
    # Either attribute may say so: where they differ, no invented text slips through.
    invented = pc.or_(*(_says_not_registered(found[name].text) for name in ("error_type", "error.type")))
    named = pc.not_equal(known, constant(UNKNOWN_TOOL))
    # A name that was too long to be kept is no tool's.
    too_long = arrow(found.is_shortened("function_name"))
    return pc.if_else(pc.or_(pc.and_(invented, named), too_long), constant(UNREGISTERED_TOOL), known)


def _says_not_registered(error_type: pa.StringArray) -> pa.BooleanArray:
    return pc.fill_null(pc.equal(trimmed(error_type), constant(TOOL_NOT_REGISTERED)), constant(False))


def _violations(status: pa.StringArray, execution_status: pa.StringArray) -> pa.BooleanArray:
    violation = pa.repeat(constant(False), len(status))
    for terminal, execution in sorted(CONTRACT_VIOLATIONS):
        pair = pc.and_(
            pc.equal(status, constant(terminal.value)), pc.equal(execution_status, constant(execution.value))
        )
        violation = pc.or_(violation, pair)
    return violation


def _identities(
    chosen: Chosen,
    session_id: pa.StringArray,
    prompt_id: pa.StringArray,
    call_id: pa.StringArray,
    status: pa.StringArray,
    execution_status: pa.StringArray,
) -> pa.BinaryArray:
    identities = call_identities(
        session_id,
        prompt_id,
        call_id,
        chosen.found["event.timestamp"].text,
        chosen.records.time[chosen.rows],
        status,
        execution_status,
    )
    without_id = booleans(call_id.is_null())
    if not without_id.any():
        return identities
    names = chosen.names.filter(arrow(without_id))
    whole = record_identities(chosen.records, chosen.rows[without_id], names)
    return pc.replace_with_mask(identities, arrow(without_id), whole)


TABLE = EventTable(
    TOOL_CALLS,
    attributes=ATTRIBUTES,
    ids=("session.id", "prompt_id", "call_id"),
    columns=tool_call_columns,
)
