"""Makes many small calls of all kinds, and prints how much memory the process and the device have lost.

    python tests/memory.py [--calls 1000000] [--device cuda:0]

On a device, a third of the queries are tensors of PyTorch on it. Its memory is what `nvidia-smi` reports as used, so
nothing else should run there. test_memory.py makes fewer of these calls.
"""

import argparse
import os
import subprocess
import time

import numpy as np

import jasper

DIM = 16
CALLS_PER_ROUND = 10


def resident():
    """Bytes of memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def used(device):
    """Bytes of memory in use on a device; 0 on the CPU."""
    if device == "cpu":
        return 0
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id", device.removeprefix("cuda:")]
    return int(subprocess.check_output(query)) << 20


class Calls:
    """An index and what is called on it."""

    def __init__(self, device):
        self.vectors = np.random.default_rng(0).random((1000, DIM), dtype=np.float32)
        self.index = jasper.Index.build(self.vectors, device="cpu", threads=1).to_device(device)
        self.tensors = self.vectors
        if device != "cpu":
            import torch

            self.tensors = torch.from_numpy(self.vectors).to(device)
        self.out = np.empty((2, 10), np.int64), np.empty((2, 10), np.float32)
        self.made = 0

    def round(self):
        """`CALLS_PER_ROUND` calls, after which the index holds the same vectors."""
        index, vectors, row = self.index, self.vectors, self.made % 900
        index.search(vectors[row], 10)
        index.search(vectors[row : row + 2], 10, out=self.out)
        index.search(self.tensors[row : row + 2], 10)
        index.search(vectors[row], 5, filter=jasper.Filter.keys(np.arange(row, row + 20)))
        index.search_by_key(row, 3)
        index.insert(vectors[row], 1000)
        index.delete(1000)
        for wrong in (lambda: index.search(vectors[row], 0), lambda: index.insert(vectors[row], row)):
            try:
                wrong()
            except jasper.Error:
                pass
        if self.made % 1000 == 0:
            index.consolidate()
        else:
            index.vectors([row])
        self.made += CALLS_PER_ROUND

    def grow(self, calls):
        """Makes calls, the first tenth of them to warm up, and returns the growth of the process and of the device in
        bytes during the others."""
        def run(calls):
            end = self.made + calls
            while self.made < end:
                self.round()
            self.index.consolidate()

        run(calls // 10)
        before = resident(), used(self.index.device)
        run(calls - calls // 10)
        return resident() - before[0], used(self.index.device) - before[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    calls, begun = Calls(options.device), time.perf_counter()
    process, device = calls.grow(options.calls)
    print(
        f"{calls.made:,} calls on {options.device} in {time.perf_counter() - begun:.0f} s: the process grew by "
        f"{process / 1e6:.1f} MB to {resident() / 1e6:.0f} MB, the device by {device / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    main()
