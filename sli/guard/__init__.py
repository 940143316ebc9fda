"""The repeated-failure guard: a state machine that notices a tool which keeps failing for one reason.

    from sli.guard import Batch, Mode, Observation, State, reduce

    state = State()
    for batch in batches_of_the_prompt:
        state, decision = reduce(state, batch, Mode.ENFORCE)
        if decision is not None and decision.name is DecisionName.STOPPED:
            break

One state a prompt. The unit is a complete batch: all calls of one model answer, settled. No clock, no
input or output, nothing but the standard library, so that an agent can use it as it is.
"""

from sli.guard.decision import Decision, batch_count_bucket, failure_count_bucket
from sli.guard.machine import reduce
from sli.guard.observation import Batch, Observation
from sli.guard.state import Key, State
from sli.guard.table import Verdict, verdict
from sli.guard.thresholds import DEFAULT_THRESHOLDS, Thresholds
from sli.guard.words import DecisionName, Mode, Phase, ResetReason

__all__ = [
    "DEFAULT_THRESHOLDS",
    "Batch",
    "Decision",
    "DecisionName",
    "Key",
    "Mode",
    "Observation",
    "Phase",
    "ResetReason",
    "State",
    "Thresholds",
    "Verdict",
    "batch_count_bucket",
    "failure_count_bucket",
    "reduce",
    "verdict",
]
