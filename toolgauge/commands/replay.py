"""`toolgauge replay`: what the guard would have done where it is off, elsewhere, or set otherwise."""

from __future__ import annotations

from typing import Annotated

import typer

from sli.schemas import FUNCTION_ERRORS_DAILY, REPLAY_AGREEMENT_DAILY, REPLAY_DAILY
from toolgauge.exceptions import WrongUsage
from toolgauge.filters import Environments, Filters, Since, Until, Versions, select, show
from toolgauge.options import Config, DataDir, Format, NoWait, note, settings_in_force
from toolgauge.output import OutputFormat, write_rows

# The thresholds of the guard itself.
_FAILURES, _BATCHES = 8, 2
_PART = ["time", "environment", "version_order"]


def replay(
    context: typer.Context,
    failures: Annotated[
        int | None,
        typer.Option("--failures", min=3, max=16, help="Failures before a reminder.  [default: 8]"),
    ] = None,
    batches: Annotated[
        int | None,
        typer.Option("--batches", min=1, max=4, help="Batches before a reminder.  [default: 2]"),
    ] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="All 56 pairs of thresholds, the days added up.")
    ] = False,
    by_function: Annotated[
        bool, typer.Option("--functions", help="Which functions and error types trip it, at 8 and 2.")
    ] = False,
    agreement: Annotated[
        bool,
        typer.Option(
            "--agreement",
            help="Decisions that it shares with the agents' own guard, and those of one alone, at 8 and 2.",
        ),
    ] = False,
    environment: Environments = None,
    version: Versions = None,
    since: Since = None,
    until: Until = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
    no_wait: NoWait = False,
) -> None:
    """The guard replayed over stored calls: prompts that it would warn and stop, and the calls saved.

    Where agents logged what the user put in, that is fed in; elsewhere no input is assumed. Prompts whose
    batches cannot be told are counted as not replayable and never guessed at.

    \b
    Examples:
      toolgauge replay --since 7d
      toolgauge replay --failures 5 --batches 2 --environment internal
      toolgauge replay --sweep --format csv
      toolgauge replay --agreement
    """
    if sum((sweep, by_function, agreement)) > 1:
        raise WrongUsage("--sweep, --functions and --agreement are three different tables; choose one")
    if (sweep or by_function or agreement) and (failures or batches):
        raise WrongUsage(
            "--failures and --batches choose the thresholds of the plain table; --sweep shows all of them, "
            "--functions and --agreement are at 8 and 2"
        )
    settings = settings_in_force(context, data_dir, config).settings
    filters = Filters.of(environment, version, since, until)
    if agreement:
        query, parameters = select(REPLAY_AGREEMENT_DAILY, filters, [*_PART, "reason"])
    elif by_function:
        query, parameters = select(
            FUNCTION_ERRORS_DAILY,
            filters,
            ["would_stop DESC", "would_warn DESC", *_PART, "function_name", "error_type"],
            conditions=["would_warn + would_stop > 0"],
        )
    elif sweep:
        where, parameters = filters.where(REPLAY_DAILY)
        sums = ("prompts", "not_replayable", "prompts_would_warn", "prompts_would_stop", "calls_saved")
        query = (
            "SELECT environment, service_version, route, failures, batches, "
            f"{', '.join(f'sum({name})::BIGINT AS {name}' for name in sums)} FROM {REPLAY_DAILY.name}{where} "
            "GROUP BY environment, service_version, version_order, route, failures, batches "
            "ORDER BY environment, version_order, route, failures, batches"
        )
    else:
        chosen = [f"failures = {failures or _FAILURES}", f"batches = {batches or _BATCHES}"]
        query, parameters = select(REPLAY_DAILY, filters, [*_PART, "route"], conditions=chosen)
    rows = show(settings, query, parameters, filters, wait=not no_wait)
    if len(rows) and not agreement:
        note("where agents logged no guard decisions, the replay assumes that the user put nothing in")
    write_rows(rows, format)
