"""`toolgauge backup` and `toolgauge restore`: what is needed to come up again, elsewhere or later."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolgauge.options import Config, DataDir, Format, note, settings_in_force
from toolgauge.output import OutputFormat, write_rows

if TYPE_CHECKING:
    from ingest.keep.backup import Backup


def backup(
    context: typer.Context,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Folder of the backup.")],
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Copy the events and the owners' key to a folder, whether or not the service runs.

    Into a folder with an earlier backup of the same data only what is new is copied; until the new backup
    is complete, the earlier one stays as it was. Every file is read again and compared in the end.
    Results are left out, since they are computed again, and so are settings, which may hold secrets.
    The folder holds the key of the owners' hashes: keep it as private as the data directory.

    \b
    Examples:
      toolgauge backup /mnt/backup/toolgauge
      toolgauge backup --data-dir /var/lib/toolgauge "/mnt/backup/$(date +%F)" --format json
    """
    import pyarrow as pa

    from ingest.keep.backup import back_up
    from sli.data_directory import DataDirectory
    from toolgauge.freshness import require, wait_until_published
    from toolgauge.progress import byte_progress

    directory = DataDirectory(settings_in_force(context, data_dir, config).settings.data_dir)
    require(directory)
    wait_until_published(directory, note)
    with byte_progress() as show:
        outcome = back_up(directory, target, datetime.now(UTC), show)
    if not outcome.noted:
        note(f"{directory.root} cannot be written, so `toolgauge doctor` will not know of this backup")
    write_rows(pa.Table.from_pylist([_row(outcome.backup) | {"copied_bytes": outcome.copied_bytes}]), format)


def restore(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Folder of the backup.")],
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Make a data directory from a backup, after checking every file of it.

    The data directory must be empty, or not exist. Nothing is put there unless all of it is whole. The
    next `toolgauge serve` builds the event store from it, and `toolgauge sli` computes the results.

    \b
    Examples:
      toolgauge restore /mnt/backup/toolgauge --data-dir /var/lib/toolgauge
      toolgauge restore /mnt/backup/2026-11-30 --data-dir ./look && toolgauge sli --data-dir ./look
    """
    import pyarrow as pa

    from ingest.keep.backup import restore as restore_backup
    from sli.data_directory import DataDirectory
    from toolgauge.progress import byte_progress

    directory = DataDirectory(settings_in_force(context, data_dir, config).settings.data_dir)
    with byte_progress() as show:
        restored = restore_backup(source, directory, show)
    note(f"restored to {directory.root}; start `toolgauge serve` with it")
    write_rows(pa.Table.from_pylist([_row(restored)]), format)


def _row(backup: Backup) -> dict[str, Any]:
    return {
        "made_at": backup.made_at,
        "published_through": backup.manifest.published_through,
        "segments": len(backup.manifest.segments),
        "rows": sum(segment.rows for segment in backup.manifest.segments),
        "bytes": backup.bytes,
    }
