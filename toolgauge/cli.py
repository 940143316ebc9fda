"""The command line: which commands there are, and how an error ends one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from analytics.exceptions import AnalyticsError
from dashboards.sql.exceptions import SqlError
from ingest.exceptions import IngestError
from sli.manifest import ManifestError
from toolgauge.commands.backup import backup, restore
from toolgauge.commands.baseline import baseline, compare
from toolgauge.commands.check import check
from toolgauge.commands.cohort import cohort
from toolgauge.commands.configuration import config as config_command
from toolgauge.commands.doctor import doctor
from toolgauge.commands.export import export
from toolgauge.commands.importing import import_files
from toolgauge.commands.quality import quality
from toolgauge.commands.refresh import rebuild, refresh
from toolgauge.commands.replay import replay
from toolgauge.commands.report import report
from toolgauge.commands.rollout import rollout
from toolgauge.commands.serve import serve
from toolgauge.commands.shadow import shadow
from toolgauge.commands.sli import sli
from toolgauge.commands.sql import sql
from toolgauge.exceptions import ToolgaugeError
from toolgauge.options import Config, DataDir, GivenBefore
from toolgauge.output import printable

# In the order of the help. A module that offers a command imports what is heavy within its function.
COMMANDS: dict[str, Callable[..., None]] = {
    "serve": serve,
    "import": import_files,
    "sli": sli,
    "quality": quality,
    "shadow": shadow,
    "replay": replay,
    "baseline": baseline,
    "compare": compare,
    "cohort": cohort,
    "report": report,
    "sql": sql,
    "refresh": refresh,
    "rebuild": rebuild,
    "export": export,
    "backup": backup,
    "restore": restore,
    "check": check,
    "doctor": doctor,
    "config": config_command,
}

# One line each, where the first sentence of a command's help would be cut.
_SHORT = {
    "serve": "Receive telemetry, keep it, and compute the results.",
    "import": "Bring in captured OTLP from files.",
    "sli": "How often tools fail: by hour, day, tool type, route, function.",
    "quality": "How far that can be believed.",
    "shadow": "What the repeated-failure guard would do, or did.",
    "replay": "What it would have done elsewhere, or set otherwise.",
    "baseline": "What is normal for a version, or why nobody can say.",
    "compare": "Two versions' baselines side by side.",
    "rollout": "Roll the guard out: status, gates, acts.",
    "cohort": "In which arm of a rollout owners are.",
    "report": "The nightly report of a day.",
    "sql": "Ask the events and the results in SQL, read-only.",
    "refresh": "Compute the results for what is new.",
    "rebuild": "Compute all results again.",
    "export": "Write tables as Parquet.",
    "backup": "Copy what is needed to come up again.",
    "restore": "Make a data directory from a backup.",
    "check": "Look for events that are there twice.",
    "doctor": "Look over the installation and the data directory.",
    "config": "The settings in force, and where each came from.",
}

# Errors whose sentence says all there is to say; of others a traceback is shown.
_TOLD = (ToolgaugeError, IngestError, AnalyticsError, SqlError, ManifestError)

app = typer.Typer(
    name="toolgauge",
    help="Measures how reliably coding agents' tool calls work, from the telemetry that they export.",
    no_args_is_help=True,
    # Plain help and plain tracebacks: what rich adds to them takes longer than some commands.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
for _name, _command in COMMANDS.items():
    app.command(_name, short_help=_SHORT[_name])(_command)
app.add_typer(rollout, name="rollout", short_help=_SHORT["rollout"])


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"toolgauge {version('toolgauge')}")
        except PackageNotFoundError:
            print("toolgauge, not installed")
        raise typer.Exit


@app.callback()
def _before_the_command(
    context: typer.Context,
    data_dir: DataDir = None,
    config: Config = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    context.obj = GivenBefore(data_dir, config)


def main() -> None:
    """Run the command line and end the process: with 0, 1 (failure), 2 (wrong usage) or a command's own."""
    for stream in (sys.stdout, sys.stderr):
        # Data may hold any sign, whatever the terminal's encoding.
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app(prog_name="toolgauge")
    except BrokenPipeError:
        # Who reads the data has had enough of it; the interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except _TOLD as error:
        sentence = "\n".join(printable(line) for line in str(error).splitlines())
        print(f"error: {sentence}", file=sys.stderr)
        sys.exit(getattr(error, "exit_status", 1))
