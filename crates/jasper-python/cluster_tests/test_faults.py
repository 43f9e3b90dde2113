"""Kills actors and nodes while changes and searches run, and compares the cluster with all that was acknowledged.

JASPER_RAY_ROUNDS is the number of rounds; each kind of fault has its turn in rounds of its own.
"""

import collections
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import ray
from conftest import NODE

import jasper
from jasper.ray import Cluster

pytestmark = pytest.mark.filterwarnings("ignore")

ROUNDS = int(os.environ.get("JASPER_RAY_ROUNDS", "8"))
DIM = 16
MARKERS = np.arange(10_000_000, 10_000_016)
"""Keys on all shards, whose vectors every batch of them replaces together."""
FAR = np.full(DIM, 1000, np.float32)


def markers(version):
    """Vectors of the markers: their distance from FAR says their version."""
    rows = np.tile(FAR, (len(MARKERS), 1))
    rows[:, 0] += version + 1
    return rows


class Load:
    """Changes and searches in threads, and the state that they must lead to."""

    def __init__(self, cluster, vectors, seed):
        self.cluster, self.rng = cluster, np.random.default_rng(seed)
        self.rows = dict(enumerate(vectors))
        self.next, self.version, self.begun = len(vectors), 0, 0
        self.changes = self.searches = 0
        self.slowest = collections.Counter()
        self.errors = []
        self.stopped = threading.Event()
        cluster.upsert(markers(0), MARKERS)

    def __enter__(self):
        self.stopped.clear()
        self.slowest.clear()
        self.threads = [threading.Thread(target=self.guard, args=(work,)) for work in (self.change, self.search)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def guard(self, work):
        while not self.stopped.is_set() and not self.errors:
            began = time.monotonic()
            try:
                work()
            except Exception as error:
                traceback.print_exc()
                self.errors.append(error)
                return
            took = time.monotonic() - began
            self.slowest[work.__name__] = max(self.slowest[work.__name__], took)

    def change(self):
        """One change, whose result must be exact. Every error is a failure."""
        kind = self.rng.choice(["insert", "auto", "upsert", "delete", "markers"], p=[0.3, 0.1, 0.2, 0.2, 0.2])
        count = int(self.rng.integers(1, 40))
        rows = self.rng.normal(size=(count, DIM)).astype(np.float32)
        live = np.fromiter(self.rows, np.int64)
        if kind == "insert":
            keys = np.arange(self.next, self.next + count)
            assert (self.cluster.insert(rows, keys) == keys).all()
            self.next += count
            self.rows.update(zip(keys.tolist(), rows, strict=True))
        elif kind == "auto":
            keys = self.cluster.insert(rows)
            assert not set(keys.tolist()) & set(self.rows), "a key was given twice"
            self.rows.update(zip(keys.tolist(), rows, strict=True))
        elif kind == "upsert":
            keys = self.rng.choice(live, count, replace=False)
            self.cluster.upsert(rows, keys)
            self.rows.update(zip(keys.tolist(), rows, strict=True))
        elif kind == "delete":
            keys = self.rng.choice(live, count, replace=False)
            assert self.cluster.delete(keys) == count
            for key in keys.tolist():
                del self.rows[key]
        else:
            self.begun = self.version + 1
            self.cluster.upsert(markers(self.begun), MARKERS)
            self.version = self.begun
        self.changes += 1

    def search(self):
        """All markers must be of one version, and that not before the last that was acknowledged."""
        before = self.version
        found = self.cluster.search(FAR, len(MARKERS), filter=MARKERS)
        versions = np.sqrt(found.distances) - 1
        assert sorted(found.keys.tolist()) == MARKERS.tolist()
        assert len(np.unique(np.round(versions))) == 1, f"a search saw parts of a batch: {versions}"
        assert before <= round(versions[0]) <= self.begun, f"{versions[0]} is not from {before} to {self.begun}"
        self.searches += 1

    def verify(self):
        """Every acknowledged key is there with its vector, and no other."""
        keys = np.sort(np.fromiter(self.rows, np.int64))
        found = np.sort(self.cluster.keys())
        assert np.array_equal(found[~np.isin(found, MARKERS)], keys), "keys are lost or extra"
        assert np.array_equal(self.cluster.vectors(keys), np.array([self.rows[key] for key in keys.tolist()]))
        report = self.cluster.check()
        assert report.is_sound
        assert report.are_equal, report.shards


def pids(cluster, shard=None):
    found = [r for r in cluster.replicas() if r.ready]
    return [r.pid for r in found if shard is None or r.shard == shard]


def sequencer_pid(cluster):
    return ray.get(cluster._sequencer.__ray_call__.remote(lambda self: os.getpid()))


def kill_replica(nodes, cluster, rng):
    os.kill(rng.choice(pids(cluster)), signal.SIGKILL)


def kill_shard(nodes, cluster, rng):
    for pid in pids(cluster, rng.randrange(cluster.shards)):
        os.kill(pid, signal.SIGKILL)


def kill_sequencer(nodes, cluster, rng):
    os.kill(sequencer_pid(cluster), signal.SIGKILL)


def kill_node(nodes, cluster, rng):
    nodes.remove_node(rng.choice(list(nodes.worker_nodes)), allow_graceful=False)
    nodes.add_node(**NODE)


def pause_replica(nodes, cluster, rng):
    pid = rng.choice(pids(cluster))
    os.kill(pid, signal.SIGSTOP)
    time.sleep(4)
    os.kill(pid, signal.SIGCONT)


FAULTS = [kill_replica, kill_shard, kill_sequencer, kill_node, pause_replica]


def idle(cluster, rng):
    time.sleep(0.5)


def snapshot(cluster, rng):
    cluster.snapshot()


def rebalance(cluster, rng):
    cluster.rebalance(rng.choice([2, 3, 4]))


def until_ready(cluster):
    """Seconds until all replicas answer."""
    began = time.monotonic()
    while not all(replica.ready for replica in cluster.replicas()):
        assert time.monotonic() - began < 120, cluster.replicas()
        time.sleep(0.1)
    return time.monotonic() - began


def test_faults(nodes, vectors, tmp_path):
    """Every fault in the middle of every other operation, at random moments."""
    rng = random.Random(int(os.environ.get("JASPER_RAY_SEED", "0")))
    cluster = Cluster.build(vectors, str(tmp_path / "cluster"), shards=3, replicas=2, num_cpus=0.5)
    recovery = collections.defaultdict(list)
    slowest = collections.defaultdict(collections.Counter)
    rounds = collections.Counter()
    load = Load(cluster, vectors, 1)
    pairs = [(fault, work) for work in (idle, snapshot, rebalance) for fault in FAULTS]
    rng.shuffle(pairs)
    for turn in range(ROUNDS):
        fault, work = pairs[turn % len(pairs)]
        with load, ThreadPoolExecutor() as pool:
            time.sleep(rng.random())
            operation = pool.submit(work, cluster, rng)
            time.sleep(rng.random() * 0.5)
            fault(nodes, cluster, rng)
            seconds = until_ready(cluster)
            operation.result(240)
            time.sleep(0.5)
        assert not load.errors, (fault.__name__, work.__name__, load.errors)
        load.verify()
        recovery[fault.__name__].append(seconds)
        for name, took in load.slowest.items():
            slowest[fault.__name__][name] = max(took, slowest[fault.__name__][name])
        rounds[f"{fault.__name__} during {work.__name__}"] += 1
        print(
            f"{turn + 1}: {fault.__name__} during {work.__name__}: all ready after {seconds:.1f} s, slowest change "
            f"{load.slowest['change']:.1f} s, search {load.slowest['search']:.1f} s; {load.changes} changes, "
            f"{load.searches} searches, {len(load.rows)} keys",
            flush=True,
        )
    for name, times in recovery.items():
        print(f"{name}: {len(times)} times, ready after {np.median(times):.1f} s, at most {max(times):.1f} s; {slowest[name]}")
    cluster.consolidate()
    truth = jasper.exact_search(np.array(list(load.rows.values())), vectors[:200], 10)
    found = cluster.search(vectors[:200], 10, filter=np.fromiter(load.rows, np.int64))
    position = {key: place for place, key in enumerate(load.rows)}
    places = np.vectorize(lambda key: position.get(key, -1))(found.keys)
    assert jasper.recall(places, truth) > 0.99
    cluster.close()


CLIENT = """
import sys, numpy as np, ray
from jasper.ray import Cluster
ray.init(address=sys.argv[1], log_to_driver=False)
cluster = Cluster.open(sys.argv[2])
for batch in range(10**6):
    keys = np.arange(100_000 + batch * 20, 100_000 + batch * 20 + 20)
    cluster.insert(np.full((20, 16), batch, np.float32), keys)
    print(batch, flush=True)
"""


def test_a_client_is_killed(nodes, vectors, tmp_path):
    """Batches of a client that dies are there as a whole or not at all, and all that it saw acknowledged are."""
    path = str(tmp_path / "cluster")
    cluster = Cluster.build(vectors, path, shards=3, replicas=2, num_cpus=0.5)
    client = subprocess.Popen([sys.executable, "-c", CLIENT, nodes.address, path], stdout=subprocess.PIPE, text=True)
    acknowledged = [int(client.stdout.readline()) for _ in range(30)]
    client.kill()
    acknowledged += [int(line) for line in client.stdout.read().split()]
    time.sleep(1)
    keys = cluster.keys()
    batches, counts = np.unique((keys[keys >= 100_000] - 100_000) // 20, return_counts=True)
    assert (counts == 20).all()
    assert len(batches) - len(acknowledged) in (0, 1) and batches[: len(acknowledged)].tolist() == acknowledged
    cluster.close()
