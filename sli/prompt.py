"""Prompt ids: whose session they carry, and which route they tell of.

The forms are the producer's (observed in its releases 0.15.10 to 0.24.4):

    <session>########<n>                     a prompt of a person
    <session>########<n>/automatic/<k>       one that the agent gave itself
    <session>########notification<uuid>      the same, after a notification
    <session>#<agent>-<call id>#<round>      a subagent's
    anything else                            unknown

The patterns are anchored and use only what RE2 knows, so that they can be matched over columns.
"""

from __future__ import annotations

import polars as pl

from sli.vocabulary import Route

SESSION_SEPARATOR = "########"

# Subagents come first: an agent started from an automatic prompt is still a subagent.
ROUTE_PATTERNS: tuple[tuple[Route, str], ...] = (
    (Route.SCREEN_OR_CLI, r"^[^#]+########[0-9]+$"),
    (Route.AUTOMATIC, r"^[^#]+########(?:[0-9]+/automatic/[0-9]+|notification.+)$"),
    (Route.SUBAGENT, r"^[^#]+#[^#]+-[^#]+#[0-9]+$"),
)


def route_expression(prompt_id: pl.Expr) -> pl.Expr:
    """The route that each prompt id tells of by its form: String, a word of `Route`, never null."""
    route = pl.lit(str(Route.UNKNOWN))
    for name, pattern in reversed(ROUTE_PATTERNS):
        route = pl.when(prompt_id.str.contains(pattern)).then(pl.lit(str(name))).otherwise(route)
    return route
