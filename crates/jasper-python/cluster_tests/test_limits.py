"""Time limits, what opening may end, names of folders, and replicas that cannot follow the others."""

import contextlib
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
import ray

import jasper
from jasper.ray import Cluster, Unavailable
from jasper.ray._replica import Replica
from jasper.ray._router import end_actor, sequencer_name
from jasper.ray._store import Store, bucket_of

pytestmark = pytest.mark.filterwarnings("ignore")

CODES = {"quantization": "rabitq:4", "force": True}


LIMIT = 30
"""Seconds in which a call ends that nothing but its time limit of 2 s ends, on a machine that is busy."""


def pids(cluster):
    return [replica.pid for replica in cluster.replicas(timeout=60)]


@contextlib.contextmanager
def paused(*pids):
    """Stops processes for a while."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def ends(match=""):
    """Expects that the block gives up in time."""
    began = time.monotonic()
    with pytest.raises(Unavailable, match=match):
        yield
    assert time.monotonic() - began < LIMIT


def wait_until(condition):
    """Waits for what happens sooner or later, on a machine that is busy."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def keys_of(shard, first=100_000, count=5):
    """Keys of a shard of three."""
    keys = np.arange(first, first + 1000)
    return keys[bucket_of(keys) % 3 == shard][:count]


def on_replica(cluster, shard, replica, function):
    """Calls a function with the actor."""
    return ray.get(cluster._router.handle(shard, replica).__ray_call__.remote(function), timeout=60)


def fail(cluster, method, replicas, error, shard=0, key=None):
    """Lets a method of the index of replicas fail, but in a validation: once, or whenever it gets a key."""

    # Functions of this module would be sent by name, and an actor need not find the module.
    def broken(replica):
        class Broken:
            def __init__(self, index):
                self.index, self.failed = index, False

            def __getattr__(self, name):
                return self.fail if name == method else getattr(self.index, name)

            def fail(self, *arguments, progress=None, **options):
                fails = not self.failed if key is None else key in arguments[1]
                if progress in (None, replica._close_when_linked) and fails:
                    self.failed = True
                    raise error
                return getattr(self.index, method)(*arguments, progress=progress, **options)

            def __len__(self):
                return len(self.index)

            def __contains__(self, key):
                return key in self.index

        replica._index = Broken(replica._index)

    for replica in replicas:
        on_replica(cluster, shard, replica, broken)


def hold(cluster, method, shard, folder):
    """Lets the replicas of a shard wait with changes by a method. Returns a function that lets them go on."""
    done = folder / "done"

    def held(replica):
        apply = replica._apply

        def wait(part, skipped=None):
            while part.method == method and not done.exists():
                time.sleep(0.05)
            apply(part, skipped)

        replica._apply = wait

    for replica in range(2):
        on_replica(cluster, shard, replica, held)
    return done.touch


def local_replica(cluster, shard=0):
    """A replica in this process, which gets no calls."""
    options = Store(cluster.path).manifest()["options"]
    return Replica(cluster.path, jasper._native.__version__, shard, 9, options)


def test_opening_ends_nothing_that_runs(cluster, vectors):
    with paused(pids(cluster)[0]):
        again = Cluster.open(cluster.path, timeout=60)
        assert again.search(vectors[5], 1).keys.tolist() == [5]
    ray.get(cluster._sequencer.__ray_call__.remote(lambda s: s._router.end_shard(1, time.monotonic() + 60)))
    with ends("no replica of shard 1 of 3"):
        Cluster.open(cluster.path, timeout=2)
    found = cluster.search(vectors[:5], timeout=10, partial=True)
    assert found.missing_shards == (1,)
    ready = [replica.ready for replica in cluster.replicas(timeout=60)]
    assert ready == [True, True, False, False, True, True]


def test_a_cluster_whose_sequencer_is_gone_is_not_ended_by_opening_it(cluster, vectors):
    before = pids(cluster)
    end_actor(sequencer_name(cluster.path), time.monotonic() + 60)
    with paused(*before[:2]), pytest.raises(Unavailable, match="no replica of shard 0"):
        Cluster.open(cluster.path, timeout=20)
    assert pids(Cluster.open(cluster.path)) == before


def test_calls_end_in_time(cluster, vectors):
    mine, other = keys_of(0), keys_of(1)
    cluster.insert(vectors[:1], [50_000])  # All shards have made what the log begins with.
    with paused(*pids(cluster)[:2]):
        for call in (
            lambda: cluster.search(vectors[:5], timeout=2),
            lambda: cluster.insert(vectors[:5], mine, timeout=2),
            lambda: cluster.snapshot(timeout=2),
            lambda: cluster.check(timeout=2),
            lambda: cluster.rebalance(2, timeout=2),
        ):
            with ends():
                call()
        # Shard 1 agrees, and shard 0 does not follow. The change is in the log, and others wait for it.
        with ends("is in the log"):
            cluster.insert(vectors[:5], other, timeout=10)
        with ends("other changes took all the time"):
            cluster.insert(vectors[:5], other + 5000, timeout=2)
    cluster.insert(vectors[:5], mine + 5000)
    assert cluster.contains(mine + 5000).all() and cluster.contains(other).all()


def test_maintenance_blocks_no_search(cluster, vectors, tmp_path):
    release = hold(cluster, "tune", 0, tmp_path)
    reports = []
    thread = threading.Thread(target=lambda: reports.extend(cluster.tune(0.9, 10)))
    thread.start()
    wait_until(lambda: Store(cluster.path).logged(1))
    searcher = Cluster(cluster.path)
    for _ in range(3):
        assert searcher.search(vectors[5], 1).keys.tolist() == [5]
    with ends("other changes took all the time"):
        searcher.insert(vectors[:5], timeout=2)
    with ends("other changes took all the time"):
        searcher.tune(timeout=2)
    assert not reports
    release()
    thread.join(300)
    assert [report.searches[0].k for report in reports] == [10] * 3
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
    keys = replica.read(1, "keys").result[:5]
    cluster.delete(keys[:2])
    for _ in range(2):
        cluster.snapshot()
    cluster.insert(vectors[:1])
    present = replica.present

    def present_then_reopen(index, keys):
        found = present(index, keys)
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


@pytest.mark.parametrize("error", [jasper.OutOfMemoryError("no room"), jasper.DeviceError("lost"), RuntimeError("?")])
def test_a_replica_that_fails_at_maintenance_is_built_anew(cluster, vectors, error):
    fail(cluster, "quantize", [0], error)
    assert cluster.quantize(**CODES) == ["rabitq:4"] * 3
    report = cluster.check()
    assert report.is_sound and report.are_equal


def test_what_all_replicas_of_a_shard_fail_at_is_skipped(nodes, cluster, vectors):
    fail(cluster, "quantize", [0, 1], jasper.OutOfMemoryError("no room"))
    with pytest.raises(jasper.OutOfMemoryError, match="shard 0: no room"):
        cluster.quantize(**CODES)
    before = len(cluster)
    fail(cluster, "insert", [0, 1], jasper.OutOfMemoryError("no room for vectors"), shard=1)
    on = np.concatenate([keys_of(shard) for shard in range(3)])
    with pytest.raises(jasper.OutOfMemoryError, match="no room for vectors"):
        cluster.insert(vectors[: len(on)], on, attributes={"year": on})
    assert len(cluster) == before and not cluster.contains(on).any() and cluster.columns == {}
    with pytest.raises(jasper.ParameterError, match="there is no column"):
        cluster.search(vectors[0], filter="year = 3")
    cluster.insert(vectors[: len(on)], on + 5000, attributes={"year": on.astype(str)})
    assert len(cluster) == before + len(on) and cluster.check().are_equal
    cluster.close()
    again = Cluster.open(cluster.path)
    try:
        assert len(again) == before + len(on) and again.check().are_equal
        assert not again.contains(on).any() and again.contains(on + 5000).all()
        assert again.columns == {"year": "keyword"}
    finally:
        again.close()


def test_what_is_skipped_after_its_call_has_ended(cluster, vectors, tmp_path):
    keys = keys_of(1)
    release = hold(cluster, "insert", 1, tmp_path)
    fail(cluster, "insert", [0, 1], jasper.OutOfMemoryError("no room"), shard=1, key=keys[0])
    with ends("is in the log"):
        cluster.insert(vectors[:5], keys, timeout=10)
    release()
    cluster.insert(vectors[:5], keys + 5000)
    assert not cluster.contains(keys).any() and cluster.contains(keys + 5000).all()
    assert cluster.check().are_equal


def test_a_snapshot_has_nothing_that_is_skipped(cluster, folder, vectors, tmp_path):
    saving, keys = tmp_path / "saving", np.concatenate([keys_of(0), keys_of(1)])

    def late(replica):
        follow = replica._follow

        def wait(minimum):
            if sys._getframe(1).f_code.co_name == "save":
                saving.touch()
                minimum += 1
                while replica._sequence < minimum:
                    time.sleep(0.05)
            follow(minimum)

        replica._follow = wait

    for replica in range(2):
        on_replica(cluster, 0, replica, late)
    release = hold(cluster, "insert", 1, tmp_path)
    fail(cluster, "insert", [0, 1], jasper.OutOfMemoryError("no room"), shard=1, key=keys[-1])
    errors = []

    def snapshot():
        try:
            cluster.snapshot()
        except jasper.Error as error:
            errors.append(str(error))

    thread = threading.Thread(target=snapshot)
    thread.start()
    wait_until(saving.exists)
    with ends("is in the log"):
        cluster.insert(vectors[:10], keys, timeout=10)
    wait_until(lambda: list(folder.glob("shard-00000-000000000002-*")))
    release()
    thread.join(300)
    assert errors == ["a shard skipped a change while it was saved; repeat the snapshot"]
    # The replicas that have made the change open the snapshot before.
    cluster.delete([1])
    assert not cluster.contains(keys).any() and cluster.check().are_equal


def test_a_repeated_call_returns_what_the_first_did(cluster, vectors):
    good = ("good", "tune", None, None, {}, {"recall": 0.9, "k": 10})
    bad = ("bad", "quantize", None, None, {}, {"quantization": "zip", "force": False})

    def restart():
        # One that still starts has the log from before the snapshot, and with it the report.
        wait_until(lambda: all(replica.ready for replica in cluster.replicas()))
        ray.kill(cluster._sequencer, no_restart=False)
        for replica in cluster.replicas():
            os.kill(replica.pid, signal.SIGKILL)

    first = [cluster._call("change", *call)[3] for call in (good, bad)]
    assert [type(error) for error in first[1]] == [jasper.ParameterError] * 3
    for _ in range(2):
        again = [cluster._call("change", *call)[3] for call in (good, bad)]
        assert [report.searches[0].k for report in again[0]] == [10] * 3
        assert list(map(repr, again[1])) == list(map(repr, first[1]))
        restart()
    cluster.snapshot()
    restart()
    assert all("its report is lost" in str(error) for error in cluster._call("change", *good)[3])
