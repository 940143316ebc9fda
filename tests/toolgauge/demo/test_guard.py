"""The guard of the demo's agents logs what the contract says, transition by transition."""

from __future__ import annotations

from typing import Any

from toolgauge.demo.guard import Guard
from toolgauge.demo.tools import EDIT, SHELL, Outcome

FAILED = Outcome(EDIT, "error", "error", "edit_no_occurrence_found")
OTHER = Outcome(SHELL, "error", "error", "shell_execute_error")
DONE = Outcome(EDIT, "success", "success")
ELSEWHERE = Outcome(SHELL, "success", "success")
DENIED = Outcome(EDIT, "error", "not_started", "execution_denied")
AFTER = Outcome(EDIT, "error", "success", "execution_denied")
UNKNOWN = Outcome(EDIT, "success", None)
VIOLATION = Outcome(EDIT, "success", "error")
CANCELLED = Outcome(EDIT, "cancelled", "cancelled")


def _said(mode: str, *batches: Any) -> list[tuple[Any, ...] | None]:
    guard = Guard(mode)
    names = ("decision", "phase_after", "failure_count_bucket", "batch_count_bucket", "candidate_ordinal")
    found: list[tuple[Any, ...] | None] = []
    for batch in batches:
        reason, calls = batch if isinstance(batch, tuple) else (None, batch)
        said = guard.reduce(calls, reason)
        found.append((*(said[name] for name in names), said.get("reset_reason")) if said else None)
    return found


def test_a_streak_is_tracked_warned_of_and_stopped() -> None:
    batches = [[FAILED] * 4, [FAILED] * 4, [FAILED], [FAILED]]
    tracked = ("tracked", "tracking", "3-4", "1", 1, None)
    for mode, warning, stop in (
        ("shadow", "would_warn", "would_stop"),
        ("warn", "warned", "would_stop"),
        ("enforce", "warned", "stopped"),
    ):
        assert _said(mode, *batches) == [
            tracked,
            (warning, "warned", "8+", "2", 1, None),
            (stop, "latched", "8+", "3+", 1, None),
            None,
        ]


def test_one_batch_is_never_enough() -> None:
    assert _said("warn", [FAILED] * 9)[0] == ("tracked", "tracking", "8+", "1", 1, None)


def test_resets_say_why_and_describe_the_state_before() -> None:
    for batch, reason in (
        ([DONE], "success"),
        ([FAILED, OTHER], "mixed"),
        ([DENIED], "not_started"),
        ([AFTER], "post_execution_failure"),
        ([UNKNOWN], "unknown"),
        ([VIOLATION], "contract_violation"),
        ([CANCELLED, VIOLATION], "contract_violation"),
        ([CANCELLED, UNKNOWN], "cancelled"),
        (("external_input", [FAILED]), "external_input"),
    ):
        assert _said("shadow", [FAILED], batch)[1] == ("reset", "idle", "1-2", "1", 1, reason)


def test_others_change_nothing_and_a_new_key_has_a_new_ordinal() -> None:
    assert _said("shadow", [FAILED], [ELSEWHERE], [OTHER], [DONE], [ELSEWHERE])[1:] == [
        None,
        ("tracked", "tracking", "1-2", "1", 2, None),
        None,
        ("reset", "idle", "1-2", "1", 2, "success"),
    ]


def test_in_idle_only_what_newly_disables_enforcement_is_said() -> None:
    idle = ("reset", "idle", "0", "0", 0, "unreliable_input")
    unreliable = ("unreliable_input", [FAILED])
    assert _said("shadow", [DENIED], unreliable, unreliable) == [None, idle, None]
    batches = [unreliable, [FAILED] * 4, [FAILED] * 4, [FAILED]]
    assert _said("enforce", *batches)[3] == ("would_stop", "latched", "8+", "3+", 1, None)
