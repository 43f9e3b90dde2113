"""The cluster, as programs use it."""

import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import ray
from numpy.typing import ArrayLike, DTypeLike, NDArray
from ray.exceptions import ActorAlreadyExistsError, GetTimeoutError, RayActorError, RayTaskError

from jasper._interop import BFloat16, converted, to_numpy
from jasper._typing import Attributes, Distances, FilterLike, Metric, Progress
from jasper.errors import Error, ParameterError, UnknownKeyError
from jasper.ray._build import build
from jasper.ray._router import (
    ATTEMPTS,
    NAMESPACE,
    Router,
    Unavailable,
    end_actor,
    exists,
    left,
    replica_name,
    sequencer_name,
    task_error,
)
from jasper.ray._sequencer import Sequencer
from jasper.ray._store import Store, values_of
from jasper.results import Matches, Report

GRACE = 5.0
"""Seconds that the sequencer has, after a time limit, to say why it gave up."""


class ClusterMatches(Matches):
    """Matches of a cluster: keys and distances, as of an index."""

    sequence: int
    """Number of the last change in the log that all shards had made when they answered. No later one is seen."""
    missing_shards: tuple[int, ...]
    """Shards that did not answer in time, with partial=True."""


class Cluster:
    """A vector index on the machines of a Ray cluster, with the methods of Index.

    Cluster.build makes one in a folder on shared storage, and Cluster.open connects to it, from any number of programs.
    The folder is a path that all nodes see, or a URL of fsspec, such as "s3://bucket/vectors". A Cluster can be passed
    to tasks, actors and Serve deployments.

    Changes are made one after another. One that returned is in the log, on shared storage, and is not lost if actors or
    nodes are. One that raised an error of Jasper has changed nothing, unless the error says that the change is in the
    log. Searches see a change as a whole or not at all; a program sees its own changes.
    """

    def __init__(self, path: str, *, timeout: float = 60.0) -> None:
        """Connects to a cluster that runs. Use Cluster.open."""
        self.path = Store(path).url
        self._sequencer = ray.get_actor(sequencer_name(self.path), NAMESPACE)
        shards, replicas, self._seen, self._index, _ = self._call("layout", timeout=timeout)
        self._router = Router(self.path, shards, replicas)

    @staticmethod
    def build(
        dataset: Any,
        path: str,
        *,
        vector: str = "vector",
        key: str = "key",
        keys: ArrayLike | None = None,
        attributes: Sequence[str] | Attributes | None = None,
        shards: int = 8,
        replicas: int = 2,
        metric: Metric = "l2",
        dtype: DTypeLike | None = None,
        max_degree: int | None = None,
        build_beam_width: int | None = None,
        alpha: float | None = None,
        max_batch_share: float | None = None,
        seed: int | None = None,
        quantization: str | None = None,
        num_cpus: float = 1,
        num_gpus: float = 0,
        memory: int | None = None,
        timeout: float = 300.0,
        progress: Progress | bool | None = None,
    ) -> "Cluster":
        """Builds the shards of a data set on the nodes of the Ray cluster, and starts their replicas.

        dataset is a data set of ray.data, or the path of Parquet files, with a column of vectors and a column of integer
        keys; or an array, whose keys are its row numbers unless keys are given. Vectors are shuffled by the hash of
        their keys: a node holds a shard at a time for each task, and none holds all.

        attributes
            The names of the columns that become attributes; for an array, attributes as of Index.build. There are no
            columns of ids.
        shards, replicas
            Number of shards, and of copies of each, which are on different nodes if there are as many nodes.
        num_cpus, num_gpus, memory
            What Ray reserves for each replica. Its searches use num_cpus threads. With num_gpus, it is on a GPU. memory
            is in bytes; by default 1.5 times the size of the largest shard.
        timeout
            Seconds to wait for the replicas to start.

        Other arguments are those of Index.build, for every shard. Raises Error if there is a cluster in the folder or the
        nodes have no room, ParameterError, DuplicateKeyError, and other errors of Index.build. Until it returns there is
        no cluster in the folder.
        """
        index = {
            "metric": metric,
            "max_degree": max_degree,
            "build_beam_width": build_beam_width,
            "alpha": alpha,
            "max_batch_share": max_batch_share,
            "seed": seed,
        }
        resources = {"CPU": num_cpus, "GPU": num_gpus, "memory": memory}
        names = {"vector": vector, "key": key}
        build(dataset, keys, attributes, path, names, shards, replicas, index, dtype, quantization, resources, progress)
        return Cluster.open(path, timeout=timeout)

    @staticmethod
    def open(path: str, *, timeout: float = 300.0) -> "Cluster":
        """Connects to the cluster of a folder. If it does not run, starts it from the last snapshot and the log.

        A cluster that runs must have a replica of each shard that is ready within `timeout` seconds. One that is started
        must have all; if it has not, it is ended again.

        Raises FileNotFoundError if there is none; FormatError if files are missing, damaged, or of another build; Error
        if replicas are not ready in time, or nodes have another version of the package.
        """
        deadline = time.monotonic() + timeout
        store = Store(path)
        started = start(store)
        try:
            cluster = Cluster(store.url, timeout=left(deadline))
            shards = range(cluster._router.shards)
            if started:
                cluster._router.all_ready(shards, left(deadline))
            else:
                cluster._router.one_of_each("read", "ready", {shard: () for shard in shards}, left(deadline))
        except BaseException:
            if started:
                manifest = store.manifest()
                stop(Router(store.url, manifest["shards"], manifest["replicas"]), time.monotonic() + 60.0)
            raise
        return cluster

    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        beam_width: int | None = None,
        recall: float | None = None,
        filter: FilterLike | None = None,
        distances: Distances = "auto",
        rerank: int | None = None,
        timeout: float = 60.0,
        partial: bool = False,
    ) -> ClusterMatches:
        """Searches all shards, and merges what they find by distance, then by key. Arguments are those of Index.search.

        Filters are evaluated by the shards, which all answer after the same change. Raises Unavailable if one has not
        answered within `timeout` seconds, or, with partial, returns what others found.
        """
        options = {"beam_width": beam_width, "recall": recall, "filter": filter, "distances": distances, "rerank": rerank}
        found = self._read("search", ray.put(self._rows(queries)), k, options, timeout=timeout, partial=partial)
        return merged(*found, k)

    def search_within(
        self,
        queries: ArrayLike,
        radius: float,
        *,
        beam_width: int | None = None,
        filter: FilterLike | None = None,
        distances: Distances = "auto",
        timeout: float = 60.0,
    ) -> ClusterMatches:
        """Vectors within a radius of a query, or of each of several: see Index.search_within."""
        options = {"beam_width": beam_width, "filter": filter, "distances": distances}
        return merged(*self._read("search_within", self._rows(queries), radius, options, timeout=timeout))

    def explain(
        self,
        filter: FilterLike | None = None,
        k: int = 10,
        *,
        beam_width: int | None = None,
        queries: int = 1,
        timeout: float = 60.0,
    ) -> list[Report]:
        """What a search would do, and how many keys its filter allows: a report per shard. See Index.explain."""
        options = {"filter": filter, "k": k, "beam_width": beam_width, "queries": queries}
        return self._read("explain", options, timeout=timeout)[1]

    def insert(
        self,
        vectors: ArrayLike,
        keys: ArrayLike | None = None,
        *,
        attributes: Attributes | None = None,
        timeout: float = 600.0,
    ) -> NDArray[np.int64]:
        """Adds vectors and returns their keys: see Index.insert. All are added, on all shards, or none.

        As every change, it raises Unavailable if it is not made within `timeout` seconds. It may then be made later, as a
        whole, unless the error says that other changes took the time.
        """
        rows = self._matrix(vectors)
        _, first, count, _ = self._change("insert", timeout, self._keys(keys, len(rows)), rows, attributes)
        return np.arange(first, first + count) if keys is None else self._keys(keys, len(rows))  # type: ignore[return-value]

    def upsert(
        self, vectors: ArrayLike, keys: ArrayLike, *, attributes: Attributes | None = None, timeout: float = 600.0
    ) -> None:
        """Adds vectors, and replaces those of keys that are there already, with their attributes: see Index.upsert."""
        rows = self._matrix(vectors)
        self._change("upsert", timeout, self._keys(keys, len(rows)), rows, attributes)

    def set_attributes(self, keys: ArrayLike, attributes: Attributes, *, timeout: float = 600.0) -> None:
        """Sets attributes of keys: see Index.set_attributes. Attributes that are not given stay as they are."""
        self._change("set_attributes", timeout, self._keys(keys, None), None, attributes)

    def delete(
        self, keys: ArrayLike, *, missing: Literal["raise", "ignore"] = "raise", timeout: float = 600.0
    ) -> int:
        """Deletes keys, and returns how many: see Index.delete. They cannot be restored."""
        if missing not in ("raise", "ignore"):
            raise ParameterError(f'missing ({missing!r}) must be "raise" or "ignore"')
        return self._change("delete", timeout, self._keys(keys, None), missing=missing)[2]

    def consolidate(self, *, timeout: float = 3600.0) -> list[Report]:
        """Removes deleted vectors from the graphs: see Index.consolidate. Returns a report per shard."""
        return self._maintain("consolidate", timeout)

    def compact(self, *, timeout: float = 3600.0) -> list[Report]:
        """Returns freed memory to the system: see Index.compact. Returns a report per shard."""
        return self._maintain("compact", timeout)

    def quantize(
        self, quantization: str | None = "auto", *, force: bool = False, timeout: float = 3600.0
    ) -> list[str | None]:
        """Quantizes the shards, and returns the name of each one's quantization, or None: see Index.quantize.

        Raises Error if a shard cannot be quantized; it then has no codes, and others do. Searches go on meanwhile.
        """
        return self._maintain("quantize", timeout, quantization=quantization, force=force)

    def tune(self, recall: float = 0.95, k: int = 10, *, timeout: float = 3600.0) -> list[Report]:
        """Finds the narrowest beam of each shard that reaches a recall at k, for search(recall=...), and returns a report
        per shard: see Index.tune. Searches go on meanwhile."""
        return self._maintain("tune", timeout, recall=recall, k=k)

    def keys(self) -> NDArray[np.int64]:
        """All keys, in no particular order."""
        return np.concatenate(self._read("keys")[1])

    def vectors(self, keys: ArrayLike) -> NDArray[Any]:
        """The vectors of keys, of shape (n, dim). Raises UnknownKeyError."""
        wanted = self._keys(keys, None)
        assert wanted is not None
        _, parts, _ = self._read("vectors", wanted)
        present = np.any([mask for mask, _ in parts], axis=0)
        if not present.all():
            raise UnknownKeyError(f"key {wanted[~present][0]} is not in the cluster")
        rows = np.empty((len(wanted), self.dim), self.dtype)
        for mask, vectors in parts:
            rows[mask] = vectors
        return rows

    def attributes(self, keys: ArrayLike) -> dict[str, list[Any]]:
        """The attributes of keys, such as those of hits: see Index.attributes."""
        wanted = self._keys(keys, None)
        assert wanted is not None
        found: dict[str, list[Any]] = {}
        for mask, columns in self._read("attributes", wanted)[1]:
            for name, values in columns.items():
                column = found.setdefault(name, [None] * len(wanted))
                for place, value in zip(np.flatnonzero(mask), values, strict=True):
                    column[place] = value
        return found

    def contains(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Which of the keys are in the cluster."""
        found: NDArray[np.bool_] = np.any(self._read("present", self._keys(keys, None))[1], axis=0)
        return found

    def __len__(self) -> int:
        return sum(self._read("count")[1])

    def __contains__(self, key: int) -> bool:
        return bool(self.contains([key])[0])

    def __getitem__(self, key: int) -> NDArray[Any]:
        row: NDArray[Any] = self.vectors([key])[0]
        return row

    def __delitem__(self, key: int) -> None:
        self.delete([key])

    def snapshot(self, *, timeout: float = 3600.0) -> int:
        """Saves all shards into the folder, and returns the number of the last change that is certainly in them.

        Changes and searches go on. A restart reads the snapshot, and the log after it; the log before the last but one
        is removed. If it fails, the last snapshot stays. Raises OSError, or Unavailable after `timeout` seconds.
        """
        return int(self._call("snapshot", timeout=timeout))

    def rebalance(self, shards: int, *, timeout: float = 3600.0) -> int:
        """Changes the number of shards, and moves buckets until each has as many. Returns the number of buckets that
        moved. Changes and searches go on. Repeat it if it fails, or takes more than `timeout` seconds: it goes on where it
        was.
        """
        if not 1 <= shards <= 1024:
            raise ParameterError(f"shards ({shards}) must be between 1 and 1024")
        moved = self._call("rebalance", shards, timeout=timeout)
        self._router.shards, _, self._seen, *_ = self._call("layout")
        return int(moved)

    def check(self, *, timeout: float = 600.0) -> Report:
        """Compares the replicas of each shard after the same change, and verifies them: see Index.check.

        Returns a report: is_sound says whether all indexes have no errors, are_equal whether the files of replicas have
        the same bytes, and shards has the checksum of each replica. Searches go on meanwhile; changes wait.
        """
        deadline = time.monotonic() + timeout
        for _ in range(ATTEMPTS):
            calls = self._call("check", timeout=left(deadline))
            found = [self._get(replicas, left(deadline)) for replicas in calls]
            # A replica that restarts reads the log as far as it goes.
            if all(len({one["sequence"] for one in replicas}) == 1 for replicas in found):
                break
        else:
            raise Error("replicas were checked after different changes, because some restarted; repeat the check")
        sums = [[one["sha256"] for one in replicas] for replicas in found]
        sound = all(one["sound"] for replicas in found for one in replicas)
        return Report({"is_sound": sound, "are_equal": all(len(set(one)) == 1 for one in sums), "shards": sums})

    def replicas(self, *, timeout: float = 5.0) -> list[Report]:
        """A report per replica, with shard, replica, and ready: whether it answered within `timeout` seconds. If so, also
        its node and pid, the last change that it has made (sequence), and its number of vectors."""
        self._router.shards = self.shards
        return [Report(fields) for fields in self._router.survey(timeout)]

    def close(self, *, timeout: float = 60.0) -> None:
        """Ends all actors of the cluster, for all programs, and what they are doing: a change in progress has been made or
        not. Its folder stays, and can be opened again. Raises Unavailable if actors have not ended within `timeout`
        seconds.
        """
        stop(self._router, time.monotonic() + timeout)

    @property
    def dim(self) -> int:
        """Coordinates of a vector."""
        return int(self._index["dim"])

    @property
    def metric(self) -> Metric:
        """The metric."""
        metric: Metric = self._index["metric"]
        return metric

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of coordinates."""
        dtype: np.dtype[Any] = np.dtype(self._index["dtype"])
        return dtype

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the attributes and their types: see Index.columns."""
        columns: dict[str, str] = self._call("layout")[4]
        return columns

    @property
    def shards(self) -> int:
        """Number of shards."""
        return int(self._call("layout")[0])

    def __reduce__(self) -> tuple[Callable[[str], "Cluster"], tuple[str]]:
        return Cluster, (self.path,)

    def _rows(self, rows: ArrayLike) -> NDArray[Any]:
        """An array; lists become arrays of the type of the index."""
        rows = to_numpy(rows, "vectors")
        if isinstance(rows, BFloat16) and self.dtype.kind == "f":
            made: NDArray[Any] = converted(np.asarray(rows), self.dtype.name, "vectors")
            return made
        if hasattr(rows, "dtype"):
            return np.asarray(rows)
        given = np.asarray(rows)
        made = given.astype(self.dtype)
        if self.dtype.kind != "f" and not np.array_equal(made, given):
            raise ParameterError(f"vectors in lists must be of whole numbers that fit {self.dtype}")
        return made

    def _matrix(self, vectors: ArrayLike) -> NDArray[Any]:
        rows = np.atleast_2d(self._rows(vectors))
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ParameterError(f"vectors have shape {rows.shape}, and must have (n, {self.dim})")
        return rows

    @staticmethod
    def _keys(keys: ArrayLike | None, count: int | None) -> NDArray[np.int64] | None:
        if keys is None:
            return None
        given = np.atleast_1d(np.asarray(keys))
        if given.ndim != 1 or not (given.dtype.kind in "iu" or given.size == 0):
            raise ParameterError(f"keys have shape {given.shape} and type {given.dtype}, and must be integers, of shape (n,)")
        if count is not None and len(given) != count:
            raise ParameterError(f"there are {len(given)} keys and {count} vectors; give one key per vector")
        if given.size and (int(given.min()) < 0 or int(given.max()) >= 2**63):
            raise ParameterError("keys must be integers from 0 to 2**63 - 1")
        return given.astype(np.int64)

    def _change(
        self,
        method: str,
        timeout: float,
        keys: NDArray[np.int64] | None = None,
        vectors: NDArray[Any] | None = None,
        attributes: Attributes | None = None,
        **arguments: Any,
    ) -> tuple[int, int, int, list[Any]]:
        given = uuid.uuid4().hex, method, keys, vectors, values_of(attributes), arguments
        result = self._call("change", *given, timeout=timeout)
        self._seen = max(self._seen, result[0])
        done: tuple[int, int, int, list[Any]] = result
        return done

    def _maintain(self, method: str, timeout: float, **arguments: Any) -> list[Any]:
        results = self._change(method, timeout, **arguments)[3]
        for shard, result in enumerate(results):
            if isinstance(result, Exception):
                kind = type(result) if isinstance(result, Error) else Error
                raise kind(f"shard {shard}: {result}")
        return results

    def _read(self, method: str, *arguments: Any, timeout: float = 60.0, partial: bool = False) -> tuple[int, list[Any], tuple[int, ...]]:
        """Calls a method of all shards after one change, which is not before what this program has seen.

        Returns the number of the change, results, and the shards that are missing from them.
        """
        deadline = time.monotonic() + timeout
        try:
            found = self._router.read(self._seen, method, arguments, timeout, ATTEMPTS)
            sequence, results = found or self._call("read", method, arguments, timeout=left(deadline))
        except Unavailable as error:
            if not partial or not error.answers:
                raise
            newest = max(answer.since for answer in error.answers.values())
            answers = {s: answer for s, answer in error.answers.items() if answer.sequence >= newest}
            sequence = min(answer.sequence for answer in answers.values())
            results = {shard: answer.result for shard, answer in answers.items()}
        self._seen = max(self._seen, sequence)
        missing = tuple(shard for shard in range(self._router.shards) if shard not in results)
        return sequence, list(results.values()), missing

    def _call(self, method: str, *arguments: Any, timeout: float = 60.0) -> Any:
        call = getattr(self._sequencer, method)
        if method == "layout":
            return self._get(call.options(concurrency_group="read").remote(*arguments), timeout)
        return self._get(call.remote(*arguments, timeout), timeout + GRACE)

    @staticmethod
    def _get(refs: Any, timeout: float) -> Any:
        try:
            return ray.get(refs, timeout=timeout)
        except GetTimeoutError:
            raise Unavailable(
                "the cluster did not answer in time; a change may be made later, as a whole. See Cluster.replicas() for "
                "what is missing, or raise timeout"
            ) from None
        except RayTaskError as error:
            raise task_error(error) from None
        except RayActorError as error:
            raise Error(f"an actor of the cluster has ended; Cluster.open starts it again: {error}") from error


def merged(
    sequence: int, results: list[tuple[Any, Any]], missing: tuple[int, ...], k: int | None = None
) -> ClusterMatches:
    """The nearest of what shards have found."""
    keys, distances = (np.concatenate(arrays, axis=-1) for arrays in zip(*results, strict=True))
    if k is None:  # Within a radius, each shard has a row as long as its longest.
        k = max(1, (keys >= 0).sum(-1).max(initial=0)) if keys.ndim == 2 else keys.size
    order = np.lexsort((keys, distances))[..., :k]
    matches = ClusterMatches(np.take_along_axis(keys, order, -1), np.take_along_axis(distances, order, -1))
    matches.sequence, matches.missing_shards = sequence, missing
    return matches


def stop(router: Router, deadline: float) -> None:
    """Ends all actors: the sequencer first, which would start replicas."""
    end_actor(sequencer_name(router.url), deadline)
    router.end_shards(0, deadline)


def start(store: Store) -> bool:
    """Starts the sequencer of a folder, if there is none, and it the replicas. Returns whether no actor was there."""
    name = sequencer_name(store.url)
    if exists(name):
        return False
    alone = not exists(replica_name(store.url, 0, 0))
    manifest = store.manifest()
    store.check_files(manifest)
    alive = sum(node["Alive"] for node in ray.nodes())
    if alive < manifest["replicas"]:
        warnings.warn(
            f"each shard has {manifest['replicas']} replicas, and the cluster has {alive} nodes: replicas on one node are "
            "lost together; add nodes",
            stacklevel=3,
        )
    actor = ray.remote(concurrency_groups={"read": 4})(Sequencer).options(
        name=name,
        namespace=NAMESPACE,
        lifetime="detached",
        max_restarts=-1,
        max_task_retries=-1,
        max_concurrency=8,
        num_cpus=0,
    )
    try:
        actor.remote(store.url)
    except ActorAlreadyExistsError:  # Another program has started it just now.
        return False
    return alone
