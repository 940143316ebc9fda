"""The replay of the real producer's exports decides what the producer decided and logged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analytics.published import polars_schema
from ingest.decode.wire import Signal
from sli.replay import agreement, batches, decisions, replay, side_by_side, sweep_totals, trips
from sli.schemas import GUARD_DECISIONS, MODEL_CALLS, TOOL_CALLS, TOOL_EXECUTIONS, Dataset

FIXTURES = Path(__file__).parents[1] / "fixtures"
FOREGROUND = sorted(path.name for path in FIXTURES.iterdir() if path.name.startswith(("acp-", "serve-")))
SUPPORTED = [name for name in FOREGROUND if name != "acp-unreliable-grpc"]
LOGGED = {
    "acp-cancel-grpc": 1,
    "acp-default-grpc": 3,
    "acp-enforce-grpc": 10,
    "acp-loops-grpc": 1,
    "acp-shadow-grpc": 28,
    "acp-sigkill-late-grpc": 1,
    "acp-sigterm-grpc": 1,
    "acp-warn-grpc": 15,
    "serve-grpc": 4,
}


@dataclass(frozen=True)
class Capture:
    calls: pl.DataFrame
    model_calls: pl.DataFrame
    executions: pl.DataFrame
    logged: pl.DataFrame

    def batches(self) -> pl.DataFrame:
        return batches(self.calls, self.model_calls, self.executions)


def read(otlp: Any, run: str) -> Capture:
    tables: dict[str, list[pl.DataFrame]] = {}
    for sidecar in sorted((FIXTURES / run).glob("[0-9]*-*.json")):
        said = json.loads(sidecar.read_text())
        if said["signal"] in ("logs", "traces") and said["reply"] in ("ok", "drop", "hang"):
            body = (sidecar.parent / said["body_file"]).read_bytes()
            for rows in otlp.normalised(body, signal=Signal(said["signal"])).rows:
                frame = pl.DataFrame(pl.from_arrow(rows.table))
                tables.setdefault(rows.dataset, []).append(frame.rename({"identity": "event_id"}))

    def table(dataset: Dataset) -> pl.DataFrame:
        empty = pl.DataFrame(schema=polars_schema(dataset))
        return pl.concat([empty, *tables.get(dataset.name, [])], how="diagonal_relaxed")

    return Capture(table(TOOL_CALLS), table(MODEL_CALLS), table(TOOL_EXECUTIONS), table(GUARD_DECISIONS))


@pytest.fixture(scope="module")
def capture(otlp: Any) -> Any:
    return cache(lambda run: read(otlp, run))


def with_response_ids(found: Capture) -> Capture:
    """The same, as a producer would send it that says which answer asked for a call."""
    numbered = found.batches().select(
        "prompt_id", "call_id", named=pl.format("answer-{}-{}", "prompt", "batch")
    )
    calls = found.calls.join(numbered, on=["prompt_id", "call_id"], how="left")
    calls = calls.with_columns(response_id=pl.coalesce("response_id", "named")).drop("named")
    return Capture(calls, found.model_calls.clear(), found.executions, found.logged)


@pytest.mark.parametrize("way", ["model_calls", "response_id"])
@pytest.mark.parametrize("run", SUPPORTED)
def test_replay_decides_what_the_producer_logged(capture: Any, run: str, way: str) -> None:
    found = capture(run)
    if way == "response_id":
        found = with_response_ids(found)
    replayed = found.batches()
    assert replayed["replayable"].all()
    beside = side_by_side(replayed, found.logged)
    # Every field that is logged, the ordinal and the buckets included.
    assert beside.filter((pl.col("outcome") != "agree") | (pl.col("differing").list.len() > 0)).is_empty()
    assert len(beside) == len(found.logged) == LOGGED.get(run, 0)


def test_in_the_mode_that_the_producer_ran_in(capture: Any) -> None:
    for run, warn, stop in (
        ("acp-shadow-grpc", "would_warn", "would_stop"),
        ("acp-default-grpc", "would_warn", "would_stop"),
        ("acp-warn-grpc", "warned", "would_stop"),
        ("serve-grpc", "warned", "would_stop"),
    ):
        found = capture(run)
        names = set(decisions(found.batches(), found.logged)["decision"]) - {"tracked", "reset"}
        assert names == {warn, stop}, run
    enforced = decisions(capture("acp-enforce-grpc").batches(), capture("acp-enforce-grpc").logged)
    # The last prompt began with one unreliable drain, which disabled enforcement.
    assert enforced["decision"].value_counts(sort=True).sort("decision").rows() == [
        ("reset", 1),
        ("stopped", 2),
        ("tracked", 3),
        ("warned", 3),
        ("would_stop", 1),
    ]


def test_a_host_that_never_answers_is_left_out(capture: Any) -> None:
    found = capture("acp-unreliable-grpc")
    replayed = found.batches()
    beside = side_by_side(replayed, found.logged)
    assert not beside["supported"].any()
    assert agreement(replayed, found.logged).is_empty()
    # The logged resets were fed in; what the host left unanswered later is not in the events.
    counts = dict(beside["outcome"].value_counts().iter_rows())
    assert counts == {"agree": 2, "replay_only": 4}


def test_agreement_by_reason(capture: Any) -> None:
    found = capture("acp-shadow-grpc")
    table = agreement(found.batches(), found.logged)
    assert table.columns == [
        "environment",
        "service_version",
        "reason",
        "agree",
        "replay_only",
        "producer_only",
        "differing",
    ]
    assert {row[:3]: row[3:] for row in table.rows()} == {
        ("internal", "0.24.4", reason): (count, 0, 0, 0)
        for reason, count in {
            "tracked": 17,
            "would_warn": 3,
            "would_stop": 3,
            "success": 1,
            "mixed": 1,
            "not_started": 1,
            "post_execution_failure": 1,
            "unknown": 1,
        }.items()
    }


def test_what_only_one_of_the_two_decided_is_told(capture: Any) -> None:
    found = capture("acp-shadow-grpc")
    logged = found.logged.sort("time_unix_nano")
    lost = logged.filter(pl.int_range(pl.len()) != 1)
    beside = side_by_side(found.batches(), lost).filter(pl.col("outcome") != "agree")
    assert beside.select("batch", "reason", "outcome").rows() == [(2, "would_warn", "replay_only")]
    invented = logged.with_columns(
        decision=pl.when(pl.int_range(pl.len()) == 1).then(pl.lit("tracked")).otherwise("decision")
    )
    beside = side_by_side(found.batches(), invented).filter(pl.col("outcome") != "agree")
    assert beside.select("batch", "reason", "outcome").rows() == [
        (2, "tracked", "producer_only"),
        (2, "would_warn", "replay_only"),
    ]
    miscounted = logged.with_columns(candidate_ordinal=pl.col("candidate_ordinal") + 1)
    table = agreement(found.batches(), miscounted)
    assert table["agree"].sum() == table["differing"].sum() == 28


def test_where_the_guard_is_off_the_replay_says_what_it_would_have_done(capture: Any) -> None:
    found = capture("acp-off-grpc")
    (row,) = replay(found.batches()).filter("would_warn").rows(named=True)
    assert (row["warn_batch"], row["stop_batch"], row["calls"], row["calls_saved"]) == (2, 3, 10, 1)
    assert (row["warn_function_name"], row["warn_execution_error_type"]) == ("read_file", "file_not_found")
    assert (row["stop_function_name"], row["stop_execution_error_type"]) == ("read_file", "file_not_found")
    assert row["warn_unix_nano"] < row["stop_unix_nano"]
    assert side_by_side(found.batches(), found.logged).is_empty()


def test_what_trips_the_guard(capture: Any) -> None:
    found = trips(capture("acp-shadow-grpc").batches())
    columns = ("function_name", "execution_error_type", "would_warn", "would_stop", "prompts", "calls_saved")
    assert found.select(columns).rows() == [
        ("read_file", "file_not_found", 2, 2, 2, 1),
        ("mcp__demo__always_fails", "mcp_tool_error", 1, 1, 1, 0),
    ]


def test_a_lower_threshold_saves_more(capture: Any) -> None:
    totals = sweep_totals(capture("acp-shadow-grpc").batches())
    cells = {row[:2]: row[5:] for row in totals.rows()}
    assert len(cells) == 56
    # prompts, replayable, would be warned, would be stopped, calls, calls saved
    assert cells[8, 2] == (4, 4, 3, 3, 44, 1)
    # After the first batch of four, the second reminds and the third stops; of single calls the third
    # reminds and the fourth stops.
    assert cells[3, 1] == cells[3, 2] == (4, 4, 3, 3, 44, 6)
    assert cells[16, 4] == (4, 4, 0, 0, 44, 0)


def test_a_subagent_is_a_prompt_of_its_own(capture: Any) -> None:
    found = capture("acp-subagent-grpc").batches()
    assert found["replayable"].all()
    told = found.select("route", "function_name", "batch").sort("route", "batch").rows()
    assert told == [
        ("screen_or_cli", "agent", 1),
        ("subagent", "read_file", 1),
        ("subagent", "read_file", 2),
    ]
    assert found.filter(pl.col("route") == "subagent")["prompt"].n_unique() == 1


@pytest.mark.parametrize("run", ["tui-grpc", "ni-grpc-internal", "ni-grpc-dup-ids", "ni-grpc-slow"])
def test_answers_that_are_named_need_no_model_calls(capture: Any, run: str) -> None:
    found = capture(run)
    named = found.batches()
    unnamed = batches(
        found.calls.with_columns(response_id=pl.lit(None, pl.String)), found.model_calls, found.executions
    )
    assert named["replayable"].all()
    assert named.equals(unnamed)
    assert named.equals(batches(found.calls, found.model_calls.clear(), found.executions))


def test_error_types_come_from_the_spans(capture: Any) -> None:
    found = capture("acp-warn-grpc")
    assert set(found.batches()["key_source"]) == {"span"}
    without = batches(found.calls, found.model_calls, found.executions.clear())
    assert set(without["key_source"]) == {"event"}
    assert without.drop("key_source").equals(found.batches().drop("key_source"))


def test_the_order_of_arrival_does_not_matter(capture: Any) -> None:
    found = capture("acp-shadow-grpc")
    expected = found.batches()
    for seed in range(5):
        shuffled = Capture(
            *(
                frame.sample(fraction=1, shuffle=True, seed=seed)
                for frame in (found.calls, found.model_calls, found.executions, found.logged)
            )
        )
        assert shuffled.batches().equals(expected)
        mixed_up = expected.sample(fraction=1, shuffle=True, seed=seed)
        assert side_by_side(mixed_up, shuffled.logged).equals(side_by_side(expected, found.logged))
        assert replay(mixed_up, shuffled.logged).equals(replay(expected, found.logged))
        assert trips(mixed_up, shuffled.logged).equals(trips(expected, found.logged))
        assert sweep_totals(mixed_up).equals(sweep_totals(expected))
