"""The actor that puts changes in order: it validates a batch on all shards, appends it to the log, and sends it out."""

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import RayError, RayTaskError
from ray.util import metrics
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from jasper._native import __version__
from jasper.errors import DuplicateKeyError, Error, ParameterError
from jasper.ray._replica import SECONDS, NotReady, Replica
from jasper.ray._router import NAMESPACE, Router, Unavailable, group_name, left, replica_name, task_error
from jasper.ray._store import BUCKETS, FORMAT, MAINTENANCE, Batch, Layout, Store, bucket_of, log_name, new_columns

BACKLOG = 8
"""Batches that a slow replica may have waiting; it reads more from the log."""

MOVED = 50_000
"""Vectors per batch of a rebalance, if a bucket has no more."""

BUSY = "other changes took all the time that this call had"


class Sequencer:
    """One per cluster. Ray restarts it, and it reads its state from the folder."""

    def __init__(self, url: str) -> None:
        self._store = Store(url)
        self._manifest = self._store.manifest()
        # Copies of object stores lack the folder of an empty log.
        self._store.make_folders()
        self._layout = Layout(self._manifest)
        self._router = Router(url, self._layout.shards, self._manifest["replicas"])
        self._order, self._administration = threading.RLock(), threading.Lock()
        self._sent: dict[tuple[int, int], list[Any]] = {}
        self._log_bytes = 0
        # The last batch of the log, unless a replica of each shard is known to have made it.
        self._unsettled: Batch | None = None
        tags = {"cluster": url}
        self._batches = metrics.Counter("jasper_batches", "Batches in the log.", tag_keys=("cluster",))
        self._seconds = metrics.Histogram("jasper_batch_seconds", "Duration of changes.", SECONDS, ("cluster",))
        self._bytes = metrics.Gauge("jasper_log_bytes", "Log since the last snapshot.", tag_keys=("cluster",))
        for metric in (self._batches, self._seconds, self._bytes):
            metric.set_default_tags(tags)
        for sequence in self._store.check_log(self._layout.sequence):
            self._unsettled = self._store.batch(sequence)
            self._layout.apply(self._unsettled)
            self._log_bytes += self._store.size(log_name(sequence)) or 0
        self._router.shards = self._layout.shards
        self._start(range(self._layout.shards))
        self._router.end_shards(self._layout.shards, time.monotonic() + 60.0)

    def layout(self) -> tuple[int, int, int, dict[str, Any], dict[str, str]]:
        """Number of shards, of replicas, and of the last batch that changed vectors or attributes, what indexes are
        made with, and the columns of attributes."""
        layout = self._layout
        return layout.shards, self._router.replicas, layout.since, self._manifest["index"], layout.columns

    def change(
        self,
        id: str,
        method: str,
        keys: NDArray[np.int64] | None,
        vectors: NDArray[Any] | None,
        attributes: dict[str, list[Any]],
        arguments: dict[str, Any],
        seconds: float,
    ) -> tuple[int, int, int, list[Any]]:
        """Makes a change. Returns its number, its first key, the number of keys, and what shards returned.

        A call that was made before, with the same id, returns the same.
        """
        began = time.monotonic()
        deadline = began + seconds
        with self._turn(deadline):
            if id in self._layout.recent:
                shards = range(self._layout.shards if method in MAINTENANCE else 0)
                outcomes = self._outcomes(id, self._layout.sequence, shards, deadline)
                return self._layout.sequence, *self._layout.recent[id], [outcomes[shard] for shard in shards]
            batch = self._validated(id, method, keys, vectors, attributes, arguments, deadline)
            results = self._commit(batch, deadline)
        self._seconds.observe(time.monotonic() - began)
        return batch.sequence, *self._layout.recent[id], results

    def read(self, method: str, arguments: tuple[Any, ...], seconds: float) -> tuple[int, dict[int, Any]]:
        """A read between two changes, for those that changes have kept from answers of one state."""
        deadline = time.monotonic() + seconds
        with held(self._order, deadline):
            found = self._router.read(self._layout.since, method, arguments, left(deadline), None)
            assert found is not None
            return found

    def check(self, seconds: float) -> list[list[Any]]:
        """Begins a check of every replica, after the last batch and before the next. Returns references to the answers, of
        the replicas of each shard."""
        with held(self._order, time.monotonic() + seconds):
            replicas, sequence = range(self._router.replicas), self._layout.sequence
            return [
                [
                    self._router.handle(shard, r).check.options(concurrency_group="write").remote(sequence)
                    for r in replicas
                ]
                for shard in range(self._layout.shards)
            ]

    def snapshot(self, seconds: float) -> int:
        """Saves all shards, then the manifest, then its pointer. Returns the number of the last batch in it."""
        deadline = time.monotonic() + seconds
        with held(self._administration, deadline):
            with self._turn(deadline):
                layout = self._layout.fields()
            calls = {shard: (layout["sequence"],) for shard in range(layout["shards"])}
            build = self._manifest["build"]
            files = self._router.one_of_each("save", "save", calls, left(deadline), hedge=float("inf"))
            with self._turn(deadline):  # Now no shard will skip what is in the files.
                if any(file["sequence"] in self._layout.skipped for file in files.values()):
                    raise Error("a shard skipped a change while it was saved; repeat the snapshot")
            entries = [{**files[shard], "build": build} for shard in sorted(files)]
            old, new = self._manifest, {**self._manifest, **layout, "version": __version__, "files": entries}
            # The snapshot before stays: a replica may be opening it.
            kept = {self._store.latest(), self._store.publish(new)}
            kept |= {file["file"] for manifest in (old, new) for file in manifest["files"]}
            self._manifest = new
            written = (name for name in self._store.names() if name.startswith(("manifest-", "shard-")))
            logged = [number for number in self._store.logged(0) if number <= old["sequence"]]
            self._store.remove([*(name for name in written if name not in kept), *map(log_name, logged)])
            sizes = [self._store.size(log_name(n)) or 0 for n in self._store.logged(layout["sequence"])]
            self._log_bytes = sum(sizes)
            self._bytes.set(self._log_bytes)
            return int(layout["sequence"])

    def rebalance(self, shards: int, seconds: float) -> int:
        """Changes the number of shards, and moves buckets so that each has as many. Returns the number of buckets that
        moved. Every move is a batch of the log."""
        deadline = time.monotonic() + seconds
        with held(self._administration, deadline):
            if shards > self._layout.shards:
                self._start(range(shards))
                self._router.all_ready(range(self._layout.shards, shards), left(deadline))
                self._add("resize", {"shards": shards}, deadline)
            moves = plan_moves(self._layout.table, shards)
            for source, buckets, targets in moves:
                while buckets:
                    with self._turn(deadline):
                        step = self._move(source, buckets, targets, deadline)
                    buckets, targets = buckets[step:], targets[step:]
            if shards < self._layout.shards:
                self._add("resize", {"shards": shards}, deadline)
                self._router.end_shards(shards, deadline)
            if moves:
                self._add("consolidate", {}, deadline)
            return sum(len(buckets) for _, buckets, _ in moves)

    @contextlib.contextmanager
    def _turn(self, deadline: float) -> Iterator[None]:
        """Keeps other changes waiting. Every shard has made the last one, or skips it."""
        with held(self._order, deadline):
            while self._unsettled is not None:
                try:
                    self._send(self._unsettled, deadline)
                except Unavailable as error:
                    raise Unavailable(f"{BUSY}: {error}", error.shards) from None
                except Exception:
                    pass  # It is skipped, and the call that made it raises why.
            yield

    def _validated(
        self,
        id: str,
        method: str,
        keys: NDArray[np.int64] | None,
        vectors: NDArray[Any] | None,
        attributes: dict[str, list[Any]],
        arguments: dict[str, Any],
        deadline: float,
    ) -> Batch:
        """The next batch, which every shard has agreed to. Raises what one refuses it for."""
        batch = self._batch(method, arguments)._replace(id=id)
        if vectors is not None and keys is None:
            first = self._layout.next_key
            if first + len(vectors) > 2**63:
                raise ParameterError("there are no keys left below 2**63; give keys")
            keys = np.arange(first, first + len(vectors))
        if keys is None:
            return batch
        distinct, counts = np.unique(keys, return_counts=True)
        if len(distinct) < len(keys):
            if arguments.get("missing") != "ignore":
                raise DuplicateKeyError(f"key {distinct[counts > 1][0]} is given twice; give each key once")
            keys = distinct
        if attributes:
            arguments = {**arguments, "columns": new_columns(self._layout.columns, attributes, len(keys))}
        shards = self._layout.table[bucket_of(keys)]
        batch = batch._replace(arguments=arguments, keys=keys, vectors=vectors, attributes=attributes, shards=shards)
        # An empty part has the shape and type of vectors, too.
        concerned = np.unique(shards).tolist() or [0]
        kept = self._ask(batch, concerned, deadline)
        if sum(map(len, kept.values())) < len(keys):
            remaining = np.concatenate(list(kept.values()))
            batch = batch._replace(keys=remaining, shards=self._layout.table[bucket_of(remaining)])
        return batch

    def _ask(self, batch: Batch, shards: list[int], deadline: float) -> dict[int, NDArray[np.int64]]:
        calls = {shard: (batch.part(shard),) for shard in shards}
        return self._router.one_of_each("write", "validate", calls, left(deadline))

    def _batch(self, method: str, arguments: dict[str, Any]) -> Batch:
        """The next batch, without keys."""
        none = np.empty(0, np.int64)
        shards = none.astype(np.int16)
        return Batch(self._layout.sequence + 1, uuid.uuid4().hex, method, arguments, none, None, {}, shards)

    def _add(self, method: str, arguments: dict[str, Any], deadline: float) -> None:
        """Makes a change without keys."""
        with self._turn(deadline):
            self._commit(self._batch(method, arguments), deadline)

    def _commit(self, batch: Batch, deadline: float) -> list[Any]:
        """Appends a batch to the log, and returns what `_send` does."""
        try:
            size = self._store.append(batch)
        except Exception as error:
            if isinstance(error, FileExistsError) or not self._store.is_missing(log_name(batch.sequence)):
                # Another sequencer has gone on, or the append succeeded after all. Ray restarts this one, which then
                # reads the log, and repeats the calls.
                os._exit(1)
            raise
        self._layout.apply(batch)
        self._unsettled = batch
        self._batches.inc()
        self._log_bytes += size
        self._bytes.set(self._log_bytes)
        return self._send(batch, deadline)

    def _send(self, batch: Batch, deadline: float) -> list[Any]:
        """Sends the last batch to all replicas, and waits until one of each shard has made it. Returns what shards did.

        Logs that it is skipped if no replica of a shard can make it, and raises why, unless it is maintenance.
        """
        shards = max(self._router.shards, self._layout.shards)
        waiting: dict[Any, tuple[int, int]] = {}
        for shard in range(shards):
            part = ray.put(batch.part(shard))
            for replica in range(self._router.replicas):
                sent = self._sent.setdefault((shard, replica), [])
                _, sent[:] = ray.wait(sent, num_returns=len(sent), timeout=0) if sent else ([], [])
                if len(sent) < BACKLOG:
                    try:
                        handle = self._router.handle(shard, replica)
                    except ValueError:
                        continue
                    ref = handle.apply.options(concurrency_group="write").remote(part)
                    sent.append(ref)
                    waiting[ref] = shard, replica
        self._router.shards = self._layout.shards
        results: dict[int, Any] = {}
        errors: dict[int, list[BaseException]] = {}
        while waiting and len(results) < shards:
            done, _ = ray.wait(list(waiting), timeout=left(deadline))
            if not done:
                break
            for ref in done:
                shard, replica = waiting.pop(ref)
                try:
                    results.setdefault(shard, ray.get(ref))
                except RayTaskError as error:
                    errors.setdefault(shard, []).append(task_error(error))
                except RayError:
                    self._router.suspect(shard, replica)
        failed: dict[int, Any] = {}
        for shard in errors.keys() - results.keys():
            reasons = [e.reason for e in errors[shard] if isinstance(e, NotReady) and e.failed == batch.sequence]
            if len(reasons) == self._router.replicas:
                failed[shard] = reasons[0]
        if failed:
            self._skip(batch, failed, deadline)
            results.update(failed)
        missing = [shard for shard in range(self._layout.shards) if shard not in results]
        try:
            # All replicas of these restart, or are slow. They read the batch from the log.
            results.update(self._outcomes(batch.id, batch.sequence, missing, deadline))
        except Error as error:
            cause = next((causes[0] for causes in errors.values()), error)
            raise Unavailable(
                f"change {batch.sequence} is in the log and will be applied, and shard {min(missing)} has not done so "
                f"yet: {cause}",
                missing,
            ) from None
        if self._unsettled is batch:
            self._unsettled = None
        return [results[shard] for shard in range(self._layout.shards)]

    def _outcomes(self, id: str, sequence: int, shards: Iterable[int], deadline: float) -> dict[int, Any]:
        """What maintenance has returned on some shards, which wait for a batch."""
        calls = {shard: (sequence, "outcome", id) for shard in shards}
        found = self._router.one_of_each("read", "read", calls, left(deadline))
        return {shard: answer.result for shard, answer in found.items()}

    def _skip(self, batch: Batch, failed: dict[int, Any], deadline: float) -> None:
        """Logs that shards skip the last batch, because no replica of some could make it: these, if it is maintenance, and
        otherwise all, so that it has changed nothing. Raises why it has not."""
        cause = failed[min(failed)]
        if batch.method in MAINTENANCE:
            causes, undone = {str(shard): str(why) for shard, why in failed.items()}, {}
        else:
            causes = dict.fromkeys(map(str, range(self._layout.shards)), str(cause))
            undone = {"id": batch.id, **batch.arguments}
        # Replicas that restart or are slow read it from the log.
        with contextlib.suppress(Unavailable):
            self._commit(self._batch("skip", {"causes": causes, "undone": undone}), deadline)
        if undone:
            raise cause

    def _move(self, source: int, buckets: list[int], targets: list[int], deadline: float) -> int:
        """Moves the first of some buckets, and returns how many."""
        calls = {source: (self._layout.sequence, "rows", buckets, MOVED)}
        step: int
        found = self._router.one_of_each("read", "read", calls, left(deadline))[source].result
        step, keys, vectors, attributes = found
        buckets, targets = buckets[:step], targets[:step]
        arguments = {"source": source, "buckets": buckets, "targets": targets}
        target_of = np.zeros(BUCKETS, np.int16)
        target_of[buckets] = targets
        batch = self._batch("move", arguments)
        batch = batch._replace(keys=keys, vectors=vectors, attributes=attributes, shards=target_of[bucket_of(keys)])
        # A target without room refuses before anything moves.
        self._ask(batch, sorted(set(targets)), deadline)
        self._commit(batch, deadline)
        return step

    def _start(self, shards: range) -> None:
        """Starts the replicas that are not there."""
        options = self._manifest["options"]
        bundle = {name: amount for name, amount in options["resources"].items() if amount}
        alive = sum(node["Alive"] for node in ray.nodes())
        strategy = "STRICT_SPREAD" if alive >= self._router.replicas else "SPREAD"
        actor = ray.remote(concurrency_groups={"read": 8, "write": 1, "save": 1})(Replica)
        for shard in shards:
            group = None
            for replica in range(self._router.replicas):
                name = replica_name(self._store.url, shard, replica)
                try:
                    ray.get_actor(name, NAMESPACE)
                    continue
                except ValueError:
                    pass
                group = group or self._group(shard, bundle, strategy)
                actor.options(
                    name=name,
                    namespace=NAMESPACE,
                    lifetime="detached",
                    get_if_exists=True,
                    max_restarts=-1,
                    num_cpus=bundle.get("CPU", 0),
                    num_gpus=bundle.get("GPU", 0),
                    memory=bundle.get("memory", 0),
                    scheduling_strategy=PlacementGroupSchedulingStrategy(group, replica),
                ).remote(self._store.url, __version__, shard, replica, options)

    def _group(self, shard: int, bundle: dict[str, float], strategy: str) -> Any:
        name = group_name(self._store.url, shard)
        try:
            return ray.util.get_placement_group(name)
        except ValueError:
            bundles = [bundle] * self._router.replicas
            return ray.util.placement_group(bundles, strategy, name=name, lifetime="detached")


@contextlib.contextmanager
def held(lock: Any, deadline: float) -> Iterator[None]:
    """Holds a lock. Raises Unavailable if others have it until the deadline."""
    if not lock.acquire(timeout=left(deadline)):
        raise Unavailable(f"{BUSY}; raise timeout")
    try:
        yield
    finally:
        lock.release()


def first_manifest(
    build: str,
    shards: int,
    replicas: int,
    index: dict[str, Any],
    columns: dict[str, str],
    options: dict[str, Any],
    files: list[dict[str, Any]],
) -> dict[str, Any]:
    """The manifest of a cluster that was built."""
    next_key = max(file.pop("next_key") for file in files)
    about = {"format": FORMAT, "build": build, "version": __version__, "replicas": replicas, "index": index}
    state = {"sequence": 0, "shards": shards, "next_key": next_key, "columns": columns, "recent": []}
    table = [bucket % shards for bucket in range(BUCKETS)]
    return {**about, "options": options, **state, "table": table, "files": files}


def plan_moves(table: NDArray[np.int16], shards: int) -> list[tuple[int, list[int], list[int]]]:
    """The fewest moves after which each shard has as many buckets, give or take one: sources, buckets and targets."""
    counts = np.bincount(table, minlength=max(shards, int(table.max()) + 1))
    quota = np.zeros(len(counts), np.int64)
    quota[:shards] = BUCKETS // shards
    # Those that have most keep one more.
    largest = np.argsort(-counts[:shards], kind="stable")[: BUCKETS % shards]
    quota[largest] += 1
    targets = np.repeat(np.arange(len(counts)), np.maximum(quota - counts, 0)).tolist()
    moves = []
    for source, surplus in enumerate(np.maximum(counts - quota, 0).tolist()):
        if surplus:
            buckets = np.flatnonzero(table == source)[:surplus].tolist()
            moves.append((source, buckets, [targets.pop() for _ in buckets]))
    return moves
