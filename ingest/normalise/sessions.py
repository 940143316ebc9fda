"""Records of sessions and of the daemon's connections become rows of `sessions`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.vectors import arrow
from ingest.normalise.columns import flags
from ingest.normalise.table import Chosen, EventTable, only_for, prefixed_keys
from sli.profile import PROFILES
from sli.schemas import SESSIONS

_STREAM = ("daemon.sse.stream_id", "daemon.sse.close_reason", "daemon.sse.duration_ms")
_RESUMED, _EXPECTED = "daemon.sse.resume_from_event_id", "daemon.channel.expected"


def _columns(chosen: Chosen) -> dict[str, pa.Array]:
    found = chosen.found

    def prefixed(name: str) -> list[str]:
        return [profile.attribute(name) for profile in PROFILES]

    resumed = arrow(np.logical_or.reduce([found[key].present for key in prefixed(_RESUMED)]))
    columns = {
        "session_id": chosen.session_id,
        "prompt_id": chosen.prompt_id,
        "kind": chosen.kinds,
        "stream_id": chosen.prefixed("daemon.sse.stream_id"),
        "close_reason": chosen.prefixed("daemon.sse.close_reason"),
        "resumed": only_for(chosen.kinds, "sse_opened", resumed),
        "expected": pc.coalesce(*(flags(found[key]) for key in prefixed(_EXPECTED))),
        "duration_ms": pc.coalesce(*(found[key].number for key in prefixed("daemon.sse.duration_ms"))),
    }
    return columns | {"identity": chosen.identities(*columns.values())}


TABLE = EventTable(
    SESSIONS,
    attributes=(
        "event.timestamp",
        "session.id",
        "prompt_id",
        *prefixed_keys("prompt_id", *_STREAM, _RESUMED, _EXPECTED),
    ),
    ids=("session.id", "prompt_id", *prefixed_keys("prompt_id")),
    columns=_columns,
)
