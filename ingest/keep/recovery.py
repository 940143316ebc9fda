"""Opening a data directory's store whatever became of it, and what a killed service had not published."""

from __future__ import annotations

import shutil
from pathlib import Path

import structlog

from ingest.exceptions import DataDirectoryInUse, DataDirectoryUnusable
from ingest.keep.files import make_folder, set_aside, sync
from ingest.keep.journal import Journal
from ingest.keep.lock import IngestLock
from ingest.keep.publisher import Publisher
from ingest.keep.rebuilding import Rebuilding
from ingest.keep.store import Store
from sli.data_directory import DataDirectory


def open_store(directory: DataDirectory) -> Store:
    """Open the store with its journal; damage is set aside, and what it held is put in again.

    For whoever holds the lock of the directory.

    Raises:
        NewerStore: a newer version wrote it.
        DataDirectoryUnusable: something cannot be read or written.
    """
    rebuilding = Rebuilding(directory)
    try:
        make_folder(directory.root)
        if rebuilding.is_store_missing():
            rebuilding.rebuild("it is missing")
        before = _copy_log(directory)
        store = Store(directory.store, Journal(directory.journal), rebuilding)
        # A store that was just made must not lose its name in a power cut.
        sync(directory.root)
        if before is not None and store.log_was_short and before.exists():
            aside = set_aside(before)
            structlog.get_logger("ingest.store").warning(
                "store_log_ended_early", kept_as=str(aside), next="its rows were put in again"
            )
        elif before is not None:
            before.unlink(missing_ok=True)
    except OSError as error:
        raise DataDirectoryUnusable(directory.root, error.strerror or type(error).__name__) from error
    return store


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
        store = open_store(directory)
        try:
            return Publisher(store, directory).publish()
        finally:
            store.close()


def _copy_log(directory: DataDirectory) -> Path | None:
    """A copy of the log as it is found: of one that ends early, the engine drops the end without a word."""
    if not directory.store_log.exists() or not directory.store.exists():
        return None
    copy = directory.store_log.with_name(f"{directory.store_log.name}.found")
    shutil.copyfile(directory.store_log, copy)
    return copy
