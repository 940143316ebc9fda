"""Records of the repeated-failure guard become rows of `guard_decisions`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ingest.decode.records import Records
from ingest.normalise.columns import Rows, not_empty
from ingest.normalise.identity import record_identities
from ingest.normalise.table import Chosen, EventTable, sessions_of
from sli.schemas import GUARD_DECISIONS

TEXTS: tuple[str, ...] = (
    "route",
    "mode",
    "phase_before",
    "phase_after",
    "decision",
    "failure_count_bucket",
    "batch_count_bucket",
    "reset_reason",
    "terminal_status",
    "execution_status",
    "execution_error_type",
    "tool_type",
)
"""Attributes that are columns under their own name."""

ATTRIBUTES: tuple[str, ...] = (*TEXTS, "event.timestamp", "prompt_id", "candidate_ordinal")
"""The only attributes of a guard decision that are read."""

_LISTED = (*ATTRIBUTES, "event.name", "log.bridge")

# Names are few in a healthy producer; a sick one must not fill the store with them.
MOST_UNLISTED_NAMES = 32
LONGEST_UNLISTED_NAME = 128


def guard_decision_columns(chosen: Chosen) -> dict[str, pa.Array]:
    """The columns of `guard_decisions` beside the shared ones, and the identity."""
    prompt_id = not_empty(chosen.found["prompt_id"].text)
    return {
        "identity": record_identities(chosen.records, chosen.rows, chosen.names),
        # The record carries no session, by the producer's design; the prompt id begins with it.
        "session_id": sessions_of(prompt_id),
        "prompt_id": prompt_id,
        **{name: chosen.text(name) for name in TEXTS},
        "candidate_ordinal": chosen.found["candidate_ordinal"].integer,
        "unlisted_attributes": _unlisted(chosen.records, chosen.rows),
    }


def _unlisted(records: Records, rows: Rows) -> pa.ListArray:
    """The names (never the values) of attributes that a guard record should not have, sorted."""
    names: list[set[str]] = [set() for _ in rows]
    holders, keys = records.attributes.of_holders(rows.astype(np.int32)).unlisted(_LISTED)
    # A healthy producer sends none, so this loop is over what is wrong and not over records.
    for holder, key in zip(holders, keys.to_pylist(), strict=True):
        if len(names[holder]) < MOST_UNLISTED_NAMES:
            names[holder].add(key[:LONGEST_UNLISTED_NAME])
    return pa.array([sorted(some) for some in names], pa.list_(pa.string()))


TABLE = EventTable(
    GUARD_DECISIONS,
    attributes=ATTRIBUTES,
    ids=("prompt_id",),
    columns=guard_decision_columns,
)
