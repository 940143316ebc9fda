"""Which prompts are a person's, asked through ACP."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from sli.foreground import foreground_prompts, with_settled_route
from sli.schemas import GUARD_DECISIONS, PROMPT_EVENTS, TOOL_CALLS
from tests.sli.frames import events

PROMPT = "s########1"
ASKED = {"kind": "interaction", "message_type": "acp_prompt", "prompt_id": PROMPT}
NAMED = {"kind": "user_prompt", "prompt_id": PROMPT, "trace_id": "t"}
FINISHED = {"kind": "conversation_finished", "trace_id": "t"}
WATCHED = {"route": "acp_foreground", "prompt_id": PROMPT}


def found(told: list[dict[str, Any]], watched: list[dict[str, Any]]) -> list[Any]:
    rows = foreground_prompts(events(PROMPT_EVENTS, *told), events(GUARD_DECISIONS, *watched))
    return rows.collect().rows()


@pytest.mark.parametrize(
    ("told", "watched"),
    [
        ([ASKED], []),
        ([], [WATCHED]),
        ([NAMED, FINISHED], []),
        ([FINISHED, NAMED], []),
        # All at once, and again.
        ([ASKED, ASKED, NAMED, FINISHED], [WATCHED, WATCHED]),
    ],
)
def test_evidence(told: list[dict[str, Any]], watched: list[dict[str, Any]]) -> None:
    assert found(told, watched) == [("internal", "0.24.4", PROMPT)]


@pytest.mark.parametrize(
    ("told", "watched"),
    [
        ([], []),
        ([ASKED | {"message_type": "userQuery"}], []),
        ([ASKED | {"message_type": None}], []),
        ([ASKED | {"prompt_id": None}], []),
        ([NAMED], []),
        ([FINISHED], []),
        ([NAMED, FINISHED | {"trace_id": "another"}], []),
        # No trace is no common trace.
        ([NAMED | {"trace_id": None}, FINISHED | {"trace_id": None}], []),
        ([], [WATCHED | {"route": "subagent"}]),
        ([], [WATCHED | {"route": None}]),
        ([], [WATCHED | {"prompt_id": None}]),
    ],
)
def test_no_evidence(told: list[dict[str, Any]], watched: list[dict[str, Any]]) -> None:
    assert found(told, watched) == []


def test_only_a_persons_prompt_of_the_same_version_and_environment_is_settled() -> None:
    calls = events(
        TOOL_CALLS,
        {"route": "screen_or_cli", "prompt_id": PROMPT},
        {"route": "screen_or_cli", "prompt_id": PROMPT, "service_version": "0.23.4"},
        {"route": "screen_or_cli", "prompt_id": PROMPT, "environment": "unset"},
        {"route": "screen_or_cli", "prompt_id": "s########2"},
        {"route": "screen_or_cli", "prompt_id": None},
        {"route": "automatic", "prompt_id": PROMPT},
        {"route": "subagent", "prompt_id": PROMPT},
        {"route": "unknown", "prompt_id": PROMPT},
    )
    foreground = foreground_prompts(events(PROMPT_EVENTS, ASKED), events(GUARD_DECISIONS))
    settled = with_settled_route(calls, foreground)
    assert settled.collect_schema() == calls.collect_schema()
    rows = settled.sort("event_id").collect()
    screen = "screen_or_cli"
    assert rows["route"].to_list() == [
        "acp_foreground",
        *[screen] * 4,
        "automatic",
        "subagent",
        "unknown",
    ]
    assert isinstance(rows, pl.DataFrame)
