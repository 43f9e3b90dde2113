"""What users of a cluster see, and what it refuses."""

import json
import shutil
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

import jasper
from jasper.ray import Cluster, Unavailable
from jasper.ray._store import BUCKETS, Store, bucket_of

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def shared(nodes, built, tmp_path_factory):
    """A cluster for tests that leave it as it is."""
    cluster = Cluster.open(str(shutil.copytree(built, tmp_path_factory.mktemp("shared") / "cluster")))
    yield cluster
    cluster.close()


def state(cluster):
    keys = np.sort(cluster.keys())
    return keys.tolist(), cluster.vectors(keys).tolist()


def test_answers_are_those_of_one_index(shared, vectors):
    truth = jasper.exact_search(vectors[:3999], vectors[:500], 10)
    found = shared.search(vectors[:500], 10)
    one = jasper.Index.build(vectors[:3999], device="cpu").search(vectors[:500], 10)
    assert abs(jasper.recall(found, truth) - jasper.recall(one, truth)) <= 0.005
    assert np.array_equal(shared.search(vectors[0], 5).keys, found.keys[0, :5])
    assert found.sequence == 1 and found.missing_shards == ()
    assert set(shared.search(vectors[0], 3, filter=[5, 6, 7]).keys.tolist()) == {5, 6, 7}
    assert len(shared) == 3999 and 3999 not in shared and 7 in shared
    assert np.array_equal(shared[7], vectors[7])
    radius = float(found.distances[0, 9])
    near = shared.search_within(vectors[0], radius)
    assert np.array_equal(near.keys[:10], found.keys[0]) and (np.diff(near.distances) >= 0).all()
    with pytest.raises(jasper.ParameterError):
        shared.search(vectors[:2, :5])


def test_changes_are_those_of_an_index(cluster, vectors):
    index = jasper.Index.build(vectors[:3999], device="cpu")
    for made in (cluster, index):
        assert made.insert(vectors[:2], [5000, 5001]).tolist() == [5000, 5001]
        assert made.insert(vectors[2]).tolist() == [5002]
        made.upsert(vectors[:2] + 1, [5001, 7])
        assert made.delete([1, 2, 12345, 1], missing="ignore") == 2
        del made[5000]
        made.consolidate()
        made.compact()
    assert state(cluster) == state_of_index(index)
    assert [report.freed for report in cluster.consolidate()] == [0, 0, 0]


def state_of_index(index):
    keys = np.sort(index.keys())
    return keys.tolist(), index.vectors(keys).tolist()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda cluster, v: cluster.insert(v[:20], np.arange(3990, 4010)), jasper.DuplicateKeyError),
        (lambda cluster, v: cluster.insert(v[:2], [5000, 5000]), jasper.DuplicateKeyError),
        (lambda cluster, v: cluster.insert(v[:2], [5000]), jasper.ParameterError),
        (lambda cluster, v: cluster.insert(v[:2], [5000, -1]), jasper.ParameterError),
        (lambda cluster, v: cluster.insert(v[:2, :5]), jasper.ParameterError),
        (lambda cluster, v: cluster.insert(np.vstack([v[:40], v[:1] * np.nan])), jasper.ParameterError),
        (lambda cluster, v: cluster.upsert(np.vstack([v[:40], v[:1] * np.inf]), np.arange(41)), jasper.ParameterError),
        (lambda cluster, v: cluster.delete([1, 2, 3, 4, 5000]), jasper.UnknownKeyError),
        (lambda cluster, v: cluster.delete([1, 1]), jasper.DuplicateKeyError),
        (lambda cluster, v: cluster.quantize("zip"), jasper.Error),
        (lambda cluster, v: cluster.rebalance(0), jasper.ParameterError),
        (lambda cluster, v: cluster.vectors([5000]), jasper.UnknownKeyError),
    ],
)
def test_what_some_shards_refuse_changes_none(shared, vectors, change, error):
    before = state(shared)
    with pytest.raises(error):
        change(shared, vectors)
    assert state(shared) == before and shared.check().are_equal


def test_parquet_with_an_empty_shard(nodes, vectors, tmp_path):
    keys = np.arange(300) * 7
    shard = bucket_of(keys) % 3
    keys, other, rows = keys[shard != 1], keys[shard == 1], vectors[:300][shard != 1]
    (tmp_path / "rows").mkdir()
    for part in (slice(0, 100), slice(100, None)):
        table = pa.table({"id": keys[part], "embedding": list(rows[part])})
        pq.write_table(table, tmp_path / f"rows/{part.start}.parquet")
    calls = []
    cluster = Cluster.build(
        str(tmp_path / "rows"),
        str(tmp_path / "cluster"),
        vector="embedding",
        key="id",
        shards=3,
        metric="cosine",
        dtype="float16",
        num_cpus=0.5,
        progress=lambda *call: calls.append(call),
    )
    assert calls[-1] == ("building shards", 2, 3)
    assert (cluster.dim, cluster.metric, cluster.dtype, cluster.shards) == (16, "cosine", np.float16, 3)
    assert len(cluster) == len(keys)
    assert np.array_equal(cluster.search(rows, 1).keys[:, 0], keys)
    cluster.insert(vectors[:1].astype(np.float16), other[:1])
    assert int(other[0]) in cluster
    cluster.close()
    with pytest.raises(jasper.Error, match="there is a cluster in"):
        Cluster.build(vectors, str(tmp_path / "cluster"))


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (lambda v: v, {"shards": 64, "num_cpus": 1000}, "replicas need 128000 CPU"),
        (lambda v: v, {"keys": np.zeros(4000, np.int64)}, "key 0 is given"),
        (lambda v: np.full((10, 4), np.nan, np.float32), {}, "not finite"),
        (lambda v: ray.data.from_arrow(pa.table({"vector": list(v[:5]), "id": range(5)})), {}, "key .'key'. must be one of the columns"),
    ],
)
def test_a_build_that_fails_leaves_no_cluster(nodes, vectors, tmp_path, rows, options, message):
    with pytest.raises(jasper.Error, match=message):
        Cluster.build(rows(vectors), str(tmp_path / "cluster"), **{"shards": 2, "num_cpus": 0.5, **options})
    with pytest.raises(FileNotFoundError):
        Cluster.open(str(tmp_path / "cluster"))


def test_snapshot_and_rebalance(nodes, folder, vectors):
    cluster = Cluster.open(str(folder))
    for shards in (5, 2):
        cluster.upsert(vectors[:30] + np.float32(shards), np.arange(30))
        before = state(cluster)
        cluster.rebalance(shards)
        assert cluster.shards == shards and state(cluster) == before and cluster.check().are_equal
        assert cluster.rebalance(shards) == 0
        cluster.snapshot()
    table = np.bincount(Store(str(folder)).manifest()["table"])
    assert table.tolist() == [BUCKETS // 2] * 2
    cluster.insert(vectors[:3], [9000, 9001, 9002])
    before = state(cluster)
    cluster.close()
    again = Cluster.open(str(folder))
    assert state(again) == before and again.check().are_equal and again.insert(vectors[:1]).tolist() == [9003]
    again.close()


def test_a_full_disk_keeps_the_last_snapshot(cluster, folder, vectors):
    # Functions of this module would be sent by name, and an actor need not find the module.
    def break_disk(sequencer):
        def full(path, data, publish):
            raise OSError(28, "No space left on device")

        sequencer._store._write_local = full

    def mend_disk(sequencer):
        del sequencer._store._write_local

    cluster.insert(vectors[:5], np.arange(5000, 5005))
    latest = (folder / "LATEST").read_text()
    # Shards are saved, and the manifest is not.
    ray.get(cluster._sequencer.__ray_call__.remote(break_disk))
    with pytest.raises(OSError, match="No space left"):
        cluster.snapshot()
    with pytest.raises(OSError, match="No space left"):
        cluster.insert(vectors[:5], np.arange(6000, 6005))
    assert (folder / "LATEST").read_text() == latest and 5000 in cluster and 6000 not in cluster
    ray.get(cluster._sequencer.__ray_call__.remote(mend_disk))
    cluster.insert(vectors[:5], np.arange(6000, 6005))
    cluster.snapshot()
    assert (folder / "LATEST").read_text() != latest and cluster.check().are_equal


def manifest_of(folder):
    return folder / (folder / "LATEST").read_text()


def edit(folder, change):
    path = manifest_of(folder)
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def copy_shard(folder):
    first, second, _ = sorted(folder.glob("shard-*"))
    shutil.copy(first, second)


def swap_log(folder):
    (folder / "log/000000000001.npz").rename(folder / "log/000000000002.npz")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: sorted(folder.glob("shard-*"))[1].unlink(), "shard 1 is missing: there is no"),
        (lambda folder: edit(folder, lambda m: m["files"].pop(1)), r"must have 3: \[1\] are missing"),
        (lambda folder: edit(folder, lambda m: m["files"].append(m["files"][1])), "has shard 1 twice"),
        (lambda folder: edit(folder, lambda m: m["files"][1].update(version="0.0.9")), "shard 1 is of version 0.0.9"),
        (lambda folder: edit(folder, lambda m: m["files"][1].update(build="x")), "shard 1 is of build x"),
        (lambda folder: edit(folder, lambda m: m.update(format=2)), "has format 2"),
        (lambda folder: edit(folder, lambda m: m["files"][1].update(sha256="x")), "damaged or of another build"),
        (lambda folder: edit(folder, lambda m: m["table"].pop()), "must assign 1024 buckets"),
        (copy_shard, "shard"),
        (swap_log, "000000000001.npz is missing"),
    ],
)
def test_a_wrong_folder_is_refused_by_name(nodes, folder, damage, message):
    damage(folder)
    with pytest.raises(jasper.FormatError, match=message):
        Cluster.open(str(folder))


def test_a_shard_that_is_there_twice(nodes, folder):
    first, second, _ = sorted(folder.glob("shard-*"))
    shutil.copy(first, second)
    edit(folder, lambda m: m["files"][1].update(bytes=m["files"][0]["bytes"]))
    with pytest.raises(jasper.FormatError, match="has the content of shard 0, which is there twice"):
        Cluster.open(str(folder))


def test_nodes_of_another_version_do_not_join(nodes, folder):
    Cluster.open(str(folder)).close()
    store = Store(str(folder))
    options = store.manifest()["options"]
    actor = ray.remote(concurrency_groups={"read": 1})(jasper.ray._replica.Replica).remote(
        str(folder), "9.9.9", 0, 0, options
    )
    with pytest.raises(jasper.Error, match=r"has jasper-ann .*, and the cluster 9.9.9; install the same version"):
        ray.get(actor.ready.remote())
    ray.kill(actor)


def test_a_shard_without_replicas_is_named(cluster, vectors):
    ray.get(cluster._sequencer.__ray_call__.remote(lambda sequencer: sequencer._router.end_shard(1, time.monotonic() + 60)))
    with pytest.raises(Unavailable, match="no replica of shard 1 of 3 answered"):
        cluster.search(vectors[:5], timeout=2)
    found = cluster.search(vectors[:5], timeout=10, partial=True)
    assert found.missing_shards == (1,) and found.keys.shape == (5, 10)


def test_a_batch_is_applied_once(cluster, vectors):
    call = ("id", "insert", np.array([7000]), vectors[:1], {}, {})
    first, second = (cluster._call("change", *call) for _ in range(2))
    assert first[:3] == second[:3]
    # This program has not seen the change: the call is not one of its methods.
    assert len(Cluster.open(cluster.path)) == 4000


def test_quantize_and_tune(cluster, vectors):
    assert cluster.quantize("rabitq:4") == ["rabitq:4"] * 3
    assert [report.searches[0].k for report in cluster.tune(0.9, 10)] == [10] * 3
    truth = jasper.exact_search(vectors[:3999], vectors[:100], 10)
    assert jasper.recall(cluster.search(vectors[:100], 10, recall=0.9), truth) > 0.9
    assert cluster.quantize(None) == [None] * 3
    assert cluster.check().are_equal


def test_programs_share_a_cluster(cluster, vectors):
    @ray.remote(num_cpus=0)
    def search(cluster, query):
        return cluster.search(query, 1).keys.tolist()

    assert ray.get(search.remote(cluster, vectors[5])) == [5]
    errors = []

    def insert(first):
        try:
            for key in range(first, first + 10):
                cluster.insert(vectors[key - first : key - first + 1], [key])
                assert key in cluster
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=insert, args=(first,)) for first in (10_000, 20_000, 30_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(cluster) == 3999 + 30


def test_checks_and_snapshots_beside_inserts_end(cluster, vectors):
    stop = threading.Event()
    inserted = []

    def insert():
        while not stop.is_set():
            inserted.append(len(cluster.insert(np.random.default_rng(len(inserted)).normal(size=(3000, 16)).astype("f4"))))

    thread = threading.Thread(target=insert)
    thread.start()
    try:
        for _ in range(3):
            before = len(inserted)
            report = cluster.check(timeout=120)
            assert report.is_sound and report.are_equal
            cluster.snapshot(timeout=120)
            assert len(cluster.search(vectors[:5], 3).keys) == 5
            while len(inserted) == before and thread.is_alive():
                time.sleep(0.01)
    finally:
        stop.set()
        thread.join(timeout=120)
    assert not thread.is_alive() and len(cluster) == 3999 + sum(inserted)


def test_a_cluster_may_begin_empty(nodes, vectors, tmp_path):
    empty = pa.FixedSizeListArray.from_arrays(pa.array([], pa.float32()), 16)
    table = pa.table({"vector": empty, "key": pa.array([], pa.int64())})
    pq.write_table(table, tmp_path / "empty.parquet")
    for name, dataset in {"array": vectors[:0], "file": str(tmp_path / "empty.parquet")}.items():
        cluster = Cluster.build(dataset, str(tmp_path / name), shards=2, replicas=1, num_cpus=0.5)
        try:
            assert len(cluster) == 0 and cluster.dim == 16 and cluster.dtype == np.float32
            cluster.insert(vectors[:100])
            assert (cluster.search(vectors[:100], 1).keys[:, 0] == np.arange(100)).all()
        finally:
            cluster.close()


def test_filters_and_bfloat16_reach_the_shards(shared, vectors):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rows = vectors[:5].astype(ml_dtypes.bfloat16)
    expected = shared.search(rows.astype(np.float32), 3, filter=[5, 6, 7])
    for filter in ([5, 6, 7], jasper.Filter.keys([5, 6, 7]), [False] * 5 + [True] * 3):
        assert (shared.search(rows, 3, filter=filter).keys == expected.keys).all()
