"""What can become of a query. Each error carries its facts and makes its sentence from them.

The sentence says what to do. No sentence of ours quotes telemetry. The engine's own words, in
`QueryFailed`, may quote values that the query touched: they are for whoever asked, not for a log.
"""

from __future__ import annotations

from pathlib import Path


class SqlError(Exception):
    """A query was not answered."""


class QueryRefused(SqlError):
    """The query asks for more than reading the tables.

    Attributes:
        why: what it asks for.
    """

    def __init__(self, why: str) -> None:
        super().__init__(f"refused: {why}")
        self.why = why


class QueryTimedOut(SqlError):
    """The query took longer than it may.

    Attributes:
        limit_seconds: how long that is.
    """

    def __init__(self, limit_seconds: float) -> None:
        super().__init__(
            f"the query took longer than {limit_seconds:g} s and was stopped; ask for fewer days, "
            "or raise query_timeout_seconds"
        )
        self.limit_seconds = limit_seconds


class TooManyRows(SqlError):
    """The answer has more rows than it may.

    Attributes:
        limit: how many that are.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the answer has more than {limit} rows; aggregate, add a LIMIT, or raise query_max_rows"
        )
        self.limit = limit


class TooManyBytes(SqlError):
    """The answer takes more memory than it may.

    Attributes:
        limit: in bytes.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the answer is larger than {limit} bytes; select fewer columns or rows, "
            "or raise query_memory_bytes"
        )
        self.limit = limit


class QueryFailed(SqlError):
    """The engine could not answer.

    Attributes:
        reason: its own words.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DataUnavailable(SqlError):
    """The query is good, but what it reads is not there or not whole."""


class PublishedUnreadable(DataUnavailable):
    """The manifest of the published events is damaged, or of another version.

    Attributes:
        path: the manifest.
        reason: what is wrong with it.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read: {reason}; start the service, which publishes the events again, "
            "or use the version of toolgauge that wrote it"
        )
        self.path = path
        self.reason = reason


class SegmentsMissing(DataUnavailable):
    """The manifest lists segments that are not on the disk.

    Attributes:
        paths: which.
    """

    def __init__(self, paths: list[Path]) -> None:
        super().__init__(
            f"{len(paths)} of the published segments are missing, the first is {paths[0]}; "
            "start the service, which publishes them again"
        )
        self.paths = paths


class SegmentsDamaged(DataUnavailable):
    """Segments are not what was written.

    Attributes:
        paths: which.
        reason: what the engine said.
    """

    def __init__(self, paths: list[Path], reason: str) -> None:
        super().__init__(
            f"{', '.join(map(str, paths))} cannot be read: {reason}; start the service, or restart it: "
            "it sets the segment aside and writes it again from its store"
        )
        self.paths = paths
        self.reason = reason


class EventsBusy(DataUnavailable):
    """Segments were replaced again and again while the query read them.

    Attributes:
        attempts: how often it was tried.
    """

    def __init__(self, attempts: int) -> None:
        super().__init__(f"segments were merged while the query read them, {attempts} times; ask again")
        self.attempts = attempts


class ResultsUnavailable(DataUnavailable):
    """The results are there but cannot be read.

    Attributes:
        path: the results database.
        reason: what is wrong with it.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot be read: {reason}; run `toolgauge rebuild`")
        self.path = path
        self.reason = reason


class NewerResults(DataUnavailable):
    """The results were written by a newer version.

    Attributes:
        path: the results database.
        found: its format.
        known: the newest format that this version knows.
    """

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            f"{path} has format {found}, this version knows formats up to {known}; use the toolgauge that "
            "wrote it, or remove the file and run `toolgauge rebuild`"
        )
        self.path = path
        self.found = found
        self.known = known
