"""The columns of every dataset: what is stored is exactly this list, and nothing else.

The types are DuckDB's names, since the event store, the Parquet segments and the results are all
written by it. Event columns follow the producer's contract; result columns are public names.
"""

from __future__ import annotations

from dataclasses import dataclass

EVENT_FORMAT = 2
"""Version of the event store and the manifest: older ones are brought up to it, newer ones refused."""

RESULT_FORMAT = 3
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

    @property
    def select_list(self) -> str:
        """The column names as SQL takes them: some are words of its own."""
        return ", ".join(f'"{name}"' for name in self.names)


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
_ORDER = (Column("version_order", "VARCHAR", "sorts as versions sort"),)
_SLI = (
    Column("total", "BIGINT", "distinct calls"),
    Column("success", "BIGINT", "calls whose execution succeeded"),
    Column("error", "BIGINT", "calls whose execution failed"),
    Column("cancelled", "BIGINT", "calls whose execution was cancelled"),
    Column("not_started", "BIGINT", "calls that were never executed"),
    Column("unknown", "BIGINT", "calls that do not say"),
    Column("executed", "BIGINT", "success + error: the denominator"),
    Column("failure_rate", "DOUBLE", "error / executed; null without executed calls"),
    Column("failure_rate_low", "DOUBLE", "lower end of the 95 % Wilson interval, over calls"),
    Column("failure_rate_high", "DOUBLE", "upper end of the 95 % Wilson interval, over calls"),
    Column(
        "clustered_low", "DOUBLE", "lower end of the 95 % owner-clustered interval; null below two owners"
    ),
    Column("clustered_high", "DOUBLE", "upper end of the 95 % owner-clustered interval"),
    Column("owners", "BIGINT", "owners with executed calls"),
    Column("unknown_ratio", "DOUBLE", "unknown / total"),
    Column("contract_violations", "BIGINT", "calls that break the contract"),
    *_ORDER,
)
_RATE = "share of prompts, in [0, 1]"

SLI_HOURLY = Dataset("sli_hourly", (*_PART, *_SLI))
SLI_DAILY = Dataset("sli_daily", (*_PART, *_SLI))
SLI_BY_TOOL_TYPE_DAILY = Dataset(
    "sli_by_tool_type_daily",
    (*_PART, Column("tool_type", "VARCHAR", "native, mcp, unknown"), *_SLI),
)
SLI_BY_ROUTE_DAILY = Dataset(
    "sli_by_route_daily",
    (*_PART, Column("route", "VARCHAR", "settled: acp_foreground, subagent, automatic, ..."), *_SLI),
)
SLI_BY_FUNCTION_DAILY = Dataset(
    "sli_by_function_daily",
    (*_PART, Column("function_name", "VARCHAR", "the tool"), *_SLI),
)
FUNCTION_ERRORS_DAILY = Dataset(
    "function_errors_daily",
    (
        *_PART,
        Column("function_name", "VARCHAR", "the tool"),
        Column("error_type", "VARCHAR", "class of the error; unknown where not said"),
        Column("calls", "BIGINT", "failed executions"),
        Column("would_warn", "BIGINT", "reminders that the replayed guard would give, in foreground prompts"),
        Column("would_stop", "BIGINT", "foreground prompts that the replayed guard would stop"),
        *_ORDER,
    ),
)
FAILURE_CLASSES_DAILY = Dataset(
    "failure_classes_daily",
    (
        *_PART,
        Column("class", "VARCHAR", "what the terminal status hides; see sli/failure_classes.py"),
        Column("error_type", "VARCHAR", "class of the error; null where the terminal status is no error"),
        Column("calls", "BIGINT", "distinct calls"),
        *_ORDER,
    ),
)
PROMPTS = Dataset(
    "prompts",
    (
        Column("environment", "VARCHAR", "deployment environment, or unset"),
        Column("service_version", "VARCHAR", "service.version, or unknown"),
        Column("prompt_id", "VARCHAR", "the prompt"),
        Column("session_id", "VARCHAR", "the session that it is part of"),
        Column("route", "VARCHAR", "settled: acp_foreground, subagent, automatic, ..."),
        Column("owner", "VARCHAR", "keyed hash of the owner, or null"),
        Column("mode", "VARCHAR", "of the guard; unknown where nothing tells; null on other routes"),
        Column("supported_host", "BOOLEAN", "no input was unreliable; null on other routes"),
        Column(
            "turn_status", "VARCHAR", "ok, cancelled, error, unknown, unfinished; open while it may go on"
        ),
        Column("started", "TIMESTAMPTZ", "its first record"),
        Column("ended", "TIMESTAMPTZ", "its last record, or the end of its interaction"),
        Column("duration_ms", "DOUBLE", "of its interaction, milliseconds"),
        Column("rounds", "BIGINT", "answers of the main conversation"),
        Column("tokens", "BIGINT", "of all its model answers"),
        Column("calls", "BIGINT", "distinct tool calls"),
        Column("day", "DATE", "UTC date of its first record"),
        Column(
            "revision",
            "BIGINT",
            "on how many dates records of it came late; 2 for any more",
        ),
    ),
)
QUALITY_DAILY = Dataset(
    "quality_daily",
    (
        *_PART,
        Column("total", "BIGINT", "distinct calls"),
        Column("stored", "BIGINT", "rows of tool_calls, repeats of calls included"),
        Column("unknown_ratio", "DOUBLE", "calls that do not say / distinct calls"),
        Column("contract_violations", "BIGINT", "calls that break the contract"),
        Column("call_conflicts", "BIGINT", "calls with two different executed outcomes"),
        Column("provider_duplicates", "BIGINT", "rows of a call that was there already"),
        Column("duplicates", "BIGINT", "records that arrived that day and were stored already"),
        Column("rejected", "BIGINT", "records that arrived that day and cannot be kept"),
        Column("missing_call_id", "BIGINT", "rows of tool_calls without a call id"),
        Column("missing_prompt_id", "BIGINT", "rows of tool_calls without a prompt id"),
        Column("missing_response_id", "BIGINT", "rows of tool_calls without a response id"),
        Column("missing_timestamp", "BIGINT", "rows of tool_calls whose time the producer did not stamp"),
        Column("completeness", "DOUBLE", "stored / counted by the producer; null without a counter"),
        Column("lateness_p50_s", "DOUBLE", "seconds from event to arrival"),
        Column("lateness_p95_s", "DOUBLE", "seconds from event to arrival"),
        Column("lateness_max_s", "DOUBLE", "seconds from event to arrival"),
        Column("late_after_close", "BIGINT", "rows of tool_calls that came after the day had closed"),
        Column("contract_bearing", "BOOLEAN", "a release with the contract, and at most 0.1 % unknown"),
        Column("revision", "BIGINT", "on how many dates rows came after the day had closed"),
        *_ORDER,
    ),
)
COMPLETENESS_DAILY = Dataset(
    "completeness_daily",
    (
        *_PART,
        Column("counter", "VARCHAR", "tool_executions, tool_calls, guard_decisions"),
        Column(
            "status",
            "VARCHAR",
            "execution status, terminal status or decision; all where the counter has no label",
        ),
        Column("counted", "DOUBLE", "increases of the producer's counter; null without a counter"),
        Column("stored", "BIGINT", "rows that are stored"),
        Column("completeness", "DOUBLE", "stored / counted"),
        *_ORDER,
    ),
)
FIELD_COVERAGE_DAILY = Dataset(
    "field_coverage_daily",
    (
        *_PART,
        Column("event", "VARCHAR", "the event table"),
        Column("field", "VARCHAR", "its column"),
        Column("events", "BIGINT", "rows"),
        Column("present", "BIGINT", "rows that carry it"),
        *_ORDER,
    ),
)
REJECTIONS_DAILY = Dataset(
    "rejections_daily",
    (
        Column("time", "TIMESTAMPTZ", "start of the day, UTC"),
        Column("day", "DATE", "UTC date"),
        Column("signal", "VARCHAR", "logs, traces, metrics"),
        Column("reason", "VARCHAR", "why they cannot be kept"),
        Column("records", "BIGINT", "records"),
    ),
)
_SHADOW = (
    *_PART,
    Column("mode", "VARCHAR", "off, shadow, warn, enforce; unknown where nothing tells"),
    Column("supported_host", "BOOLEAN", "no input was unreliable"),
)
SHADOW_DAILY = Dataset(
    "shadow_daily",
    (
        *_SHADOW,
        Column("prompts", "BIGINT", "foreground prompts"),
        Column("tool_prompts", "BIGINT", "of these, with a tool call"),
        Column("guarded_prompts", "BIGINT", "of these, with a record of the guard"),
        *(
            Column(f"prompts_{name}", "BIGINT", f"prompts with a decision {name}")
            for name in ("would_warn", "warned", "would_stop", "stopped")
        ),
        *(
            Column(name, "BIGINT", f"transitions with the decision {name}")
            for name in ("tracked", "would_warn", "warned", "would_stop", "stopped")
        ),
        Column("would_warn_per_1000", "DOUBLE", "prompts_would_warn in a thousand prompts: volume only"),
        Column("would_stop_per_1000", "DOUBLE", "prompts_would_stop in a thousand prompts: volume only"),
        Column("warned_candidates", "BIGINT", "candidates that were, or would be, warned of"),
        Column("went_on", "BIGINT", "of these, that went on to a stop"),
        Column("went_on_ratio", "DOUBLE", "went_on / warned_candidates"),
        Column("calls_saved", "BIGINT", "calls that began after the replayed guard would have stopped"),
        *_ORDER,
    ),
)
SHADOW_RESETS_DAILY = Dataset(
    "shadow_resets_daily",
    (
        *_SHADOW,
        Column("reset_reason", "VARCHAR", "why a candidate was dropped"),
        Column("resets", "BIGINT", "transitions"),
        *_ORDER,
    ),
)
REPLAY_DAILY = Dataset(
    "replay_daily",
    (
        *_PART,
        Column("route", "VARCHAR", "settled: acp_foreground, subagent, automatic, ..."),
        Column("failures", "BIGINT", "threshold: failures before a warning"),
        Column("batches", "BIGINT", "threshold: batches before a warning"),
        Column("prompts", "BIGINT", "prompts with a tool call"),
        Column("not_replayable", "BIGINT", "of these, whose batches cannot be told"),
        Column("prompts_would_warn", "BIGINT", "prompts that would be warned"),
        Column("prompts_would_stop", "BIGINT", "prompts that would be stopped"),
        Column("calls_saved", "BIGINT", "calls that began after the stop"),
        *_ORDER,
    ),
)
REPLAY_AGREEMENT_DAILY = Dataset(
    "replay_agreement_daily",
    (
        *_PART,
        Column("reason", "VARCHAR", "decision, or reason of a reset"),
        Column("agree", "BIGINT", "decisions that replay and producer share"),
        Column("replay_only", "BIGINT", "decisions of the replay alone"),
        Column("producer_only", "BIGINT", "decisions of the producer alone"),
        *_ORDER,
    ),
)
BASELINES = Dataset(
    "baselines",
    (
        Column("environment", "VARCHAR", "deployment environment"),
        Column("service_version", "VARCHAR", "service.version"),
        Column("window_end", "DATE", "last day of the window"),
        Column("revision", "BIGINT", "0, and one more each time that late events changed it"),
        Column("status", "VARCHAR", "ok or refused"),
        Column("reason", "VARCHAR", "why it is refused, and what is still missing"),
        Column("window_start", "DATE", "first day of the window"),
        Column("complete_days", "BIGINT", "complete days in it"),
        Column("quiet_days", "BIGINT", "of these, without events"),
        Column("total", "BIGINT", "distinct calls of foreground prompts"),
        Column("executed", "BIGINT", "of these, executed"),
        Column("failure_rate", "DOUBLE", "failed / executed; null without executed calls"),
        Column("failure_rate_low", "DOUBLE", "lower end of the 95 % Wilson interval"),
        Column("failure_rate_high", "DOUBLE", "upper end of the 95 % Wilson interval"),
        Column("clustered_low", "DOUBLE", "lower end of the 95 % owner-clustered interval"),
        Column("clustered_high", "DOUBLE", "upper end of the 95 % owner-clustered interval"),
        Column("owners", "BIGINT", "owners with executed calls"),
        Column("daily_sd", "DOUBLE", "standard deviation of the daily failure rates"),
        Column("unknown_ratio", "DOUBLE", "calls that do not say / distinct calls"),
        Column("prompts", "BIGINT", "foreground prompts"),
        Column("completion_rate", "DOUBLE", f"turn status ok: {_RATE}"),
        Column("cancellation_rate", "DOUBLE", f"turn status cancelled: {_RATE}"),
        Column("disconnect_or_retry_rate", "DOUBLE", f"followed by either within ten minutes: {_RATE}"),
        Column("latency_p50_ms", "DOUBLE", "duration of interactions, milliseconds"),
        Column("latency_p95_ms", "DOUBLE", "duration of interactions, milliseconds"),
        Column("tokens_mean", "DOUBLE", "tokens a prompt"),
        Column("rounds_mean", "DOUBLE", "answers of the main conversation a prompt"),
        Column(
            "would_warn_per_1000", "DOUBLE", "prompts that shadow mode would warn, in a thousand: volume only"
        ),
        Column(
            "would_stop_per_1000", "DOUBLE", "prompts that shadow mode would stop, in a thousand: volume only"
        ),
        Column("completeness", "DOUBLE", "stored / counted by the producer; null without a counter"),
        Column("late_events", "BIGINT", "rows of tool_calls that came after their day had closed"),
        Column("lost_events", "BIGINT", "counted by the producer and not stored; null without a counter"),
        Column("revised_at", "TIMESTAMPTZ", "when the revision was computed; null for revision 0"),
        *_ORDER,
    ),
)
COMPARISONS = Dataset(
    "comparisons",
    (
        Column("environment", "VARCHAR", "of both"),
        Column("version_a", "VARCHAR", "service.version of a"),
        Column("version_b", "VARCHAR", "service.version of b"),
        Column("window_end_a", "DATE", "last day of a's window"),
        Column("window_end_b", "DATE", "last day of b's window"),
        Column("measure", "VARCHAR", "failure_rate, or that of a function"),
        Column("function_name", "VARCHAR", "the tool; null for all"),
        Column("a", "DOUBLE", "value of a"),
        Column("b", "DOUBLE", "value of b"),
        Column("difference", "DOUBLE", "b - a"),
        Column("low", "DOUBLE", "lower end of the difference's 95 % interval"),
        Column("high", "DOUBLE", "upper end of the difference's 95 % interval"),
        Column("definition_changed", "BOOLEAN", "what counts as a failure has probably changed"),
        Column("error_types", "VARCHAR[]", "the error types that appeared or vanished with the step"),
    ),
)
COVERAGE = Dataset(
    "coverage",
    (
        Column("environment", "VARCHAR", "deployment environment"),
        Column("day", "DATE", "UTC date"),
        Column(
            "complete",
            "BOOLEAN",
            "it is over, the receiver accepted for all but a minute of it, and no segment of it is lost",
        ),
        Column("seconds_not_accepting", "DOUBLE", "seconds, as far as the day is over"),
        Column("gaps", "BIGINT", "how often the receiver stopped accepting"),
        Column("events", "BIGINT", "rows of tool_calls"),
    ),
)
ROLLOUT = Dataset(
    "rollout",
    (
        Column("environment", "VARCHAR", "deployment environment"),
        Column("since", "TIMESTAMPTZ", "when it came there"),
        Column("phase", "VARCHAR", "contract, shadow, warn or enforce"),
        Column("wave", "BIGINT", "1, 2, ... in enforce, else 0"),
        Column("desired_mode", "VARCHAR", "the most that an agent is told to run: shadow, warn or enforce"),
        Column("pinned_version", "VARCHAR", "the release that everything is judged on; null in contract"),
        Column("cohort_share", "DOUBLE", "share of owners that are enforced"),
        Column("holdout_share", "DOUBLE", "share of owners that are never treated"),
        Column("salt_id", "VARCHAR", "names the salt of the assignment"),
        Column("reason", "VARCHAR", "why it was moved there, or why less than its phase is answered"),
    ),
)
GATES = Dataset(
    "gates",
    (
        Column("environment", "VARCHAR", "deployment environment"),
        Column("gate", "VARCHAR", "contract -> shadow, shadow -> warn, warn -> enforce 1, ..."),
        Column("wave", "BIGINT", "the wave that it leads to; 0 below enforce"),
        Column("criterion", "VARCHAR", "name of the criterion; gate: all of them together"),
        Column("window_end", "DATE", "last closed day; null before one is over"),
        Column("verdict", "VARCHAR", "pass, fail, undecided or blocked"),
        Column("estimate", "DOUBLE", "how much worse it is; what it is, where nothing is compared"),
        Column("low", "DOUBLE", "lower end of the estimate's interval"),
        Column("high", "DOUBLE", "upper end of it"),
        Column("margin", "DOUBLE", "how much worse it may be; the bound, where nothing is compared"),
        Column("call_weighted_estimate", "DOUBLE", "the same with equal weight for each prompt"),
        Column("owners_treatment", "BIGINT", "owners in the arm that is judged"),
        Column("owners_control", "BIGINT", "owners in the arm that it is held against"),
        Column("half_width", "DOUBLE", "half of the interval"),
        Column("forecast", "VARCHAR", "when it can be decided"),
        Column("waived", "VARCHAR", "who let it pass undecided, and why"),
        Column("detail", "VARCHAR", "the verdict in a sentence"),
        Column("service_version", "VARCHAR", "the release that it is about"),
        Column("window_start", "DATE", "first whole day since the environment came to where it stands"),
        Column("evaluated_at", "TIMESTAMPTZ", "until when the events told anything"),
    ),
)
ACTS = Dataset(
    "acts",
    (
        Column("sequence", "BIGINT", "1, 2, ... over all environments"),
        Column("environment", "VARCHAR", "deployment environment"),
        Column("number", "BIGINT", "1, 2, ... within the environment"),
        Column("time", "TIMESTAMPTZ", "when it was recorded"),
        Column("act", "VARCHAR", "promote, demote, override, waive, review or capacity"),
        Column("by", "VARCHAR", "who did it"),
        Column("why", "VARCHAR", "the reason that was given"),
        Column("terms", "VARCHAR", "JSON: what was decided"),
        Column("evidence", "VARCHAR", "JSON: the gate as it stood, one object a criterion"),
        Column("previous_hash", "VARCHAR", "hash of the act before it in the record"),
        Column("hash", "VARCHAR", "SHA-256 over all other columns, see docs/rollout.md"),
    ),
)
RUNS = Dataset(
    "runs",
    (
        Column("job", "VARCHAR", "what ran"),
        Column("started", "TIMESTAMPTZ", "when it started"),
        Column("finished", "TIMESTAMPTZ", "when it ended"),
        Column("status", "VARCHAR", "ok, failed, or incomplete: without segments that cannot be read"),
        Column("inputs", "BIGINT", "the last commit number that was read"),
        Column("rows", "BIGINT", "result rows that were written, or rows that were checked"),
        Column("detail", "VARCHAR", "what was recomputed"),
    ),
)

FILED_DATASETS: tuple[Dataset, ...] = (PROMPTS,)
"""Results that are too many for the results database: Parquet files, one a day, which it lists."""

RESULT_DATASETS: tuple[Dataset, ...] = (
    SLI_HOURLY,
    SLI_DAILY,
    SLI_BY_TOOL_TYPE_DAILY,
    SLI_BY_ROUTE_DAILY,
    SLI_BY_FUNCTION_DAILY,
    FUNCTION_ERRORS_DAILY,
    FAILURE_CLASSES_DAILY,
    QUALITY_DAILY,
    COMPLETENESS_DAILY,
    FIELD_COVERAGE_DAILY,
    REJECTIONS_DAILY,
    SHADOW_DAILY,
    SHADOW_RESETS_DAILY,
    REPLAY_DAILY,
    REPLAY_AGREEMENT_DAILY,
    BASELINES,
    COMPARISONS,
    COVERAGE,
    GATES,
    ROLLOUT,
    ACTS,
    RUNS,
)
"""Results that the results database holds."""
