"""What is done from time to time: formats brought up to date, days merged or removed, checks, backups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from analytics.duplicates import JOB
from analytics.results_file import last_run
from ingest.keep.compaction import uncompacted_days
from ingest.keep.retention import oldest_kept_day
from sli.data_directory import DataDirectory
from sli.manifest import Manifest, ManifestError
from sli.schemas import EVENT_FORMAT
from toolgauge.doctor.findings import Finding, ok, problem, warning
from toolgauge.settings import Settings

# Compaction waits for a day to be over and quiet; what is in pieces so much later was not merged at all.
_COMPACTED_WITHIN = timedelta(days=1)
_CHECKED_WITHIN = timedelta(days=2)
_BACKED_UP_WITHIN = timedelta(days=7)


def formats(directory: DataDirectory) -> Iterator[Finding]:
    """Whether the published events are of this version's format."""
    try:
        found = json.loads(directory.manifest.read_text("utf-8"))["format"]
    except (OSError, ValueError, TypeError, KeyError):
        # What is wrong with the manifest stands with the published events.
        return
    if isinstance(found, int) and found < EVENT_FORMAT:
        yield ok("format", f"{found}; the next start of the service makes it {EVENT_FORMAT}")
    else:
        yield ok("format", str(found))


def compaction(directory: DataDirectory, now: datetime) -> Iterator[Finding]:
    """Whether days that are over are merged."""
    manifest = _manifest(directory)
    waiting = uncompacted_days(manifest, now)
    overdue = uncompacted_days(manifest, now - _COMPACTED_WITHIN)
    if overdue:
        dataset, day = overdue[0]
        yield warning(
            "compaction",
            f"{len(overdue)} days are over and still in pieces, the first is {day} of {dataset}",
            "keep the service running for a while, which merges them; if it is, look into its log",
        )
    elif waiting:
        yield ok("compaction", f"{len(waiting)} days are over and will be merged soon")
    else:
        yield ok("compaction", "all days that are over are merged")


def retention(directory: DataDirectory, settings: Settings, now: datetime) -> Iterator[Finding]:
    """How long events are kept, and whether older ones are gone."""
    oldest = min((segment.day for segment in _manifest(directory).segments), default=None)
    since = f"the oldest day is {oldest}" if oldest else "there are no events yet"
    if settings.retention_days is None:
        yield ok("retention", f"everything is kept; {since}")
        return
    kept = oldest_kept_day(settings.retention_days, now)
    if oldest is not None and oldest < kept:
        yield warning(
            "retention",
            f"{settings.retention_days} days are to be kept, and {since}",
            "start the service, which removes older days; if it is running, look into its log",
        )
    else:
        yield ok("retention", f"{settings.retention_days} days are kept; {since}")


def duplicate_check(directory: DataDirectory, now: datetime) -> Iterator[Finding]:
    """What the last look for events that are there twice has found."""
    if not _manifest(directory).segments:
        yield ok("duplicate check", "no events yet")
        return
    last = last_run(directory, JOB)
    if last is None:
        yield ok("duplicate check", "none yet; the service makes one a day, `toolgauge check` one now")
    elif last.status != "ok":
        yield problem(
            "duplicate check",
            f"at {last.started:%Y-%m-%dT%H:%M:%SZ}: {last.detail}",
            "run `toolgauge check` to see which, and report it, please",
        )
    elif now - last.started > _CHECKED_WITHIN:
        yield warning(
            "duplicate check",
            f"the last one was at {last.started:%Y-%m-%dT%H:%M:%SZ}",
            "run `toolgauge check`, or keep the service running, which makes one a day",
        )
    else:
        yield ok("duplicate check", f"at {last.started:%Y-%m-%dT%H:%M:%SZ}: {last.detail}")


def backup(directory: DataDirectory, now: datetime) -> Iterator[Finding]:
    """When the last backup was made; that one is made is nobody's duty."""
    try:
        noted = json.loads(directory.last_backup.read_text("utf-8"))
        made_at = datetime.fromisoformat(noted["made_at"])
        place = f"{noted['made_at']} to {noted['target']}, through commit {noted['published_through']}"
    except FileNotFoundError:
        yield ok("backup", "none was made from here; see `toolgauge backup --help`")
        return
    except (OSError, ValueError, TypeError, KeyError):
        yield warning(
            "backup",
            f"{directory.last_backup} cannot be read, so nothing is known of the last one",
            "make a backup, which writes it again",
        )
        return
    if now - made_at.astimezone(UTC) > _BACKED_UP_WITHIN:
        yield warning("backup", f"the last one was made at {place}", "make one: `toolgauge backup TARGET`")
    else:
        yield ok("backup", f"the last one was made at {place}")


def _manifest(directory: DataDirectory) -> Manifest:
    try:
        return Manifest.parse(directory.manifest.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ManifestError):
        # What is wrong with it stands with the published events.
        return Manifest("", 0, ())
