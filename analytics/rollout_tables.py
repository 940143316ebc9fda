"""The rollout as tables: the acts, where each environment stood since when, and its next gate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

import polars as pl

from analytics.gates import gate_rows
from analytics.published import polars_schema
from analytics.results_draft import ResultsDraft
from sli.rollout.act import FIRST_HASH, Act
from sli.rollout.phase import DESIRED_MODE
from sli.rollout.standing import environment_records
from sli.schemas import ACTS, GATES, ROLLOUT


def last_hash(acts: Sequence[Act]) -> str:
    """The hash of the last act: two records with the same one are the same."""
    return acts[-1].hash if acts else FIRST_HASH


def write_rollout_tables(
    draft: ResultsDraft, acts: Sequence[Act], as_of: datetime, rollout_after: Mapping[str, str]
) -> int:
    """Put the acts, and what they come to, in the place of what the draft holds.

    Args:
        draft: holds all other results already.
        as_of: until when the events tell anything.
        rollout_after: for an environment, the one whose gates have to pass first.

    Returns:
        The number of rows that were written.
    """
    records = environment_records(acts)
    recorded = pl.DataFrame([_act_row(act) for act in acts], schema=polars_schema(ACTS), orient="row")
    draft.replace_all(ACTS, recorded)
    rows = [
        (
            standing.environment,
            standing.since,
            str(standing.phase),
            standing.wave,
            str(DESIRED_MODE[standing.phase]),
            standing.pinned_version,
            standing.cohort_share,
            standing.holdout_share,
            standing.salt_id,
            move.why,
        )
        for _, record in sorted(records.items())
        for standing, move in zip(record.history, record.moves, strict=True)
        if move is not None
    ]
    draft.replace_all(ROLLOUT, pl.DataFrame(rows, schema=polars_schema(ROLLOUT), orient="row"))
    gates = gate_rows(draft, as_of, records, rollout_after)
    draft.replace_all(GATES, gates)
    return len(acts) + len(rows) + len(gates)


def _act_row(act: Act) -> tuple[object, ...]:
    return (
        *(act.sequence, act.environment, act.number, act.time, str(act.act), act.by, act.why),
        *(json.dumps(act.terms, sort_keys=True), json.dumps(list(act.evidence), sort_keys=True)),
        *(act.previous_hash, act.hash),
    )
