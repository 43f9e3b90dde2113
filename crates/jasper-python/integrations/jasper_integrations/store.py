"""Entries under ids, with vectors in an index: what the vector stores of all frameworks need."""

import os
import pathlib
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import jasper
import numpy as np
from numpy.typing import ArrayLike, NDArray

from jasper_integrations.attributes import Columns, expression
from jasper_integrations.database import Database, Entry, Snapshot
from jasper_integrations.filters import ALL, Condition, one_of

Metric: TypeAlias = Literal["cosine", "l2", "ip"]

Where: TypeAlias = Condition | Callable[[Entry], bool]

DOCUMENTS = "documents.sqlite"

# Deleted vectors stay in the graph until it is consolidated, which pays off when they are a tenth of it.
CONSOLIDATE = 0.1

# Prepared filters that are kept while no entry changes. One takes at most 8 bytes per entry, and what the index adds.
CACHED_FILTERS = 16


class Hit(NamedTuple):
    """An entry, the distance of its vector, and the vector if it was asked for.

    The vector has unit length if the metric is "cosine".
    """

    entry: Entry
    distance: float
    vector: NDArray[Any] | None = None


class Store:
    """Entries and their vectors. Calls come from any thread; a call that raises leaves the entries as they were.

    A search sees the entries of one moment. The entry and the vector of a key never change: an entry that is replaced
    gets a new key. So a search takes a snapshot of the entries and ignores keys of the index that are not in it; those
    that are in it stay in the index, because a change deletes vectors only after the searches that still see their
    entries. Searches wait for nothing. Changes wait for one another and for these searches.

    Metadata are also attributes in the index, which evaluates the conditions of searches. SQLite evaluates those that are
    no test of attributes, and those of fields that have values without a column.

    metric, device and options are those of `jasper.Index`. The dimension is that of the first vector. database has the
    entries of a store that is loaded.
    """

    def __init__(
        self, metric: Metric = "cosine", device: str = "cpu", *, database: Database | None = None, **options: Any
    ) -> None:
        self.metric, self.device, self.options = metric, device, options
        self.index: jasper.Index | None = None
        self._database = database if database is not None else Database()
        self._lock = threading.RLock()
        self._filters: tuple[int, dict[Condition, jasper.Filter]] = (0, {})
        # The columns of the index, and expressions for them.
        self._expressions: tuple[frozenset[str], dict[Condition, jasper.Filter]] = (frozenset(), {})
        # Fields whose conditions the index does not evaluate.
        self._scanned: set[str] = set()
        # Keys without entries that are still in the index, and how many were deleted there since it was consolidated.
        self._removed: list[int] = []
        self._deleted = 0

    def __len__(self) -> int:
        with self._database.snapshot() as snapshot:
            return int(snapshot.db.execute("SELECT count(*) FROM entries").fetchone()[0])

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
            keys: list[int] = []
            attributes = Columns(len(last), self._expressions[0])
            try:
                with self._database.change() as change:
                    replaced = change.delete(with_ids(list(last)))
                    keys = change.insert((entries[number] for number in last.values()), attributes)
                    index.insert(rows[list(last.values())], keys, attributes=attributes.columns)
                    # Before searches see the entries.
                    self._has_attributes(index, attributes.skipped)
            except BaseException:
                # The transaction may have failed after the insertion.
                index.delete(keys, missing="ignore")
                if self.index is None:
                    self._expressions = frozenset(), {}
                raise
            self.index = index
            self._remove(replaced)

    def delete(self, where: Condition) -> int:
        """Deletes entries, and returns their number."""
        with self._lock:
            with self._database.change() as change:
                keys = change.delete(where)
            self._remove(keys)
        return len(keys)

    def get(self, where: Condition) -> list[Entry]:
        """Entries in the order in which they were last put."""
        with self._database.snapshot() as snapshot:
            return [entry for _, entry in snapshot.entries(where)]

    def search(
        self, vector: ArrayLike, k: int, where: Where | None = None, *, vectors: bool = False, **options: Any
    ) -> list[Hit]:
        """The k entries nearest to a vector among those of a condition, or those for which a function is true, nearest first.

        Hits have their vectors if vectors is true. options are those of `jasper.Index.search`.
        """
        query = np.asarray(vector, np.float32)
        with self._database.snapshot() as snapshot:
            index = self.index
            if index is None or k < 1:
                return []
            passing = None if where is None else self._expression(where) or self._filter(snapshot, where)
            found = index.search(query, k, filter=passing, **options)
            entries = dict(snapshot.entries(one_of("key", found.keys.tolist())))
            if len(entries) < np.count_nonzero(found.keys >= 0):
                # Entries that are not in the snapshot took places of others.
                found = index.search(query, k, filter=self._filter(snapshot, where or ALL), **options)
                entries = dict(snapshot.entries(one_of("key", found.keys.tolist())))
            keys = [int(key) for key in found.keys if key >= 0]
            rows = index.vectors(keys) if vectors and keys else [None] * len(keys)
        return [Hit(entries[key], float(distance), row) for key, distance, row in zip(keys, found.distances, rows)]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Saves entries and vectors into a folder.

        The database names the file of its index and is replaced last, in one step: whenever a save is interrupted, the
        folder has one that fits the other.
        """
        path = pathlib.Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        name = f"vectors-{uuid.uuid4().hex}.jasper"
        with self._lock:
            # Of a change that was interrupted.
            self._remove([])
            if self.index is not None:
                self.index.save(path / name)
            settings = {
                "index": name if self.index is not None else None,
                "metric": self.metric,
                "device": self.device,
                "options": self.options,
                "scanned": sorted(self._scanned),
            }
            new = path / f"{DOCUMENTS}.new"
            new.unlink(missing_ok=True)
            self._database.save(new, settings)
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
        database = Database(path / DOCUMENTS)
        settings = database.settings()
        store = cls(settings["metric"], settings["device"], database=database, **settings["options"])
        if settings["index"] is not None:
            store.index = jasper.Index.open(path / settings["index"], device=store.device)
            if "scanned" in settings:
                store._has_attributes(store.index, settings["scanned"])
            else:
                store._fill_attributes(store.index)
        return store

    def _new(self, dim: int) -> jasper.Index:
        return jasper.Index(dim, metric=self.metric, **self.options).to_device(self.device)

    def _has_attributes(self, index: jasper.Index, scanned: Iterable[str]) -> None:
        """Takes note of the columns of the index, and of fields that have values without one."""
        self._scanned.update(scanned)
        columns = frozenset(index.columns)
        if columns != self._expressions[0]:
            self._expressions = columns, {}

    def _fill_attributes(self, index: jasper.Index) -> None:
        """Sets the attributes of all entries, for a store that was saved without them."""
        skipped: set[str] = set()
        with self._database.snapshot() as snapshot:
            for keys, part in snapshot.columns():
                index.set_attributes(keys, part.columns)
                skipped |= part.skipped
        self._has_attributes(index, skipped)

    def _expression(self, where: Where) -> jasper.Filter | None:
        """A condition as an expression on attributes, if it can be one."""
        test = where.test if isinstance(where, Condition) else None
        if test is None or test.fields() & self._scanned:
            return None
        columns, known = self._expressions
        made = known.get(where)
        if made is None:
            try:
                made = jasper.Filter.where(expression(test, columns))
            except jasper.ParameterError:
                # Such as one that is nested deeper than the index takes.
                return None
            if len(known) >= CACHED_FILTERS:
                known.clear()
            known[where] = made
        return made

    def _filter(self, snapshot: Snapshot, where: Where) -> jasper.Filter:
        """The keys of a condition, which are selected once while nothing changes, or those for which a function is true."""
        if not isinstance(where, Condition):
            passing = [key for key, entry in snapshot.entries(ALL) if where(entry)]
            return jasper.Filter.keys(np.array(passing, np.int64))
        changes, filters = self._filters
        if changes != snapshot.changes or len(filters) >= CACHED_FILTERS:
            filters = {}
            self._filters = snapshot.changes, filters
        if where not in filters:
            filters[where] = jasper.Filter.keys(np.array(snapshot.keys(where), np.int64))
        return filters[where]

    def _remove(self, keys: list[int]) -> None:
        """Deletes the vectors of deleted entries, once no search sees these any more."""
        self._removed += keys
        if self.index is None or not self._removed:
            return
        self._database.wait_for_snapshots()
        self._deleted += self.index.delete(self._removed, missing="ignore")
        self._removed = []
        if self._deleted > CONSOLIDATE * max(len(self.index), 1):
            self.index.consolidate()
            self._deleted = 0


def with_ids(ids: Sequence[str]) -> Condition:
    """The condition that an entry has one of these ids."""
    return one_of("id", ids)
