"""Makes the files of this folder, and prints the recall that their libraries have on them, for `interop/golden.rs`.

    pip install numpy==2.4.6 hnswlib==0.8.0 faiss-cpu==1.15.1
    python make.py
"""

import faiss
import hnswlib
import numpy as np

CLUSTERS, VECTORS, QUERIES, DIMENSION, K = 40, 480, 100, 8, 10

rng = np.random.default_rng(7)
centers = rng.normal(size=(CLUSTERS, DIMENSION))


def near_centers(count):
    near = centers[rng.integers(0, CLUSTERS, count)]
    return (near + 0.05 * rng.normal(size=(count, DIMENSION))).astype(np.float32)


def recall(found, vectors, queries, keys):
    distances = ((queries[:, None] - vectors) ** 2).sum(axis=2)
    truth = keys[np.argsort(distances, axis=1)[:, :K]]
    return sum(len(set(a) & set(b)) for a, b in zip(found, truth)) / truth.size


vectors, queries = near_centers(VECTORS), near_centers(QUERIES)
keys = rng.permutation(VECTORS) * (1 << 33) + 5
with open("queries.fbin", "wb") as file:
    np.array(queries.shape, dtype=np.uint32).tofile(file)
    queries.tofile(file)

index = hnswlib.Index("l2", DIMENSION)
index.init_index(VECTORS + 20, M=4, ef_construction=60, random_seed=3)
index.add_items(vectors, keys, num_threads=1)
is_deleted = np.arange(VECTORS) % 9 == 4
for key in keys[is_deleted]:
    index.mark_deleted(key)
index.save_index("hnswlib.bin")
for beam_width in (10, 20, 40):
    index.set_ef(beam_width)
    found, _ = index.knn_query(queries, K, num_threads=1)
    print(f"hnswlib {beam_width}: {recall(found, vectors[~is_deleted], queries, keys[~is_deleted])}")

index = faiss.IndexIDMap2(faiss.IndexHNSWFlat(DIMENSION, 4))
faiss.omp_set_num_threads(1)
faiss.downcast_index(index.index).hnsw.efConstruction = 60
index.add_with_ids(vectors, keys)
faiss.write_index(index, "flat.faiss")
half = faiss.IndexHNSWSQ(DIMENSION, faiss.ScalarQuantizer.QT_fp16, 4)
half.hnsw.efConstruction = 60
half.train(vectors)
half.add(vectors[:100])
faiss.write_index(half, "fp16.faiss")
for beam_width in (10, 20, 40):
    found = index.search(queries, K, params=faiss.SearchParametersHNSW(efSearch=beam_width))[1]
    print(f"faiss {beam_width}: {recall(found, vectors, queries, keys)}")
