"""What the jobs keep for themselves: parts of a day that add up to windows, and which files hold what."""

from __future__ import annotations

from sli.rate import COUNTS
from sli.schemas import PROMPTS, Column, Dataset

PARTIAL_FORMAT = 3
"""Version of the partials; results with other partials are rebuilt from the events."""

_PART = (
    Column("environment", "VARCHAR", "deployment environment, or unset"),
    Column("service_version", "VARCHAR", "service.version, or unknown"),
)
_DAY = (Column("day", "DATE", "UTC date"),)

RESULTS_INFO = Dataset(
    "results_info",
    (
        Column("format", "BIGINT", "RESULT_FORMAT of the tables"),
        Column("partial_format", "BIGINT", "PARTIAL_FORMAT of the partials"),
        Column("store", "VARCHAR", "id of the event store that the results were computed from"),
        Column(
            "computed_through",
            "BIGINT",
            "the last commit number whose rows are in the results, but for lost segments",
        ),
        Column("as_of", "TIMESTAMPTZ", "until when the events tell anything"),
        Column("acts", "VARCHAR", "hash of the last act of the rollout that the results know of"),
    ),
)

DAY_FILES = Dataset(
    "day_files",
    (
        Column("dataset", "VARCHAR", "what it holds"),
        *_DAY,
        Column("path", "VARCHAR", "relative to the folder of the results"),
    ),
)
RETIRED_FILES = Dataset(
    "retired_files",
    (
        Column("path", "VARCHAR", "relative to the folder of the results"),
        Column("since", "TIMESTAMPTZ", "when it was found that no table lists it any more"),
    ),
)
LOST_SEGMENTS = Dataset(
    "lost_segments",
    (
        *_DAY,
        Column("path", "VARCHAR", "a published segment that the results were computed without"),
    ),
)

RECEIVER_DAYS = Dataset(
    "receiver_days",
    (
        Column("time", "TIMESTAMPTZ", "start of the day, UTC"),
        Column("seconds_not_accepting", "DOUBLE", "seconds, as far as the day is over"),
        Column("gaps", "BIGINT", "how often the receiver stopped accepting"),
    ),
)
PROMPT_DAYS = Dataset(
    "prompt_days",
    (
        Column("time", "TIMESTAMPTZ", "start of the day, UTC"),
        *_PART,
        Column("prompts", "BIGINT", "foreground prompts"),
        Column("completed", "BIGINT", "of these, turn status ok"),
        Column("cancelled", "BIGINT", "of these, turn status cancelled"),
        Column("disconnect_or_retry", "BIGINT", "of these, followed by either within ten minutes"),
        Column("tokens", "BIGINT", "sum"),
        Column("rounds", "BIGINT", "sum"),
        Column("shadow_prompts", "BIGINT", "of supported hosts in shadow mode"),
        Column("would_warn", "BIGINT", "of these, with such a decision"),
        Column("would_stop", "BIGINT", "of these, with such a decision"),
    ),
)

OWNER_DAYS = Dataset(
    "owner_days",
    (
        *_DAY,
        *_PART,
        Column("owner", "VARCHAR", "keyed hash of the owner, or null"),
        *(Column(name, "BIGINT", f"calls of foreground prompts: {name}") for name in COUNTS),
        Column("prompts", "BIGINT", "foreground prompts"),
    ),
)
LATENCY_DAYS = Dataset(
    "latency_days",
    (
        *_DAY,
        *_PART,
        Column("bucket", "INTEGER", "of the duration of interactions; see sli/histogram.py"),
        Column("calls", "BIGINT", "foreground prompts"),
    ),
)

FILED = (PROMPTS, OWNER_DAYS, LATENCY_DAYS)
"""One Parquet file a day each."""

KEPT_DATASETS = (RESULTS_INFO, DAY_FILES, RETIRED_FILES, LOST_SEGMENTS, RECEIVER_DAYS, PROMPT_DAYS)
"""Tables of the results database that nobody else reads."""
