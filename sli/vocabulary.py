"""The words of the contract: the two axes of a tool call and what goes with them.

One word for one thing: the same strings stand in the events, the tables, the command line
and the pages.
"""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """The terminal status of a tool call: how the call ended for the model."""

    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class ExecutionStatus(StrEnum):
    """What happened to the execution itself; never inferred from the terminal status."""

    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"
    NOT_STARTED = "not_started"
    UNKNOWN = "unknown"


class ToolType(StrEnum):
    """Where the tool comes from."""

    NATIVE = "native"
    MCP = "mcp"
    UNKNOWN = "unknown"


class Route(StrEnum):
    """Who asked for the prompt that a call belongs to."""

    ACP_FOREGROUND = "acp_foreground"
    SUBAGENT = "subagent"
    AUTOMATIC = "automatic"
    SCREEN_OR_CLI = "screen_or_cli"
    UNKNOWN = "unknown"


class TurnStatus(StrEnum):
    """How the agent's turn ended that answered a prompt."""

    OK = "ok"
    CANCELLED = "cancelled"
    ERROR = "error"
    UNKNOWN = "unknown"


class Temporality(StrEnum):
    """What a point of a counter says: the sum since the start, or since the point before."""

    CUMULATIVE = "cumulative"
    DELTA = "delta"


class TimeSource(StrEnum):
    """Which clock an event's time was taken from, in the order of preference."""

    RECORD = "record"
    EVENT_TIMESTAMP = "event_timestamp"
    OBSERVED = "observed"
    ARRIVAL = "arrival"


class Rejection(StrEnum):
    """Why a record can never be kept; the rest of its request is not affected."""

    IMPOSSIBLE_TIME = "impossible_time"
    WRONG_TYPE = "wrong_type"
    WRONG_SHAPE = "wrong_shape"
    TOO_LONG = "too_long"
    TOO_OLD = "too_old"


# Names and ids are short; a kept text of any length would let one record fill memory and disk.
LONGEST_TEXT = 4096

REJECTION_MEANING = {
    Rejection.IMPOSSIBLE_TIME: (
        "neither the record's time nor event.timestamp lies between 2020-01-01 and one day after arrival"
    ),
    Rejection.WRONG_TYPE: "session.id, prompt_id or call_id is not a string",
    Rejection.TOO_OLD: "it is of a day that retention has removed, and may be a repeat of what was stored",
    Rejection.WRONG_SHAPE: "a counter is not a monotonic sum, delta or cumulative, of numbers from 0",
    Rejection.TOO_LONG: f"an id, or what the resource says, has more than {LONGEST_TEXT} bytes",
}

# A missing environment and a missing version are groups of their own, shown but never judged.
UNSET_ENVIRONMENT = "unset"
UNKNOWN_SERVICE = "unknown"
UNKNOWN_VERSION = "unknown"

UNKNOWN_ERROR_TYPE = "unknown"
UNKNOWN_TOOL = "unknown_tool"
# The model made the name up: it would leak invented text and make the tables explode.
UNREGISTERED_TOOL = "unregistered_tool"
TOOL_NOT_REGISTERED = "tool_not_registered"

# The pairs that the contract forbids: a success for the model over an execution that was none.
CONTRACT_VIOLATIONS = frozenset(
    {
        (Status.SUCCESS, ExecutionStatus.ERROR),
        (Status.SUCCESS, ExecutionStatus.CANCELLED),
    }
)
