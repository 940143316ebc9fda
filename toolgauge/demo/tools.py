"""The tools of the fleet, and how a call of one ends."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from toolgauge.demo.versions import Version


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.

    Attributes:
        weight: how often it is called.
        failures: its execution failures, as error type and share of the calls that are executed.
        asks: whether a person is asked before it runs.
        median_ms: how long it takes.
    """

    name: str
    weight: float
    failures: tuple[tuple[str, float], ...]
    type: str = "native"
    asks: bool = False
    median_ms: int = 30


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended.

    Attributes:
        execution_status: None if the agent did not say.
        error_type: of a call that ended in an error.
        failure: what became of the execution itself, where that is not what the agent says.
    """

    tool: Tool
    status: str
    execution_status: str | None
    error_type: str | None = None

    @property
    def began(self) -> bool:
        """Whether it was executed, for all that is said."""
        return self.execution_status in ("success", "error", "cancelled")


TOOLS = (
    Tool("read_file", 28, (("file_not_found", 0.024), ("read_content_failure", 0.004)), median_ms=15),
    Tool(
        "run_shell_command",
        22,
        (("shell_execute_error", 0.085), ("execution_timeout", 0.012)),
        asks=True,
        median_ms=900,
    ),
    Tool(
        "edit",
        15,
        (("edit_no_occurrence_found", 0.031), ("edit_expected_occurrence_mismatch", 0.011)),
        asks=True,
        median_ms=25,
    ),
    Tool("grep_search", 12, (("grep_execution_error", 0.008),), median_ms=120),
    Tool("write_file", 7, (("permission_denied", 0.006),), asks=True, median_ms=20),
    Tool("glob", 5, (("glob_execution_error", 0.003),), median_ms=60),
    Tool("todo_write", 4, (), median_ms=4),
    Tool("web_fetch", 2, (("web_fetch_fallback_failed", 0.13),), median_ms=1800),
    Tool("tool_search", 0.5, (("unknown", 0.02),), median_ms=8),
    Tool("mcp__tracker__search_issues", 3, (("mcp_tool_error", 0.06),), "mcp", median_ms=420),
    Tool(
        "mcp__build__run_target",
        2.5,
        (("mcp_tool_error", 0.1), ("execution_timeout", 0.02)),
        "mcp",
        True,
        4000,
    ),
)
AGENT = Tool("agent", 0, (), median_ms=50)
UNREGISTERED = tuple(Tool(name, 0, ()) for name in ("Bash", "ReadFile", "search_the_web"))
EDIT = next(tool for tool in TOOLS if tool.name == "edit")
SHELL = next(tool for tool in TOOLS if tool.name == "run_shell_command")

# What an agent that is stuck tries again and again; the first is by far the most frequent.
_STUCK = ((EDIT, "edit_no_occurrence_found"), (SHELL, "shell_execute_error"), (TOOLS[0], "file_not_found"))
_STUCK_ON_MCP = tuple((tool, "mcp_tool_error") for tool in TOOLS if tool.type == "mcp")

_BOUNDS = list(accumulate(tool.weight for tool in TOOLS))

# Shares of calls that end otherwise than by success or failure of the execution.
_INVALID = 0.005
_UNREGISTERED = 0.001
_DENIED = 0.02
_AFTER_EXECUTION = 0.003


def pick_tool(rng: Random) -> Tool:
    """A tool, by how often it is called."""
    return TOOLS[bisect(_BOUNDS, rng.random() * _BOUNDS[-1])]


def pick_stuck(rng: Random, version: Version) -> Outcome:
    """The failure that an agent is stuck in."""
    kinds = _STUCK if version.exits_are_errors else (_STUCK[0], _STUCK[2])
    tool, error_type = rng.choice(_STUCK_ON_MCP) if rng.random() < 0.3 else rng.choice(kinds)
    return Outcome(tool, "error", "error", error_type)


def call(rng: Random, version: Version) -> Outcome:
    """A call, and how it ends; nobody cancels it."""
    chance = rng.random()
    if chance < _UNREGISTERED:
        return Outcome(rng.choice(UNREGISTERED), "error", "not_started", "tool_not_registered")
    tool = pick_tool(rng)
    if chance < _UNREGISTERED + _INVALID:
        return Outcome(tool, "error", "not_started", "invalid_tool_params")
    if tool.asks and rng.random() < _DENIED:
        return Outcome(tool, "error", "not_started", "execution_denied")
    if rng.random() < version.unknown_share:
        return Outcome(tool, "success", None)
    error_type = _failure(rng, tool, version)
    if error_type is not None:
        if rng.random() < version.violation_share:
            return Outcome(tool, "success", "error")
        return Outcome(tool, "error", "error", error_type)
    if rng.random() < _AFTER_EXECUTION:
        return Outcome(tool, "error", "success", "execution_denied")
    return Outcome(tool, "success", "success")


def _failure(rng: Random, tool: Tool, version: Version) -> str | None:
    chance = rng.random()
    if tool is EDIT and chance > 1 - version.broken_edits:
        return "edit_no_occurrence_found"
    for error_type, share in tool.failures:
        if chance < share:
            # Before the definition changed, a command that ended with another code than 0 had succeeded.
            return (
                None if error_type == "shell_execute_error" and not version.exits_are_errors else error_type
            )
        chance -= share
    return None
