"""Reading what was answered: what a producer was told is kept is in what a command shows.

Events become readable in two steps, which are waited for or done here: the running service publishes
what it has committed, and the results are computed from what is published. What cannot be had is said
on standard error, and the command goes on with what there is.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sli.data_directory import DataDirectory
from sli.manifest import Manifest, ManifestError
from sli.rollout.act import FIRST_HASH
from sli.schemas import RESULT_FORMAT
from toolgauge.exceptions import NoDataDirectory
from toolgauge.rollout.record import acts_for_results

PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.05
_ANSWER_SECONDS = 3.0

# The names under which addresses are written down; beside them stand facts about the service.
LISTENERS = ("grpc", "http", "sql", "web")

Note = Callable[[str], None]
"""Says something to whoever runs the command."""


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock at `path`; looking does not make the file."""
    try:
        with path.open("rb") as file:
            # Shared, so that two that look do not see each other.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def read_endpoints(directory: DataDirectory) -> dict[str, str]:
    """The addresses that the running service has written down, by name; empty where there are none."""
    return {name: at for name, at in _read_endpoints(directory).items() if name in LISTENERS}


def read_certificate(directory: DataDirectory) -> Path | None:
    """The certificate with which the running service speaks TLS; None where it does not."""
    written = _read_endpoints(directory).get("tls_certificate")
    return Path(written) if written else None


def _read_endpoints(directory: DataDirectory) -> dict[str, str]:
    try:
        tree = json.loads(directory.endpoints.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(tree, dict):
        return {}
    return {name: text for name, text in tree.items() if isinstance(text, str)}


def get_readiness(address: str, certificate: Path | None = None) -> dict[str, Any]:
    """What the service at `address` answers to GET /readyz.

    Args:
        certificate: with which it speaks TLS; None: it does not.

    Raises:
        OSError: it does not answer, or not with JSON, or has another certificate.
    """
    connection = http.client.HTTPConnection(address, timeout=_ANSWER_SECONDS)
    if certificate is not None:
        from ingest.bring.own_certificate import own_certificate

        connection = http.client.HTTPSConnection(
            address, timeout=_ANSWER_SECONDS, context=own_certificate(certificate)
        )
    try:
        connection.request("GET", "/readyz")
        tree = json.loads(connection.getresponse().read(1024 * 1024))
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(f"no readiness in its answer ({type(error).__name__})") from error
    finally:
        connection.close()
    if not isinstance(tree, dict):
        raise OSError("no readiness in its answer")
    return tree


def wait_until_published(
    directory: DataDirectory, note: Note, patience_seconds: float = PATIENCE_SECONDS
) -> None:
    """Wait until the running service has published what it had committed when this began.

    Returns at once where no service runs. Where it cannot be asked, or takes too long, says so.
    """
    _publish_what_is_left(directory, note)
    if not is_locked(directory.ingest_lock):
        return
    address = read_endpoints(directory).get("http")
    if address is None:
        note("another process is writing and cannot be asked; what it has not published yet is not shown")
        return
    try:
        committed = int(get_readiness(address, read_certificate(directory))["committed"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        note(f"the service at {address} cannot be asked ({error}); its newest events may not be shown")
        return
    deadline = time.monotonic() + patience_seconds
    while (published := _published(directory)) is not None and published[1] < committed:
        if time.monotonic() > deadline:
            note(f"commits {published[1] + 1} to {committed} are not published yet and not shown")
            return
        time.sleep(_POLL_SECONDS)


def bring_up_to_date(
    directory: DataDirectory, note: Note, rollout_after: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Wait for the service, and compute the results if they are behind.

    Raises:
        NoDataDirectory: there is nothing at all.
        AnalyticsError: the results cannot be computed, for another reason than where they are kept.
    """
    require(directory)
    wait_until_published(directory, note)
    if not results_behind(directory):
        return
    from analytics.exceptions import ResultsNotWrittenError
    from analytics.refresh import refresh

    try:
        outcome = refresh(directory, acts=acts_for_results(directory, note), rollout_after=rollout_after)
    except ResultsNotWrittenError as error:
        # Whoever may only read, reads what the service has computed.
        note(f"the results are those of the last refresh: {error}")
        return
    if outcome.set_aside is not None:
        note(f"the results were damaged; they are kept as {outcome.set_aside} and were computed again")
    note_lost(directory, note)


def note_lost(directory: DataDirectory, note: Note) -> None:
    """Say which published segments the results are without, if there are any."""
    lost = read_lost_segments(directory)
    if lost:
        first = directory.events / lost[0]
        which = f"{first}" if len(lost) == 1 else f"{len(lost)} segments, the first is {first}"
        note(
            f"the results are incomplete: published events cannot be read ({which}). Start the service, or "
            "restart it: it writes them again from its store"
        )


def _publish_what_is_left(directory: DataDirectory, note: Note) -> None:
    """Publish what a service that was killed had committed; without a store's log there is nothing of it."""
    if is_locked(directory.ingest_lock) or not directory.store_log.exists():
        return
    from ingest.exceptions import CannotStart
    from ingest.keep.recovery import publish_what_is_left

    try:
        publish_what_is_left(directory)
    except CannotStart as error:
        # Whoever may only read, reads what is published.
        note(f"what a service left unpublished is not shown: {error}")


def require(directory: DataDirectory) -> None:
    """See that there is a data directory.

    Raises:
        NoDataDirectory: there is none.
    """
    if not directory.root.is_dir():
        raise NoDataDirectory(directory.root)


def results_behind(directory: DataDirectory) -> bool:
    """Whether the results are not those of exactly what is published now, or lack what could not be read."""
    published = _published(directory)
    if published is None or published == ("", 0):
        return published is None
    if read_results_state(directory) != published or bool(read_lost_segments(directory)):
        return True
    return _acts_behind(directory)


def _acts_behind(directory: DataDirectory) -> bool:
    """Whether acts were recorded that the results do not know of; a damaged record adds nothing to them."""
    acts = acts_for_results(directory, lambda _: None)
    known = _ask_results(directory, "SELECT acts FROM results.results_info")
    return acts is not None and known != [(acts[-1].hash if acts else FIRST_HASH,)]


def read_results_state(directory: DataDirectory) -> tuple[str, int] | None:
    """Of which store, and through which commit, the results are; None if they cannot tell."""
    rows = _ask_results(directory, "SELECT format, store, computed_through FROM results.results_info")
    if len(rows) != 1 or rows[0][0] != RESULT_FORMAT:
        return None
    return str(rows[0][1]), int(rows[0][2])


def read_lost_segments(directory: DataDirectory) -> list[str]:
    """The paths of the published segments that the results were computed without."""
    return [
        path for (path,) in _ask_results(directory, "SELECT path FROM results.lost_segments ORDER BY ALL")
    ]


def _ask_results(directory: DataDirectory, query: str) -> list[Any]:
    """The rows of a query; none where there are no results, or they cannot be read."""
    if not directory.results.exists():
        return []
    import duckdb

    path = str(directory.results).replace("'", "''")
    with duckdb.connect(
        config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    ) as connection:
        try:
            connection.execute(f"ATTACH '{path}' AS results (READ_ONLY)")
            return connection.execute(query).fetchall()
        except duckdb.Error:
            return []


def _published(directory: DataDirectory) -> tuple[str, int] | None:
    """The store and the last published commit; None if the manifest is damaged, as its readers will say."""
    try:
        manifest = Manifest.parse(directory.manifest.read_text("utf-8"))
    except FileNotFoundError:
        return "", 0
    except (OSError, UnicodeDecodeError, ManifestError):
        return None
    return manifest.store, manifest.published_through
