"""The actor with one replica of a shard: an index, and the number of the last batch that it has."""

import os
import tempfile
import threading
import time
from typing import Any, NamedTuple

import numpy as np
import ray
from numpy.typing import NDArray
from ray.util import metrics

import jasper
from jasper._native import Index
from jasper.errors import Cancelled, DeviceError, Error, FormatError, OutOfMemoryError, UnknownKeyError
from jasper.ray._store import BUCKETS, MAINTENANCE, Batch, Store, add_columns, bucket_of, digest
from jasper.results import Report

PATIENCE = 1.0
"""Seconds after which a replica that has not got a batch reads it from the log."""

SECONDS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
"""Bounds of histograms."""


class NotReady(Error):
    """A replica cannot answer now, and others may. The next call tries again."""

    def __init__(self, message: str, reason: Exception | None = None, failed: int | None = None) -> None:
        super().__init__(message, reason, failed)
        self.reason = reason
        self.failed = failed
        """The batch of the log that it could not make."""

    def __str__(self) -> str:
        return str(self.args[0])


class Answer(NamedTuple):
    """What a replica answers, and after which batches: all from `since` to `sequence`."""

    since: int
    sequence: int
    shards: int
    """Number of shards of the cluster then."""
    result: Any


class Replica:
    """An index that follows the log.

    Calls come from several threads: reads, the sequencer's changes, and saves. `_writer` orders changes. A change is
    linked while searches run; `_gate` is closed only while it becomes visible, so a read is of one state.
    """

    def __init__(self, url: str, version: str, shard: int, replica: int, options: dict[str, Any]) -> None:
        self._store, self._version = Store(url), version
        self._device, self._threads = "cuda" if options["num_gpus"] else "cpu", options["threads"]
        self._shard, self._replica = shard, replica
        self._index: Index | None = None
        self._since, self._sequence, self._shards = -1, -1, 0
        # What maintenance has returned, by the id of its batch, and the last batch that the shard has skipped.
        self._outcomes: dict[str, Any] = {}
        self._skipped = -1
        self._writer = threading.RLock()
        self._gate = threading.Condition()
        self._closed, self._readers = False, 0
        tags = {"cluster": url, "shard": str(shard), "replica": str(replica)}
        keys = tuple(tags)
        self._queries = metrics.Counter("jasper_queries", "Queries searched for.", tag_keys=keys)
        self._seconds = metrics.Histogram("jasper_search_seconds", "Duration of searches.", SECONDS, tag_keys=keys)
        self._vectors = metrics.Gauge("jasper_vectors", "Vectors of a replica.", tag_keys=keys)
        self._state = metrics.Gauge("jasper_sequence", "Last batch of a replica.", tag_keys=keys)
        for metric in (self._queries, self._seconds, self._vectors, self._state):
            metric.set_default_tags(tags)
        try:
            self._opened()
        except Exception:
            pass  # Every call raises it until the cause is gone.

    def ready(self) -> dict[str, Any]:
        """Where it is and what it has."""
        index = self._opened()
        node = ray.get_runtime_context().get_node_id()
        return {"node": node, "pid": os.getpid(), "sequence": self._sequence, "vectors": len(index)}

    def read(self, minimum: int, method: str, *arguments: Any) -> Answer:
        """Calls a method below, after batch `minimum` or later, between two batches."""
        self._follow(minimum)
        with self._gate:
            self._gate.wait_for(lambda: not self._closed)
            index, state = self._index, (self._since, self._sequence, self._shards)
            if index is None or self._sequence < minimum:
                raise self._not_ready("the last snapshot is being opened")
            self._readers += 1
        try:
            return Answer(*state, getattr(self, method)(index, *arguments))
        finally:
            with self._gate:
                self._readers -= 1
                self._gate.notify_all()

    def search(self, index: Index, queries: NDArray[Any], k: int, options: dict[str, Any]) -> tuple[Any, Any]:
        began = time.perf_counter()
        found = index.search(queries, k, **options)
        self._queries.inc(max(1, found.keys.size // max(1, k)))
        self._seconds.observe(time.perf_counter() - began)
        return found.keys, found.distances

    def search_within(self, index: Index, queries: NDArray[Any], radius: float, options: dict[str, Any]) -> tuple[Any, Any]:
        found = index.search_within(queries, radius, **options)
        return found.keys, found.distances

    def explain(self, index: Index, options: dict[str, Any]) -> Report:
        return index.explain(**options)

    def count(self, index: Index) -> int:
        return len(index)

    def keys(self, index: Index) -> NDArray[np.int64]:
        return index.keys()

    def present(self, index: Index, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.fromiter((key in index for key in keys.tolist()), bool, len(keys))

    def vectors(self, index: Index, keys: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
        """Which keys are here, and their vectors."""
        present = self.present(index, keys)
        return present, index.vectors(keys[present])

    def attributes(self, index: Index, keys: NDArray[np.int64]) -> tuple[NDArray[np.bool_], dict[str, list[Any]]]:
        """Which keys are here, and their attributes."""
        present = self.present(index, keys)
        return present, index.attributes(keys[present])

    def rows(
        self, index: Index, buckets: list[int], limit: int
    ) -> tuple[int, NDArray[np.int64], NDArray[Any], dict[str, list[Any]]]:
        """All keys, vectors and attributes of the first of some buckets, in the order of keys: of as many buckets as
        have `limit` vectors, but at least one. Returns their number, too."""
        keys = np.sort(index.keys())
        place = np.full(BUCKETS, len(buckets))
        place[buckets] = np.arange(len(buckets))
        places = place[bucket_of(keys)]
        totals = np.cumsum(np.bincount(places, minlength=len(buckets))[: len(buckets)])
        step = max(1, int(np.searchsorted(totals, limit, side="right")))
        keys = keys[places < step]
        return step, keys, index.vectors(keys), index.attributes(keys)

    def outcome(self, index: Index, id: str) -> Any:
        """What maintenance has returned, or the error with which it was refused."""
        lost = Error("the change was made, and its report is lost: a snapshot and a restart came after it")
        return self._outcomes.get(id, lost)

    def validate(self, part: Batch) -> NDArray[np.int64]:
        """Raises what `apply` of the next batch would, and changes nothing. Returns the keys that it would change.

        The sequencer has checked the attributes.
        """
        self._follow(part.sequence - 1)
        index = self._opened()
        if part.method in ("insert", "upsert"):
            # Vectors are read and stored, and given up before they are linked.
            try:
                getattr(index, part.method)(part.vectors, part.keys, progress=lambda stage, done, total: done < total)
            except Cancelled:
                pass
        elif part.method in ("delete", "set_attributes"):
            present = self.present(index, part.keys)
            if part.arguments.get("missing") == "ignore":
                return part.keys[present]
            if not present.all():
                raise UnknownKeyError(f"key {part.keys[~present][0]} is not in the cluster")
        return part.keys

    def apply(self, part: Batch) -> Any:
        """Makes a change, once, after all before it. Returns the outcome of maintenance."""
        with self._writer:
            if part.sequence == self._sequence + 1 and self._index is not None and part.method != "skip":
                self._apply(part)
            else:
                self._catch_up(part.sequence, part.sequence)
            return self.outcome(self._opened(), part.id) if part.method in MAINTENANCE else None

    def check(self, sequence: int) -> dict[str, Any]:
        """Whether the index is sound, and the checksum of its file, after a batch. Searches go on, and changes wait.

        It is not a read, because a change waits for reads while it has the index's lock for writers, and a save takes it.
        """
        with self._writer, tempfile.TemporaryDirectory() as folder:
            self._catch_up(sequence, sequence)
            index, path = self._opened(), f"{folder}/index"
            index.save(path)
            return {"sequence": self._sequence, "sound": index.check().is_sound, "sha256": digest(path)}

    def save(self, minimum: int) -> dict[str, Any]:
        """Saves the shard into the folder of the cluster, after batch `minimum` or later. Searches go on."""
        self._follow(minimum)
        with tempfile.TemporaryDirectory() as folder:
            with self._writer:
                sequence, index = self._sequence, self._opened()
                name = f"shard-{self._shard:05}-{sequence:012}-{self._replica}.jasper"
                path = self._store.local_path(name) or f"{folder}/index"
                index.save(path)
                vectors = len(index)
            sha256, size = digest(path), os.path.getsize(path)
            if self._store.local_path(name) is None:
                self._store.upload(path, name)
        entry = {"shard": self._shard, "file": name, "bytes": size, "sha256": sha256, "sequence": sequence}
        return {**entry, "vectors": vectors, "version": jasper._native.__version__}

    def _opened(self) -> Index:
        """The index, which is opened first if it is not."""
        index = self._index
        if index is None:
            with self._writer:
                self._catch_up(0)
                index = self._index
        assert index is not None
        return index

    def _open(self) -> None:
        """Opens the last snapshot, in place of the index."""
        self._give_up()
        try:
            self._open_snapshot()
        except Exception as error:
            raise self._not_ready(str(error), error) from error

    def _give_up(self) -> None:
        """Leaves reads to other replicas, until the snapshot is opened."""
        self._close()
        self._index = None
        self._reopen_gate()

    def _not_ready(self, message: str, reason: Exception | None = None, failed: int | None = None) -> NotReady:
        return NotReady(f"shard {self._shard}, replica {self._replica}: {message}", reason, failed)

    def _open_snapshot(self) -> None:
        if jasper._native.__version__ != self._version:
            raise Error(
                f"node {ray.util.get_node_ip_address()} has jasper-ann {jasper._native.__version__}, and the cluster "
                f"{self._version}; install the same version on all nodes"
            )
        manifest = self._store.manifest()
        self._shards, self._sequence = manifest["shards"], manifest["sequence"]
        file = next((file for file in manifest["files"] if file["shard"] == self._shard), None)
        if file is None:
            # A shard that the log adds.
            index = Index(**manifest["index"], threads=self._threads).to_device(self._device)
        else:
            index, self._sequence = self._read(file, manifest), file["sequence"]
        add_columns(index, manifest.get("columns", {}))
        self._since, self._index = self._sequence, index

    def _read(self, file: dict[str, Any], manifest: dict[str, Any]) -> Index:
        with tempfile.TemporaryDirectory() as folder:
            path = self._store.local_path(file["file"])
            if path is None:
                path = f"{folder}/index"
                self._store.download(file["file"], path)
            if (sha256 := digest(path)) != file["sha256"]:
                what = f"is damaged or of another build than {manifest['build']}"
                for other in manifest["files"]:
                    if other["sha256"] == sha256:
                        what = f"has the content of shard {other['shard']}, which is there twice"
                restore = f"restore the file of shard {self._shard} with SHA-256 {file['sha256']}"
                raise FormatError(f"{self._store.path(file['file'])} {what}; {restore}")
            return Index.open(path, device=self._device, threads=self._threads)

    def _follow(self, minimum: int) -> None:
        """Waits until it has a batch."""
        with self._gate:
            if self._gate.wait_for(lambda: self._index is not None and self._sequence >= minimum, PATIENCE):
                return
        # Another thread can have it for hours, to quantize for example.
        if not self._writer.acquire(timeout=PATIENCE):
            raise self._not_ready(f"change {minimum} is waiting for others")
        try:
            self._catch_up(minimum)
        except OSError as error:
            raise self._not_ready(str(error), error) from error
        finally:
            self._writer.release()

    def _catch_up(self, minimum: int, until: int | None = None) -> None:
        """Applies batches of the log, up to and with one, or all. Raises NotReady if it does not get to batch `minimum`."""
        if self._index is None:
            self._open()
        while until is None or self._sequence < until:
            numbers = self._store.logged(self._sequence)
            if numbers[:1] == [self._sequence + 1]:
                self._replay(numbers, until)
            elif self._store.manifest()["sequence"] > self._sequence:
                self._open()  # A snapshot has replaced what is missing here.
            else:
                break
        if self._sequence < minimum:
            raise self._not_ready(f"change {minimum} is not in the log, which ends at {self._sequence}")

    def _replay(self, numbers: list[int], until: int | None) -> None:
        """Applies batches of the log, up to and with one."""
        shard = str(self._shard)
        for batch, skips in self._store.replay(numbers):
            if until is not None and batch.sequence > until:
                return
            if shard in batch.skips and self._skipped != batch.sequence - 1:
                # The shard skips what this replica has made.
                self._open()
                return
            self._apply(batch.part(self._shard), skips.get(shard))

    def _apply(self, part: Batch, skipped: str | None = None) -> None:
        """Makes the next change, unless there is a reason why the shard skips it."""
        index = self._opened()
        try:
            if skipped is not None:
                self._skipped, self._outcomes[part.id] = part.sequence, Error(skipped)
            elif part.method in MAINTENANCE:
                self._outcomes[part.id] = maintain(index, part)
            elif part.method == "resize":
                self._close()
                self._shards = part.arguments["shards"]
            else:
                self._change(index, part)
            with self._gate:
                self._sequence = part.sequence
                if skipped is None and (len(part.keys) or part.method in ("resize", "skip")):
                    self._since = part.sequence
        except Exception as error:
            if part.method in MAINTENANCE or part.arguments.get("columns") or not isinstance(error, OutOfMemoryError):
                # The index may have lost its codes, or its device, or have columns that no other has.
                self._give_up()
            raise self._not_ready(str(error), error, part.sequence) from error
        finally:
            self._reopen_gate()
        self._vectors.set(len(index))
        self._state.set(self._sequence)

    def _change(self, index: Index, part: Batch) -> None:
        """Changes columns, vectors and attributes."""
        add_columns(index, part.arguments.get("columns", {}))
        if not len(part.keys):
            return
        if part.method in ("insert", "upsert"):
            call = getattr(index, part.method)
            call(part.vectors, part.keys, attributes=part.attributes, progress=self._close_when_linked)
            return
        self._close()
        if part.method == "delete":
            index.delete(part.keys)
        else:
            index.set_attributes(part.keys, part.attributes)

    def _close_when_linked(self, stage: str, done: int, total: int) -> None:
        if stage == "linking" and done == total:
            self._close()

    def _close(self) -> None:
        """Lets reads end, and no others begin, until the change is visible."""
        with self._gate:
            self._closed = True
            self._gate.wait_for(lambda: not self._readers)

    def _reopen_gate(self) -> None:
        with self._gate:
            self._closed = False
            self._gate.notify_all()


def maintain(index: Index, part: Batch) -> Any:
    """The result of maintenance, or the error with which every replica refuses it."""
    try:
        return getattr(index, part.method)(**part.arguments)
    except (OutOfMemoryError, DeviceError):
        raise
    except Error as error:
        return error
