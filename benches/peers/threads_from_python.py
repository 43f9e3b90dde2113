"""Compares single searches of threads of Python with those of threads of Rust, on one index and in turns.

    pip install crates/jasper-python
    python benches/peers/threads_from_python.py [--threads 1 16] [--rounds 5] [--device cpu] [--program PROGRAM]

The set is that of from_python.py. Each thread searches one query after another for a second. The table has the medians
of the rounds in queries per second, the ratios of the medians to those of one thread, and how much longer a query takes
from Python: per thread, so with more threads than cores it includes waiting. PROGRAM is `single_queries`, built in
release mode by default.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import threading
import time

import jasper
import numpy as np

from from_python import K, rows

ROOT = pathlib.Path(__file__).parents[2]
BEAM_WIDTH = 16
SECONDS = 1.0


def rate(index: jasper.Index, queries: np.ndarray, count: int) -> float:
    """Searches per second of `count` threads."""
    searches, is_done = [0] * count, threading.Event()

    def search(thread: int) -> None:
        done = 0
        while not is_done.is_set():
            index.search(queries[(thread * 257 + done) % len(queries)], K, beam_width=BEAM_WIDTH)
            done += 1
        searches[thread] = done

    threads = [threading.Thread(target=search, args=[thread]) for thread in range(count)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    time.sleep(SECONDS)
    is_done.set()
    for thread in threads:
        thread.join()
    return sum(searches) / (time.perf_counter() - begun)


def built() -> str:
    """The path of the program of Rust."""
    build = ["cargo", "build", "--release", "--package", "jasper-benches", "--bin", "single_queries"]
    subprocess.run(build, cwd=ROOT, check=True)
    metadata = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    target = json.loads(subprocess.check_output(metadata, cwd=ROOT))["target_directory"]
    return f"{target}/release/single_queries"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--program")
    options = parser.parse_args()
    base, queries = rows("base.i8bin"), rows("words.i8bin")[:10_000]
    index = jasper.Index.build(base, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        index.save(f"{folder}/index.jasper")
        queries.tofile(f"{folder}/queries")
        index.to_device(options.device)
        program = [options.program or built(), f"{folder}/index.jasper", f"{folder}/queries", str(BEAM_WIDTH), options.device]
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as rust:
            assert rust.stdin and rust.stdout
            rates: dict[tuple[str, int], list[float]] = {}
            for _ in range(options.rounds):
                for threads in options.threads:
                    print(threads, file=rust.stdin, flush=True)
                    rates.setdefault(("Rust", threads), []).append(float(rust.stdout.readline()))
                    rates.setdefault(("Python", threads), []).append(rate(index, queries, threads))
            rust.stdin.close()
    medians = {key: statistics.median(values) for key, values in rates.items()}
    print("| threads | Rust, queries/s | scaling | Python, queries/s | scaling | a query from Python, us longer |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for threads in options.threads:
        cells = [str(threads)]
        for language in ("Rust", "Python"):
            speed = medians[language, threads]
            cells += [f"{speed:,.0f}", f"{speed / medians[language, options.threads[0]]:.2f}"]
        longer = (threads / medians["Python", threads] - threads / medians["Rust", threads]) * 1e6
        print(f"| {' | '.join(cells)} | {longer:.1f} |")


if __name__ == "__main__":
    main()
