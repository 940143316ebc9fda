"""Spans around tools become rows of `tool_executions`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.vectors import NO_TEXT, arrow, constant
from ingest.normalise.columns import one_of, trimmed
from ingest.normalise.identity import span_identities
from ingest.normalise.table import Chosen, EventTable, only_for
from sli.schemas import TOOL_EXECUTIONS
from sli.vocabulary import UNKNOWN_ERROR_TYPE, ExecutionStatus

_EXECUTION, _WAITING = "execution", "blocked_on_user"


def _columns(chosen: Chosen) -> dict[str, pa.Array]:
    found, kinds = chosen.found, chosen.kinds
    sent = one_of(found["execution_status"].text, ExecutionStatus, ExecutionStatus.UNKNOWN.value)
    execution_status = only_for(kinds, _EXECUTION, sent)
    failed = pc.fill_null(pc.equal(execution_status, constant(ExecutionStatus.ERROR.value)), constant(False))
    error_type = pc.coalesce(
        trimmed(found["error_type"].text), trimmed(found["error.type"].text), constant(UNKNOWN_ERROR_TYPE)
    )
    duration = pc.coalesce(found["duration_ms"].number, _measured(chosen))
    waiting = pc.equal(kinds, constant(_WAITING))
    nothing = pa.scalar(None, pa.float64())
    return {
        "identity": span_identities(chosen.records, chosen.rows, chosen.names),
        "session_id": chosen.session_id,
        "prompt_id": chosen.prompt_id,
        "parent_span_id": chosen.parent_span_id,
        "kind": kinds,
        "call_id": chosen.text("tool.call_id", "call_id"),
        "execution_status": execution_status,
        "error_type": pc.if_else(failed, error_type, NO_TEXT),
        "duration_ms": pc.if_else(waiting, nothing, duration),
        "waiting_ms": pc.if_else(waiting, duration, nothing),
    }


def _measured(chosen: Chosen) -> pa.DoubleArray:
    """From the start to the end of each span, milliseconds; null where one of them is not sent."""
    start = chosen.records.time[chosen.rows]
    end = chosen.records.other_time[chosen.rows]
    sent = (start > 0) & (end >= start)
    return pc.if_else(arrow(sent), arrow((end - start) / 1e6), pa.scalar(None, pa.float64()))


TABLE = EventTable(
    TOOL_EXECUTIONS,
    attributes=(
        "event.timestamp",
        "session.id",
        "prompt_id",
        "tool.call_id",
        "call_id",
        "execution_status",
        "error_type",
        "error.type",
        "duration_ms",
    ),
    ids=("session.id", "prompt_id", "tool.call_id", "call_id"),
    columns=_columns,
)
