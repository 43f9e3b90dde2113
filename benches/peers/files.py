"""Sets of vectors as folders, and recall by exact distance.

A set is a folder with
    meta.json           {"metric": "l2" | "cosine" | "ip", "dtype": "float32" | "uint8" | "int8"}
    base.X, query.X     X = fbin, u8bin, i8bin: u32 rows, u32 dimension, then the values row by row
    gt.ibin             u32 queries, u32 k, then the ids (and, ignored here, the distances) of the true k nearest
all little-endian.
"""
import json, os, struct
import numpy as np

EXTENSION = {"float32": "fbin", "uint8": "u8bin", "int8": "i8bin"}


def read_rows(path, dtype, limit=None):
    """The first `limit` rows of a file of `dtype`, or all."""
    with open(path, "rb") as file:
        rows, dimension = struct.unpack("<II", file.read(8))
        rows = min(rows, limit or rows)
        return np.fromfile(file, dtype, rows * dimension).reshape(rows, dimension)


def write_rows(path, rows):
    with open(path, "wb") as file:
        file.write(struct.pack("<II", *rows.shape))
        np.ascontiguousarray(rows).tofile(file)


class Set:
    """A set, with its first `queries` queries and their true neighbors."""

    def __init__(self, folder, queries):
        self.folder = os.path.abspath(folder)
        self.name = os.path.basename(self.folder)
        with open(os.path.join(folder, "meta.json")) as file:
            meta = json.load(file)
        self.metric, self.dtype = meta["metric"], np.dtype(meta["dtype"])
        self.base_path = self.path("base")
        self.base = read_rows(self.base_path, self.dtype)
        self.queries = read_rows(self.path("query"), self.dtype, queries)
        self.truth = read_rows(os.path.join(self.folder, "gt.ibin"), np.uint32, len(self.queries))

    def path(self, which):
        return os.path.join(self.folder, f"{which}.{EXTENSION[self.dtype.name]}")

    def recall(self, results, k):
        """Share of the first `k` distinct results that are no farther than the true k-th."""
        hits = 0
        for query, ids, truth in zip(self.queries, results, self.truth):
            found = [i for i in dict.fromkeys(ids[:k]) if 0 <= i < len(self.base)]
            bound = self.distances(query, truth[k - 1 : k])[0]
            slack = 1e-9 * abs(bound) if self.dtype == np.float32 else 0
            hits += int((self.distances(query, found) <= bound + slack).sum())
        return hits / (len(self.queries) * k)

    def distances(self, query, ids):
        """Distances to rows, in 64 bits; integers exactly."""
        exact = np.int64 if self.dtype.kind in "iu" else np.float64
        rows, query = self.base[ids].astype(exact), query.astype(exact)
        if self.metric == "l2":
            return ((rows - query) ** 2).sum(1)
        if self.metric == "ip":
            return -(rows @ query)
        return 1 - rows @ query / np.sqrt((rows**2).sum(1) * (query**2).sum().astype(np.float64))
