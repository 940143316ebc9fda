"""Records of the repeated-failure guard become rows of `guard_decisions`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.attributes import AttributeColumn
from ingest.decode.records import Records
from ingest.decode.vectors import NO_TEXT
from ingest.normalise.columns import Rows, not_empty
from ingest.normalise.identity import record_identities
from sli.prompt import SESSION_SEPARATOR

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


def guard_decision_columns(
    records: Records, rows: Rows, names: pa.StringArray, found: dict[str, AttributeColumn]
) -> dict[str, pa.Array]:
    """The columns of `guard_decisions` beside the shared ones, and the identity.

    Args:
        records: the batch.
        rows: which of its records are guard decisions, ascending.
        names: their event names.
        found: their attributes.
    """
    prompt_id = not_empty(found["prompt_id"].text)
    return {
        "identity": record_identities(records, rows, names),
        # The record carries no session, by the producer's design; the prompt id begins with it.
        "session_id": _sessions(prompt_id),
        "prompt_id": prompt_id,
        **{name: not_empty(found[name].text) for name in TEXTS},
        "candidate_ordinal": found["candidate_ordinal"].integer,
        "unlisted_attributes": _unlisted(records, rows),
    }


def _sessions(prompt_id: pa.StringArray) -> pa.StringArray:
    before = pc.list_element(pc.split_pattern(prompt_id, SESSION_SEPARATOR, max_splits=1), 0)
    separated = pc.match_substring(prompt_id, SESSION_SEPARATOR)
    return not_empty(pc.if_else(separated, before, NO_TEXT))


def _unlisted(records: Records, rows: Rows) -> pa.ListArray:
    """The names (never the values) of attributes that a guard record should not have, sorted."""
    names: list[set[str]] = [set() for _ in rows]
    holders, keys = records.attributes.of_holders(rows.astype(np.int32)).unlisted(_LISTED)
    # A healthy producer sends none, so this loop is over what is wrong and not over records.
    for holder, key in zip(holders, keys.to_pylist(), strict=True):
        if len(names[holder]) < MOST_UNLISTED_NAMES:
            names[holder].add(key[:LONGEST_UNLISTED_NAME])
    return pa.array([sorted(some) for some in names], pa.list_(pa.string()))
