"""File of an SQLite stream: its tables, how it is opened, and transactions in it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zerofleet.contracts.plain_files import open_plain
from zerofleet.errors import RunDirectoryError
from zerofleet.storage.streams import columns

__all__ = ["SCHEMA", "SCHEMA_VERSION", "Transaction", "open_file"]

SCHEMA_VERSION = 1
BUSY_TIMEOUT_S = 10.0
"""Maximum wait of a statement for other processes' transactions, which take milliseconds."""
LOCKED_PAUSE_S = 0.005

SCHEMA = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    stream TEXT NOT NULL,
    uid TEXT NOT NULL,
    payload BLOB NOT NULL,
    published_at_s REAL NOT NULL,
    consumer TEXT,           -- NULL until delivered
    handle TEXT,             -- which process of that consumer
    delivered_at_s REAL,
    deliveries INTEGER NOT NULL DEFAULT 0,
    traceparent TEXT NOT NULL DEFAULT ''
);
CREATE INDEX new_entries ON entries (stream, id) WHERE consumer IS NULL;
CREATE INDEX pending_entries ON entries (stream, id) WHERE consumer IS NOT NULL;
CREATE TABLE dead_letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    stream TEXT NOT NULL,
    uid TEXT NOT NULL,
    payload BLOB NOT NULL,
    reason TEXT NOT NULL,
    deliveries INTEGER NOT NULL,
    size_bytes INTEGER  -- of the whole game, of which payload is the beginning (NULL when it is all of it)
);
CREATE INDEX dead_by_stream ON dead_letters (stream, id);
"""
# Entries of a stream by number: a publisher that counted them would read every waiting game while it holds the write lock.
# As triggers they also count what an older program publishes or deletes.
LENGTHS = (
    "CREATE TABLE lengths (stream TEXT PRIMARY KEY, entries INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO lengths SELECT stream, count(*) FROM entries GROUP BY stream",
    """
    CREATE TRIGGER count_new AFTER INSERT ON entries BEGIN
        INSERT INTO lengths VALUES (NEW.stream, 1) ON CONFLICT (stream) DO UPDATE SET entries = entries + 1;
    END
    """,
    """
    CREATE TRIGGER count_gone AFTER DELETE ON entries BEGIN
        UPDATE lengths SET entries = entries - 1 WHERE stream = OLD.stream;
    END
    """,
)
# Columns that older files lack. Adding one needs no new version: older programs name the columns they use.
ADDED_COLUMNS = (
    ("entries", "traceparent", "ALTER TABLE entries ADD COLUMN traceparent TEXT NOT NULL DEFAULT ''"),
    ("dead_letters", "size_bytes", "ALTER TABLE dead_letters ADD COLUMN size_bytes INTEGER"),
)


class Transaction:
    """Several statements as one atomic transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._database.execute("COMMIT")
        elif self._database.in_transaction:  # a full disk ends the transaction by itself
            self._database.execute("ROLLBACK")


def open_file(path: Path) -> sqlite3.Connection:
    """Open a stream, creating a missing file. Raises `RunDirectoryError` for one of another kind or version."""
    with _creation(path):
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        connection.text_factory = columns.text
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def _creation(path: Path) -> Iterator[None]:
    """Exclude other processes while a missing file is created; remove what a deleted one has left beside it.

    A process with the deleted file open shares `-shm` by its name: a new file must begin with a new one.
    """
    if path.exists() or not path.parent.is_dir():
        yield
        return
    lock = open_plain(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        yield
    finally:
        os.close(lock)


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Switch the file to write-ahead logging. During a concurrent switch SQLite fails at once, despite its timeout."""
    deadline_s = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline_s:
                raise
            time.sleep(LOCKED_PAUSE_S)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in a new file; reject a file that is not a stream or of another version."""
    _log_ahead(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    with Transaction(connection):  # two processes may open a new file at once
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == SCHEMA_VERSION:
            for table, column, statement in ADDED_COLUMNS:
                if column not in {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}:
                    connection.execute(statement)
            _count_entries(connection)
            return
        if version != 0 or connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
            raise RunDirectoryError(
                f"{path} is of version {version} or is not a game stream; this program reads {SCHEMA_VERSION}"
            )
        for statement in SCHEMA.split(";"):
            connection.execute(statement)
        _count_entries(connection)
        # Ids of a file that was deleted are not given again: a late acknowledgement must not remove another game.
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('entries', ?)", (time.time_ns() // 1000,))
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _count_entries(connection: sqlite3.Connection) -> None:
    """Begin to count the entries of each stream, in a new file or in one of a release that did not."""
    if not connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'lengths'").fetchone()[0]:
        for statement in LENGTHS:
            connection.execute(statement)
