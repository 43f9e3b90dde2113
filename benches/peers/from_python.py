"""Times Jasper, hnswlib, faiss and usearch from Python, in one process and in turns.

    pip install crates/jasper-python hnswlib==0.8.0 faiss-cpu==1.15.1 usearch==2.26.6
    python benches/peers/from_python.py [--builds 3] [--rounds 9] [--threads 1 2]

The set is the dictionary of the demonstration: 30,000 entries, and the vectors of 10,000 words as queries, 128 float32
of unit length. Each library searches with the narrowest beam that reaches a recall@10 of 0.95. In every round, every
library searches all queries in one call, and the first 1,000 one at a time. The tables have medians of the builds and
of the rounds, and the ratio is the median of those of the rounds: Jasper's speed over that of the library.
"""

import argparse
import bisect
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

DATA = pathlib.Path(__file__).parents[2] / "crates/jasper-cli/data/wordnet-demo"
K, RECALL, SINGLES = 10, 0.95, 1000
WIDTHS = range(K, 400)


class Jasper:
    name = "jasper"

    def __init__(self, base: np.ndarray, threads: int) -> None:
        import jasper

        self.index = jasper.Index.build(base, metric="l2", device="cpu", threads=threads)

    def search(self, queries: np.ndarray, width: int) -> np.ndarray:
        return self.index.search(queries, K, beam_width=width).keys

    one = search


class Hnswlib:
    name = "hnswlib"

    def __init__(self, base: np.ndarray, threads: int) -> None:
        import hnswlib

        self.index = hnswlib.Index("l2", base.shape[1])
        self.index.init_index(len(base), ef_construction=200, M=32)
        self.index.set_num_threads(threads)
        self.index.add_items(base)

    def search(self, queries: np.ndarray, width: int) -> np.ndarray:
        self.index.set_ef(width)
        return self.index.knn_query(queries, K)[0]

    one = search


class Faiss:
    name = "faiss HNSW"

    def __init__(self, base: np.ndarray, threads: int) -> None:
        import faiss

        faiss.omp_set_num_threads(threads)
        self.index = faiss.IndexHNSWFlat(base.shape[1], 32)
        self.index.hnsw.efConstruction = 200
        self.index.add(base)
        self.faiss, self.threads = faiss, threads

    def search(self, queries: np.ndarray, width: int) -> np.ndarray:
        self.faiss.omp_set_num_threads(self.threads)
        self.index.hnsw.efSearch = width
        return self.index.search(queries, K)[1]

    def one(self, query: np.ndarray, width: int) -> np.ndarray:
        return self.search(query[None], width)


class Usearch:
    name = "usearch"

    def __init__(self, base: np.ndarray, threads: int) -> None:
        from usearch.index import Index

        self.index = Index(ndim=base.shape[1], metric="l2sq", dtype="f32", connectivity=32, expansion_add=200)
        self.index.add(np.arange(len(base)), base, threads=threads)
        self.threads = threads

    def search(self, queries: np.ndarray, width: int) -> np.ndarray:
        self.index.expansion_search = width
        return self.index.search(queries, K, threads=self.threads).keys

    one = search


def rows(name: str) -> np.ndarray:
    count, dim = np.fromfile(DATA / name, np.int32, 2)
    vectors = np.fromfile(DATA / name, np.int8, offset=8).reshape(count, dim).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def recall(found: np.ndarray, truth: np.ndarray) -> float:
    return float((found[:, :, None] == truth[:, None, :]).any(axis=2).mean())


def narrowest(library: Any, queries: np.ndarray, truth: np.ndarray) -> tuple[int, float]:
    """The narrowest beam that reaches the recall, and its recall."""
    reached = {}

    def falls_short(width: int) -> bool:
        reached[width] = recall(library.search(queries, width), truth)
        return reached[width] < RECALL

    width = WIDTHS[bisect.bisect_left(WIDTHS, True, key=lambda width: not falls_short(width))]
    if width not in reached:
        falls_short(width)
    return width, reached[width]


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--builds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    base, queries = rows("base.i8bin"), rows("words.i8bin")[:10_000]
    truth = np.vstack([np.argpartition(-part @ base.T, K, axis=1)[:, :K] for part in np.array_split(queries, 20)])
    libraries = [Jasper, Hnswlib, Faiss, Usearch]
    for threads in options.threads:
        builds: dict[str, list[float]] = {library.name: [] for library in libraries}
        made, widths = {}, {}
        for _ in range(options.builds):
            for library in libraries:
                start = time.perf_counter()
                made[library.name] = library(base, threads)
                builds[library.name].append(time.perf_counter() - start)
        for name, library in made.items():
            widths[name] = narrowest(library, queries, truth)
        batches: dict[str, list[float]] = {name: [] for name in made}
        singles: dict[str, list[float]] = {name: [] for name in made}
        for _ in range(options.rounds):
            for name, library in made.items():
                width = widths[name][0]
                batches[name].append(seconds(lambda: library.search(queries, width)))
                singles[name].append(seconds(lambda: [library.one(query, width) for query in queries[:SINGLES]]))
        print(f"\n{threads} {'thread' if threads == 1 else 'threads'}\n")
        print("| library | build, s | width | recall | batch, queries/s | ratio | one by one, queries/s | ratio |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for name in made:
            width, reached = widths[name]
            columns = []
            for count, times in ((len(queries), batches), (SINGLES, singles)):
                ratio = statistics.median(theirs / ours for theirs, ours in zip(times[name], times["jasper"]))
                columns += [f"{count / statistics.median(times[name]):,.0f}", f"{ratio:.2f}"]
            build = statistics.median(builds[name])
            print(f"| {name} | {build:.1f} | {width} | {reached:.3f} | {' | '.join(columns)} |")


if __name__ == "__main__":
    main()
