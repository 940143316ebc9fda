"""What the guard would do, or did: volumes a day, of foreground prompts, by mode and kind of host.

In shadow mode they estimate volume only: no model has seen a reminder, so nobody knows what it would have
done next. Volumes of different modes are never added together.
"""

from __future__ import annotations

import polars as pl

from sli.foreground import PROMPT_KEY
from sli.prompts import DECISIONS
from sli.vocabulary import Route

GROUP = ("time", "environment", "service_version", "mode", "supported_host")

_SHOWN = ("tracked", "would_warn", "warned", "would_stop", "stopped")
_WARNINGS = ("would_warn", "warned")
_STOPS = ("would_stop", "stopped")


def foreground_only(prompts: pl.LazyFrame) -> pl.LazyFrame:
    """Those of the prompts that the guard concerns."""
    return prompts.filter(pl.col("route") == str(Route.ACP_FOREGROUND))


def candidates(guard_decisions: pl.LazyFrame) -> pl.LazyFrame:
    """For each prompt, how many of its candidates were warned of, and how many of these went on to a stop.

    Returns:
        The columns of `PROMPT_KEY`, `warned_candidates` and `went_on` (Int64).
    """
    decision = pl.col("decision")
    return (
        guard_decisions.filter(pl.col("candidate_ordinal").is_not_null())
        .group_by(*PROMPT_KEY, "candidate_ordinal")
        .agg(warned=decision.is_in(_WARNINGS).any(), stopped=decision.is_in(_STOPS).any())
        .group_by(PROMPT_KEY)
        .agg(
            warned_candidates=pl.col("warned").sum().cast(pl.Int64),
            went_on=(pl.col("warned") & pl.col("stopped")).sum().cast(pl.Int64),
        )
    )


def shadow_volumes(prompts: pl.LazyFrame) -> pl.LazyFrame:
    """The volumes.

    Args:
        prompts: foreground prompts: the columns of `GROUP`, `calls`, `guarded`, a count for each decision,
            `warned_candidates`, `went_on`, `calls_saved` (null is none).

    Returns:
        The columns of `GROUP`; prompts and transitions, Int64; `would_warn_per_1000` and
        `would_stop_per_1000`, distinct prompts in a thousand prompts; `went_on_ratio`, Float64 in [0, 1],
        null where no candidate was warned of.
    """
    return (
        prompts.group_by(GROUP)
        .agg(
            pl.len().cast(pl.Int64).alias("prompts"),
            (pl.col("calls") > 0).sum().cast(pl.Int64).alias("tool_prompts"),
            (pl.col("guarded") > 0).sum().cast(pl.Int64).alias("guarded_prompts"),
            *(
                (pl.col(name) > 0).sum().cast(pl.Int64).alias(f"prompts_{name}")
                for name in (*_WARNINGS, *_STOPS)
            ),
            *(pl.col(name).sum() for name in _SHOWN),
            pl.col("calls_saved").sum().cast(pl.Int64),
            pl.col("warned_candidates", "went_on").fill_null(0).sum(),
        )
        .with_columns(
            would_warn_per_1000=pl.col("prompts_would_warn") / pl.col("prompts") * 1000,
            would_stop_per_1000=pl.col("prompts_would_stop") / pl.col("prompts") * 1000,
            went_on_ratio=pl.when(pl.col("warned_candidates") > 0).then(
                pl.col("went_on") / pl.col("warned_candidates")
            ),
        )
    )


def resets(guard_decisions: pl.LazyFrame, prompts: pl.LazyFrame) -> pl.LazyFrame:
    """Resets by reason.

    Args:
        guard_decisions: those of the prompts.
        prompts: the columns of `GROUP` and `PROMPT_KEY`.

    Returns:
        The columns of `GROUP`, `reset_reason` (`unknown` where not said), `resets` (Int64).
    """
    return (
        guard_decisions.filter(pl.col("decision") == DECISIONS[-1])
        .select(*PROMPT_KEY, pl.col("reset_reason").fill_null("unknown"))
        .join(prompts.select(*PROMPT_KEY, "time", "mode", "supported_host"), on=list(PROMPT_KEY), how="inner")
        .group_by(*GROUP, "reset_reason")
        .agg(resets=pl.len().cast(pl.Int64))
    )
