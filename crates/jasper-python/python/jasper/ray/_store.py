"""The folder of a cluster on shared storage.

    LATEST                              names the newest manifest; replaced last
    manifest-000000000042.json          what the cluster is, and the file of each shard, at a snapshot
    shard-00007-000000000042-1.jasper   shard 7 after batch 42, saved by replica 1
    log/000000000043.npz                a batch; exists if and only if the batch is part of the cluster

Files appear whole or not at all, on local file systems (renames and links) and on object stores (uploads).
"""

import contextlib
import hashlib
import io
import json
import os
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime
from operator import methodcaller
from typing import Any, NamedTuple

import fsspec
import numpy as np
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray

from jasper import _interop
from jasper._native import Index
from jasper._typing import Attributes
from jasper.errors import FormatError, UnknownKeyError

FORMAT = 1
"""Version of the manifest and of the log."""

BUCKETS = 1024
"""Keys are assigned to buckets by their hash, and buckets to shards by a table."""

MAINTENANCE = ("consolidate", "compact", "quantize", "tune")
"""Changes that leave keys, vectors and attributes as they are."""

REMEMBERED = 1000
"""Batches whose results are kept in case a client repeats its call."""

EXAMPLES = {
    "bool": False,
    "integer": 0,
    "float": 0.0,
    "timestamp": datetime(1970, 1, 1),
    "keyword": "",
    "keywords": [""],
}
"""A value of each type of column."""


def bucket_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bucket of each key: the highest bits of the finalizer of SplitMix64."""
    hashed = keys.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashed = (hashed ^ (hashed >> np.uint64(shift))) * np.uint64(factor)
    hashed ^= hashed >> np.uint64(31)
    return (hashed >> np.uint64(54)).astype(np.int64)


def values_of(attributes: Attributes | None) -> dict[str, list[Any]]:
    """The values of each column of attributes."""
    return {} if attributes is None else {name: values for name, values, _ in _interop.columns(attributes)}


def add_columns(index: Index, columns: dict[str, str]) -> None:
    """Gives an index the columns that it does not have, so that those of all shards are the same."""
    new = {name: [EXAMPLES[kind]] for name, kind in columns.items() if name not in index.columns}
    if new:
        # A column gets its type from a value, and keeps it.
        empty = Index(index.dim, metric=index.metric, dtype=index.dtype, threads=1)
        empty.insert(np.ones((1, index.dim), index.dtype), [0], attributes=new)
        empty.delete([0])
        empty.consolidate()
        index.merge(empty)


def new_columns(columns: dict[str, str], attributes: dict[str, list[Any]], count: int) -> dict[str, str]:
    """The columns that attributes of a number of keys add to others, and their types.

    Raises ParameterError if values do not fit their columns.
    """
    index = Index(1, threads=1)
    add_columns(index, columns)
    # Values are checked before keys.
    with contextlib.suppress(UnknownKeyError):
        index.set_attributes(np.arange(count), attributes)
    for name in attributes:
        if name not in columns:
            # A value of each type gives the type of the column. NaN is null, and no float.
            some = list({type(value): value for value in attributes[name] if value == value}.values())
            index.insert(np.ones((len(some), 1)), attributes={name: some})
    return {name: kind for name, kind in index.columns.items() if name not in columns}


class Batch(NamedTuple):
    """A change of a cluster, in the log or, as one shard sees it, in a call."""

    sequence: int
    id: str
    """Given by the client: a call that is repeated has the same."""
    method: str
    arguments: dict[str, Any]
    keys: NDArray[np.int64]
    vectors: NDArray[Any] | None
    attributes: dict[str, list[Any]]
    shards: NDArray[np.int16]
    """The shard of each key; for a move, its new one."""

    @property
    def skips(self) -> dict[str, str]:
        """Why shards skip the batch before this one, by shard."""
        causes: dict[str, str] = self.arguments["causes"] if self.method == "skip" else {}
        return causes

    def part(self, shard: int) -> "Batch":
        """What concerns a shard. A move is a delete at its source, and an insert elsewhere."""
        mine = np.flatnonzero(self.shards == shard)
        vectors = None if self.vectors is None else self.vectors[mine]
        attributes = {name: [values[row] for row in mine.tolist()] for name, values in self.attributes.items()}
        part = self._replace(keys=self.keys[mine], vectors=vectors, attributes=attributes, shards=self.shards[mine])
        if self.method != "move":
            return part
        if self.arguments["source"] == shard:
            return self._replace(method="delete", vectors=None, attributes={})
        return part._replace(method="insert")

    def encode(self) -> bytes:
        """The bytes of its file in the log."""
        fields = [FORMAT, self.sequence, self.id, self.method, self.arguments, self.attributes]
        header = json.dumps(fields, default=methodcaller("isoformat")).encode()
        arrays = {"header": np.frombuffer(header, np.uint8), "keys": self.keys, "shards": self.shards}
        if self.vectors is not None:
            arrays["vectors"] = self.vectors
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def decode(cls, name: str, data: bytes) -> "Batch":
        """Reads what `encode` has written. Each array has a checksum."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                arrays = dict(file)
            # Earlier batches have no attributes.
            form, sequence, id, method, arguments, *attributes = json.loads(arrays["header"].tobytes())
        except Exception as error:
            raise FormatError(f"{name} is not a batch of the log, or is damaged: {error}") from error
        if form != FORMAT:
            raise FormatError(f"{name} has format {form}, and this version reads {FORMAT}")
        values = attributes[0] if attributes else {}
        return cls(sequence, id, method, arguments, arrays["keys"], arrays.get("vectors"), values, arrays["shards"])


class Layout:
    """What the log says about a cluster besides its vectors and attributes."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.sequence: int = manifest["sequence"]
        self.since = self.sequence
        """The last batch that changed vectors or attributes, if it is known."""
        self.shards: int = manifest["shards"]
        self.table = np.array(manifest["table"], np.int16)
        self.next_key: int = manifest["next_key"]
        self.columns: dict[str, str] = manifest.get("columns", {})
        self.recent: dict[str, tuple[int, int]] = {id: (first, count) for id, first, count in manifest["recent"]}
        self.skipped: set[int] = set()
        """Batches that shards have skipped since the manifest."""

    def fields(self) -> dict[str, Any]:
        """Its part of a manifest."""
        recent = [[id, first, count] for id, (first, count) in self.recent.items()]
        state = {"sequence": self.sequence, "shards": self.shards, "next_key": self.next_key, "recent": recent}
        return {**state, "columns": self.columns, "table": self.table.tolist()}

    def apply(self, batch: Batch) -> None:
        """Follows a batch, the next one."""
        self.sequence = batch.sequence
        if batch.method not in MAINTENANCE:
            self.since = batch.sequence
        self.columns = {**self.columns, **batch.arguments.get("columns", {})}
        if batch.method == "move":
            self.table[batch.arguments["buckets"]] = batch.arguments["targets"]
        elif batch.method == "resize":
            self.shards = batch.arguments["shards"]
        elif batch.method == "skip":
            self.skipped.add(batch.sequence - 1)
            undone = batch.arguments["undone"]
            self.recent.pop(undone.get("id"), None)
            self.table[undone.get("buckets", [])] = undone.get("source", 0)
            self.columns = {name: self.columns[name] for name in self.columns if name not in undone.get("columns", {})}
        elif batch.method in ("insert", "upsert") and len(batch.keys):
            self.next_key = max(self.next_key, int(batch.keys.max()) + 1)
        self.recent[batch.id] = (int(batch.keys[0]) if len(batch.keys) else 0, len(batch.keys))
        if len(self.recent) > REMEMBERED:
            del self.recent[next(iter(self.recent))]


class Store:
    """A folder, by a path or a URL of fsspec."""

    url: str
    """Names the folder on all nodes, and the actors of its cluster: an absolute path, or the URL."""

    def __init__(self, url: str) -> None:
        self._fs, self._root = fsspec.core.url_to_fs(url)
        self._local = isinstance(self._fs, LocalFileSystem)
        if self._local:
            self._root = os.path.abspath(self._root)
        self.url = self._root if self._local else str(url).rstrip("/")

    def make_folders(self) -> None:
        """Makes the folder and that of the log. Object stores have no folders."""
        if self._local:
            os.makedirs(f"{self._root}/log", exist_ok=True)

    def path(self, name: str) -> str:
        """Where a file is, for messages."""
        return f"{self.url}/{name}"

    def local_path(self, name: str) -> str | None:
        """Where a file is in the local file system, if it is there."""
        return f"{self._root}/{name}" if self._local else None

    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError."""
        data: bytes = self._fs.cat_file(f"{self._root}/{name}")
        return data

    def size(self, name: str) -> int | None:
        """Bytes of a file; None if there is none."""
        self._fs.invalidate_cache()
        try:
            return int(self._fs.size(f"{self._root}/{name}"))
        except FileNotFoundError:
            return None

    def is_missing(self, name: str) -> bool:
        """Whether there certainly is no such file."""
        try:
            return self.size(name) is None
        except OSError:
            return False

    def create(self, name: str, data: bytes) -> None:
        """Writes a file that must not exist. Of several writers one succeeds; others raise FileExistsError."""
        path = f"{self._root}/{name}"
        if self._local:
            self._write_local(path, data, os.link)
        else:
            self._fs.pipe_file(path, data, mode="create")

    def replace(self, name: str, data: bytes) -> None:
        """Writes a file, in place of the one that is there."""
        path = f"{self._root}/{name}"
        if self._local:
            self._write_local(path, data, os.replace)
        else:
            self._fs.pipe_file(path, data)

    def upload(self, source: str, name: str) -> None:
        """Copies a file of the local file system."""
        self._fs.put_file(source, f"{self._root}/{name}")

    def download(self, name: str, target: str) -> None:
        """Copies a file to the local file system."""
        self._fs.get_file(f"{self._root}/{name}", target)

    def names(self, folder: str = "") -> list[str]:
        """Names of files, sorted."""
        self._fs.invalidate_cache()
        try:
            entries = self._fs.ls(f"{self._root}/{folder}".rstrip("/"), detail=False)
        except FileNotFoundError:
            return []
        return sorted(entry.rstrip("/").rpartition("/")[2] for entry in entries)

    def remove(self, names: Iterable[str]) -> None:
        """Removes files, if they are there."""
        for name in names:
            try:
                self._fs.rm_file(f"{self._root}/{name}")
            except FileNotFoundError:
                pass

    def logged(self, after: int) -> list[int]:
        """Sequence numbers of the batches after one, ascending."""
        numbers = (int(name.partition(".")[0]) for name in self.names("log") if name.endswith(".npz"))
        return [number for number in numbers if number > after]

    def check_log(self, after: int) -> list[int]:
        """The numbers of the batches after one, of which none is missing."""
        numbers = self.logged(after)
        for expected, number in enumerate(numbers, after + 1):
            if number != expected:
                raise FormatError(f"{self.path(log_name(expected))} is missing, and later batches are there; restore it")
        return numbers

    def append(self, batch: Batch) -> int:
        """Adds a batch to the log, and returns its size. Raises FileExistsError if there is one of this number."""
        data = batch.encode()
        self.create(log_name(batch.sequence), data)
        return len(data)

    def batch(self, sequence: int) -> Batch:
        """Reads a batch of the log."""
        name = log_name(sequence)
        return Batch.decode(self.path(name), self.read(name))

    def replay(self, numbers: list[int]) -> Iterator[tuple[Batch, dict[str, str]]]:
        """Reads batches of the log, and why shards skip each, which the batch after it says."""
        batch = self.batch(numbers[0])
        for number in numbers[1:]:
            following = self.batch(number)
            yield batch, following.skips
            batch = following
        yield batch, {}

    def latest(self) -> str:
        """The name of the newest manifest."""
        return self.read("LATEST").decode().strip()

    def manifest(self) -> dict[str, Any]:
        """The newest manifest, checked. Raises FileNotFoundError if there is none."""
        name = self.latest()
        try:
            manifest = json.loads(self.read(name))
        except ValueError as error:
            raise FormatError(f"{self.path(name)} is damaged: {error}") from None
        return check_manifest(manifest, self.path(name))

    def publish(self, manifest: dict[str, Any]) -> str:
        """Makes a manifest the newest one, and returns its name."""
        name = f"manifest-{manifest['sequence']:012}-{uuid.uuid4().hex[:8]}.json"
        self.replace(name, json.dumps(manifest, indent=1).encode())
        self.replace("LATEST", name.encode())
        return name

    def check_files(self, manifest: dict[str, Any]) -> None:
        """Checks that each file of a manifest is there and as long as it says, and that the log has no gap."""
        self.check_log(manifest["sequence"])
        for file in manifest["files"]:
            path = self.path(file["file"])
            size = self.size(file["file"])
            if size is None:
                raise FormatError(f"shard {file['shard']} is missing: there is no {path}; restore it")
            if size != file["bytes"]:
                raise FormatError(
                    f"{path} is {size} bytes, and shard {file['shard']} has {file['bytes']}; restore the file of "
                    f"build {manifest['build']}"
                )

    @staticmethod
    def _write_local(path: str, data: bytes, publish: Any) -> None:
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            publish(temporary, path)
            folder = os.open(os.path.dirname(path), os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        finally:
            if os.path.exists(temporary):
                os.remove(temporary)


def log_name(sequence: int) -> str:
    """The name of the file of a batch."""
    return f"log/{sequence:012}.npz"


def digest(path: str) -> str:
    """The SHA-256 of a file."""
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            sha.update(piece)
    return sha.hexdigest()


def check_manifest(manifest: Any, path: str) -> dict[str, Any]:
    """Checks that a manifest has each shard once, and all of one version and build."""
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        form = manifest.get("format") if isinstance(manifest, dict) else None
        raise FormatError(f"{path} has format {form}, and this version reads {FORMAT}")
    shards, table = manifest["shards"], manifest["table"]
    owners: dict[int, str] = {}
    if len(table) != BUCKETS or not all(0 <= shard < shards for shard in table):
        raise FormatError(f"{path} must assign {BUCKETS} buckets to shards 0 to {shards - 1}")
    for file in manifest["files"]:
        shard = file["shard"]
        if shard in owners:
            raise FormatError(f"{path} has shard {shard} twice: {owners[shard]} and {file['file']}")
        owners[shard] = file["file"]
        for field in ("version", "build"):
            if file[field] != manifest[field]:
                raise FormatError(
                    f"{file['file']} of shard {shard} is of {field} {file[field]}, and {path} of {field} "
                    f"{manifest[field]}; restore the folder from one snapshot"
                )
    missing = sorted(set(range(shards)) - set(owners))
    if missing or len(owners) != shards:
        raise FormatError(f"{path} has files of {len(owners)} shards, and must have {shards}: {missing} are missing")
    return manifest
