"""Texts and metadata under ids, with vectors in an index: what the vector stores of all frameworks need."""

import json
import os
import pathlib
import sqlite3
import threading
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import jasper
import numpy as np
from numpy.typing import ArrayLike, NDArray

from jasper_integrations.filters import Condition, one_of

DOCUMENTS = "documents.sqlite"

# Deleted vectors stay in the graph until it is consolidated, which pays off when they are a tenth of it.
CONSOLIDATE = 0.1

SCHEMA = """
CREATE TABLE entries (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    document TEXT,
    text TEXT NOT NULL,
    metadata TEXT NOT NULL
);
CREATE INDEX entries_document ON entries (document);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT);
"""


class Entry(NamedTuple):
    """A text with its metadata. `document` is the id of what the text is a part of."""

    id: str
    text: str
    metadata: dict[str, Any]
    document: str | None = None


class Hit(NamedTuple):
    """An entry, the key of its vector, and the distance of the vector."""

    entry: Entry
    key: int
    distance: float


class Store:
    """Entries and their vectors. Calls come from any thread; a call that raises changes nothing.

    metric, device and options are those of `jasper.Index`. The dimension is that of the first vector.
    """

    def __init__(self, metric: str = "cosine", device: str = "cpu", **options: Any) -> None:
        self.metric, self.device, self.options = metric, device, options
        self.index: jasper.Index | None = None
        self._deleted = 0
        self._lock = threading.RLock()
        self._db = connect()
        self._db.executescript(SCHEMA)

    def __len__(self) -> int:
        return int(self._rows("SELECT count(*) FROM entries")[0][0])

    def put(self, entries: Sequence[Entry], vectors: ArrayLike) -> None:
        """Adds entries; one whose id exists is replaced. The last of equal ids counts."""
        if not entries:
            return
        rows = np.asarray(vectors, np.float32)
        if rows.ndim != 2 or len(rows) != len(entries):
            raise ValueError(f"{len(entries)} texts need as many vectors, and there are those of shape {rows.shape}")
        last = {entry.id: number for number, entry in enumerate(entries)}
        with self._lock:
            index = self.index if self.index is not None else self._new(rows.shape[1])
            with self._db:
                keys = [self._put(entries[number]) for number in last.values()]
                replaced = sum(key in index for key in keys)
                index.upsert(rows[list(last.values())], keys)
            self.index = index
            self._consolidate(replaced)

    def delete(self, where: Condition) -> int:
        """Deletes entries, and returns their number."""
        with self._lock:
            with self._db:
                sql = f"DELETE FROM entries WHERE {where.sql} RETURNING key"
                keys = [key for (key,) in self._db.execute(sql, where.arguments).fetchall()]
                if keys and self.index is not None:
                    self.index.delete(keys)
            self._consolidate(len(keys))
        return len(keys)

    def get(self, where: Condition) -> list[Entry]:
        """Entries in the order in which they were first put."""
        rows = self._rows(f"SELECT id, text, metadata, document FROM entries WHERE {where.sql} ORDER BY key", where)
        return [entry(row) for row in rows]

    def search(self, vector: ArrayLike, k: int, where: Condition | None = None, **options: Any) -> list[Hit]:
        """The k entries nearest to a vector among those of a condition, nearest first.

        options are those of `jasper.Index.search`.
        """
        with self._lock:
            if self.index is None or k < 1:
                return []
            passing = None
            if where is not None:
                passing = [key for (key,) in self._rows(f"SELECT key FROM entries WHERE {where.sql}", where)]
                if not passing:
                    return []
            found = self.index.search(np.asarray(vector, np.float32), k, filter=passing, **options)
            keys = [int(key) for key in found.keys if key >= 0]
            where = one_of("key", keys)
            sql = f"SELECT key, id, text, metadata, document FROM entries WHERE {where.sql}"
            entries = {key: entry(row) for key, *row in self._rows(sql, where)}
        return [Hit(entries[key], key, float(distance)) for key, distance in zip(keys, found.distances)]

    def vectors(self, keys: Sequence[int]) -> NDArray[Any]:
        """The vectors of hits, at unit length if the metric is "cosine"."""
        if self.index is None:
            raise KeyError(keys)
        return self.index.vectors(keys)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Saves entries and vectors into a folder.

        The database names the file of its index and is replaced last, in one step: whenever a save is interrupted, the
        folder has one that fits the other.
        """
        path = pathlib.Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        name = f"vectors-{uuid.uuid4().hex}.jasper"
        with self._lock:
            if self.index is not None:
                self.index.save(path / name)
            settings = {
                "index": name if self.index is not None else None,
                "metric": self.metric,
                "device": self.device,
                "options": self.options,
            }
            with self._db:
                rows = [(key, json.dumps(value)) for key, value in settings.items()]
                self._db.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", rows)
            new = path / f"{DOCUMENTS}.new"
            new.unlink(missing_ok=True)
            copy = connect(new)
            self._db.backup(copy)
            copy.close()
            os.replace(new, path / DOCUMENTS)
        for file in path.glob("vectors-*.jasper"):
            if file.name != name:
                file.unlink()

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Store":
        """Loads what was saved. Raises FileNotFoundError if nothing was."""
        path = pathlib.Path(folder)
        if not (path / DOCUMENTS).is_file():
            raise FileNotFoundError(f"{path} has no {DOCUMENTS}")
        file = connect(path / DOCUMENTS)
        settings = {name: json.loads(value) for name, value in file.execute("SELECT name, value FROM settings")}
        store = cls.__new__(cls)
        store.metric, store.device, store.options = settings["metric"], settings["device"], settings["options"]
        store._deleted, store._lock, store._db = 0, threading.RLock(), connect()
        file.backup(store._db)
        file.close()
        store.index = None
        if settings["index"] is not None:
            store.index = jasper.Index.open(path / settings["index"], device=store.device)
        return store

    def _new(self, dim: int) -> jasper.Index:
        return jasper.Index(dim, metric=self.metric, **self.options).to(self.device)

    def _put(self, entry: Entry) -> int:
        """Writes an entry, and returns its key. An entry that is replaced keeps its key."""
        sql = (
            "INSERT INTO entries (id, text, metadata, document) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
            "text = excluded.text, metadata = excluded.metadata, document = excluded.document RETURNING key"
        )
        row = (entry.id, entry.text, json.dumps(entry.metadata), entry.document)
        return int(self._db.execute(sql, row).fetchall()[0][0])

    def _rows(self, sql: str, where: Condition = Condition("")) -> list[Any]:
        with self._lock:
            return self._db.execute(sql, where.arguments).fetchall()

    def _consolidate(self, deleted: int) -> None:
        self._deleted += deleted
        if self.index is not None and self._deleted > CONSOLIDATE * max(len(self.index), 1):
            self.index.consolidate()
            self._deleted = 0


def connect(path: str | os.PathLike[str] = ":memory:") -> sqlite3.Connection:
    """A database. The lock of the store orders the threads that use it."""
    return sqlite3.connect(path, check_same_thread=False)


def entry(row: Sequence[Any]) -> Entry:
    """An entry from the columns id, text, metadata and document."""
    id, text, metadata, document = row
    return Entry(id, text, json.loads(metadata), document)


def with_ids(ids: Sequence[str]) -> Condition:
    """The condition that an entry has one of these ids."""
    return one_of("id", ids)
