"""Builds and searches one of the other libraries in a process of its own, in rounds over all settings.

    python systems.py SYSTEM SET_FOLDER --threads 2 --queries 2000      (started by compare.py)

Prints one JSON object when the index is built; then, for every line on standard input, one object with a list of what
was measured at each setting, with the result ids in the first round.
"""
import argparse, json, os, resource, statistics, sys, tempfile, time
import numpy as np
from files import Set

K = 10
WIDTHS = [10, 16, 24, 40, 64, 100, 160, 250, 400, 640]
# Beams narrower than K, of systems that allow them.
NARROW = [3, 5, 7]


class Hnswlib:
    settings, label = WIDTHS, "M=32 ef_construction=200, f32; ef={}"

    def build(self, base, queries, metric, threads):
        import hnswlib

        self.queries, self.threads = queries.astype(np.float32), threads
        self.index = hnswlib.Index("ip" if metric == "ip" else "l2", base.shape[1])
        self.index.init_index(len(base), ef_construction=200, M=32, random_seed=1)
        self.index.add_items(base.astype(np.float32), num_threads=threads)

    def search(self, ef):
        self.index.set_ef(ef)
        return self.index.knn_query(self.queries, K, num_threads=self.threads)[0]


class FaissHnsw:
    settings, label = WIDTHS, "M=32 efConstruction=200, f32; efSearch={}"

    def make(self, faiss, dimension, metric, dtype):
        return faiss.IndexHNSWFlat(dimension, 32, metric)

    def build(self, base, queries, metric, threads):
        import faiss

        faiss.omp_set_num_threads(threads)
        self.queries = queries.astype(np.float32)
        kind = faiss.METRIC_INNER_PRODUCT if metric == "ip" else faiss.METRIC_L2
        self.index = self.make(faiss, base.shape[1], kind, base.dtype)
        self.index.hnsw.efConstruction = 200
        rows = base.astype(np.float32)
        self.index.train(rows)
        self.index.add(rows)

    def search(self, ef):
        self.index.hnsw.efSearch = ef
        return self.index.search(self.queries, K)[1]


class FaissHnsw8Bit(FaissHnsw):
    label = "M=32 efConstruction=200, 8 bits (exact on bytes, rounded on floats); efSearch={}"

    def make(self, faiss, dimension, metric, dtype):
        kinds = {"uint8": "QT_8bit_direct", "int8": "QT_8bit_direct_signed", "float32": "QT_8bit"}
        kind = getattr(faiss.ScalarQuantizer, kinds[dtype.name])
        return faiss.IndexHNSWSQ(dimension, kind, 32, metric)


class Usearch:
    settings, label = WIDTHS, "connectivity=32 expansion_add=200, f32; expansion_search={}"

    def build(self, base, queries, metric, threads):
        from usearch.index import Index

        self.queries, self.threads = queries.astype(np.float32), threads
        kind = "ip" if metric == "ip" else "l2sq"
        self.index = Index(ndim=base.shape[1], metric=kind, dtype="f32", connectivity=32, expansion_add=200)
        self.index.add(np.arange(len(base)), base.astype(np.float32), threads=threads)

    def search(self, expansion):
        self.index.expansion_search = expansion
        return self.index.search(self.queries, K, threads=self.threads).keys.astype(np.int64)


class Diskann:
    settings, label = WIDTHS, "in memory, R=64 L=128 alpha=1.2, element as given; complexity={}"

    def build(self, base, queries, metric, threads):
        import diskannpy

        self.queries, self.threads = queries, threads
        self.folder = tempfile.TemporaryDirectory()
        diskannpy.build_memory_index(
            base,
            distance_metric="mips" if metric == "ip" else "l2",
            index_directory=self.folder.name,
            complexity=128,
            graph_degree=64,
            num_threads=threads,
            alpha=1.2,
        )
        self.index = diskannpy.StaticMemoryIndex(
            self.folder.name, num_threads=threads, initial_search_complexity=max(self.settings)
        )

    def search(self, complexity):
        found = self.index.batch_search(self.queries, K, complexity=complexity, num_threads=self.threads)
        return found.identifiers.astype(np.int64)


class Scann:
    settings = [(5, 50), (10, 50), (20, 100), (40, 100), (40, 200), (80, 200), (120, 400), (200, 600)]
    label = "tree, anisotropic 4-bit codes, exact reordering from f32; (leaves, reordered)={}"

    def build(self, base, queries, metric, threads):
        import scann

        self.queries = queries.astype(np.float32)
        rows = base.astype(np.float32)
        leaves = int(2 ** round(np.log2(2 * len(rows) ** 0.5)))
        kind = "dot_product" if metric == "ip" else "squared_l2"
        builder = scann.scann_ops_pybind.builder(rows, K, kind).set_n_training_threads(threads)
        builder = builder.tree(leaves, num_leaves_to_search=20, training_sample_size=min(len(rows), 250_000))
        self.index = builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(100).build()
        self.index.set_num_threads(threads)

    def search(self, setting):
        leaves, reordered = setting
        found, _ = self.index.search_batched_parallel(
            self.queries, final_num_neighbors=K, leaves_to_search=leaves, pre_reorder_num_neighbors=reordered
        )
        return found.astype(np.int64)


class Pyglass:
    """Searches traverse with 4-bit codes and rerank with f16, as its README recommends for speed."""

    settings, label = NARROW + WIDTHS, "HNSW R=64 L=200, build SQ8U, search SQ4U, refine FP16, prefetches tuned; ef={}"

    def build(self, base, queries, metric, threads):
        import glass

        glass.set_num_threads(threads)
        self.queries, self.threads = queries.astype(np.float32), threads
        kind = "IP" if metric == "ip" else "L2"
        rows = base.astype(np.float32)
        graph = glass.Index("HNSW", kind, "SQ8U", 64, 200).build(rows)
        self.searcher = glass.Searcher(graph, rows, kind, "SQ4U", "FP16")
        self.searcher.optimize(threads)

    def search(self, ef):
        self.searcher.set_ef(ef)
        return self.searcher.batch_search(self.queries, K, self.threads)[0]


class SymphonyQg:
    """Has no batch call: `symphonyqg.patch` adds one, of one thread."""

    settings, label = WIDTHS, "degree 32, EF 200, 3 iterations, f32; EF={}"

    def build(self, base, queries, metric, threads):
        import symphonyqg

        assert metric != "ip", "its only metric is L2"
        self.queries = np.ascontiguousarray(queries, np.float32)
        self.index = symphonyqg.Index("QG", "L2", *base.shape, 32)
        self.index.build_index(base.astype(np.float32), 200, 3, threads)

    def search(self, ef):
        self.index.set_ef(ef)
        return self.index.batch_search(self.queries, K)


SYSTEMS = {
    "hnswlib": Hnswlib,
    "faiss-hnsw": FaissHnsw,
    "faiss-hnsw-8bit": FaissHnsw8Bit,
    "usearch": Usearch,
    "diskannpy": Diskann,
    "scann": Scann,
    "pyglass": Pyglass,
    "symphonyqg": SymphonyQg,
}


def timed(work):
    """What `work` gives, its wall clock, and the processor time of all threads."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def measure(search):
    """As `jasper eval` measures: once to warm up, then at least three times and half a second; the median wall clock,
    the mean CPU time, and the results."""
    ids, runs, begun = search(), [], time.perf_counter()
    while len(runs) < 3 or time.perf_counter() - begun < 0.5:
        runs.append(timed(search)[1:])
    walls, cpus = zip(*runs)
    return ids, dict(seconds=statistics.median(walls), cpu_seconds=statistics.mean(cpus))


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_mb():
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("set")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--queries", type=int, required=True)
    args = parser.parse_args()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print goes to standard error

    data = Set(args.set, args.queries)
    base, queries, metric = data.base, data.queries, data.metric
    if metric == "cosine":  # on rows of length 1, the order by L2 is the order by cosine
        base, queries = (x / np.linalg.norm(x, axis=1, keepdims=True).astype(np.float32) for x in (base, queries))
    system = SYSTEMS[args.system]()
    before = resident_mb()
    _, wall, cpu = timed(lambda: system.build(base, queries, metric, args.threads))
    built = dict(build_seconds=wall, build_cpu_seconds=cpu, build_mb=round(resident_mb() - before), peak_mb=peak_mb())
    out.write(json.dumps(dict(built, settings=[system.label.format(s) for s in system.settings])) + "\n")

    for number, _ in enumerate(sys.stdin):
        measured = []
        for setting in system.settings:
            ids, figures = measure(lambda: system.search(setting))
            measured.append(dict(figures, ids=np.asarray(ids).tolist()) if number == 0 else figures)
        out.write(json.dumps(measured) + "\n")


if __name__ == "__main__":
    main()
