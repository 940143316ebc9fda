"""`toolgauge import`: captured OTLP through the very same path as what arrives over the network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolgauge.options import Config, DataDir, Format, settings_in_force
from toolgauge.output import OutputFormat, write_rows

if TYPE_CHECKING:
    from rich.console import Console

    from ingest.configuration import IngestConfiguration
    from ingest.decode.wire import Signal


class SignalName(StrEnum):
    """What a serialised request is an export of."""

    LOGS = "logs"
    TRACES = "traces"
    METRICS = "metrics"


@dataclass
class Tally:
    """What an import came to."""

    files: int = 0
    requests: int = 0
    stored: int = 0
    duplicates: int = 0
    rejected: int = 0
    left_out: int = 0
    failed: int = 0


def import_files(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files, or folders of them.")],
    signal: Annotated[
        SignalName | None, typer.Option(help="What .pb files hold, where their names do not say it.")
    ] = None,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Bring in OTLP that lies in files: serialised requests (.pb), OTLP/JSON, one document or one a line.

    Goes through the running service if there is one, else into the store directly. Importing the same
    again stores nothing twice. A file that cannot be read is named and the others are imported; then
    the exit status is 1.

    \b
    Examples:
      toolgauge import exports/
      toolgauge import collector.jsonl.zst --format json
      toolgauge import body.bin.pb --signal logs
    """
    import pyarrow as pa
    from rich.console import Console

    from ingest.decode.wire import Signal
    from toolgauge.commands.serve import ingest_configuration
    from toolgauge.logs import configure_logs

    settings = settings_in_force(context, data_dir, config).settings
    configure_logs(settings)
    tally = _import(
        ingest_configuration(settings), paths, Signal(signal) if signal else None, Console(stderr=True)
    )
    write_rows(pa.table({name: [value] for name, value in asdict(tally).items()}), format)
    if tally.failed:
        raise typer.Exit(1)


def _import(
    configuration: IngestConfiguration, paths: list[Path], signal: Signal | None, errors: Console
) -> Tally:
    """Import files and folders; what cannot be read is named on `errors` and the rest goes on.

    Raises:
        CannotStart: a path does not exist, or the data directory cannot be used.
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from ingest.bring.destinations import open_destination
    from ingest.bring.files import FileRequest, find_files, read_file
    from ingest.exceptions import IngestError, NotTelemetry, OtherJson

    files = find_files(paths)
    tally = Tally(files=len(files))
    with (
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=errors,
            transient=True,
            disable=not errors.is_terminal,
        ) as progress,
        open_destination(configuration) as destination,
    ):
        task = progress.add_task("importing", total=sum(file.stat().st_size for file in files))

        def requests() -> Iterator[FileRequest]:
            for file in files:
                for found in read_file(file, signal):
                    if isinstance(found, OtherJson) and file not in paths:
                        # In a folder other files may lie beside the telemetry.
                        tally.left_out += 1
                    elif isinstance(found, NotTelemetry):
                        tally.failed += 1
                        errors.print(f"error: {found}", markup=False, highlight=False, soft_wrap=True)
                    else:
                        yield found
                progress.advance(task, file.stat().st_size)

        for request, outcome in destination.keep(requests()):
            tally.requests += 1
            if isinstance(outcome, IngestError):
                tally.failed += 1
                line = f", line {request.line}" if request.line else ""
                errors.print(
                    f"error: {request.path}{line}: {outcome}", markup=False, highlight=False, soft_wrap=True
                )
            else:
                tally.stored += outcome.stored
                tally.duplicates += outcome.duplicates
                tally.rejected += sum(outcome.rejected.values())
    return tally
