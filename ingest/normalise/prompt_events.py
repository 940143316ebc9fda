"""What is told of prompts becomes rows of `prompt_events`: their spans, and the records around them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.vectors import arrow, booleans, constant
from ingest.normalise.columns import integers, one_of
from ingest.normalise.identity import span_identities
from ingest.normalise.table import Chosen, EventTable, only_for, prefixed_keys
from sli.schemas import PROMPT_EVENTS
from sli.vocabulary import TurnStatus

_INTERACTION = "interaction"


def _columns(chosen: Chosen) -> dict[str, pa.Array]:
    turn_status = one_of(chosen.prefixed("turn_status"), TurnStatus, TurnStatus.UNKNOWN.value)
    columns = {
        "session_id": chosen.session_id,
        "prompt_id": chosen.prompt_id,
        "kind": chosen.kinds,
        "message_type": chosen.prefixed("message_type"),
        "turn_status": only_for(chosen.kinds, _INTERACTION, turn_status),
        "duration_ms": chosen.found["interaction.duration_ms"].number,
        "error_type": only_for(chosen.kinds, _INTERACTION, chosen.text("error.type", "error_type")),
        "turn_count": integers(chosen.found["turnCount"]),
    }
    return columns | {"parent_span_id": chosen.parent_span_id, "identity": _identities(chosen, columns)}


def _identities(chosen: Chosen, columns: dict[str, pa.Array]) -> pa.BinaryArray:
    """An interaction is a span of its own; the others are log records, or spans that bridge them."""
    identities = chosen.identities(*columns.values())
    is_span = pc.equal(chosen.kinds, constant(_INTERACTION))
    if not pc.any(is_span).as_py():
        return identities
    spans = span_identities(chosen.records, chosen.rows[booleans(is_span)], chosen.names.filter(is_span))
    return pc.replace_with_mask(identities, arrow(booleans(is_span)), spans)


TABLE = EventTable(
    PROMPT_EVENTS,
    attributes=(
        "event.timestamp",
        "session.id",
        "prompt_id",
        "interaction.duration_ms",
        "error.type",
        "error_type",
        "turnCount",
        *prefixed_keys("prompt_id", "message_type", "turn_status"),
    ),
    ids=("session.id", "prompt_id", *prefixed_keys("prompt_id")),
    columns=_columns,
)
