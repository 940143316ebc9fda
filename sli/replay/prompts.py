"""Prompts: what names one, and where a batch of it stands among all batches of a frame."""

from __future__ import annotations

import polars as pl

PROMPT = ("environment", "service_version", "session_id", "prompt_id")
"""The columns whose values, taken together, name a prompt; versions and environments never mix."""

PARTITION = ("environment", "service_version", "route")
"""What results are counted by."""

# Room for the batches of one prompt: places are twice their number.
_PLACES = 2**32


def prompt_hash() -> pl.Expr:
    """A UInt64 hash of the columns of `PROMPT`; equal prompts have equal hashes, within a process."""
    first, *others = (pl.col(name).hash(seed) for seed, name in enumerate(PROMPT))
    combined = first
    for other in others:
        combined = combined ^ other
    return combined.alias("prompt_hash")


def place(nth: pl.Expr | None = None) -> pl.Expr:
    """Where a row stands: an Int64 that orders batches by prompt, then `batch`.

    Args:
        nth: 0 for the batch itself, more for what came after it and before the next batch, of which no
            call is known. Left out: 0.
    """
    after = pl.lit(0) if nth is None else (nth > 0).cast(pl.Int64)
    return (pl.col("prompt") * _PLACES + pl.col("batch") * 2 + after).alias("place")


def prompts(batches: pl.DataFrame) -> pl.DataFrame:
    """The prompts of a frame of batches, in the order of their names.

    Returns:
        `prompt`, the columns of `PROMPT`, `route`, `replayable` (Boolean), `calls` and `batches` (UInt32;
        no batches where the prompt is not replayable).
    """
    return (
        batches.lazy()
        .group_by("prompt")
        .agg(
            pl.col(*PROMPT).first(),
            pl.col("route").min(),
            pl.col("replayable").first(),
            (~pl.col("provider_duplicate")).sum().alias("calls"),
            pl.col("batch").max().fill_null(0).cast(pl.UInt32).alias("batches"),
        )
        .sort(PROMPT)
        .collect(engine="streaming")
    )
