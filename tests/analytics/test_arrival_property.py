"""However rows of all event tables arrive, and whenever results are refreshed, all tables are the same.

Few values, so that rows meet: prompts that cross one midnight or two, sessions that share a guard's mode,
calls that repeat, receivers that were up into the next day. `ARRIVAL_EXAMPLES` asks for more examples.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analytics.refresh import refresh
from sli.schemas import (
    GUARD_DECISIONS,
    INGEST_COUNTS,
    METRIC_INCREASES,
    MODEL_CALLS,
    PROMPT_EVENTS,
    RECEIVER_UPTIME,
    REJECTED,
    TOOL_CALLS,
    Dataset,
)

if TYPE_CHECKING:
    from tests.analytics.segments import EventFolder

EXAMPLES = int(os.environ.get("ARRIVAL_EXAMPLES", "3"))

Draw = tuple[Dataset, dict[str, Any]]

SESSIONS = ("s", "z")
PROMPTS = tuple(
    f"{session}{form}"
    for session in SESSIONS
    for form in ("########1", "########2", "########1/automatic/1", "#explore-c#0")
)


def columns(dataset: Dataset, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Draw]:
    """Rows of a dataset: when they happened, how much later they came, and what they say."""
    shared = {
        "at": st.builds(
            "2026-11-{:02}T{}".format,
            st.integers(1, 4),
            st.sampled_from(["00:00", "00:04", "12:30", "23:45", "23:57"]),
        ),
        "delay": st.sampled_from([timedelta(), timedelta(minutes=9), timedelta(hours=30)]),
    }
    if "environment" in dataset.names:
        shared["environment"] = st.sampled_from(["internal", "internal", "unset"])
        shared["service_version"] = st.sampled_from(["0.24.4", "0.24.4", "0.9.0"])
    if "owner" in dataset.names:
        shared["owner"] = st.sampled_from(["o1", "o2", None])
    return st.tuples(st.just(dataset), st.fixed_dictionaries(shared | fields))


PROMPT_ID = st.sampled_from([*PROMPTS, "s########1", None])
TRACE_ID = st.sampled_from(["t1", "t2", None])
STATUS = st.sampled_from(["success", "error", "cancelled", "unknown"])
EXECUTION = st.sampled_from(["success", "error", "cancelled", "not_started", "unknown"])
COUNT = st.integers(0, 3)

ROWS = st.one_of(
    columns(
        TOOL_CALLS,
        prompt_id=PROMPT_ID,
        trace_id=TRACE_ID,
        call_id=st.sampled_from(["c", "d", None]),
        status=STATUS,
        execution_status=EXECUTION,
        function_name=st.sampled_from(["read_file", "run_shell"]),
        tool_type=st.sampled_from(["native", "mcp"]),
        error_type=st.sampled_from(["timeout", None]),
    ),
    columns(
        MODEL_CALLS,
        prompt_id=PROMPT_ID,
        outcome=st.sampled_from(["response", "error", "cancel"]),
        by_subagent=st.sampled_from([True, False, None]),
        input_tokens=COUNT,
        total_tokens=st.one_of(st.none(), COUNT),
    ),
    columns(
        PROMPT_EVENTS,
        prompt_id=PROMPT_ID,
        trace_id=TRACE_ID,
        kind=st.just("interaction"),
        message_type=st.sampled_from(["acp_prompt", "userQuery", "retry"]),
        turn_status=st.sampled_from(["ok", "cancelled", "error"]),
        duration_ms=st.sampled_from([5.0, 600_000.0]),
    ),
    columns(
        PROMPT_EVENTS,
        prompt_id=PROMPT_ID,
        trace_id=TRACE_ID,
        kind=st.sampled_from(["user_prompt", "user_retry"]),
    ),
    columns(
        PROMPT_EVENTS,
        prompt_id=st.none(),
        trace_id=TRACE_ID,
        kind=st.just("conversation_finished"),
    ),
    columns(
        GUARD_DECISIONS,
        prompt_id=st.sampled_from(PROMPTS),
        route=st.just("acp_foreground"),
        mode=st.sampled_from(["shadow", "warn", "enforce", None]),
        decision=st.sampled_from(["tracked", "would_warn", "warned", "would_stop", "stopped", "reset"]),
        candidate_ordinal=st.sampled_from([1, 2, None]),
        reset_reason=st.sampled_from([None, "unreliable_input", "success"]),
    ),
    columns(
        METRIC_INCREASES,
        counter=st.sampled_from(["tool_calls", "tool_executions", "guard_decisions", "tokens"]),
        execution_status=st.sampled_from(["success", "error", None]),
        status=st.sampled_from(["success", "error", None]),
        decision=st.sampled_from(["tracked", None]),
        increase=st.sampled_from([0.0, 0.1, 0.2, 0.7, 2.0]),
    ),
    columns(
        INGEST_COUNTS,
        signal=st.just("logs"),
        name=st.just("qwen-code.tool_call"),
        records=COUNT,
        stored=COUNT,
        duplicates=COUNT,
        rejected=COUNT,
    ),
    columns(
        REJECTED,
        signal=st.sampled_from(["logs", "metrics"]),
        reason=st.sampled_from(["impossible_time", "too_long"]),
        records=COUNT,
    ),
    columns(
        RECEIVER_UPTIME,
        lasted=st.sampled_from([timedelta(minutes=5), timedelta(hours=20)]),
    ),
)


def made(folder: EventFolder, drawn: Draw) -> dict[str, Any]:
    """The row, as ingest would have written it."""
    dataset, fields = drawn
    given = dict(fields)
    moment = datetime.fromisoformat(given.pop("at")).replace(tzinfo=UTC)
    given["received_at"] = moment + given.pop("delay")
    if dataset is RECEIVER_UPTIME:
        # Such a row is written at its end.
        given |= {"received_at": moment, "until": moment, "since": moment - given.pop("lasted")}
    if given.get("prompt_id"):
        given["session_id"] = given["prompt_id"].split("#")[0]
    row = folder.call if dataset is TOOL_CALLS else lambda at, **rest: folder.row(dataset, at, **rest)
    return row(f"{moment:%Y-%m-%dT%H:%M}", **given)


def latest(tables: dict[str, Any], folder: EventFolder) -> dict[str, Any]:
    """The tables, of the baselines only those that no revision has replaced."""
    by_window = {
        (row["environment"], row["service_version"], row["window_end"]): row
        for row in sorted(folder.table("baselines"), key=lambda row: row["revision"])
    }
    kept = sorted(by_window.values(), key=lambda row: [str(row[name]) for name in ("window_end", *PART)])
    facts = ("revision", "revised_at")
    return tables | {"baselines": [{k: v for k, v in row.items() if k not in facts} for row in kept]}


PART = ("environment", "version_order")


def publish(folder: EventFolder, rows: Sequence[dict[str, Any]], breaks: Sequence[int]) -> None:
    start = 0
    for end in [*sorted(set(breaks)), len(rows)]:
        if rows[start:end]:
            folder.publish(*rows[start:end])
            refresh(folder.directory)
        start = end


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(drawn=st.lists(ROWS, min_size=3, max_size=24), data=st.data())
def test_the_same_tables_whatever_the_order_and_the_steps(
    new_folder: Callable[[], EventFolder], drawn: list[Draw], data: st.DataObject
) -> None:
    stepwise = new_folder()
    rows = [made(stepwise, each) for each in drawn]
    order = data.draw(st.permutations(range(len(rows))))
    steps = data.draw(st.lists(st.integers(1, len(rows) - 1), min_size=1, max_size=3))
    publish(stepwise, [rows[place] for place in order], steps)
    found = stepwise.tables()
    at_once = new_folder()
    at_once.publish(*rows)
    refresh(at_once.directory)
    assert latest(found, stepwise) == latest(at_once.tables(), at_once)
    refresh(stepwise.directory, rebuild=True)
    assert stepwise.tables() == found
