"""A DuckDB file as an event store: how it is opened, what tables it has, and what its errors mean."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import duckdb

from ingest.exceptions import DamagedStore, DataDirectoryUnusable, NewerStore
from ingest.keep.migrations import prepare_store

# An older format than DuckDB's newest, so that the file can be opened by the previous release too.
_STORAGE_VERSION = "v1.5.0"
# A larger log means fewer checkpoints under load, and a longer replay after a kill: 64 MiB takes about 1 s.
_CHECKPOINT_BYTES = "64MiB"
_MEMORY_LIMIT = "160MiB"

# DuckDB's errors carry no number, only the system's words. These say that the file is not to blame.
_NUMBERS_OF_THE_SYSTEM = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EISDIR,
)
_TROUBLE_OF_THE_SYSTEM = (*map(os.strerror, _NUMBERS_OF_THE_SYSTEM), "lock on file", "ut of memory")
# And these, that it is.
_TROUBLE_OF_THE_FILE = (
    "Corrupt",
    "checksum",
    "Could not read enough bytes",
    "Could not read from file",
    "Failure while replaying WAL",
    os.strerror(errno.EIO),
)


def open_database(path: Path) -> duckdb.DuckDBPyConnection:
    """Open the file, or make it, with all tables of this version; the catalog is named `store`.

    Raises:
        NewerStore: a newer version wrote it.
        DamagedStore: the file or its log is damaged.
        DataDirectoryUnusable: it may be fine, but the system does not let us at it.
    """
    connection = connect()
    try:
        # What does not fit into memory; else it would lie wherever the service was started.
        connection.execute(f"SET GLOBAL temp_directory = {text(str(path.with_name('spill.tmp')))}")
        connection.execute(f"ATTACH {text(str(path))} AS store (STORAGE_VERSION '{_STORAGE_VERSION}')")
        connection.execute("USE store")
        prepare_store(connection, path)
    except duckdb.Error as error:
        connection.close()
        if tells_of_the_system(error):
            raise DataDirectoryUnusable(path, first_line(error)) from error
        raise DamagedStore(path, first_line(error)) from error
    except NewerStore:
        connection.close()
        raise
    return connection


def connect() -> duckdb.DuckDBPyConnection:
    """An engine without any file, with the settings of the store."""
    connection = duckdb.connect(
        ":memory:",
        config={"autoinstall_known_extensions": False, "autoload_known_extensions": False},
    )
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute(f"SET GLOBAL memory_limit = '{_MEMORY_LIMIT}'")
    connection.execute(f"SET GLOBAL checkpoint_threshold = '{_CHECKPOINT_BYTES}'")
    return connection


def tells_of_the_system(error: duckdb.Error) -> bool:
    """Whether an error is the system's (space, permission, memory), so that the file may be fine."""
    return any(words in str(error) for words in _TROUBLE_OF_THE_SYSTEM)


def tells_of_damage(error: duckdb.Error) -> bool:
    """Whether an error of a statement says that the file is not what was written."""
    found = any(words in str(error) for words in _TROUBLE_OF_THE_FILE)
    return found and not tells_of_the_system(error)


def first_line(error: duckdb.Error) -> str:
    """What an error says, without the statement that it may quote behind."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def text(value: str) -> str:
    """A text literal of SQL."""
    return "'" + value.replace("'", "''") + "'"
