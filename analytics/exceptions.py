"""What can go wrong in a job. Each error carries its facts; the sentence is made from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path


class AnalyticsError(Exception):
    """A job could not be done; what was published and the results before it are as they were."""


class ManifestUnreadableError(AnalyticsError):
    """The manifest of the published events is damaged, or of another version."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read: {reason}. If it was written by a newer toolgauge, use that one; "
            "if it is damaged, restore it from a backup"
        )
        self.path = path
        self.reason = reason


class NewerManifestFoundError(ManifestUnreadableError):
    """The manifest was written by a newer version."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        AnalyticsError.__init__(
            self,
            f"{path} has format {found}, this version knows formats up to {known}; use the toolgauge that "
            "wrote it",
        )
        self.path = path
        self.reason = f"format {found}"


class SegmentsMissingError(AnalyticsError):
    """The manifest lists segments that are not on the disk."""

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(
            f"{len(paths)} of the published segments are missing, the first is {paths[0]}. "
            "Start the service, or restart it: it writes them again from its store"
        )
        self.paths = tuple(paths)


class SegmentUnreadableError(AnalyticsError):
    """A segment is there but is not what was written.

    Attributes:
        folder: the folder of the events.
        paths: the segments whose bytes are not those that were written.
    """

    def __init__(self, folder: Path, paths: Sequence[Path], reason: str) -> None:
        which = ", ".join(map(str, paths)) or f"a published segment under {folder}"
        super().__init__(
            f"{which} cannot be read: {reason}. Start the service, or restart it: it sets the segment aside "
            "and writes it again from its store"
        )
        self.folder = folder
        self.paths = tuple(paths)
        self.reason = reason


class EventsBusyError(AnalyticsError):
    """Segments were replaced again and again while a job read them."""

    def __init__(self, folder: Path, attempts: int) -> None:
        super().__init__(
            f"the segments under {folder} were merged while they were read, {attempts} times in a row. "
            "Try again"
        )
        self.folder = folder
        self.attempts = attempts


class NewerResultsError(AnalyticsError):
    """The results were written by a newer version."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            f"{path} has format {found}, this version knows formats up to {known}; use the toolgauge that "
            "wrote it, or remove the file and run `toolgauge rebuild`"
        )
        self.path = path
        self.found = found
        self.known = known


class ExportInTheWayError(AnalyticsError):
    """Something lies where an export should go."""

    def __init__(self, path: Path, reason: str, *, can_be_replaced: bool) -> None:
        advice = "give --overwrite to replace it" if can_be_replaced else "name another folder"
        super().__init__(f"{path} is in the way: {reason}; {advice}")
        self.path = path
        self.reason = reason


class ExportFailedError(AnalyticsError):
    """An export could not be written; nothing is left of it."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot be written: {reason}. Check the space and the permissions there")
        self.path = path
        self.reason = reason


class ResultsNotWrittenError(AnalyticsError):
    """The new results could not be written; the old ones are still in place."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} cannot be written: {reason}. Check the space and the permissions of {path.parent}"
        )
        self.path = path
        self.reason = reason


class NoResultsError(AnalyticsError):
    """There are no results yet."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"there are no results at {path} yet; `toolgauge refresh` computes them")
        self.path = path


class ResultsNotReadError(AnalyticsError):
    """The results are there and cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot be read: {reason}; `toolgauge rebuild` computes the results again")
        self.path = path
        self.reason = reason


class DayNotClosedError(AnalyticsError):
    """A report was asked for of a day that has not closed.

    Attributes:
        closes: when it does.
        as_of: until when the events tell anything.
    """

    def __init__(self, day: date, closes: datetime, as_of: datetime) -> None:
        super().__init__(
            f"{day} closes at {closes:%Y-%m-%dT%H:%M:%SZ}, and the events reach to "
            f"{as_of:%Y-%m-%dT%H:%M:%SZ}; there is no report of a day that has not closed"
        )
        self.day = day
        self.closes = closes
        self.as_of = as_of


class ReportNotWrittenError(AnalyticsError):
    """A report cannot be written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the report cannot be written to {path}: {reason}")
        self.path = path
        self.reason = reason
