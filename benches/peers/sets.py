#!/usr/bin/env python3
"""Makes two sets with exact neighbors. Needs numpy.

    python sets.py --out FOLDER [clustered] [fashion-mnist]

clustered      100,000 x 96 float32, squared L2: 1,000 clusters of local dimension 12 with noise, seeded
fashion-mnist  60,000 x 784 uint8, squared L2: the training images; queries are the 10,000 test images. From the Debian
               package dataset-fashion-mnist (MIT licence, Zalando SE), fetched by `apt-get download`

compare.py accepts any folder of the form that files.py describes.
"""
import argparse, glob, gzip, json, os, struct, subprocess, tempfile
import numpy as np
from files import EXTENSION, write_rows

K = 100


def clustered(rows=100_000, queries=5_000, dimension=96, clusters=1_000, latent=12, seed=1):
    """Rows and queries drawn from the same clusters, each a center and a few random directions."""
    random = np.random.default_rng(seed)
    centers = random.normal(size=(clusters, dimension))
    directions = random.normal(scale=0.35, size=(clusters, latent, dimension)).astype(np.float32)
    labels = random.integers(clusters, size=rows + queries)
    weights = random.normal(size=(rows + queries, latent)).astype(np.float32)
    out = centers[labels].astype(np.float32)
    for cluster in range(clusters):
        own = labels == cluster
        out[own] += weights[own] @ directions[cluster]
    out += random.normal(scale=0.1, size=out.shape)
    return out[:rows], out[rows:]


def fashion_mnist():
    """Training and test images of the Debian package, as rows of bytes."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "download", "dataset-fashion-mnist"], cwd=folder, check=True)
        subprocess.run(["dpkg-deb", "-x", *glob.glob(f"{folder}/*.deb"), folder], check=True)
        return [read_idx(*glob.glob(f"{folder}/**/{part}-images-idx3-ubyte.gz", recursive=True)) for part in ("train", "t10k")]


def read_idx(path):
    """An idx file of images: big-endian magic, count, height, width, then bytes."""
    with gzip.open(path) as file:
        _, count, height, width = struct.unpack(">IIII", file.read(16))
        return np.frombuffer(file.read(), np.uint8).reshape(count, height * width)


def exact(base, queries, block=200):
    """Ids and squared distances of the K nearest rows of every query, by (distance, id).

    A float32 product picks 4 K rows; their distances are worked out again in 64 bits. A query whose pick may have been
    too small, given what float32 can be wrong by, is compared with every row.
    """
    wide = np.int64 if base.dtype.kind in "iu" else np.float64
    rows = base.astype(np.float32)
    norms = (rows.astype(np.float64) ** 2).sum(1)
    ids, distances = np.empty((len(queries), K), np.uint32), np.empty((len(queries), K), np.float32)
    for start in range(0, len(queries), block):
        part = queries[start : start + block]
        rough = norms - 2 * (part.astype(np.float32) @ rows.T)
        picked = np.argpartition(rough, 4 * K, axis=1)[:, : 4 * K]
        for i, query in enumerate(part):
            wrong = 1e-5 * norms.max()
            near = picked[i]
            found = ((base[near].astype(wide) - query.astype(wide)) ** 2).sum(1)
            own = (query.astype(np.float64) ** 2).sum()
            if np.sort(found)[K - 1] - own >= rough[i, near].max() - wrong:
                near = np.arange(len(base))
                found = ((base.astype(wide) - query.astype(wide)) ** 2).sum(1)
            order = np.lexsort((near, found))[:K]
            ids[start + i], distances[start + i] = near[order], found[order]
    return ids, distances


def write_set(folder, base, queries):
    os.makedirs(folder, exist_ok=True)
    ids, distances = exact(base, queries)
    extension = EXTENSION[base.dtype.name]
    write_rows(f"{folder}/base.{extension}", base)
    write_rows(f"{folder}/query.{extension}", queries)
    write_rows(f"{folder}/gt.ibin", ids)
    with open(f"{folder}/gt.ibin", "ab") as file:
        distances.tofile(file)
    with open(f"{folder}/meta.json", "w") as file:
        json.dump({"metric": "l2", "dtype": base.dtype.name}, file)
    print(f"{folder}: {len(base)} x {base.shape[1]} {base.dtype}, {len(queries)} queries")


def main():
    makers = {"clustered": clustered, "fashion-mnist": fashion_mnist}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, metavar="FOLDER")
    parser.add_argument("sets", nargs="*", metavar="SET", help=" or ".join(makers))
    args = parser.parse_args()
    for name in args.sets or makers:
        if name not in makers:
            parser.error(f"unknown set {name}; known are {', '.join(makers)}")
        write_set(os.path.join(args.out, name), *makers[name]())


if __name__ == "__main__":
    main()
