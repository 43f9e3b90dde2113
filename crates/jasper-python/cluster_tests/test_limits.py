"""Time limits, what opening may end, names of folders, and replicas that cannot follow the others."""

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest
import ray

import jasper
from jasper.ray import Cluster, Unavailable
from jasper.ray._replica import Replica

pytestmark = pytest.mark.filterwarnings("ignore")


@contextlib.contextmanager
def paused(cluster, shard, count):
    """Stops replicas of a shard for a while."""
    pids = [replica.pid for replica in cluster.replicas() if replica.shard == shard][:count]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def within(seconds):
    """Fails if the block takes longer."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def keys_of(shard, first=100_000, count=5):
    """Keys of a shard of three."""
    keys = np.arange(first, first + 1000)
    return keys[jasper.ray._store.bucket_of(keys) % 3 == shard][:count]


def on_replica(cluster, shard, replica, function):
    """Calls a function with the actor."""
    return ray.get(cluster._router.handle(shard, replica).__ray_call__.remote(function), timeout=60)


def local_replica(cluster, shard=0):
    """A replica in this process, which gets no calls."""
    options = jasper.ray._store.Store(cluster.path).manifest()["options"]
    return Replica(cluster.path, jasper.__version__, shard, 9, options)


def test_opening_ends_nothing_that_runs(cluster, vectors):
    with paused(cluster, 0, 1):
        with within(20):
            again = Cluster.open(cluster.path, timeout=20)
        assert again.search(vectors[5], 1, timeout=20).keys.tolist() == [5]
    ray.get(cluster._sequencer.__ray_call__.remote(lambda s: s._router.end_shard(1, time.monotonic() + 60)))
    with within(10), pytest.raises(Unavailable, match="no replica of shard 1 of 3"):
        Cluster.open(cluster.path, timeout=2)
    found = cluster.search(vectors[:5], timeout=2, partial=True)
    assert found.missing_shards == (1,)
    assert [replica.ready for replica in cluster.replicas()] == [True, True, False, False, True, True]


def test_a_cluster_whose_sequencer_is_gone_is_not_ended_by_opening_it(cluster, vectors):
    ray.kill(cluster._sequencer, no_restart=True)
    with paused(cluster, 0, 1), pytest.raises(jasper.Error):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # until its name is free
            Cluster.open(cluster.path, timeout=3)
    assert Cluster.open(cluster.path).search(vectors[5], 1).keys.tolist() == [5]


def test_calls_end_in_time(cluster, vectors):
    mine, other = keys_of(0), keys_of(1)
    with paused(cluster, 0, 2):
        for call in (
            lambda: cluster.search(vectors[:5], timeout=2),
            lambda: cluster.insert(vectors[:5], mine, timeout=2),
            lambda: cluster.snapshot(timeout=2),
            lambda: cluster.check(timeout=2),
            lambda: cluster.rebalance(2, timeout=2),
        ):
            with within(10), pytest.raises(Unavailable):
                call()
        # Shard 1 agrees, and shard 0 does not follow.
        with within(10), pytest.raises(Unavailable):
            cluster.insert(vectors[:5], other, timeout=2)
    deadline = time.monotonic() + 60
    while not cluster.contains(other).all():
        assert time.monotonic() < deadline
    cluster.insert(vectors[:5], mine + 5000)
    assert cluster.contains(mine + 5000).all()


def test_maintenance_blocks_no_search(cluster, vectors):
    def slow(replica):
        apply = replica._apply

        def wait(part):
            if part.method == "tune":
                time.sleep(12)
            return apply(part)

        replica._apply = wait

    for replica in range(2):
        on_replica(cluster, 0, replica, slow)
    reports = []
    thread = threading.Thread(target=lambda: reports.extend(cluster.tune(0.9, 10)))
    thread.start()
    time.sleep(1)
    searcher = Cluster(cluster.path)
    for _ in range(3):
        with within(5):
            assert searcher.search(vectors[5], 1, timeout=5).keys.tolist() == [5]
    with within(10), pytest.raises(Unavailable):
        searcher.insert(vectors[:5], timeout=2)
    with within(10), pytest.raises(Unavailable):
        searcher.tune(timeout=2)
    thread.join(60)
    assert len(reports) == 3
    assert len(searcher.insert(vectors[:5])) == 5


def test_paths_of_a_folder_name_one_cluster(cluster, vectors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("cluster", "./cluster/", f"file://{tmp_path}/cluster", tmp_path / "x/../cluster"):
        again = Cluster.open(path)
        assert again.path == cluster.path and again._sequencer == cluster._sequencer
    with pytest.raises(FileNotFoundError):
        Cluster.open("clutser")
    with pytest.raises(FileNotFoundError):
        Cluster.open(str(tmp_path / "no/such/cluster"))
    assert [path.name for path in tmp_path.iterdir()] == ["cluster"]


def test_an_answer_is_of_one_index(cluster, vectors):
    replica = local_replica(cluster)
    keys = replica.keys()[:5]
    cluster.delete(keys[:2])
    for _ in range(2):
        cluster.snapshot()
    cluster.insert(vectors[:1])
    present = replica.present

    def present_then_reopen(keys):
        found = present(keys)
        threading.Thread(target=replica._follow, args=(3,)).start()
        time.sleep(2)
        return found

    replica.present = present_then_reopen
    answer = replica.read(1, "vectors", keys)
    assert answer.sequence == 1 and answer.result[0].all() and len(answer.result[1]) == 5
    del replica.present
    assert replica.read(3, "vectors", keys).result[0].tolist() == [False, False, True, True, True]


def test_a_replica_that_missed_the_log_opens_the_snapshot(cluster, vectors):
    replica = local_replica(cluster)
    cluster.insert(vectors[:5])
    for _ in range(2):
        cluster.snapshot()
    answer = replica.read(2, "count")
    assert answer.sequence == 2
