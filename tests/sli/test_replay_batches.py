"""Batches: how they are found, in which order, and what is said of each call."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.published import polars_schema
from sli.replay import batches, side_by_side
from sli.replay.batches import COLUMNS
from sli.replay.logged import modes, placed
from sli.schemas import GUARD_DECISIONS, MODEL_CALLS, TOOL_CALLS, TOOL_EXECUTIONS, Dataset

MILLISECOND = 1_000_000
PROMPT = "s########1"
Row = dict[str, Any]


def table(dataset: Dataset, rows: Sequence[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=polars_schema(dataset))


def call(call_id: str | None, at: int, prompt: str | None = PROMPT, **columns: Any) -> Row:
    return {
        "event_id": f"{call_id}-{at}".encode(),
        "time_unix_nano": at * MILLISECOND,
        "environment": "internal",
        "service_version": "0.24.4",
        "session_id": "s",
        "route": "screen_or_cli",
        "prompt_id": prompt,
        "call_id": call_id,
        "function_name": "read_file",
        "tool_type": "native",
        "status": "error",
        "execution_status": "error",
        "error_type": "file_not_found",
        "duration_ms": 5.0,
        "trace_id": "t",
        "span_id": call_id,
    } | columns


def answer(at: int, prompt: str | None = PROMPT, **columns: Any) -> Row:
    shared = ("environment", "service_version", "session_id")
    row = {name: value for name, value in call("a", at, prompt).items() if name in shared}
    row |= {"event_id": b"a%d" % at, "time_unix_nano": at * MILLISECOND, "prompt_id": prompt}
    return row | {"outcome": "response", "by_subagent": False} | columns


def span(call_id: str, error_type: str | None, **columns: Any) -> Row:
    row = {"event_id": call_id.encode(), "time_unix_nano": 1, "trace_id": "t", "kind": "execution"}
    return row | {"parent_span_id": call_id, "error_type": error_type} | columns


def found(calls: Sequence[Row], answers: Sequence[Row] = (), executions: Sequence[Row] = ()) -> pl.DataFrame:
    return batches(table(TOOL_CALLS, calls), table(MODEL_CALLS, answers), table(TOOL_EXECUTIONS, executions))


def numbers(rows: pl.DataFrame) -> dict[str, int | None]:
    return dict(rows.select("call_id", "batch").iter_rows())


def test_the_columns() -> None:
    rows = found([call("a", 10)], [answer(1)])
    assert tuple(rows.columns) == COLUMNS
    assert rows.row(0, named=True) == {
        "prompt": 1,
        "environment": "internal",
        "service_version": "0.24.4",
        "session_id": "s",
        "prompt_id": PROMPT,
        "route": "screen_or_cli",
        "replayable": True,
        "batch": 1,
        "call_id": "a",
        "function_name": "read_file",
        "tool_type": "native",
        "status": "error",
        "execution_status": "error",
        "execution_error_type": "file_not_found",
        "key_source": "event",
        "provider_duplicate": False,
        "started_unix_nano": 5 * MILLISECOND,
        "time_unix_nano": 10 * MILLISECOND,
    }
    assert found([]).schema == rows.schema


def test_calls_between_two_answers_are_one_batch() -> None:
    calls = [call("a", 10), call("b", 12), call("c", 30), call("d", 30)]
    # The second answer asked for nothing that was recorded, and a call can end with its answer.
    rows = found(calls, [answer(1), answer(20), answer(30), answer(40)])
    assert numbers(rows) == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_only_the_main_conversations_answers_count() -> None:
    others = [
        answer(11, outcome="error"),
        answer(11, outcome="retry"),
        answer(11, by_subagent=True),
        answer(11, "s########2"),
        answer(11, environment="public_cloud"),
        answer(11, service_version="0.23.4"),
    ]
    assert numbers(found([call("a", 10), call("b", 12)], [answer(1), *others])) == {"a": 1, "b": 1}
    assert numbers(found([call("a", 10), call("b", 12)], [answer(1), answer(11, by_subagent=None)])) == {
        "a": 1,
        "b": 2,
    }


def test_without_answers_a_prompt_is_not_replayable() -> None:
    lost = [call("a", 10), call("b", 12)]
    other = [call("c", 10, "s########2")]
    rows = found([*lost, *other], [answer(1, "s########2"), answer(11)])
    # The answer that asked for the first call is missing; where one batch ends nobody knows.
    assert numbers(rows) == {"a": None, "b": None, "c": 1}
    assert rows.sort("call_id")["replayable"].to_list() == [False, False, True]
    nobody = found([call("a", 10, None, response_id="r")], [answer(1, None)])
    assert nobody["replayable"].to_list() == [False]


def test_a_response_id_names_the_batch() -> None:
    calls = [call(c, at, response_id=r) for c, at, r in [("a", 10, "y"), ("b", 30, "x"), ("c", 40, "y")]]
    # In the order of their earliest events, although they lie within one another.
    assert numbers(found(calls)) == {"a": 1, "b": 2, "c": 1}
    assert numbers(found(calls, [answer(1), answer(20), answer(35)])) == {"a": 1, "b": 2, "c": 1}


def test_one_call_without_a_response_id_leaves_the_answers_to_tell() -> None:
    calls = [call("a", 10, response_id="x"), call("b", 12, response_id="x"), call("c", 30)]
    assert numbers(found(calls)) == {"a": None, "b": None, "c": None}
    assert numbers(found(calls, [answer(1), answer(20)])) == {"a": 1, "b": 1, "c": 2}


def test_at_the_same_time_the_event_id_orders_batches() -> None:
    calls = [
        call("a", 10, response_id="x", event_id=b"\xff"),
        call("b", 10, response_id="y", event_id=b"\x01"),
    ]
    assert numbers(found(calls)) == {"a": 2, "b": 1}


def test_prompts_of_other_versions_and_environments_are_others() -> None:
    calls = [
        call("a", 10, response_id="x"),
        call("a", 11, response_id="x", service_version="0.23.4"),
        call("a", 12, response_id="x", environment="public_cloud"),
        call("a", 13, response_id="x", session_id=None),
    ]
    rows = found(calls)
    assert rows["prompt"].n_unique() == 4
    assert rows["batch"].to_list() == [1] * 4
    assert not rows["provider_duplicate"].any()


def test_a_call_id_that_the_prompt_had_before_is_a_provider_duplicate() -> None:
    calls = [
        call("a", 20, event_id=b"2"),
        call("a", 20, event_id=b"1"),
        call("a", 30),
        call("a", 40, "s########2"),
        call(None, 50),
        call(None, 60),
    ]
    rows = found(calls, [answer(1), answer(1, "s########2")])
    first = rows.filter(pl.col("prompt_id") == PROMPT)
    assert first["provider_duplicate"].to_list() == [False, True, True, False, False]
    assert rows.filter(pl.col("prompt_id") != PROMPT)["provider_duplicate"].to_list() == [False]


def test_the_error_type_comes_from_the_execution_of_the_same_call() -> None:
    calls = [
        call("a", 10),
        call("b", 11),
        call("c", 12),
        call("d", 13),
        call("e", 14, status="error", execution_status="not_started"),
        call("f", 15, status="success", execution_status="success", error_type=None),
        call("g", 16, span_id=None),
        call("h", 17, error_type=None),
    ]
    executions = [
        span("a", "permission_denied"),
        span("b", "permission_denied", trace_id="other"),
        span("c", "permission_denied", kind="tool"),
        span("d", None),
        span("e", "permission_denied"),
        span("f", "permission_denied"),
        span("a", "later", event_id=b"z", time_unix_nano=2),
    ]
    rows = found(calls, [answer(1)], executions).sort("call_id")
    assert rows.select("execution_error_type", "key_source").rows() == [
        ("permission_denied", "span"),
        *[("file_not_found", "event")] * 3,
        (None, None),
        (None, None),
        ("file_not_found", "event"),
        (None, "event"),
    ]


@pytest.mark.parametrize("duration", [None, 0.0, -3.0, float("nan"), float("inf")])
def test_without_a_duration_a_call_started_when_it_ended(duration: float | None) -> None:
    rows = found([call("a", 10, duration_ms=duration)], [answer(1)])
    assert rows["started_unix_nano"].to_list() == [10 * MILLISECOND]


def test_the_rounds_of_a_subagent_are_one_prompt_apart_from_the_foregrounds() -> None:
    first, second = "s#explore-call_9#0", "s#explore-call_9#1"
    other = "s#explore-call_10#0"
    calls = [
        call("main", 10),
        call("a", 20, first, route="subagent"),
        call("a", 40, second, route="subagent"),
        call("b", 41, second, route="subagent"),
        call("c", 50, other, route="subagent"),
        call("last", 60),
    ]
    answers = [
        answer(1),
        answer(15, first, by_subagent=True),
        answer(35, second, by_subagent=True),
        answer(45, other, by_subagent=True),
        # Its own answers never part the foreground's calls.
        answer(55, by_subagent=True),
    ]
    rows = found(calls, answers)
    assert rows["replayable"].all()
    assert rows.group_by("prompt_id").agg("batch").sort("prompt_id").rows() == [
        ("s########1", [1, 1]),
        ("s#explore-call_10", [1]),
        ("s#explore-call_9", [1, 2, 2]),
    ]
    # A round is a prompt of its own where ids are compared.
    assert not rows["provider_duplicate"].any()


MANY = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]),
        st.integers(2, 9),
        st.integers(1, 3),
        st.sampled_from(["x", "y", "z"]),
    ),
    max_size=12,
)


@settings(max_examples=50)
@given(
    MANY, st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3)), max_size=8), st.randoms(), st.booleans()
)
def test_no_order_of_arrival_matters(
    drawn: list[tuple[str | None, int, int, str]],
    answered: list[tuple[int, int]],
    random: Any,
    named: bool,
) -> None:
    calls = [
        call(c, at, f"s########{p}", response_id=r if named else None, event_id=bytes([n]))
        for n, (c, at, p, r) in enumerate(drawn)
    ]
    answers = [answer(at, f"s########{p}", event_id=bytes([n])) for n, (at, p) in enumerate(answered)]
    expected = found(calls, answers)
    again = found(random.sample(calls, len(calls)), random.sample(answers, len(answers)))
    assert again.equals(expected)
    # Batches of a prompt are numbered without gaps, from 1.
    per_prompt = expected.filter("replayable").group_by("prompt").agg(pl.col("batch").unique().sort())
    assert all(each == list(range(1, len(each) + 1)) for each in per_prompt["batch"].to_list())


def test_prompts_that_share_a_hash_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [call(f"{p}-{n}", 10 * n, f"s########{p}") for n in range(1, 4) for p in (1, 2)]
    answers = [answer(10 * n - 5, f"s########{p}") for n in range(1, 4) for p in (1, 2)]
    expected = found(calls, answers)
    same = pl.lit(7, pl.UInt64).alias("prompt_hash")
    monkeypatch.setattr(import_module("sli.replay.batches"), "prompt_hash", lambda: same)
    collided = found(calls, answers)
    assert collided.drop("prompt").sort("call_id").equals(expected.drop("prompt").sort("call_id"))
    assert numbers(collided) == {f"{p}-{n}": n for n in range(1, 4) for p in (1, 2)}


def decision(at: int, reason: str | None = None, prompt: str = PROMPT, **columns: Any) -> Row:
    return {
        "event_id": b"g%d" % at,
        "time_unix_nano": at * MILLISECOND,
        "environment": "internal",
        "service_version": "0.24.4",
        "session_id": "s",
        "prompt_id": prompt,
        "route": "acp_foreground",
        "mode": "warn",
        "decision": "reset" if reason else "tracked",
        "reset_reason": reason,
    } | columns


def test_a_logged_decision_belongs_to_the_batch_that_had_started() -> None:
    calls = [call("a", 10), call("b", 12), call("c", 30)]
    rows = found(calls, [answer(1), answer(20)])
    logged = table(
        GUARD_DECISIONS,
        [
            decision(3, "external_input"),
            decision(13),
            # No call is known of the batch that this one was logged for.
            decision(18, "external_input"),
            decision(30),
            decision(31, prompt="s########9"),
        ],
    )
    told = placed(rows, logged).select("batch", "nth", "reset_reason").rows()
    assert told == [(0, 0, "external_input"), (1, 0, None), (1, 1, "external_input"), (2, 0, None)]
    beside = side_by_side(rows, logged).select("batch", "nth", "reason", "outcome").rows()
    # In idle an input changes nothing, so the machine would not have logged the first.
    assert beside == [
        (0, 0, "external_input", "producer_only"),
        (1, 0, "tracked", "agree"),
        (1, 1, "external_input", "agree"),
        (2, 0, "tracked", "agree"),
    ]


def test_a_prompt_without_a_record_has_the_mode_of_its_session() -> None:
    of = pl.DataFrame(
        [
            ("internal", "0.24.4", "s", PROMPT),
            ("internal", "0.24.4", "s", "s########2"),
            ("internal", "0.24.4", "other", "other########1"),
        ],
        schema=["environment", "service_version", "session_id", "prompt_id"],
        orient="row",
    )
    logged = table(
        GUARD_DECISIONS,
        [decision(1, mode="warn"), decision(2, mode="enforce"), decision(3, prompt="s########7")],
    )
    assert modes(logged, of)["mode"].to_list() == ["warn", "warn", None]
