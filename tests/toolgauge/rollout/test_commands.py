"""`toolgauge rollout` and `toolgauge cohort`, over published events."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sli.assignment import owner_number
from sli.schemas import GUARD_DECISIONS, PROMPT_EVENTS

if TYPE_CHECKING:
    import subprocess

    from tests.analytics.segments import EventFolder

Run = Callable[..., "subprocess.CompletedProcess[str]"]
OWNER = "a" * 64
VERSION = "0.24.4"


@pytest.fixture
def run(toolgauge: Run, folder: EventFolder) -> Run:
    """Runs a command over three days of one owner's prompts, of which two would have been stopped."""
    rows = []
    for day in (1, 2, 3):
        of_prompt = {"session_id": "s", "prompt_id": f"s########{day}", "owner": OWNER}
        rows.append(folder.call(f"2026-11-0{day}T10:00", route="acp_foreground", **of_prompt))
        rows.append(folder.row(PROMPT_EVENTS, f"2026-11-0{day}T09:59", kind="user_prompt", **of_prompt))
    for day in (1, 2):
        # Recorded after the environment came to shadow, which is now: far ahead of any clock.
        rows.append(
            folder.row(
                GUARD_DECISIONS,
                f"2199-11-0{day}T10:00",
                prompt_id=f"s########{day}",
                route="acp_foreground",
                mode="shadow",
                decision="would_stop",
            )
        )
    folder.publish(*rows)
    return toolgauge


def answer(run: Run, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
    done = run(*arguments, "--format", "json")
    assert done.returncode == status, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def refused(run: Run, *arguments: str) -> str:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    return done.stderr


def test_acts_move_an_environment_and_a_gate_has_its_exit_status(run: Run) -> None:
    assert "every environment stands in contract" in run("rollout", "status").stderr
    gate = answer(run, "rollout", "gate", "internal", "--version", "0.24.3", status=5)
    assert gate[0]["verdict"] == "blocked"
    override = ("rollout", "override", "internal", "--why", "staging only", "--by", "Ann")
    (act,) = answer(run, *override, "--version", VERSION)
    assert (act["number"], act["act"], act["by"]) == (1, "override", "Ann")
    (row,) = answer(run, "rollout", "status")
    assert [row[name] for name in ("phase", "pinned_version", "reason")] == [
        "shadow",
        VERSION,
        "staging only",
    ]
    gate = answer(run, "rollout", "gate", "internal", status=5)
    assert {row["criterion"]: row["verdict"] for row in gate}["review"] == "blocked"
    assert "is blocked: " in refused(run, "rollout", "promote", "internal")
    (kept,) = answer(run, "rollout", "status", "--acts")
    assert json.loads(kept["evidence"])[0]["criterion"] == "gate"
    assert "no step back" in refused(run, "rollout", "demote", "internal", "--why", "x")
    answer(run, "rollout", "demote", "internal", "--to", "contract", "--why", "another version")
    history = answer(run, "rollout", "status", "--history")
    assert [row["phase"] for row in history] == ["shadow", "contract"]


def test_a_review_is_of_the_whole_sample(run: Run) -> None:
    answer(run, "rollout", "override", "internal", "--why", "so", "--version", VERSION)
    review = ("rollout", "review", "internal", "--seed", "3")
    prompts = [row["prompt_id"] for row in answer(run, *review)]
    assert sorted(prompts) == ["s########1", "s########2"]
    record = (*review, "--verdicts", "-")
    missing = run(*record, stdin=f"{prompts[0]} none\n")
    assert (missing.returncode, "1 are missing" in missing.stderr) == (1, True)
    wrong = run(*record, stdin="".join(f"{each} fine\n" for each in prompts))
    assert "one of useful_progress, none, cannot_tell" in wrong.stderr
    done = run(*record, stdin="".join(f"{each},none\n" for each in prompts))
    assert done.returncode == 0, done.stderr
    gate = answer(run, "rollout", "gate", "internal", status=5)
    assert {row["criterion"]: row["verdict"] for row in gate}["review"] == "pass"


def test_what_is_refused_says_why(run: Run) -> None:
    assert "never reported" in run("rollout", "gate", "nowhere").stderr
    waive = ("rollout", "waive", "internal", "--why", "so", "--criterion")
    assert "cannot be waived" in refused(run, *waive, "invariants")
    assert "is no criterion of contract -> shadow" in refused(run, *waive, "tokens")
    capacity = ("rollout", "capacity", "internal", "--why", "so", "--share")
    assert "above 0.05, to 1" in refused(run, *capacity, "0.05")
    assert "one line of text" in refused(run, "rollout", "demote", "internal", "--why", " ")
    held = run("rollout", "override", "internal", "--why", "x", TOOLGAUGE_ROLLOUT_AFTER="internal=staging")
    assert "held back by rollout_after: staging stands in contract" in held.stderr
    round_trip = run("sli", TOOLGAUGE_ROLLOUT_AFTER="a=b,b=a")
    assert (round_trip.returncode, "would wait for itself" in round_trip.stderr) == (2, True)


def test_the_cohort_is_that_of_the_library_and_names_no_owner(run: Run, folder: EventFolder) -> None:
    (folder.directory.root / "owner.key").write_bytes(b"k" * 32)
    cohort = ("cohort", "--environment", "internal", "--share", "0.5")
    rows = answer(run, *cohort, "Alice", " alice ")
    assert rows[0] == rows[1]
    owner = rows[0]["owner"]
    number = owner_number("internal", "1", owner)
    assert rows[0]["u"] == number
    assert rows[0]["arm"] == ("treatment" if number < 0.5 else "control")
    assert answer(run, *cohort, "--hashed", owner) == rows[:1]
    done = run(*cohort, "--format", "json", stdin="alice\n\nAlice\n")
    assert json.loads(done.stdout) == rows
    bad = run(*cohort, "--hashed", "alice")
    assert (bad.returncode, "owner 1 is no hash" in bad.stderr, "alice" in bad.stderr) == (2, True, False)
