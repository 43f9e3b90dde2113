"""Times searches on a GPU from Python, and compares them with the best of other libraries in h200.json.

    pip install crates/jasper-python torch
    python benches/peers/make_sets.py sift-1m FOLDER
    python benches/peers/gpu_from_python.py FOLDER sift-1m [deep-1m ..]

Indexes are built with default parameters on the GPU. Floats are stored as float16. Queries and results are in device
memory; the set's 10,000 queries are searched for at once, by vectors and by codes, with the narrowest beam that reaches
each recall@10, and timed by events. Prints a table in Markdown: million queries per second, the ratio to the best other
library at this recall, and the beam width.
"""

import json
import pathlib
import sys

import jasper
import numpy as np
import torch

RECALLS = (0.9, 0.95, 0.99)
WIDTHS = [10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 36, 40, 48, 56, 64, 72, 80, 96, 112, 128, 160, 192, 256, 384, 512, 768, 1024]
CODES = {"gist": "mixed:2"}
PEERS = pathlib.Path(__file__).with_name("h200.json")
TIMES = 20


def read(path, dtype):
    rows, dim = np.fromfile(path, np.uint32, 2)
    return np.fromfile(path, dtype, offset=8, count=int(rows) * int(dim)).reshape(rows, dim)


def rate(index, queries, width):
    """Queries per second, the median of three rounds."""
    stream, taken = torch.cuda.current_stream(), []
    for _ in range(4):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(TIMES):
            index.search(queries, k=10, beam_width=width, stream=stream)
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / TIMES / 1e3)
    return len(queries) / sorted(taken[1:])[1]


def fronts(index, queries, truth, best):
    """The cells of each recall."""
    cells, widths = [], iter(WIDTHS)
    width, recall = 0, 0.0
    for goal in RECALLS:
        while recall < goal and (width := next(widths, None)):
            recall = jasper.recall(index.search(queries, k=10, beam_width=width).keys.cpu().numpy(), truth)
        if recall < goal:
            cells.append("-")
            continue
        speed = rate(index, queries, width)
        other = next((point["queries_per_second"] for point in best if point["recall"] == goal), None)
        cells.append(f"{speed / 1e6:.3g} ({speed / other:.1f}) at {width}" if other else f"{speed / 1e6:.3g} at {width}")
    return cells


def main(folder, *names):
    peers = json.loads(PEERS.read_text())
    print(f"{torch.cuda.get_device_name()}, jasper {jasper.__version__}\n")
    print("| set | by | " + " | ".join(map(str, RECALLS)) + " |\n| --- | --- | ---: | ---: | ---: |")
    for name in names:
        files, is_bytes = pathlib.Path(folder) / name, name.startswith("sift")
        read_as = lambda part: read(f"{files}.{part}.{'u8bin' if is_bytes else 'fbin'}", np.uint8 if is_bytes else np.float32)
        base, queries = (rows if is_bytes else rows.astype(np.float16) for rows in (read_as("base"), read_as("query")))
        truth = read(f"{files}.gt.ibin", np.int32)[:, :10].astype(np.int64)
        times = -(-10_000 // len(queries))  # gist has 1,000
        queries, truth = torch.from_numpy(queries).repeat(times, 1).cuda(), np.tile(truth, (times, 1))
        index = jasper.Index.build(base, metric="ip" if name.startswith("t2i") else "l2", device="cuda")
        for codes in (None, CODES.get(name.split("-")[0], "mixed:1")):
            if codes:
                index.quantize(codes)
            shown = fronts(index, queries, truth, peers.get(name, {}).get("best", []))
            print(f"| {name}, {base.shape[1]} × {index.dtype} | {codes or 'vectors'} | " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
