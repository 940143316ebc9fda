"""The four different things that a terminal `error` hides, and the cancellations beside them."""

from __future__ import annotations

from enum import StrEnum

import polars as pl

from sli.vocabulary import ExecutionStatus, Status


class FailureClass(StrEnum):
    """What became of a call that did not end well."""

    DENIED = "denied_before_execution"
    EXECUTION = "execution_failure"
    AFTER_EXECUTION = "failure_after_execution"
    CANCELLED = "cancelled"
    UNCLASSIFIED = "unclassified"


def failure_class() -> pl.Expr:
    """The class of each call, String, from `status` and `execution_status`; null for what is no failure.

    A terminal cancellation wins whatever the execution says; a terminal error over a cancelled execution
    is a cancellation too. What the terminal status does not name is no failure of any class.
    """
    status, execution = pl.col("status"), pl.col("execution_status")
    error = status == str(Status.ERROR)
    classes = (
        (status == str(Status.CANCELLED), FailureClass.CANCELLED),
        (error & (execution == str(ExecutionStatus.NOT_STARTED)), FailureClass.DENIED),
        (error & (execution == str(ExecutionStatus.ERROR)), FailureClass.EXECUTION),
        (error & (execution == str(ExecutionStatus.SUCCESS)), FailureClass.AFTER_EXECUTION),
        (error & (execution == str(ExecutionStatus.CANCELLED)), FailureClass.CANCELLED),
        (error, FailureClass.UNCLASSIFIED),
    )
    result: pl.Expr = pl.lit(None, dtype=pl.String)
    for condition, name in reversed(classes):
        result = pl.when(condition).then(pl.lit(str(name))).otherwise(result)
    return result.alias("class")
