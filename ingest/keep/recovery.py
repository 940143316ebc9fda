"""What a service that was killed had committed and not yet published."""

from __future__ import annotations

from ingest.exceptions import DataDirectoryInUse
from ingest.keep.lock import IngestLock
from ingest.keep.publisher import Publisher
from ingest.keep.store import Store
from sli.data_directory import DataDirectory


def publish_what_is_left(directory: DataDirectory) -> int:
    """Publish what is committed and not published, if no service does.

    A service that ends in order leaves nothing behind, and its store without a log; so without a log
    there is nothing to do, and the store is not even opened.

    Returns:
        The number of rows that were published.

    Raises:
        CannotStart: the store cannot be opened.
    """
    if not directory.store_log.exists():
        return 0
    try:
        lock = IngestLock(directory, patience_seconds=0)
    except DataDirectoryInUse:
        # A service has just started: it publishes by itself.
        return 0
    with lock:
        store = Store(directory.store)
        try:
            return Publisher(store, directory).publish()
        finally:
            store.close()
