"""`toolgauge shadow`: what the guard would do, or did."""

from __future__ import annotations

from typing import Annotated

import typer

from sli.schemas import SHADOW_DAILY, SHADOW_RESETS_DAILY
from toolgauge.filters import Environments, Filters, Since, Until, Versions, select, show
from toolgauge.options import Config, DataDir, Format, NoWait, note, settings_in_force
from toolgauge.output import OutputFormat, write_rows

_SHOWN = (
    *("time", "environment", "service_version", "mode", "supported_host", "prompts", "tool_prompts"),
    *("prompts_would_warn", "prompts_warned", "prompts_would_stop", "prompts_stopped"),
    *("would_warn_per_1000", "would_stop_per_1000", "went_on_ratio", "calls_saved"),
)
_NOTE = (
    "CASE WHEN NOT supported_host THEN 'unsupported host: in no conclusion' "
    "WHEN mode = 'unknown' THEN 'off looks like a quiet shadow' "
    "WHEN mode = 'shadow' THEN 'volume only' END AS note"
)


def shadow(
    context: typer.Context,
    resets: Annotated[bool, typer.Option("--resets", help="Resets of candidates, by reason.")] = False,
    environment: Environments = None,
    version: Versions = None,
    since: Since = None,
    until: Until = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
    no_wait: NoWait = False,
) -> None:
    """The repeated-failure guard's volumes: foreground prompts by mode, and what became of them, day by day.

    In shadow mode they estimate volume only: no model has seen a reminder. Modes are never added together.
    Prompts from channels look like foreground ones and are among them. JSON and CSV have all columns.

    \b
    Examples:
      toolgauge shadow --since 7d
      toolgauge shadow --resets --environment internal
    """
    settings = settings_in_force(context, data_dir, config).settings
    filters = Filters.of(environment, version, since, until)
    by_mode = ["time", "environment", "version_order", "mode", "supported_host"]
    if resets:
        query, parameters = select(SHADOW_RESETS_DAILY, filters, [*by_mode, "reset_reason"])
    else:
        wide = format in (OutputFormat.JSON, OutputFormat.CSV)
        query, parameters = select(SHADOW_DAILY, filters, by_mode, None if wide else _SHOWN, [_NOTE])
    rows = show(settings, query, parameters, filters, wait=not no_wait)
    if len(rows) and "shadow" in rows.column("mode").to_pylist():
        note("shadow mode estimates volume only: no model has seen a reminder")
    write_rows(rows, format)
