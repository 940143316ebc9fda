"""The guard over stored events: what it would have done where it is off, elsewhere, or set otherwise.

    found = batches(calls, model_calls, executions)
    replay(found, logged)           # of each prompt: reminded, stopped, calls saved, by what
    trips(found, logged)            # which tools and error types trip it
    sweep_totals(found, logged)     # under other thresholds
    agreement(found, logged)        # beside what the producers decided

Pure functions of frames with the columns of `sli.schemas`, as they are read from Parquet. No result
depends on the order of rows. Without `logged` it is assumed that no input came: say so beside the result.
"""

from sli.replay.agreement import agreement, side_by_side
from sli.replay.batches import batches
from sli.replay.decisions import decisions
from sli.replay.outcomes import replay, trips
from sli.replay.prompts import PARTITION, PROMPT, prompts
from sli.replay.sweep import GRID, sweep, sweep_totals

__all__ = [
    "GRID",
    "PARTITION",
    "PROMPT",
    "agreement",
    "batches",
    "decisions",
    "prompts",
    "replay",
    "side_by_side",
    "sweep",
    "sweep_totals",
    "trips",
]
