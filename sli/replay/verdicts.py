"""The guard's decision table over columns: the same as `sli.guard.table`, call by call."""

from __future__ import annotations

import polars as pl

from sli.vocabulary import (
    UNKNOWN_ERROR_TYPE,
    UNKNOWN_TOOL,
    UNREGISTERED_TOOL,
    ExecutionStatus,
    Status,
)

UNNAMED = (UNKNOWN_TOOL, UNREGISTERED_TOOL)
"""Function names that name no tool: the first was not sent, behind the second stand many."""


def succeeded() -> pl.Expr:
    """Whether the call counts as a success of its tool."""
    executed = pl.col("execution_status").is_in(
        [str(ExecutionStatus.SUCCESS), str(ExecutionStatus.NOT_STARTED)]
    )
    return (_is("status", Status.SUCCESS) & executed & _named("function_name", UNNAMED)).fill_null(False)


def failed() -> pl.Expr:
    """Whether the call is a failure that the guard may count."""
    error = _is("status", Status.ERROR) & _is("execution_status", ExecutionStatus.ERROR)
    classified = _named("execution_error_type", (UNKNOWN_ERROR_TYPE,))
    return (error & classified & _named("function_name", UNNAMED)).fill_null(False)


def _is(column: str, word: str) -> pl.Expr:
    return pl.col(column) == str(word)


def _named(column: str, unknown: tuple[str, ...]) -> pl.Expr:
    return ~pl.col(column).str.strip_chars().is_in(["", *unknown])
