from asyncio import Future
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from jasper._typing import (
    Attributes,
    Devices,
    Distances,
    FilterLike,
    GraphFormat,
    Metric,
    Out,
    Path,
    Progress,
    Queries,
    Readable,
    Stream,
    Vectors,
    VectorStorage,
    Writable,
)
from jasper.results import Matches, Report

__all__ = ["Filter", "Index", "__version__", "_command", "devices", "exact_search", "recall"]

__version__: str

@final
class Filter:
    @staticmethod
    def where(expression: str | Mapping[str, Any]) -> Filter: ...
    @staticmethod
    def keys(keys: ArrayLike, *, exclude: bool = False) -> Filter: ...
    @staticmethod
    def mask(mask: ArrayLike) -> Filter: ...
    @staticmethod
    def matching(index: Index, predicate: Callable[[NDArray[np.int64]], ArrayLike]) -> Filter: ...
    def __reduce__(self) -> tuple[Callable[[Any], Filter], tuple[Any]]: ...

@final
class Index:
    def __new__(
        cls,
        dim: int,
        *,
        metric: Metric = "l2",
        dtype: DTypeLike | None = None,
        max_degree: int | None = None,
        build_beam_width: int | None = None,
        alpha: float | None = None,
        max_batch_share: float | None = None,
        seed: int | None = None,
        threads: int | None = None,
    ) -> Index: ...
    @staticmethod
    def build(
        vectors: Vectors,
        *,
        keys: ArrayLike | None = None,
        attributes: Attributes | None = None,
        ids: str | None = None,
        metric: Metric = "l2",
        dtype: DTypeLike | None = None,
        max_degree: int | None = None,
        build_beam_width: int | None = None,
        alpha: float | None = None,
        max_batch_share: float | None = None,
        seed: int | None = None,
        threads: int | None = None,
        device: Devices = "auto",
        sharded: bool = False,
        shards: int | None = None,
        exact_linking: bool = False,
        skip_zero_vectors: bool = False,
        quantization: str | None = None,
        checkpoint: Path | None = None,
        checkpoint_interval: float = 300.0,
        progress: Progress | bool | None = None,
    ) -> Index: ...
    @staticmethod
    def memory_plan(
        rows: int,
        dim: int,
        *,
        metric: Metric = "l2",
        dtype: DTypeLike | None = None,
        max_degree: int | None = None,
        build_beam_width: int | None = None,
        max_batch_share: float | None = None,
        device: Devices = "auto",
        sharded: bool = False,
        shards: int | None = None,
        exact_linking: bool = False,
        quantization: str | None = None,
    ) -> Report: ...
    @staticmethod
    def open(
        file: Path | bytes | Readable,
        *,
        mmap: bool = False,
        device: Devices = "cpu",
        vector_storage: VectorStorage | None = None,
        sharded: bool = False,
        threads: int | None = None,
        exact_linking: bool = False,
        follow: bool = False,
        progress: Progress | bool | None = None,
    ) -> Index: ...
    @staticmethod
    def import_graph(
        file: Path,
        format: GraphFormat | None = None,
        *,
        base: Vectors | None = None,
        metric: Metric | None = None,
        max_degree: int | None = None,
        device: Devices = "cpu",
        threads: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Index: ...
    def save(
        self, file: Path | Writable, *, durable: bool = False, progress: Progress | bool | None = None
    ) -> None: ...
    def snapshot(self, *, progress: Progress | bool | None = None) -> None: ...
    def catch_up(self) -> int: ...
    def to_device(
        self,
        device: Devices,
        *,
        vector_storage: VectorStorage | None = None,
        sharded: bool = False,
    ) -> Index: ...
    def rebuild(self, device: Devices = "cpu", *, progress: Progress | bool | None = None) -> Index: ...
    def search(
        self,
        queries: Queries,
        k: int = 10,
        *,
        beam_width: int | None = None,
        recall: float | None = None,
        filter: FilterLike | None = None,
        distances: Distances = "auto",
        rerank: int | None = None,
        out: Out | None = None,
        stream: Stream | None = None,
    ) -> Matches: ...
    def search_async(
        self,
        queries: Queries,
        k: int = 10,
        *,
        beam_width: int | None = None,
        recall: float | None = None,
        filter: FilterLike | None = None,
        distances: Distances = "auto",
        rerank: int | None = None,
    ) -> Future[Matches]: ...
    def explain(
        self,
        filter: FilterLike | None = None,
        k: int = 10,
        *,
        beam_width: int | None = None,
        queries: int = 1,
    ) -> Report: ...
    def search_by_key(
        self,
        key: int | str,
        k: int = 10,
        *,
        beam_width: int | None = None,
        recall: float | None = None,
        filter: FilterLike | None = None,
        distances: Distances = "auto",
        rerank: int | None = None,
    ) -> Matches: ...
    def search_within(
        self,
        queries: Queries,
        radius: float,
        *,
        beam_width: int | None = None,
        filter: FilterLike | None = None,
        distances: Distances = "auto",
        rerank: int | None = None,
    ) -> Matches: ...
    def pages(
        self,
        query: Queries,
        k: int = 10,
        *,
        beam_width: int | None = None,
        filter: FilterLike | None = None,
        distances: Distances = "auto",
        rerank: int | None = None,
        after: ArrayLike | None = None,
    ) -> Iterator[Matches]: ...
    def insert(
        self,
        vectors: Vectors,
        keys: ArrayLike | None = None,
        *,
        attributes: Attributes | None = None,
        ids: str | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[np.int64]: ...
    def upsert(
        self,
        vectors: Vectors,
        keys: ArrayLike | None = None,
        *,
        attributes: Attributes | None = None,
        ids: str | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[np.int64]: ...
    def set_attributes(self, keys: ArrayLike, attributes: Attributes) -> None: ...
    def attributes(self, keys: ArrayLike) -> dict[str, list[Any]]: ...
    def key_of(self, id: str) -> int | None: ...
    @property
    def columns(self) -> dict[str, str]: ...
    def delete(self, keys: ArrayLike, *, missing: Literal["raise", "ignore"] = "raise") -> int: ...
    def insert_async(
        self, vectors: Vectors, keys: ArrayLike, *, attributes: Attributes | None = None
    ) -> Future[NDArray[np.int64]]: ...
    def upsert_async(
        self, vectors: Vectors, keys: ArrayLike, *, attributes: Attributes | None = None
    ) -> Future[NDArray[np.int64]]: ...
    def delete_async(self, keys: ArrayLike) -> Future[int]: ...
    def undelete(self, keys: ArrayLike) -> None: ...
    def merge(self, other: Index, *, progress: Progress | bool | None = None) -> Report: ...
    def consolidate(self, *, progress: Progress | bool | None = None) -> Report: ...
    def compact(self, *, progress: Progress | bool | None = None) -> Report: ...
    def quantize(
        self, quantization: str | None = "auto", *, force: bool = False, progress: Progress | bool | None = None
    ) -> str | None: ...
    def drop_vectors(self) -> None: ...
    def set_limits(
        self,
        *,
        max_k: int | None = None,
        max_beam_width: int | None = None,
        max_queries: int | None = None,
    ) -> None: ...
    def tune(
        self,
        recall: float = 0.95,
        k: int = 10,
        *,
        queries: Queries | None = None,
        truth: Matches | ArrayLike | None = None,
        progress: Progress | bool | None = None,
    ) -> Report: ...
    def check(self, *, progress: Progress | bool | None = None) -> Report: ...
    def keys(self) -> NDArray[np.int64]: ...
    def vectors(self, keys: ArrayLike) -> NDArray[Any]: ...
    def __getitem__(self, key: int | str, /) -> NDArray[Any]: ...
    def __delitem__(self, key: int | str, /) -> None: ...
    def __contains__(self, key: int | str, /) -> bool: ...
    def __iter__(self) -> Iterator[int]: ...
    def __len__(self) -> int: ...
    def __reduce__(self) -> tuple[Callable[[bytes], Index], tuple[bytes]]: ...
    @property
    def dim(self) -> int: ...
    @property
    def metric(self) -> Metric: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def device(self) -> str: ...
    def warm_up(self) -> None: ...
    @property
    def device_info(self) -> Report: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def stats(self) -> Report: ...

def exact_search(
    base: Queries,
    queries: Queries,
    k: int = 10,
    *,
    metric: Metric = "l2",
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> Matches: ...
def recall(found: Matches | ArrayLike, truth: Matches | ArrayLike, k: int | None = None) -> float: ...
def devices() -> list[Report]: ...
def _command(arguments: list[str], dictionary: str | None) -> int: ...
