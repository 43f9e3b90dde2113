"""Builds of shards, by tasks of Ray Data."""

import json
import os
import re
import tempfile
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from numpy.typing import ArrayLike, DTypeLike

from jasper import errors
from jasper._interop import to_numpy
from jasper._native import Index, __version__
from jasper._progress import Bar
from jasper._typing import Progress
from jasper.data import column, storage_of
from jasper.errors import Cancelled, Error, ParameterError
from jasper.ray._sequencer import first_manifest
from jasper.ray._store import Store, bucket_of, digest, new_columns, values_of

SHARD = "__jasper_shard"
"""Name of the column that is added to data sets."""


def build(
    dataset: Any,
    keys: ArrayLike | None,
    attributes: Any,
    path: str,
    columns: dict[str, str],
    shards: int,
    replicas: int,
    index: dict[str, Any],
    dtype: DTypeLike | None,
    quantization: str | None,
    resources: dict[str, Any],
    progress: Progress | bool | None,
) -> None:
    """Builds the shards of a data set, and publishes their manifest."""
    if not 1 <= shards <= 1024:
        raise ParameterError(f"shards ({shards}) must be between 1 and 1024")
    if replicas < 1:
        raise ParameterError(f"replicas ({replicas}) must be at least 1")
    for name, amount in resources.items():
        if amount is not None and amount < 0:
            argument = name if name == "memory" else f"num_{name.lower()}s"
            raise ParameterError(f"{argument} ({amount}) must be at least 0")
    store = Store(path)
    if store.size("LATEST") is not None:
        raise Error(f"there is a cluster in {path}; open it with Cluster.open, or choose another folder")
    check_room(shards * replicas, resources)
    store.make_folders()
    build_id = uuid.uuid4().hex
    threads = max(1, int(resources["CPU"]))
    dtype = None if dtype is None else np.dtype(dtype).name
    rows, names = as_dataset(dataset, keys, attributes, columns)
    builder = ShardBuilder(store.url, build_id, columns, names, index, dtype, quantization, threads)
    report = Bar() if progress is True else progress or None
    files = []
    is_empty = not rows.take(1)
    try:
        given = {"columns": columns, "attributes": names, "shards": shards}
        sharded = rows.map_batches(add_shard, batch_format="pyarrow", zero_copy_batch=True, fn_kwargs=given)
        groups = sharded.groupby(SHARD, num_partitions=4 * shards).map_groups(
            builder.build_shard, batch_format="pyarrow", num_cpus=resources["CPU"], num_gpus=resources["GPU"] or None
        )
        for row in () if is_empty else groups.iter_rows():
            files.append(row)
            if report is not None and report("building shards", len(files), shards) is False:
                raise Cancelled(f"cancelled while building shards ({len(files)} of {shards})")
    except Exception as error:
        raise jasper_error(error) from error
    finally:
        if isinstance(report, Bar):
            report.close()
    built = {file["shard"]: file for file in files}
    kind = files[0] if files else kind_of(rows, columns["vector"], dtype)
    for shard in range(shards):
        if shard not in built:
            built[shard] = builder.save(shard, Index(kind["dim"], dtype=kind["dtype"], **index))
    entries = [built[shard] for shard in range(shards)]
    described = {"dim": kind["dim"], "dtype": kind["dtype"], **index}
    kinds: dict[str, str] = {}
    for entry in entries:
        del entry["dim"], entry["dtype"]
        for name, kind in json.loads(entry.pop("columns")).items():
            if kinds.setdefault(name, kind) != kind:
                raise ParameterError(
                    f"column {name!r} is of kind {kinds[name]} in some shards and of kind {kind} in others; "
                    "convert all of its values to one type"
                )
    if resources["memory"] is None:
        resources = {**resources, "memory": int(1.5 * max(entry["bytes"] for entry in entries)) + (64 << 20)}
    options = {"resources": resources, "num_gpus": resources["GPU"], "threads": threads}
    store.publish(first_manifest(build_id, shards, replicas, described, kinds, options, entries))


@dataclass
class ShardBuilder:
    """Builds and saves the shard of a group of rows. A task that is repeated writes the same file."""

    path: str
    build: str
    columns: dict[str, str]
    attributes: list[str]
    index: dict[str, Any]
    dtype: str | None
    quantization: str | None
    threads: int

    def build_shard(self, group: Any) -> dict[str, list[Any]]:
        keys = group.column(self.columns["key"]).to_numpy()
        index = Index.build(
            column(group, self.columns["vector"]),
            keys=keys,
            attributes=group.select(self.attributes),
            dtype=self.dtype,
            quantization=self.quantization,
            threads=self.threads,
            **self.index,
        )
        entry = self.save(group.column(SHARD)[0].as_py(), index)
        return {name: [value] for name, value in entry.items()}

    def save(self, shard: int, index: Index) -> dict[str, Any]:
        """Saves a shard, and describes it for the manifest."""
        store, name = Store(self.path), f"shard-{shard:05}-{0:012}-{self.build[:8]}.jasper"
        with tempfile.TemporaryDirectory() as folder:
            path = store.local_path(name) or f"{folder}/index"
            index.save(path)
            if store.local_path(name) is None:
                store.upload(path, name)
            about = {"bytes": os.path.getsize(path), "sha256": digest(path), "vectors": len(index), "sequence": 0}
        next_key = int(index.keys().max()) + 1 if len(index) else 0
        # Ray would give all shards the fields of a dictionary that one has.
        kind = {"dim": index.dim, "dtype": index.dtype.name, "columns": json.dumps(index.columns), "next_key": next_key}
        return {"shard": shard, "file": name, **about, "version": __version__, "build": self.build, **kind}


def add_shard(table: Any, columns: dict[str, str], attributes: list[str], shards: int) -> Any:
    """The columns that a build needs, and the shard of each row."""
    import pyarrow as pa

    for what, name in [*columns.items(), *(("attributes", name) for name in attributes)]:
        if name not in table.column_names:
            raise ParameterError(f"{what} ({name!r}) must be one of the columns {', '.join(table.column_names)}")
    keys = table.column(columns["key"])
    if not pa.types.is_integer(keys.type) or keys.null_count:
        raise ParameterError(f"column {columns['key']!r} of keys must be of integers without nulls, and is of {keys.type}")
    keys = keys.to_numpy()
    if len(keys) and (keys.min() < 0 or keys.max() >= 2**63):
        raise ParameterError("keys must be integers from 0 to 2**63 - 1")
    owners = (bucket_of(keys.astype(np.int64)) % shards).astype(np.int32)
    return table.select([*columns.values(), *attributes]).append_column(SHARD, pa.array(owners))


def as_dataset(dataset: Any, keys: ArrayLike | None, attributes: Any, columns: dict[str, str]) -> tuple[Any, list[str]]:
    """A data set of ray.data, and the names of its columns of attributes."""
    import pyarrow as pa
    import ray.data

    if isinstance(dataset, (str, os.PathLike, list)):
        dataset = ray.data.read_parquet(dataset, columns=[*columns.values(), *(attributes or ())])
    if isinstance(dataset, ray.data.Dataset):
        return dataset, list(attributes or ())
    given = to_numpy(dataset, "dataset")
    rows = np.asarray(given, getattr(given, "dtype", None))
    if rows.ndim != 2:
        raise ParameterError(f"dataset has shape {rows.shape}, and must have (n, dim), or be a data set or a path")
    numbers = np.arange(len(rows)) if keys is None else np.asarray(keys)
    if len(numbers) != len(rows):
        raise ParameterError(f"there are {len(numbers)} keys and {len(rows)} vectors; give one key per vector")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows).ravel()), rows.shape[1])
    table = {columns["vector"]: vectors, columns["key"]: pa.array(numbers)}
    values = values_of(attributes)
    new_columns({}, values, len(rows))
    for name in values:
        if name in table:
            raise ParameterError(f"attributes have the column {name!r}, as vector or key; give that another name")
        try:
            table[name] = pa.array(values[name])
        except pa.ArrowException as error:
            raise ParameterError(f"column {name!r} of attributes: {error}") from None
    return ray.data.from_arrow(pa.table(table)), list(values)


def kind_of(rows: Any, vector: str, dtype: str | None) -> dict[str, Any]:
    """The dimension and type of the vectors of a data set without rows, as its schema says."""
    import pyarrow as pa

    schema = rows.schema()
    column = None if schema is None else dict(zip(schema.names, schema.types)).get(vector)
    storage = None if column is None else storage_of(column)
    if not isinstance(storage, pa.FixedSizeListType):
        raise ParameterError(
            "the data set has no rows, and its schema no dimension; give at least one row, or a column of lists of a fixed "
            "size"
        )
    return {"dim": storage.list_size, "dtype": dtype or np.dtype(storage.value_type.to_pandas_dtype()).name}


def check_room(actors: int, resources: dict[str, Any]) -> None:
    """Checks that the cluster has what all replicas need."""
    there = ray.cluster_resources()
    for name, amount in resources.items():
        if amount and actors * amount > there.get(name, 0):
            raise Error(
                f"{actors} replicas need {actors * amount:g} {name}, and the Ray cluster has {there.get(name, 0):g}; "
                "lower shards, replicas or what each reserves, or add nodes"
            )


def jasper_error(error: BaseException) -> BaseException:
    """The error of Jasper that a task of Ray Data has failed with, or else the error."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(cause := getattr(chain, "cause", None), Error):
            return cause
        if isinstance(chain, Error):
            return chain
        chain = chain.__cause__ or cause
    # Ray Data loses the cause of some errors, and keeps its traceback.
    found = re.search(r"jasper\.errors\.(\w+): (.*)", str(error))
    return getattr(errors, found[1])(found[2]) if found else error
