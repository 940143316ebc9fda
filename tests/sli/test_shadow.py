"""Volumes of what the guard would do, or did."""

from __future__ import annotations

from typing import Any

import polars as pl

from sli.schemas import GUARD_DECISIONS
from sli.shadow import candidates, foreground_only, resets, shadow_volumes
from tests.sli.frames import events, moment

Row = dict[str, Any]
NONE = dict.fromkeys(("tracked", "would_warn", "warned", "would_stop", "stopped"), 0)
PROMPT: Row = {
    "time": moment("2026-11-03"),
    "environment": "internal",
    "service_version": "0.24.4",
    "mode": "shadow",
    "supported_host": True,
    "calls": 1,
    "guarded": 1,
    **NONE,
    "warned_candidates": None,
    "went_on": None,
    "calls_saved": None,
}
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(PROMPT, pl.Int64),
    "time": pl.Datetime("us", "UTC"),
    **dict.fromkeys(("environment", "service_version", "mode"), pl.String),
    **dict.fromkeys(("supported_host",), pl.Boolean),
}


def volumes(*prompts: Row) -> list[Row]:
    frame = pl.LazyFrame([PROMPT | each for each in prompts], schema=SCHEMA)
    return shadow_volumes(frame).sort("mode", "supported_host").collect().rows(named=True)


def test_prompts_and_transitions_are_counted_apart() -> None:
    (row,) = volumes(
        {"calls": 0, "guarded": 0},
        {"guarded": 0},
        {
            # Several records of the guard are one prompt that it watched.
            "guarded": 6,
            "tracked": 3,
            "would_warn": 2,
            "warned_candidates": 2,
            "went_on": 1,
            "would_stop": 1,
            "calls_saved": 4,
        },
        {"tracked": 1, "warned_candidates": 0, "went_on": 0, "calls_saved": 0},
        {"tracked": 1},
        {"would_warn": 1, "warned_candidates": 1, "went_on": 0},
        {},
        {"calls": 0},
    )
    assert row == {
        "time": moment("2026-11-03"),
        "environment": "internal",
        "service_version": "0.24.4",
        "mode": "shadow",
        "supported_host": True,
        "prompts": 8,
        "tool_prompts": 6,
        "guarded_prompts": 6,
        "prompts_would_warn": 2,
        "prompts_warned": 0,
        "prompts_would_stop": 1,
        "prompts_stopped": 0,
        "tracked": 5,
        "would_warn": 3,
        "warned": 0,
        "would_stop": 1,
        "stopped": 0,
        "would_warn_per_1000": 250.0,
        "would_stop_per_1000": 125.0,
        "warned_candidates": 3,
        "went_on": 1,
        "went_on_ratio": 1 / 3,
        "calls_saved": 4,
    }


def test_modes_and_hosts_are_never_added_together() -> None:
    rows = volumes(
        {"would_stop": 1},
        {"mode": "enforce", "stopped": 1, "would_stop": 1},
        {"mode": "warn", "warned": 1, "warned_candidates": 1, "went_on": 1, "would_stop": 1},
        {"supported_host": False, "would_warn": 1},
        {"mode": "unknown", "guarded": 0},
    )
    shown = (
        "mode",
        "supported_host",
        "prompts",
        "would_warn_per_1000",
        "would_stop_per_1000",
        "went_on_ratio",
    )
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("enforce", True, 1, 0.0, 1000.0, None),
        ("shadow", False, 1, 1000.0, 0.0, None),
        ("shadow", True, 1, 0.0, 1000.0, None),
        ("unknown", True, 1, 0.0, 0.0, None),
        ("warn", True, 1, 0.0, 1000.0, 1.0),
    ]


def decision(name: str, ordinal: int | None = 1, **columns: Any) -> Row:
    shared = {"prompt_id": "s########1", "decision": name, "candidate_ordinal": ordinal}
    return shared | columns


def test_a_candidate_went_on_if_it_was_warned_of_and_stopped() -> None:
    rows = events(
        GUARD_DECISIONS,
        decision("tracked"),
        decision("would_warn"),
        decision("would_stop"),
        # Warned of, and dropped.
        decision("warned", 2),
        decision("reset", 2),
        # Twice is one candidate.
        decision("warned", 3),
        decision("warned", 3),
        decision("stopped", 3),
        # Never warned of.
        decision("would_stop", 4),
        decision("tracked", 5),
        decision("would_warn", None),
        decision("tracked", prompt_id="s########2"),
        decision("would_warn", prompt_id="s########1", service_version="0.23.4"),
    )
    found = candidates(rows).sort("prompt_id", "service_version").collect()
    assert found.select("prompt_id", "service_version", "warned_candidates", "went_on").rows() == [
        ("s########1", "0.23.4", 1, 0),
        ("s########1", "0.24.4", 3, 2),
        ("s########2", "0.24.4", 0, 0),
    ]


def test_resets_by_reason_of_the_prompts_that_are_given() -> None:
    prompts = pl.LazyFrame(
        [
            PROMPT | {"prompt_id": "s########1"},
            PROMPT | {"prompt_id": "s########2", "mode": "warn", "supported_host": False},
        ],
        schema=SCHEMA | {"prompt_id": pl.String},
    )
    rows = events(
        GUARD_DECISIONS,
        decision("reset", reset_reason="success"),
        decision("reset", reset_reason="success"),
        decision("reset", reset_reason=None),
        decision("tracked", reset_reason="success"),
        decision("reset", reset_reason="success", prompt_id="s########2"),
        decision("reset", reset_reason="mixed", prompt_id="s########3"),
        decision("reset", reset_reason="mixed", service_version="0.23.4"),
    )
    found = resets(rows, prompts).sort("mode", "reset_reason").collect()
    assert found.select("mode", "supported_host", "reset_reason", "resets").rows() == [
        ("shadow", True, "success", 2),
        ("shadow", True, "unknown", 1),
        ("warn", False, "success", 1),
    ]


def test_the_guard_concerns_foreground_prompts_only() -> None:
    routes = ["acp_foreground", "subagent", "automatic", "screen_or_cli", "unknown"]
    found = foreground_only(pl.LazyFrame({"route": routes})).collect()
    assert found["route"].to_list() == ["acp_foreground"]
