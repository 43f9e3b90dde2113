#!/usr/bin/env python3
"""Checks that DiskANN and hnswlib can search the graph files that Jasper writes, and that Jasper reads DiskANN's. Run by hand:

    python check_graph_files.py --diskann-python OTHER/bin/python

Needs hnswlib 0.8.0 in this Python and diskannpy 0.7.0, which needs numpy 1.25 and therefore another Python, in the
other. For each metric and element: diskannpy builds a graph; Jasper's example `convert_graph` reads it, and writes it
for hnswlib and for DiskANN again. Then
  - diskannpy must give the same results for both of its graphs;
  - hnswlib must find on that graph what diskannpy finds, within 0.02 of recall@10, and return rows under their keys.
"""
import argparse, os, subprocess, sys, tempfile
import numpy as np

ROWS, QUERIES, DIMENSION, K, BEAM = 20_000, 500, 40, 10, 12
CASES = [("l2", "f32"), ("ip", "f32"), ("cosine", "f32"), ("l2", "u8"), ("cosine", "u8"), ("l2", "i8")]
NUMPY = {"f32": np.float32, "u8": np.uint8, "i8": np.int8}
DISKANN = {"l2": "l2", "ip": "mips", "cosine": "cosine"}


def make(element):
    """Base rows and queries in 50 clusters; the means are not zero, so that inner products differ from angles."""
    rng = np.random.default_rng(7)
    centers = rng.normal(0, 25, (50, DIMENSION))
    rows = centers[rng.integers(0, 50, ROWS + QUERIES)] + rng.normal(0, 9, (ROWS + QUERIES, DIMENSION))
    if element == "u8":
        rows = np.clip(rows + 128, 0, 255)
    if element == "i8":
        rows = np.clip(rows, -128, 127)
    rows = rows.astype(NUMPY[element])
    return rows[:ROWS], rows[ROWS:]


def distances(base, queries, metric):
    b, q = base.astype(np.float64), queries.astype(np.float64)
    if metric == "l2":
        return (q**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * q @ b.T
    if metric == "cosine":
        b, q = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (b, q))
    return -(q @ b.T)


def recall(found, metric, base, queries):
    """Share of results that are no farther than the true K-th, within rounding."""
    exact = distances(base, queries, metric)
    bound = np.sort(exact, axis=1)[:, K - 1]
    hits = np.take_along_axis(exact, found.astype(np.int64), axis=1) <= (bound + 1e-5 * np.abs(bound))[:, None]
    return hits.mean()


def diskann(task, metric, element, folder, name, out):
    """The part that runs in the Python of diskannpy."""
    import diskannpy
    base, queries = make(element)
    if task == "build":
        diskannpy.build_memory_index(
            data=base, distance_metric=DISKANN[metric], index_directory=folder, index_prefix=name,
            complexity=32, graph_degree=24, num_threads=2, alpha=1.2)
    index = diskannpy.StaticMemoryIndex(
        index_directory=folder, index_prefix=name, num_threads=2, initial_search_complexity=BEAM,
        distance_metric=DISKANN[metric], vector_dtype=NUMPY[element], dimensions=DIMENSION)
    np.save(out, index.batch_search(queries, K, BEAM, 2).identifiers)


def hnswlib_search(path, metric, element):
    import hnswlib
    base, queries = make(element)
    index = hnswlib.Index(metric, DIMENSION)
    index.load_index(path, max_elements=ROWS)
    index.set_ef(BEAM)
    labels, found = index.knn_query(queries.astype(np.float32), K, num_threads=2)
    sign = {"l2": 0.0, "ip": 1.0, "cosine": 1.0}[metric]
    exact = np.take_along_axis(distances(base, queries, metric), labels.astype(np.int64), axis=1) + sign
    assert np.allclose(found, exact, rtol=1e-3, atol=1e-3), "labels and vectors do not belong together"
    return labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--diskann-python", required=True)
    args = parser.parse_args()
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    for metric, element in CASES:
        with tempfile.TemporaryDirectory() as folder:
            at = lambda name: os.path.join(folder, name)
            base, queries = make(element)
            with open(at("vectors.bin"), "wb") as f:
                f.write(np.array(base.shape, dtype="<u4").tobytes())
                f.write(base.tobytes())

            def peer(task, name):
                command = [args.diskann_python, __file__, "--as-peer", task, metric, element, folder, name, at(name + ".npy")]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                return np.load(at(name + ".npy"))

            theirs = peer("build", "theirs")
            convert = ["cargo", "run", "--quiet", "--release", "-p", "jasper-interop", "--example", "convert_graph", "--"]
            files = [at("theirs"), at("vectors.bin"), at("hnsw.bin"), at("ours")]
            subprocess.run(convert + [metric, element] + files, check=True, cwd=root, stdout=subprocess.DEVNULL)
            ours = peer("search", "ours")
            labels = hnswlib_search(at("hnsw.bin"), metric, element)
            same = (np.sort(theirs, 1) == np.sort(ours, 1)).mean()
            scores = [recall(found, metric, base, queries) for found in (theirs, ours, labels)]
            print(f"{metric:6} {element:3}  diskannpy {scores[0]:.4f}, through Jasper {scores[1]:.4f} "
                  f"({same:.2%} the same ids), hnswlib {scores[2]:.4f}")
            assert same > 0.999, "diskannpy gives other results"
            assert scores[2] >= scores[0] - 0.02, "hnswlib finds less"
    print("all of them do")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-peer"]:
        diskann(*sys.argv[2:])
    else:
        main()
