"""Records of the agent's loop detection become rows of `loops`."""

from __future__ import annotations

import pyarrow as pa

from ingest.normalise.table import Chosen, EventTable
from sli.schemas import LOOPS


def _columns(chosen: Chosen) -> dict[str, pa.Array]:
    columns = {
        "session_id": chosen.session_id,
        "prompt_id": chosen.prompt_id,
        "loop_type": chosen.text("loop_type"),
    }
    return columns | {"identity": chosen.identities(*columns.values())}


TABLE = EventTable(
    LOOPS,
    attributes=("event.timestamp", "session.id", "prompt_id", "loop_type"),
    ids=("session.id", "prompt_id"),
    columns=_columns,
)
