"""`toolgauge doctor`: what is well, what is not, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import typer

from toolgauge.options import Config, DataDir, Format, settings_in_force
from toolgauge.output import OutputFormat, write_rows

if TYPE_CHECKING:
    from toolgauge.doctor.findings import Finding
    from toolgauge.settings import Settings


def doctor(
    context: typer.Context,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Look over the installation and the data directory; exit 1 if there is a problem. Changes nothing.

    \b
    Examples:
      toolgauge doctor
      toolgauge doctor --data-dir /var/lib/toolgauge --format json
    """
    import pyarrow as pa

    from toolgauge.doctor.findings import State

    findings = examine(settings_in_force(context, data_dir, config).settings)
    columns = {
        "check": [finding.check for finding in findings],
        "state": [str(finding.state) for finding in findings],
        "detail": [finding.detail for finding in findings],
        "advice": [finding.advice for finding in findings],
    }
    write_rows(pa.table(columns), format)
    if any(finding.state is State.PROBLEM for finding in findings):
        raise typer.Exit(1)


def examine(settings: Settings) -> list[Finding]:
    """All checks, in the order in which their findings are best read.

    A check that fails itself is a problem as well, and the others go on.
    """
    from sli.data_directory import DataDirectory
    from toolgauge.doctor import contents, surroundings, upkeep
    from toolgauge.doctor.findings import problem

    now = datetime.now(UTC)

    directory = DataDirectory(settings.data_dir)
    checks: dict[str, Callable[[], Iterator[Finding]]] = {
        "versions": surroundings.versions,
        "data directory": partial(surroundings.data_directory, directory),
        "service": partial(surroundings.service, directory, settings),
    }
    if directory.root.is_dir():
        checks |= {
            "owner key": partial(surroundings.owner_key, directory),
            "published events": partial(contents.published, directory),
            "journal": partial(contents.journal, directory),
            "results": partial(contents.results, directory),
            "leftover files": partial(contents.leftovers, directory),
            "events": partial(contents.clocks, directory),
            "format": partial(upkeep.formats, directory),
            "compaction": partial(upkeep.compaction, directory, now),
            "retention": partial(upkeep.retention, directory, settings, now),
            "duplicate check": partial(upkeep.duplicate_check, directory, now),
            "backup": partial(upkeep.backup, directory, now),
        }
    findings: list[Finding] = []
    for name, check in checks.items():
        try:
            findings.extend(check())
        except Exception as error:
            findings.append(
                problem(name, f"the check failed: {type(error).__name__}: {error}", "report this, please")
            )
    return findings
