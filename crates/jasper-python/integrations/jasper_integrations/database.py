"""Texts and metadata in SQLite, which are read while they change."""

import json
import os
import pathlib
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from jasper_integrations.attributes import Columns
from jasper_integrations.filters import Condition, field_rows

# LlamaIndex's copy of a node, with all its metadata: nobody filters by it, and it is longer than the rest.
UNFILTERED = {"_node_content"}

# Entries whose attributes are read at a time.
PART = 10_000

SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    document TEXT,
    text TEXT NOT NULL,
    metadata TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS entries_document ON entries (document);
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT);
INSERT OR IGNORE INTO settings VALUES ('changes', '0');
-- The metadata again, for filters: a row per value, or per element of a list.
CREATE TABLE IF NOT EXISTS fields (
    field TEXT NOT NULL,
    value NOT NULL,
    key INTEGER NOT NULL,
    listed INTEGER NOT NULL,
    PRIMARY KEY (field, value, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS fields_key ON fields (key);
CREATE TRIGGER IF NOT EXISTS entries_deleted AFTER DELETE ON entries BEGIN
    DELETE FROM fields WHERE key = old.key;
END;
"""


class Entry(NamedTuple):
    """A text with its metadata. `document` is the id of what the text is a part of."""

    id: str
    text: str
    metadata: dict[str, Any]
    document: str | None = None


class Snapshot(NamedTuple):
    """A read transaction, and the number of changes that were made before it."""

    db: sqlite3.Connection
    changes: int

    def entries(self, where: Condition) -> Iterator[tuple[int, Entry]]:
        """Keys and entries, in the order in which the entries were put."""
        sql = f"SELECT key, id, text, metadata, document FROM entries WHERE {where.sql} ORDER BY key"
        for key, id, text, metadata, document in self.db.execute(sql, where.arguments):
            yield key, Entry(id, text, json.loads(metadata), document)

    def columns(self) -> Iterator[tuple[list[int], Columns]]:
        """Keys and the columns of their attributes, for an index that has none: a part of the entries at a time."""
        columns: set[str] = set()
        rows = self.db.execute("SELECT key, metadata, document FROM entries ORDER BY key")
        while part := rows.fetchmany(PART):
            found = Columns(len(part), columns)
            for row, (_, metadata, document) in enumerate(part):
                found.add(row, filtered(metadata), document)
            columns |= found.columns.keys()
            yield [key for key, _, _ in part], found

    def keys(self, where: Condition) -> list[int]:
        # One row of JSON takes half the time of a row per key.
        sql = f"SELECT json_group_array(key) FROM entries WHERE {where.sql}"
        keys: list[int] = json.loads(self.db.execute(sql, where.arguments).fetchone()[0])
        return keys


class Database:
    """Entries in a temporary file, which is deleted with this object.

    Snapshots are taken from any thread and wait for nothing. Changes are made by one thread at a time.

    saved
        A file of `save`, whose entries are copied. One that was saved without the table `fields` gets it.
    """

    def __init__(self, saved: pathlib.Path | None = None) -> None:
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="jasper-")) / "entries.sqlite"
        self._idle: list[sqlite3.Connection] = []
        self._snapshots: set[threading.Event] = set()
        weakref.finalize(self, discard, self.path, self._idle, os.getpid())
        if saved is not None:
            shutil.copyfile(saved, self.path)
        self.writer = connect(self.path)
        self.writer.execute("PRAGMA journal_mode = WAL")
        has_fields = self.writer.execute("SELECT 1 FROM sqlite_master WHERE name = 'fields'").fetchone()
        self.writer.executescript(SCHEMA)
        if not has_fields:
            with self.writer as db:
                for key, metadata in db.execute("SELECT key, metadata FROM entries"):
                    insert_fields(db, key, filtered(metadata))

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The entries as they are now, whatever changes meanwhile."""
        try:
            db = self._idle.pop()
        except IndexError:
            db = connect(self.path)
        ended = threading.Event()
        # Before the transaction begins: a change that it does not see must find it.
        self._snapshots.add(ended)
        try:
            db.execute("BEGIN")
            (changes,) = db.execute("SELECT value FROM settings WHERE name = 'changes'").fetchone()
            yield Snapshot(db, int(changes))
        finally:
            db.rollback()
            self._idle.append(db)
            self._snapshots.discard(ended)
            ended.set()

    def wait_for_snapshots(self) -> None:
        """Returns when all snapshots that were taken before this call have ended."""
        for ended in list(self._snapshots):
            ended.wait()

    @contextmanager
    def change(self) -> Iterator["Change"]:
        """A transaction, which is undone if an exception leaves it."""
        with self.writer as db:
            db.execute("UPDATE settings SET value = value + 1 WHERE name = 'changes'")
            yield Change(db)

    def settings(self) -> dict[str, Any]:
        return {name: json.loads(value) for name, value in self.writer.execute("SELECT name, value FROM settings")}

    def save(self, path: pathlib.Path, settings: dict[str, Any]) -> None:
        """Writes a copy with these settings to a file, which must not exist."""
        with self.writer as db:
            rows = [(name, json.dumps(value)) for name, value in settings.items()]
            db.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", rows)
        with closing(sqlite3.connect(path)) as copy:
            self.writer.backup(copy)
            # One file, which can be read from a folder that cannot be written.
            copy.execute("PRAGMA journal_mode = DELETE")


class Change(NamedTuple):
    """A transaction that changes entries."""

    db: sqlite3.Connection

    def insert(self, entries: Iterable[Entry], columns: Columns) -> list[int]:
        """Writes entries whose ids are new, and returns their keys, which were never used before. Adds their attributes to
        the columns."""
        return [self._insert(row, entry, columns) for row, entry in enumerate(entries)]

    def delete(self, where: Condition) -> list[int]:
        """Deletes entries, and returns their keys."""
        sql = f"DELETE FROM entries WHERE {where.sql} RETURNING key"
        return [key for (key,) in self.db.execute(sql, where.arguments)]

    def _insert(self, row: int, entry: Entry, columns: Columns) -> int:
        metadata = json.dumps(entry.metadata)
        sql = "INSERT INTO entries (id, text, metadata, document) VALUES (?, ?, ?, ?)"
        key = self.db.execute(sql, (entry.id, entry.text, metadata, entry.document)).lastrowid
        assert key is not None
        found = filtered(metadata)
        insert_fields(self.db, key, found)
        columns.add(row, found, entry.document)
        return key


def insert_fields(db: sqlite3.Connection, key: int, metadata: dict[str, Any]) -> None:
    """Writes what filters read of an entry's metadata. NULL and equal elements are left out."""
    rows = [(field, value, key, listed) for field, value, listed in field_rows(metadata)]
    db.executemany("INSERT OR IGNORE INTO fields VALUES (?, ?, ?, ?)", rows)


def filtered(metadata: str) -> dict[str, Any]:
    """What filters read of the JSON of metadata."""
    return {field: value for field, value in json.loads(metadata).items() if field not in UNFILTERED}


def connect(path: pathlib.Path) -> sqlite3.Connection:
    """A connection, which one thread at a time uses. Its file need not outlive a crash."""
    db = sqlite3.connect(path, check_same_thread=False)
    db.execute("PRAGMA synchronous = OFF")
    db.create_function("casefold", 1, lambda value: str(value).casefold(), deterministic=True)
    return db


def discard(path: pathlib.Path, idle: list[sqlite3.Connection], process: int) -> None:
    """Deletes a temporary file, unless this process is a fork of the one that made it."""
    if os.getpid() == process:
        for db in idle:
            db.close()
        shutil.rmtree(path.parent, ignore_errors=True)
