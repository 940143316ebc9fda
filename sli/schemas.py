"""The columns of every dataset: what is stored is exactly this list, and nothing else.

The types are DuckDB's names, since the event store, the Parquet segments and the results are all
written by it. Event columns follow the producer's contract; result columns are public names.
"""

from __future__ import annotations

from dataclasses import dataclass

EVENT_FORMAT = 2
"""Version of the event store and the manifest: older ones are brought up to it, newer ones refused."""

RESULT_FORMAT = 1
"""Version of the result columns: older results are computed again from the events, newer ones are refused."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its DuckDB type, and what it holds."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """A named table."""

    name: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The column names, in order."""
        return tuple(column.name for column in self.columns)


_IDENTITY = (
    Column("event_id", "UUID", "128-bit identity, from what the producer stamped"),
    Column("time", "TIMESTAMPTZ", "when it happened, to the microsecond"),
    Column("time_unix_nano", "BIGINT", "the same, in nanoseconds since 1970, exact"),
    Column("time_source", "VARCHAR", "record, event_timestamp, observed or arrival"),
    Column("day", "DATE", "UTC date of the time"),
    Column("received_at", "TIMESTAMPTZ", "when it arrived"),
)
_PARTITION = (
    Column("environment", "VARCHAR", "deployment environment, or unset"),
    Column("service_name", "VARCHAR", "service.name, or unknown"),
    Column("service_version", "VARCHAR", "service.version, or unknown"),
    Column("owner", "VARCHAR", "keyed hash of the owner, or null"),
)
_COMMIT = (Column("commit_number", "BIGINT", "number of the store's commit that holds the row"),)

TOOL_CALLS = Dataset(
    "tool_calls",
    (
        *_IDENTITY,
        *_PARTITION,
        Column("route", "VARCHAR", "as far as the prompt id tells"),
        Column("session_id", "VARCHAR", "session.id of the record, else of the resource"),
        Column("prompt_id", "VARCHAR", "the prompt that the call belongs to"),
        Column("call_id", "VARCHAR", "the call's id, given by the model's provider"),
        Column("parent_call_id", "VARCHAR", "the call that this one was made for"),
        Column("response_id", "VARCHAR", "the model answer that asked for the call"),
        Column("trace_id", "VARCHAR", "32 lower-case hex digits"),
        Column("span_id", "VARCHAR", "16 lower-case hex digits"),
        Column("function_name", "VARCHAR", "the tool; unknown_tool, unregistered_tool"),
        Column("tool_type", "VARCHAR", "native, mcp, unknown"),
        Column("status", "VARCHAR", "terminal status: success, error, cancelled, unknown"),
        Column("execution_status", "VARCHAR", "success, error, cancelled, not_started, unknown"),
        Column("error_type", "VARCHAR", "class of the error; null unless status is error"),
        Column("decision", "VARCHAR", "what became of the permission request"),
        Column("duration_ms", "DOUBLE", "milliseconds, waiting for permission included"),
        Column("content_length", "BIGINT", "length of the tool's answer, in characters"),
        Column("source", "VARCHAR", "where the call came from, as the producer says"),
        Column("contract_violation", "BOOLEAN", "status success over an execution that was none"),
        *_COMMIT,
    ),
)

GUARD_DECISIONS = Dataset(
    "guard_decisions",
    (
        *_IDENTITY,
        *_PARTITION,
        Column("route", "VARCHAR", "the route as the guard names it"),
        Column("session_id", "VARCHAR", "the part of prompt_id before ########"),
        Column("prompt_id", "VARCHAR", "the prompt that is watched"),
        Column("trace_id", "VARCHAR", "32 lower-case hex digits"),
        Column("span_id", "VARCHAR", "16 lower-case hex digits"),
        Column("mode", "VARCHAR", "off, shadow, warn, enforce"),
        Column("phase_before", "VARCHAR", "idle, tracking, warned, latched"),
        Column("phase_after", "VARCHAR", "idle, tracking, warned, latched"),
        Column("decision", "VARCHAR", "reset, tracked, would_warn, warned, would_stop, stopped"),
        Column("failure_count_bucket", "VARCHAR", "0, 1-2, 3-4, 5-7, 8+"),
        Column("batch_count_bucket", "VARCHAR", "0, 1, 2, 3+"),
        Column("candidate_ordinal", "BIGINT", "number of the candidate within its prompt"),
        Column("reset_reason", "VARCHAR", "why a candidate was dropped"),
        Column("terminal_status", "VARCHAR", "of the failing calls"),
        Column("execution_status", "VARCHAR", "of the failing calls"),
        Column("execution_error_type", "VARCHAR", "of the failing calls"),
        Column("tool_type", "VARCHAR", "of the failing tool"),
        Column("unlisted_attributes", "VARCHAR[]", "names of attributes that the contract does not list"),
        *_COMMIT,
    ),
)

_IDS = (
    Column("session_id", "VARCHAR", "session.id of the record, else of the resource"),
    Column("prompt_id", "VARCHAR", "the prompt that it belongs to"),
    Column("trace_id", "VARCHAR", "32 lower-case hex digits"),
    Column("span_id", "VARCHAR", "16 lower-case hex digits"),
)
_PARENT = (Column("parent_span_id", "VARCHAR", "16 lower-case hex digits; null for log records"),)

LOOPS = Dataset(
    "loops",
    (
        *_IDENTITY,
        *_PARTITION,
        *_IDS,
        Column("loop_type", "VARCHAR", "what the agent's loop detection found"),
        *_COMMIT,
    ),
)

PROMPT_EVENTS = Dataset(
    "prompt_events",
    (
        *_IDENTITY,
        *_PARTITION,
        *_IDS,
        *_PARENT,
        Column("kind", "VARCHAR", "interaction, user_prompt, user_retry, conversation_finished"),
        Column("message_type", "VARCHAR", "of an interaction: acp_prompt, userQuery, retry, and others"),
        Column("turn_status", "VARCHAR", "of an interaction: ok, cancelled, error, else unknown"),
        Column("duration_ms", "DOUBLE", "of an interaction, milliseconds"),
        Column("error_type", "VARCHAR", "of an interaction that ended in an error"),
        Column("turn_count", "BIGINT", "of a conversation that finished"),
        *_COMMIT,
    ),
)

MODEL_CALLS = Dataset(
    "model_calls",
    (
        *_IDENTITY,
        *_PARTITION,
        *_IDS,
        Column("outcome", "VARCHAR", "response, error, cancel, retry, content_retry"),
        Column("response_id", "VARCHAR", "the model answer"),
        Column("model", "VARCHAR", "the model, as the agent calls it"),
        Column("by_subagent", "BOOLEAN", "whether a subagent asked, and not the main conversation"),
        Column("duration_ms", "DOUBLE", "milliseconds"),
        Column("input_tokens", "BIGINT", "tokens of the question"),
        Column("output_tokens", "BIGINT", "tokens of the answer"),
        Column("cached_tokens", "BIGINT", "tokens of the question that were cached"),
        Column("thought_tokens", "BIGINT", "tokens of reasoning"),
        Column("total_tokens", "BIGINT", "tokens as the provider sums them up"),
        Column("status_code", "BIGINT", "HTTP status of the provider"),
        Column("error_type", "VARCHAR", "class of the error"),
        Column("attempt_number", "BIGINT", "of a retry"),
        *_COMMIT,
    ),
)

TOOL_EXECUTIONS = Dataset(
    "tool_executions",
    (
        *_IDENTITY,
        *_PARTITION,
        *_IDS,
        *_PARENT,
        Column("kind", "VARCHAR", "execution, tool, blocked_on_user"),
        Column("call_id", "VARCHAR", "the call's id, given by the model's provider"),
        Column("execution_status", "VARCHAR", "frozen at settle; of an execution only, unknown if not sent"),
        Column("error_type", "VARCHAR", "of an execution that failed, frozen at settle"),
        Column("duration_ms", "DOUBLE", "of an execution or a tool span, milliseconds"),
        Column("waiting_ms", "DOUBLE", "waiting for the user's permission, milliseconds"),
        *_COMMIT,
    ),
)

SESSIONS = Dataset(
    "sessions",
    (
        *_IDENTITY,
        *_PARTITION,
        *_IDS,
        Column("kind", "VARCHAR", "start, end, sse_opened, sse_closed, session.*, channel.*"),
        Column("stream_id", "VARCHAR", "the event stream that was opened or closed"),
        Column("close_reason", "VARCHAR", "why the event stream was closed"),
        Column("resumed", "BOOLEAN", "whether an event stream goes on where an earlier one ended"),
        Column("expected", "BOOLEAN", "whether the end of a channel was meant"),
        Column("duration_ms", "DOUBLE", "how long the event stream was open, milliseconds"),
        *_COMMIT,
    ),
)

METRIC_INCREASES = Dataset(
    "metric_increases",
    (
        *_IDENTITY,
        *_PARTITION,
        Column("session_id", "VARCHAR", "session.id of the point, else of the resource"),
        Column("counter", "VARCHAR", "tool_calls, tool_executions, guard_decisions, tokens"),
        Column("series", "VARCHAR", "keyed hash of resource, scope, labels and start time"),
        Column("temporality", "VARCHAR", "cumulative, delta"),
        Column("start_unix_nano", "BIGINT", "start of the series, nanoseconds since 1970; 0 if not sent"),
        Column("value", "DOUBLE", "the point as sent"),
        Column("increase", "DOUBLE", "what the point adds to the sum of its series, never negative"),
        Column("status", "VARCHAR", "label"),
        Column("execution_status", "VARCHAR", "label"),
        Column("tool_type", "VARCHAR", "label"),
        Column("type", "VARCHAR", "label: the kind of tokens"),
        Column("mode", "VARCHAR", "label"),
        Column("decision", "VARCHAR", "label"),
        Column("reset_reason", "VARCHAR", "label"),
        *_COMMIT,
    ),
)

INGEST_COUNTS = Dataset(
    "ingest_counts",
    (
        *_IDENTITY,
        *_PARTITION[:3],
        Column("signal", "VARCHAR", "logs, traces, metrics"),
        Column("name", "VARCHAR", "event, span or metric name; other where it has no name's form"),
        Column("records", "BIGINT", "records (of metrics: points) that arrived, repeats included"),
        Column("stored", "BIGINT", "of these, new rows of an event table"),
        Column("duplicates", "BIGINT", "of these, events that were stored already"),
        Column("rejected", "BIGINT", "of these, records that cannot be kept"),
        *_COMMIT,
    ),
)

REJECTED = Dataset(
    "rejected",
    (
        *_IDENTITY,
        *_PARTITION,
        Column("signal", "VARCHAR", "logs, traces, metrics"),
        Column("name", "VARCHAR", "event, span or metric name"),
        Column("reason", "VARCHAR", "impossible_time, wrong_type, wrong_shape, too_long"),
        Column("records", "BIGINT", "how many: one, or all points of a metric"),
        *_COMMIT,
    ),
)

RECEIVER_UPTIME = Dataset(
    "receiver_uptime",
    (
        *_IDENTITY,
        Column("since", "TIMESTAMPTZ", "the receiver was up and accepting from here"),
        Column("until", "TIMESTAMPTZ", "to here"),
        Column("refused", "BIGINT", "requests that it refused meanwhile for want of room or of the store"),
        *_COMMIT,
    ),
)

EVENT_DATASETS: tuple[Dataset, ...] = (
    TOOL_CALLS,
    GUARD_DECISIONS,
    LOOPS,
    PROMPT_EVENTS,
    MODEL_CALLS,
    TOOL_EXECUTIONS,
    SESSIONS,
    METRIC_INCREASES,
    INGEST_COUNTS,
    REJECTED,
    RECEIVER_UPTIME,
)

_PART = (
    Column("time", "TIMESTAMPTZ", "start of the hour or day, UTC"),
    Column("environment", "VARCHAR", "deployment environment, or unset"),
    Column("service_version", "VARCHAR", "service.version, or unknown"),
)
_SLI = (
    Column("total", "BIGINT", "distinct calls"),
    Column("success", "BIGINT", "calls whose execution succeeded"),
    Column("error", "BIGINT", "calls whose execution failed"),
    Column("cancelled", "BIGINT", "calls whose execution was cancelled"),
    Column("not_started", "BIGINT", "calls that were never executed"),
    Column("unknown", "BIGINT", "calls that do not say"),
    Column("executed", "BIGINT", "success + error: the denominator"),
    Column("failure_rate", "DOUBLE", "error / executed; null without executed calls"),
    Column("failure_rate_low", "DOUBLE", "lower end of the 95 % Wilson interval"),
    Column("failure_rate_high", "DOUBLE", "upper end of the 95 % Wilson interval"),
    Column("unknown_ratio", "DOUBLE", "unknown / total"),
    Column("contract_violations", "BIGINT", "calls that break the contract"),
    Column("version_order", "VARCHAR", "sorts as versions sort"),
)

SLI_HOURLY = Dataset("sli_hourly", (*_PART, *_SLI))
SLI_DAILY = Dataset("sli_daily", (*_PART, *_SLI))
SLI_BY_TOOL_TYPE_DAILY = Dataset(
    "sli_by_tool_type_daily",
    (*_PART, Column("tool_type", "VARCHAR", "native, mcp, unknown"), *_SLI),
)
SLI_BY_FUNCTION_DAILY = Dataset(
    "sli_by_function_daily",
    (*_PART, Column("function_name", "VARCHAR", "the tool"), *_SLI),
)
RUNS = Dataset(
    "runs",
    (
        Column("job", "VARCHAR", "what ran"),
        Column("started", "TIMESTAMPTZ", "when it started"),
        Column("finished", "TIMESTAMPTZ", "when it ended"),
        Column("status", "VARCHAR", "ok or failed"),
        Column("inputs", "BIGINT", "the last commit number that was read"),
        Column("rows", "BIGINT", "result rows that were written, or rows that were checked"),
        Column("detail", "VARCHAR", "what was recomputed"),
    ),
)

RESULT_DATASETS: tuple[Dataset, ...] = (
    SLI_HOURLY,
    SLI_DAILY,
    SLI_BY_TOOL_TYPE_DAILY,
    SLI_BY_FUNCTION_DAILY,
    RUNS,
)
