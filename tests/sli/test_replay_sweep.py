"""The vectorised replay is the reference machine: every prompt, every cell, every order of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sli.guard import DecisionName, Observation, Thresholds, verdict
from sli.replay import GRID, PROMPT, decisions, prompts, replay, sweep, sweep_totals, trips
from sli.replay.batches import COLUMNS
from sli.replay.verdicts import UNNAMED, failed, succeeded

SECOND = 1_000_000_000

# function, status, execution status, error type, provider duplicate, duration in seconds
Call = tuple[str | None, str | None, str | None, str | None, bool, int]
Input = str | None


@dataclass(frozen=True)
class Prompt:
    """Batches of calls, and the input that is logged after each."""

    batches: list[tuple[list[Call], Input]]


FAILED: Call = ("read_file", "error", "error", "file_not_found", False, 1)

OWN_SUCCESS: Call = ("read_file", "success", "success", None, False, 1)
OTHER_FAILURE: Call = ("glob", "error", "error", "file_not_found", False, 1)

CALLS = st.one_of(
    st.just(FAILED),
    st.just(FAILED),
    st.tuples(
        st.sampled_from(["read_file", "glob"]),
        st.just("error"),
        st.just("error"),
        st.sampled_from(["file_not_found", "permission_denied"]),
        st.sampled_from([False, False, True]),
        st.integers(0, 30),
    ),
    st.tuples(
        st.sampled_from(["read_file", "glob", "edit"]),
        st.just("success"),
        st.sampled_from(["success", "not_started"]),
        st.none(),
        st.booleans(),
        st.integers(0, 30),
    ),
    st.tuples(
        st.sampled_from(["read_file", "unknown_tool", "unregistered_tool", "", None]),
        st.sampled_from(["success", "error", "cancelled", "unknown", None]),
        st.sampled_from(["success", "error", "cancelled", "not_started", "unknown", None]),
        st.sampled_from(["file_not_found", "unknown", "", None]),
        st.booleans(),
        st.integers(0, 30),
    ),
)
CALM = st.sampled_from([FAILED, ("glob", "success", "success", None, False, 1)])
BATCH = st.tuples(
    st.one_of(
        st.integers(1, 6).map(lambda n: [FAILED] * n),
        st.lists(CALM, min_size=1, max_size=4),
        st.sampled_from([[OWN_SUCCESS], [FAILED, OWN_SUCCESS], [FAILED, OTHER_FAILURE]]),
        st.lists(CALLS, min_size=1, max_size=4),
    ),
    st.sampled_from([None] * 12 + ["external_input", "queued_prompt", "unreliable_input"]),
)
PROMPTS = st.lists(st.lists(BATCH, max_size=10).map(Prompt), min_size=1, max_size=4)


def frame(drawn: list[Prompt]) -> pl.DataFrame:
    return pl.DataFrame(list(_rows(drawn)), schema=_SCHEMA, orient="row")


_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(COLUMNS, pl.String),
    **dict.fromkeys(("prompt", "batch", "started_unix_nano", "time_unix_nano"), pl.Int64),
    **dict.fromkeys(("replayable", "provider_duplicate"), pl.Boolean),
}


def _rows(drawn: list[Prompt]) -> Iterator[tuple[Any, ...]]:
    for number, prompt in enumerate(drawn, 1):
        for batch, (calls, _) in enumerate(prompt.batches, 1):
            for place, (function, status, execution, error, duplicate, duration) in enumerate(calls):
                ended = batch * 100 * SECOND + place * SECOND
                yield (
                    number,
                    *("internal", "0.24.4", "s", f"s########{number}", "acp_foreground", True),
                    *(batch, f"{batch}-{place}", function, "native", status, execution, error, "event"),
                    duplicate,
                    *(ended - duration * SECOND, ended),
                )


def logged(drawn: list[Prompt]) -> pl.DataFrame:
    rows = [
        ("internal", "0.24.4", "s", f"s########{number}", batch * 100 * SECOND + 50 * SECOND, event, reason)
        for number, prompt in enumerate(drawn, 1)
        for event, (batch, (_, reason)) in enumerate(enumerate(prompt.batches, 1))
        if reason is not None
    ]
    schema: dict[str, Any] = {**dict.fromkeys(PROMPT, pl.String), "time_unix_nano": pl.Int64}
    schema |= {"event_id": pl.Int64, "reset_reason": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        mode=pl.lit("shadow"), decision=pl.lit("reset"), route=pl.lit("acp_foreground")
    )


def by_the_reference(
    found: pl.DataFrame, inputs: pl.DataFrame | None, thresholds: Thresholds
) -> dict[int, tuple[int, int | None, int]]:
    """By prompt: the batch of the first reminder, that of the stop, and the calls saved."""
    outcomes: dict[int, tuple[int, int | None, int]] = {}
    for row in decisions(found, inputs, thresholds).iter_rows(named=True):
        number, batch = row["prompt"], row["batch"]
        if row["decision"] == DecisionName.WOULD_WARN:
            outcomes.setdefault(number, (batch, None, 0))
        if row["decision"] == DecisionName.WOULD_STOP:
            calls = found.filter((pl.col("prompt") == number) & ~pl.col("provider_duplicate"))
            ended = max(calls.filter(pl.col("batch") == batch)["time_unix_nano"])
            saved = sum(started > ended for started in calls["started_unix_nano"])
            outcomes[number] = (outcomes[number][0], batch, saved)
    return outcomes


# Each example is the reference 56 times over.
@settings(max_examples=20)
@given(PROMPTS, st.booleans(), st.integers(0, 99))
def test_every_cell_of_the_sweep_is_what_the_reference_decides(
    drawn: list[Prompt], tell_inputs: bool, seed: int
) -> None:
    found, inputs = frame(drawn), logged(drawn) if tell_inputs else None
    mixed_up = found.sample(fraction=1, shuffle=True, seed=seed)
    swept = sweep(mixed_up, inputs)
    cells: dict[tuple[int, int], dict[str, tuple[bool, int]]] = {}
    for row in swept.iter_rows(named=True):
        cell = cells.setdefault((row["failure_threshold"], row["batch_threshold"]), {})
        cell[row["prompt_id"]] = (row["would_stop"], row["calls_saved"])
    for each in GRID:
        expected = by_the_reference(found, inputs, each)
        assert cells.get((each.failures, each.batches), {}) == {
            f"s########{number}": (stop is not None, saved) for number, (_, stop, saved) in expected.items()
        }, each


@settings(max_examples=60)
@given(PROMPTS, st.booleans(), st.integers(1, 10), st.integers(1, 4), st.integers(0, 99))
def test_outcomes_are_what_the_reference_decides(
    drawn: list[Prompt], tell_inputs: bool, failures: int, batches: int, seed: int
) -> None:
    found, inputs = frame(drawn), logged(drawn) if tell_inputs else None
    thresholds = Thresholds(failures, batches)
    expected = by_the_reference(found, inputs, thresholds)
    mixed_up = found.sample(fraction=1, shuffle=True, seed=seed)
    rows = replay(mixed_up, inputs, thresholds).rows(named=True)
    assert {
        int(row["prompt_id"].split("#")[-1]): (row["warn_batch"], row["stop_batch"], row["calls_saved"])
        for row in rows
        if row["would_warn"]
    } == expected
    assert all(row["would_stop"] == (row["stop_batch"] is not None) for row in rows)
    # And what trips it: every reminder and stop is counted, by its key.
    transitions = decisions(found, inputs, thresholds).filter(pl.col("decision").str.starts_with("would_"))
    key = ["function_name", "execution_error_type"]
    counted = transitions.group_by(key).agg(
        would_warn=(pl.col("decision") == "would_warn").sum(),
        would_stop=(pl.col("decision") == "would_stop").sum(),
    )
    told = trips(mixed_up, inputs, thresholds).select(*key, "would_warn", "would_stop")
    assert sorted(told.rows()) == sorted(counted.rows())


@settings(max_examples=15)
@given(PROMPTS, st.booleans())
def test_totals_add_the_sweep_up(drawn: list[Prompt], tell_inputs: bool) -> None:
    found, inputs = frame(drawn), logged(drawn) if tell_inputs else None
    swept = sweep(found, inputs)
    totals = sweep_totals(found, inputs)
    assert len(totals) == (0 if found.is_empty() else 56)
    for row in totals.iter_rows(named=True):
        mine = swept.filter(
            (pl.col("failure_threshold") == row["failure_threshold"])
            & (pl.col("batch_threshold") == row["batch_threshold"])
        )
        assert row["would_warn"] == len(mine)
        assert row["would_stop"] == mine["would_stop"].sum()
        assert row["calls_saved"] == mine["calls_saved"].sum()
        assert row["prompts"] == row["replayable"] == found["prompt"].n_unique()
        assert row["calls"] == (~found["provider_duplicate"]).sum()


def test_the_decision_table_over_columns_is_the_reference() -> None:
    statuses = ["success", "error", "cancelled", "unknown", "odd", "", None]
    executions = ["success", "error", "cancelled", "not_started", "unknown", "odd", "", None]
    names = ["read_file", "unknown_tool", "unregistered_tool", "", " ", None]
    types = ["file_not_found", "unknown", "", " ", None]
    rows = list(product(statuses, executions, names, types))
    columns = ("status", "execution_status", "function_name", "execution_error_type")
    calls = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")
    told = calls.select(succeeded().alias("succeeded"), failed().alias("failed")).rows()
    for (status, execution, name, error), found in zip(rows, told, strict=True):
        tool = None if name in UNNAMED else name
        expected = verdict(Observation("c", tool, "native", status, execution, error))
        assert found == (expected.succeeded is not None, expected.failed is not None)


def test_a_prompt_that_is_not_replayable_is_counted_and_not_judged() -> None:
    found = frame([Prompt([([FAILED] * 4, None)] * 4)] * 2)
    unknown = pl.col("prompt") == 2
    found = found.with_columns(
        replayable=~unknown, batch=pl.when(~unknown).then("batch"), route=pl.lit("screen_or_cli")
    )
    rows = replay(found).select("replayable", "would_warn", "would_stop", "calls_saved", "batches").rows()
    assert rows == [(True, True, True, 4, 4), (False, None, None, None, 0)]
    cell = sweep_totals(found, grid=[Thresholds()]).row(0, named=True)
    assert cell | {"prompts": 2, "replayable": 1, "would_warn": 1, "would_stop": 1, "calls": 16} == cell
    assert decisions(found)["prompt"].unique().to_list() == [1]


def test_the_calls_saved_are_those_that_started_after_the_stop() -> None:
    late: Call = ("glob", "success", "success", None, False, 0)
    # It ended after the stop, and had started long before.
    early: Call = ("glob", "success", "success", None, False, 500)
    again: Call = ("glob", "success", "success", None, True, 0)
    after = [late, early, again]
    found = frame([Prompt([*[([FAILED] * 4, None)] * 3, (after, None), ([late], None)])])
    (row,) = replay(found).rows(named=True)
    assert (row["stop_batch"], row["calls_saved"]) == (3, 2)
    assert row["stop_unix_nano"] == 303 * SECOND


@pytest.mark.parametrize("reason", ["external_input", "queued_prompt", "unreliable_input"])
def test_logged_input_ends_a_streak(reason: str) -> None:
    without = [Prompt([([FAILED] * 4, None)] * 3)]
    with_input = [Prompt([([FAILED] * 4, None), ([FAILED] * 4, reason), ([FAILED] * 4, None)])]
    assert replay(frame(without), logged(without))["would_stop"].to_list() == [True]
    assert replay(frame(with_input), logged(with_input))["would_warn"].to_list() == [False]
    assert replay(frame(with_input))["would_warn"].to_list() == [True]


def test_nothing_gives_nothing() -> None:
    empty = frame([])
    assert replay(empty).is_empty()
    assert sweep(empty).is_empty()
    assert sweep_totals(empty).is_empty()
    assert trips(empty).is_empty()
    assert decisions(empty).is_empty()
    assert prompts(empty).is_empty()
