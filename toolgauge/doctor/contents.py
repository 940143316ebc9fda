"""What is kept: the published events, the results, what was left over, and whether the clocks agree."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from analytics.results_file import results_format
from dashboards.sql.exceptions import SqlError
from dashboards.sql.reader import Reader
from ingest.keep.journal import damage_of as journal_damage
from ingest.keep.verification import damage_at_a_glance, damage_of
from sli.data_directory import DataDirectory
from sli.manifest import Manifest, ManifestError, NewerManifestError
from sli.schemas import RESULT_FORMAT
from toolgauge.doctor.findings import Finding, ok, problem, warning
from toolgauge.freshness import is_locked, read_lost_segments, read_results_state

# Clocks of one site are closer than this to each other.
_CLOCK_TOLERANCE = timedelta(minutes=5)
# So long the segments are read; two seconds are a year of a busy site.
_READING_SECONDS = 10.0


def published(directory: DataDirectory) -> Iterator[Finding]:
    """The manifest, and each segment that it lists."""
    try:
        manifest = Manifest.parse(directory.manifest.read_text("utf-8"))
    except FileNotFoundError:
        yield ok("manifest", "nothing is published yet")
        return
    except NewerManifestError as error:
        yield problem("manifest", str(error), "install the version that wrote it, or name another --data-dir")
        return
    except (OSError, UnicodeDecodeError, ManifestError) as error:
        yield problem("manifest", str(error), "restart the service, which publishes the events again")
        return
    days = {segment.day for segment in manifest.segments}
    yield ok(
        "manifest",
        f"published through commit {manifest.published_through}: {len(manifest.segments)} segments, "
        f"{len(days)} days, {sum(segment.rows for segment in manifest.segments)} rows",
    )
    yield from _segments(directory, manifest)


def _segments(directory: DataDirectory, manifest: Manifest) -> Iterator[Finding]:
    """Each segment, newest first: that it is there, and, as far as the time goes, every byte of it."""
    until = time.monotonic() + _READING_SECONDS
    broken = unread = 0
    for segment in sorted(manifest.segments, key=lambda segment: segment.last_commit, reverse=True):
        path = directory.events / segment.path
        is_late = time.monotonic() >= until
        reason = damage_at_a_glance(path, segment) if is_late else damage_of(path, segment)
        unread += is_late
        if reason is not None:
            broken += 1
            advice = "restart the service, which writes it again from its store"
            yield problem("segments", f"{segment.path}: {reason}", advice)
    if not broken:
        read = f", of the oldest {unread} the names and sizes only" if unread else ""
        yield ok("segments", f"all are there, with the bytes that were written{read}")


def journal(directory: DataDirectory) -> Iterator[Finding]:
    """The rows that are stored and not yet published, a second time."""
    files = sorted(directory.journal.glob("*.journal"))
    running = is_locked(directory.ingest_lock)
    damaged = [] if running else [(path, reason) for path in files if (reason := journal_damage(path))]
    for path, reason in damaged:
        yield problem(
            "journal",
            f"{path.relative_to(directory.root)}: {reason}",
            "start the service: it takes what can be read, and sets the file aside",
        )
    if damaged:
        return
    if files and not running:
        yield ok("journal", f"{len(files)} files of a service that was killed, read at its next start")
    else:
        yield ok("journal", f"{len(files)} files, of what is stored and not yet published")


def leftovers(directory: DataDirectory) -> Iterator[Finding]:
    """Files that nothing reads: of a process that was killed, or set aside because damaged."""
    merged, unlisted = _unlisted(directory)
    if merged and not unlisted:
        # Readers may have held an older manifest when the service ended.
        yield ok("leftover files", f"{len(merged)} that were merged, the next start removes them")
    elif not unlisted:
        yield ok("leftover files", "none")
    elif is_locked(directory.ingest_lock):
        # Merged segments stay for a while, for readers that still hold an older manifest.
        yield ok("leftover files", f"{len(unlisted)}, the service removes them")
    else:
        yield warning(
            "leftover files",
            f"{len(unlisted)} that no manifest lists, such as {unlisted[0].relative_to(directory.root)}",
            "start the service, which removes them",
        )
    aside = sorted(path for path in directory.root.rglob("*.damaged-*"))
    for path in aside:
        yield warning(
            "set aside",
            f"{path.relative_to(directory.root)} was damaged and is kept",
            "look for what damaged it (disk, memory, a full file system); remove it when it is not needed",
        )
    if not aside:
        yield ok("set aside", "none")


def results(directory: DataDirectory) -> Iterator[Finding]:
    """Whether the results can be read, and are those of what is published."""
    try:
        manifest = Manifest.parse(directory.manifest.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ManifestError):
        manifest = Manifest("", 0, ())
    if not directory.results.exists():
        if manifest.published_through:
            yield warning("results", "none are computed yet", "run `toolgauge refresh`")
        else:
            yield ok("results", "nothing to compute yet")
        return
    found = results_format(directory)
    if found is not None and found > RESULT_FORMAT:
        yield problem(
            "results",
            f"{directory.results} has format {found}, this version knows formats up to {RESULT_FORMAT}",
            "install the version that wrote it, or remove the file and run `toolgauge rebuild`",
        )
        return
    state = read_results_state(directory)
    if state is None:
        yield problem(
            "results",
            f"{directory.results} cannot be read, or is of another version",
            "run `toolgauge rebuild`",
        )
        return
    store, through = state
    if store != manifest.store or through > manifest.published_through:
        yield warning(
            "results", "they are of other events than the published ones", "run `toolgauge refresh`"
        )
    elif through < manifest.published_through:
        behind = manifest.published_through - through
        yield warning(
            "results",
            f"{behind} commits behind the published events",
            "wait a few seconds if the service is running, or run `toolgauge refresh`",
        )
    elif lost := read_lost_segments(directory):
        yield warning(
            "results",
            f"incomplete: computed without {len(lost)} segments that could not be read",
            "start the service, or restart it: it writes them again from its store",
        )
    else:
        yield ok("results", f"computed through commit {through}, as published")


def clocks(directory: DataDirectory) -> Iterator[Finding]:
    """The newest event against this machine's clock."""
    query = "SELECT max(time), max(received_at), count(*) FROM tool_calls"
    try:
        with Reader(directory) as reader:
            newest, received, count = reader.query(query).to_pydict().values()
    except SqlError as error:
        yield problem("events", str(error).splitlines()[0], "see the checks above")
        return
    if count[0] == 0:
        yield ok("events", "none yet")
        return
    now = datetime.now(UTC)
    yield ok("events", f"the newest tool call is of {_written(newest[0])}, {count[0]} in all")
    if received[0] > now + _CLOCK_TOLERANCE:
        yield problem(
            "clock",
            f"events arrived at {_written(received[0])}, which is still to come",
            "this machine's clock was turned back: set it, and let it be kept by NTP",
        )
    elif newest[0] > now + _CLOCK_TOLERANCE:
        yield problem(
            "clock",
            f"an event is of {_written(newest[0])}, which is still to come",
            "set the clock of the machine that the agent runs on, or this one's",
        )
    else:
        yield ok("clock", f"{_written(now)}, later than all events")


def _unlisted(directory: DataDirectory) -> tuple[list[Path], list[Path]]:
    """Segments whose rows a listed one holds, and other files that nothing reads."""
    try:
        manifest = Manifest.parse(directory.manifest.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ManifestError):
        # Without it, nothing can be said to be unlisted.
        return [], []
    listed = {directory.events / segment.path for segment in manifest.segments}
    found = [path for path in directory.events.rglob("*.parquet") if path not in listed]
    temporary = [*directory.events.rglob("*.tmp"), *directory.results_folder.glob("*.draft")]
    merged = [path for path in found if _is_held(path.relative_to(directory.events), manifest)]
    return merged, sorted({*found, *temporary} - {*merged})


def _is_held(path: Path, manifest: Manifest) -> bool:
    """Whether a listed segment has all commits of the segment at `path`, of its dataset and day."""
    first, _, last = path.stem.partition("-")
    if not (first.isdigit() and last.isdigit()):
        return False
    return any(
        Path(segment.path).parent == path.parent
        and segment.first_commit <= int(first)
        and int(last) <= segment.last_commit
        for segment in manifest.segments
    )


def _written(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
