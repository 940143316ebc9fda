"""Batches: which calls a model asked for in one answer, found from stored events.

A batch is found by the answer's id where every call of the prompt carries one; else by the prompt's
model calls: the calls that ended between two answers are one batch. Where a prompt has neither (a call
without an answer before it was asked for by an answer that was lost) no batch of it can be proved
complete, and the prompt is not replayable. Neither way proves that no sibling was skipped.

A subagent's rounds each have a prompt id of their own, `<session>#<agent>-<call id>#<round>`. What
repeats itself is the subagent, so its rounds are one prompt here: the id without the round.
"""

from __future__ import annotations

import polars as pl

from sli.calls import key_hash, repeated_hashes
from sli.prompt import ROUTE_PATTERNS
from sli.replay.prompts import PROMPT, prompt_hash
from sli.vocabulary import ExecutionStatus, Route, Status

_ROUND = r"#[0-9]+$"
_SUBAGENT_PROMPT = dict(ROUTE_PATTERNS)[Route.SUBAGENT]

_ORDER = ("time_unix_nano", "is_call", "event_id")

COLUMNS = (
    "prompt",
    *PROMPT,
    "route",
    "replayable",
    "batch",
    "call_id",
    "function_name",
    "tool_type",
    "status",
    "execution_status",
    "execution_error_type",
    "key_source",
    "provider_duplicate",
    "started_unix_nano",
    "time_unix_nano",
)
"""The columns of `batches`, in order."""


def batches(calls: pl.DataFrame, model_calls: pl.DataFrame, executions: pl.DataFrame) -> pl.DataFrame:
    """The calls, one row each, with the batch that each belongs to.

    Args:
        calls: rows of `tool_calls`, all of a prompt or none; of contract-bearing versions, since
            without an execution status nothing can be replayed.
        model_calls: rows of `model_calls` of the same prompts.
        executions: rows of `tool_executions` of the same prompts.

    A session's prompts depend on no other session: where a frame would be too large, split it by session.

    Returns:
        The columns of `COLUMNS`, ordered by prompt, then time and event id: `prompt` numbers the
        prompts of this frame; `replayable` is of the prompt; `batch` counts from 1 within the prompt, in
        the order of the batches' earliest events, and is null where the prompt is not replayable;
        `execution_error_type` is that of a failed execution, from its span where there is one, else
        from the event: `key_source` says span or event, and is null where no execution failed;
        `provider_duplicate` marks a call id that the same prompt (of a subagent: round) had before;
        `started_unix_nano` is the time, at which the call ended, less its duration.
    """
    rows = _with_error_types(_with_duplicates(_read(calls)), executions)
    rows = _with_subagents_joined(rows)
    answers = _answers(model_calls)
    if rows["response_id"].null_count() == 0:
        answers = answers.clear()
    ordered = _in_order(pl.concat([rows, answers], how="diagonal"))
    return _numbered(_with_answers_counted(ordered)).select(COLUMNS)


def _read(calls: pl.DataFrame) -> pl.DataFrame:
    """What is needed of the calls: every step copies all columns that it is given."""
    milliseconds = pl.col("duration_ms")
    duration = pl.when(milliseconds.is_finite() & (milliseconds > 0)).then(milliseconds).otherwise(0.0)
    return calls.select(
        *PROMPT,
        *("route", "response_id", "event_id", "time_unix_nano", "trace_id", "span_id", "call_id"),
        *("function_name", "tool_type", "status", "execution_status", "error_type"),
        started_unix_nano=pl.col("time_unix_nano")
        - (duration * 1e6).round().cast(pl.Int64, strict=False).fill_null(0),
        is_call=pl.lit(True),
    )


def _with_duplicates(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls with `provider_duplicate`."""
    keyed = calls.with_columns(key_hash())
    has_id = pl.col("call_id").is_not_null()
    repeated = repeated_hashes(keyed.lazy().filter(has_id).select("key_hash")).collect()["key_hash"]
    # Equal hashes only say where to look: they are rare, and what counts is the ids.
    suspected = has_id & pl.col("key_hash").is_in(repeated.implode())
    found = keyed.filter(suspected).sort("time_unix_nano", "event_id")
    is_first = pl.struct(*PROMPT, "call_id").is_first_distinct()
    return pl.concat(
        [
            keyed.filter(~suspected).with_columns(provider_duplicate=pl.lit(False)),
            found.with_columns(provider_duplicate=~is_first),
        ]
    ).drop("key_hash")


def _with_error_types(calls: pl.DataFrame, executions: pl.DataFrame) -> pl.DataFrame:
    """The calls with `execution_error_type` and `key_source`."""
    failed = (pl.col("status") == str(Status.ERROR)) & (
        pl.col("execution_status") == str(ExecutionStatus.ERROR)
    )
    failed = failed.fill_null(False)
    # The log record's span is the call's tool span; its child is the execution.
    spans = (
        executions.filter((pl.col("kind") == "execution") & pl.col("error_type").is_not_null())
        .sort("time_unix_nano", "event_id")
        .unique(["trace_id", "parent_span_id"], keep="first")
        .select("trace_id", span_id="parent_span_id", span_error_type="error_type")
    )
    nothing = pl.lit(None, pl.String)
    from_span = pl.col("span_error_type").is_not_null()
    return pl.concat(
        [
            calls.filter(~failed).with_columns(execution_error_type=nothing, key_source=nothing),
            calls.filter(failed)
            .join(spans, on=["trace_id", "span_id"], how="left")
            .with_columns(
                execution_error_type=pl.coalesce("span_error_type", "error_type"),
                key_source=pl.when(from_span).then(pl.lit("span")).otherwise(pl.lit("event")),
            )
            .drop("span_error_type"),
        ]
    ).drop("trace_id", "span_id", "error_type")


def _with_subagents_joined(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows, with the rounds of a subagent as one prompt."""
    by_subagent = (pl.col("route") == str(Route.SUBAGENT)).fill_null(False)
    return pl.concat([rows.filter(~by_subagent), rows.filter(by_subagent).with_columns(without_round())])


def _answers(model_calls: pl.DataFrame) -> pl.DataFrame:
    """The answers that can ask for calls of their own prompt."""
    by_subagent = pl.col("by_subagent").fill_null(False)
    answers = model_calls.filter(pl.col("outcome") == "response")
    # A subagent's answer under the foreground's prompt id asks for none of the foreground's calls.
    own = answers.filter(by_subagent & pl.col("prompt_id").str.contains(_SUBAGENT_PROMPT))
    return pl.concat([answers.filter(~by_subagent), own.with_columns(without_round())]).select(
        *PROMPT, "time_unix_nano", is_call=pl.lit(False)
    )


def without_round() -> pl.Expr:
    """The prompt id of a subagent's round, as that of all its rounds."""
    return pl.col("prompt_id").str.replace(_ROUND, "")


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows prompt by prompt, each in order of time, with `begins`: the first of its prompt."""
    ordered = _begun(rows.with_columns(prompt_hash()).sort("prompt_hash", *_ORDER))
    begins_hash = pl.col("prompt_hash").ne_missing(pl.col("prompt_hash").shift())
    if ordered.select((pl.col("begins") & ~begins_hash).any()).item():
        # Two prompts share a hash and lie within one another. It takes billions of prompts, or luck.
        ordered = _begun(ordered.sort(*PROMPT, *_ORDER))
    return ordered.drop("prompt_hash")


def _begun(ordered: pl.DataFrame) -> pl.DataFrame:
    changed = [pl.col(name).ne_missing(pl.col(name).shift()) for name in PROMPT]
    first = pl.int_range(pl.len()) == 0
    return ordered.with_columns(begins=pl.any_horizontal(first, *changed))


def _with_answers_counted(ordered: pl.DataFrame) -> pl.DataFrame:
    """The calls alone, with `prompt`, and in `answer` how many answers of the prompt came before."""
    is_answer = (~pl.col("is_call")).cast(pl.Int64)
    so_far = is_answer.cum_sum()
    at_begin = pl.when("begins").then(so_far - is_answer).forward_fill()
    return (
        ordered.with_columns(prompt=pl.col("begins").cast(pl.Int64).cum_sum(), answer=so_far - at_begin)
        .filter("is_call")
        .drop("begins", "is_call")
    )


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """The calls with `replayable` and `batch`."""
    by_response = pl.col("response_id").is_not_null().all().over("prompt")
    answered = (pl.col("answer") > 0).all().over("prompt")
    rows = rows.with_columns(by_response=by_response, answered=answered).with_columns(
        replayable=pl.col("prompt_id").is_not_null() & (pl.col("by_response") | pl.col("answered")),
        response_id=pl.when("by_response").then("response_id"),
        answer=pl.when(~pl.col("by_response")).then("answer"),
    )
    key = ("prompt", "response_id", "answer")
    changed = pl.any_horizontal(*(pl.col(name).ne_missing(pl.col(name).shift()) for name in key))
    rows = rows.with_columns(run=changed.cast(pl.Int64).cum_sum())
    # Calls of one answer mostly follow each other; where they do not, their first run names the batch.
    runs = rows.filter(changed).select(*key, "run")
    runs = runs.with_columns(first=pl.col("run").min().over(key))
    runs = runs.with_columns(number=(pl.col("run") == pl.col("first")).cast(pl.Int64).cum_sum())
    runs = runs.with_columns(number=pl.col("number").gather(pl.col("first") - 1))
    runs = runs.with_columns(batch=pl.col("number") - pl.col("number").min().over("prompt") + 1)
    batch = runs["batch"].gather(rows["run"] - 1)
    return rows.with_columns(batch=batch).with_columns(batch=pl.when("replayable").then("batch"))
