"""`toolgauge baseline` and `toolgauge compare`: what is normal, or why nobody can say; and two of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sli.schemas import BASELINES, FUNCTION_ERRORS_DAILY, SLI_BY_FUNCTION_DAILY
from toolgauge.exceptions import NoBaseline
from toolgauge.filters import Environments, Filters, Since, Until, Versions, select, show
from toolgauge.options import Config, DataDir, Format, NoWait, note, settings_in_force
from toolgauge.output import OutputFormat, write_rows

_SHOWN = (
    *("environment", "service_version", "window_start", "window_end", "revision", "status"),
    *("complete_days", "executed", "failure_rate", "clustered_low", "clustered_high", "owners"),
    *("completion_rate", "latency_p95_ms", "would_stop_per_1000", "reason"),
)
_LATEST = (
    "QUALIFY row_number() OVER (PARTITION BY environment, service_version "
    "ORDER BY window_end DESC, revision DESC) = 1"
)


def baseline(
    context: typer.Context,
    all_windows: Annotated[
        bool, typer.Option("--all", help="Every window and revision, and not the latest alone.")
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
    """The latest baseline of each environment and version, or why there is none and what is still missing.

    A baseline stands on the latest 7 complete days of at most 10; --since and --until are about the last
    day of its window. JSON and CSV have all columns.

    \b
    Examples:
      toolgauge baseline
      toolgauge baseline --environment internal --version 0.24.4 --format json
      toolgauge baseline --all --since 14d
    """
    settings = settings_in_force(context, data_dir, config).settings
    filters = Filters.of(environment, version, since, until)
    order = ["environment", "version_order", "window_end", "revision"]
    columns = None if format in (OutputFormat.JSON, OutputFormat.CSV) else _SHOWN
    query, parameters = select(BASELINES, filters, order, columns, time="window_end")
    if not all_windows:
        query = query.replace(" ORDER BY environment,", f" {_LATEST} ORDER BY environment,")
    write_rows(show(settings, query, parameters, filters, wait=not no_wait), format)


def compare(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="service.version of the one.")],
    b: Annotated[str, typer.Argument(metavar="B", help="service.version of the other.")],
    environment: Annotated[
        str,
        typer.Option(
            "--environment", metavar="NAME", help="Environment of both; of A alone with --environment-b."
        ),
    ],
    environment_b: Annotated[
        str | None,
        typer.Option("--environment-b", metavar="NAME", help="Environment of B, if it is another."),
    ] = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
    no_wait: NoWait = False,
) -> None:
    """Two baselines side by side: the failure rate of A and B, overall and by function, and the difference.

    The difference is B less A, with its 95 % interval. Where a function's rate moved together with error
    types that were never seen before (or are gone), what counts as its failure has probably changed, and the
    step says nothing about how well it works: definition_changed. Exit 1 where one of them has no baseline.

    \b
    Examples:
      toolgauge compare 0.23.4 0.24.4 --environment internal
      toolgauge compare 0.24.4 0.24.4 --environment internal --environment-b public_cloud
    """
    import polars as pl

    from sli.comparison import compared
    from toolgauge.reading import read

    settings = settings_in_force(context, data_dir, config).settings
    wheres = ("--environment", "--environment-b" if environment_b else "--environment")
    sides = [
        _latest_good(
            settings,
            version,
            where,
            options={"service_version": name, "environment": option},
            wait=not no_wait,
            again=name == "B",
        )
        for name, version, where, option in zip(
            "AB", (a, b), (environment, environment_b or environment), wheres, strict=True
        )
    ]
    tables = []
    for dataset in (SLI_BY_FUNCTION_DAILY, FUNCTION_ERRORS_DAILY):
        filters = Filters([side["environment"] for side in sides], [a, b])
        query, parameters = select(dataset, filters, ["time"], extra=["time::DATE AS day"])
        found = pl.from_arrow(read(settings, query, parameters, again=True))
        assert isinstance(found, pl.DataFrame)
        tables.append(found)
    # Its place in the table is that of an environment of both.
    rows = compared(sides[0], sides[1], *tables).with_columns(
        environment=pl.lit(sides[0]["environment"]), environment_b=pl.lit(sides[1]["environment"])
    )
    if rows["definition_changed"].any():
        note("what counts as a failure has probably changed for some functions: see definition_changed")
    write_rows(rows.to_arrow(), format)


def _latest_good(
    settings: Any, version: str, environment: str, *, options: Mapping[str, str], wait: bool, again: bool
) -> dict[str, Any]:
    """The latest baseline that is not refused.

    Raises:
        UnknownPart: nobody ever reported the version, or the environment.
        NoBaseline: there is none; the reason of the latest refusal is in it.
    """
    filters = Filters([environment], [version])
    query, parameters = select(BASELINES, filters, ["window_end DESC", "revision DESC"])
    rows = show(settings, query, parameters, filters, wait, options, again).to_pylist()
    for row in rows:
        if row["status"] == "ok":
            return dict(row)
    raise NoBaseline(environment, version, rows[0]["reason"] if rows else None)
