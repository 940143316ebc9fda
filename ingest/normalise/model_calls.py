"""What became of questions to the model becomes rows of `model_calls`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.vectors import constant
from ingest.normalise.columns import integers, trimmed
from ingest.normalise.table import Chosen, EventTable
from sli.schemas import MODEL_CALLS

_NUMBERS = {
    "input_tokens": "input_token_count",
    "output_tokens": "output_token_count",
    "cached_tokens": "cached_content_token_count",
    "thought_tokens": "thoughts_token_count",
    "total_tokens": "total_token_count",
    "attempt_number": "attempt_number",
}


def _columns(chosen: Chosen) -> dict[str, pa.Array]:
    found = chosen.found
    columns = {
        "session_id": chosen.session_id,
        "prompt_id": chosen.prompt_id,
        "outcome": chosen.kinds,
        "response_id": chosen.text("response_id"),
        "model": chosen.text("model"),
        # Its name is the user's own text; whether there is one tells the main conversation's answers.
        "by_subagent": pc.fill_null(pc.is_valid(trimmed(found["subagent_name"].text)), constant(False)),
        "duration_ms": found["duration_ms"].number,
        # Some releases send it as a number, some as text.
        "status_code": pc.coalesce(integers(found["status_code"]), integers(found["http.status_code"])),
        "error_type": pc.coalesce(trimmed(found["error_type"].text), trimmed(found["error.type"].text)),
        **{column: integers(found[key]) for column, key in _NUMBERS.items()},
    }
    return columns | {"identity": chosen.identities(*columns.values())}


TABLE = EventTable(
    MODEL_CALLS,
    attributes=(
        "event.timestamp",
        "session.id",
        "prompt_id",
        "response_id",
        "model",
        "subagent_name",
        "duration_ms",
        "status_code",
        "http.status_code",
        "error_type",
        "error.type",
        *_NUMBERS.values(),
    ),
    ids=("session.id", "prompt_id"),
    columns=_columns,
)
