"""What the guard's replay costs: batches found, one cell of thresholds, and the whole grid of 56.

`python -m bench.replay --calls 10000000`
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import polars as pl

from analytics.published import polars_schema
from sli.guard import DEFAULT_THRESHOLDS
from sli.replay import GRID, batches, replay, sweep_totals
from sli.schemas import MODEL_CALLS, TOOL_CALLS, TOOL_EXECUTIONS

Result = TypeVar("Result")

CALLS_A_PROMPT = 25
CALLS_A_BATCH = 2
# One prompt in so many has a tool that fails throughout; elsewhere one call in ten fails.
STUCK = 20

_START = 1_796_000_000_000_000_000
_MILLISECOND = 1_000_000


def made_calls(calls: int, seed: int = 1) -> pl.DataFrame:
    """So many calls, in any order, with the columns of `tool_calls` that the replay reads.

    Half of the prompts say which answer asked for a call (`response_id`); the others do not.
    """
    random = np.random.default_rng(seed)
    number = random.permutation(calls).astype(np.int64)
    prompt = number // CALLS_A_PROMPT
    fails = random.random(calls) < np.where(prompt % STUCK == 0, 0.9, 0.1)
    columns = {
        "n": number,
        "prompt": prompt,
        "batch": number % CALLS_A_PROMPT // CALLS_A_BATCH,
        "fails": fails,
        "tool": random.integers(0, 12, calls),
        "error": random.integers(0, 4, calls),
    }
    frame = pl.DataFrame(columns)
    # A prompt that is stuck is stuck at one thing.
    stuck = pl.col("fails") & (pl.col("prompt") % STUCK == 0)
    tool, error = (pl.when(stuck).then(0).otherwise(pl.col(name)) for name in ("tool", "error"))
    status = pl.when("fails").then(pl.lit("error")).otherwise(pl.lit("success"))
    return (
        frame.lazy()
        .select(
            event_id=pl.col("n").hash(3).cast(pl.String).cast(pl.Binary),
            time_unix_nano=_START + pl.col("n") * 40 * _MILLISECOND,
            environment=pl.lit("internal"),
            service_version=pl.lit("0.24.4"),
            session_id=_session(),
            prompt_id=pl.format("{}########{}", _session(), pl.col("prompt") % 5),
            route=pl.lit("screen_or_cli"),
            call_id=pl.format("call_{}", pl.col("n").hash(5)),
            response_id=pl.when(pl.col("prompt") % 2 == 0).then(
                pl.format("chatcmpl-{}-{}", pl.col("prompt").hash(7), "batch")
            ),
            trace_id=pl.lit(None, pl.String),
            span_id=pl.lit(None, pl.String),
            function_name=pl.format("tool_{}", tool),
            tool_type=pl.lit("native"),
            status=status,
            execution_status=status,
            error_type=pl.when("fails").then(pl.format("error_{}", error)),
            duration_ms=pl.lit(20.0),
        )
        .collect(engine="streaming")
    )


def made_model_calls(calls: int) -> pl.DataFrame:
    """The answers that asked for the calls of `made_calls`, with the columns that the replay reads."""
    prompts = pl.DataFrame({"prompt": np.arange(-(-calls // CALLS_A_PROMPT), dtype=np.int64)})
    firsts = np.arange(0, CALLS_A_PROMPT, CALLS_A_BATCH, dtype=np.int64)
    each = prompts.join(pl.DataFrame({"first": firsts}), how="cross")
    ended = (pl.col("prompt") * CALLS_A_PROMPT + pl.col("first")) * 40 - 30
    return each.select(
        environment=pl.lit("internal"),
        service_version=pl.lit("0.24.4"),
        session_id=_session(),
        prompt_id=pl.format("{}########{}", _session(), pl.col("prompt") % 5),
        time_unix_nano=_START + ended * _MILLISECOND,
        outcome=pl.lit("response"),
        by_subagent=pl.lit(False),
    )


def _session() -> pl.Expr:
    return pl.format("0bfee2c-11b8-405e-99ba-{}", (pl.col("prompt") // 5).hash(11))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.replay", description=__doc__)
    parser.add_argument("--calls", type=int, default=2_000_000, help="(default %(default)s)")
    options = parser.parse_args()
    calls, model_calls = made_calls(options.calls), made_model_calls(options.calls)
    executions = pl.DataFrame(schema=polars_schema(TOOL_EXECUTIONS))
    assert set(calls.columns) <= set(TOOL_CALLS.names)
    assert set(model_calls.columns) <= set(MODEL_CALLS.names)

    found, finding = _timed(lambda: batches(calls, model_calls, executions))
    _, whole = _timed(lambda: replay(found))
    _, one = _timed(lambda: sweep_totals(found, grid=[DEFAULT_THRESHOLDS]))
    totals, every = _timed(lambda: sweep_totals(found))
    print(f"{len(calls):,} calls of {found['prompt'].n_unique():,} prompts, {len(model_calls):,} answers")
    print(f"finding the batches        {finding:8.2f} s")
    print(f"outcomes of all prompts    {whole:8.2f} s")
    print(f"one cell                   {one:8.2f} s")
    print(f"{len(GRID)} cells                   {every:8.2f} s")
    print(f"{len(GRID)} cells against one       {every / one:8.2f} ×   target ≤ 5")
    print(f"  finding included         {(finding + every) / (finding + one):8.2f} ×")
    print(f"peak memory                {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:8.2f} GiB")
    print(totals.filter(pl.col("batch_threshold") == DEFAULT_THRESHOLDS.batches).head(6))


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


if __name__ == "__main__":
    main()
