"""The same calls on a CUDA device; JASPER_REQUIRE_GPU makes its absence a failure."""

import asyncio
import os
import time

import numpy as np
import pytest

import jasper

DEVICES = [device.device for device in jasper.devices()]


def test_there_is_a_device_if_one_is_required():
    assert DEVICES or not os.environ.get("JASPER_REQUIRE_GPU")
    assert len(DEVICES) >= int(os.environ.get("JASPER_REQUIRE_GPUS", "0"))


@pytest.mark.parametrize("device", DEVICES)
def test_an_index_moves_to_a_device_and_back(index, vectors, device):
    expected = index.search(vectors, 5)
    assert index.to_device(device) is index and index.device == device and index.device_info.bytes > 0
    assert (index.search(vectors[3], 5).keys == expected.keys[3]).all()
    index.warm_up()
    assert jasper.recall(index.search(vectors, 5), expected) > 0.99
    assert (index.search(vectors[3], 5).keys == expected.keys[3]).all()
    assert (index.search(vectors, 5, filter=np.arange(0, 1000, 2)).keys % 2 == 0).all()
    keys = index.insert(vectors + np.float32(0.01))
    index.delete(keys[:500])
    assert index.consolidate().freed == 500
    index.to_device("cpu")
    assert index.device == "cpu" and len(index) == 1500 and index.check().is_sound


@pytest.mark.skipif(len(DEVICES) < 2, reason="needs two GPUs")
def test_two_devices_hold_an_index_together(index, vectors):
    expected = index.to_device(DEVICES[0]).search(vectors, 5)
    index.to_device(DEVICES[:2])
    assert index.device == "cuda:0,1" and index.device_info.faults == []
    many = np.tile(vectors, (10, 1))
    assert (index.search(many, 5).keys == np.tile(expected.keys, (10, 1))).all()
    keys = index.insert(vectors + np.float32(0.01))
    index.delete(keys[:500])
    index.consolidate()
    assert index.check().is_sound and index.to_device("cpu").device == "cpu" and len(index) == 1500


@pytest.mark.parametrize("device", DEVICES)
def test_a_beam_that_is_too_wide_is_refused(index, vectors, device):
    index.to_device(device)
    with pytest.raises(jasper.ParameterError, match="at most 1024 on this device"):
        index.search(vectors, beam_width=2000)


@pytest.mark.parametrize("device", DEVICES)
def test_indexes_are_built_on_a_device(vectors, device):
    index = jasper.Index.build(vectors, device=device)
    for _ in range(2):
        assert index.device == device and index.device_info.bytes > 0
        assert (index.search(vectors, 1).keys[:, 0] == np.arange(1000)).all()
        index = index.to_device("cpu").rebuild(device)


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_a_build_without_a_named_gpu_leaves_the_index_in_host_memory(vectors, device):
    index = jasper.Index.build(vectors, device=device)
    assert index.device == "cpu" and index.device_info.bytes == 0
    index.warm_up()


@pytest.mark.skipif(len(DEVICES) < 2, reason="needs two GPUs")
@pytest.mark.parametrize(("sharded", "shards"), [(False, 1), (True, 2)])
def test_indexes_are_built_and_opened_on_several_devices(vectors, tmp_path, sharded, shards):
    index = jasper.Index.build(vectors, device=DEVICES[:2], sharded=sharded)
    assert (index.device, index.stats.shards) == ("cuda:0,1", shards)
    index.save(tmp_path / "vectors")
    opened = jasper.Index.open(tmp_path / "vectors", device=DEVICES[:2], sharded=sharded)
    assert (opened.device, opened.stats.shards) == ("cuda:0,1", shards)
    for one in (index, opened):
        assert (one.search(vectors, 1).keys[:, 0] == np.arange(1000)).all()


@pytest.mark.skipif(len(DEVICES) < 2, reason="needs two GPUs")
@pytest.mark.parametrize(("sharded", "shards"), [(False, 1), (True, 2)])
def test_a_memory_plan_depends_on_the_shards(sharded, shards):
    def host_bytes(**options):
        return jasper.Index.memory_plan(1_000_000, 96, device=DEVICES[:2], **options).host_bytes

    assert host_bytes(sharded=sharded) == host_bytes(shards=shards) != host_bytes(shards=3 - shards)


@pytest.mark.parametrize("current", DEVICES)
@pytest.mark.parametrize("device", DEVICES)
def test_calls_keep_the_current_device(torch, vectors, tmp_path, device, current):
    with torch.cuda.device(current):
        number = torch.cuda.current_device()
        index = jasper.Index.build(vectors, device=device)
        assert torch.cuda.current_device() == number
        queries = torch.from_numpy(vectors).to(device)
        assert (index.search(queries, 1).keys[:, 0] == torch.arange(1000, device=device)).all()
        index.insert(vectors + np.float32(0.01))
        index.delete(range(500))
        index.consolidate()
        index.save(tmp_path / "vectors.jasper")
        opened = jasper.Index.open(tmp_path / "vectors.jasper", device=device)
        assert (opened.search(queries[500:], 1).keys[:, 0] >= 500).all()
        assert torch.cuda.current_device() == number


@pytest.mark.parametrize("device", DEVICES)
def test_a_file_is_opened_on_a_device(shared, vectors, tmp_path, device):
    path = tmp_path / "vectors.jasper"
    shared.save(path)
    for file, storage in ((path, "device"), (path.read_bytes(), "host")):
        index = jasper.Index.open(file, device=device, vector_storage=storage)
        assert index.device == device and (index.search(vectors, 1).keys[:, 0] == np.arange(1000)).all()


@pytest.mark.parametrize("device", DEVICES)
def test_asyncio_searches_on_a_device(index, vectors, device):
    async def main():
        return await asyncio.gather(*(index.search_async(query, 1) for query in vectors))

    index.to_device(device)
    found = asyncio.run(main())
    assert [int(one.keys[0]) for one in found] == list(range(1000))


@pytest.fixture
def torch():
    """PyTorch, if it is installed and finds a device."""
    torch = pytest.importorskip("torch")
    if not DEVICES or not torch.cuda.is_available():
        pytest.skip("needs a device")
    return torch


@pytest.fixture
def on_device(index):
    """An index on a device, if there is one."""
    if not DEVICES:
        pytest.skip("needs a device")
    return index.to_device("cuda:0")


def same(found, expected):
    """Whether matches on a device are those of a search in host memory."""
    keys, distances = found.keys.cpu().numpy(), found.distances.cpu().numpy()
    assert keys.dtype == np.int64 and distances.dtype == np.float32
    assert keys.shape == expected.keys.shape and distances.shape == expected.distances.shape
    return (keys == expected.keys).mean() > 0.999 and np.allclose(distances, expected.distances, atol=1e-3)


def test_tensors_are_searched_for_where_they_are(torch, on_device, vectors):
    queries = torch.from_numpy(vectors).to("cuda:0")
    found = on_device.search(queries, 5)
    for array in found:
        assert isinstance(array, torch.Tensor) and array.device == queries.device
    assert found.keys.dtype == torch.int64 and found.distances.dtype == torch.float32
    assert same(found, on_device.search(vectors, 5))
    # Keys are indices, and -1 and infinity stand for none.
    assert (queries[found.keys[:, 0]] == queries).all()
    few = on_device.search(queries[3], 5, filter=[7])
    assert few.keys.tolist() == [7, -1, -1, -1, -1] and torch.isinf(few.distances[1:]).all()
    one = on_device.search(queries[4], 5)
    assert one.keys.shape == (5,) and (one.keys == found.keys[4]).all()
    assert on_device.search(queries[:0], 5).keys.shape == (0, 5)
    # The results of the CPU are those of its library.
    host = on_device.search(torch.from_numpy(vectors), 5)
    assert isinstance(host.keys, torch.Tensor) and host.keys.device.type == "cpu" and same(host, on_device.search(vectors, 5))


def test_results_outlive_the_index_and_are_freed(torch, on_device, vectors):
    queries = torch.from_numpy(np.tile(vectors, (20, 1))).cuda()
    index = jasper.Index.open(on_device.__reduce__()[1][0], device="cuda:0")
    found = index.search(queries, 100)
    expected = found.keys.clone()
    del index
    assert (found.keys == expected).all()
    del found
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(50):
        on_device.search(queries, 100)
    torch.cuda.synchronize()
    assert before - torch.cuda.mem_get_info()[0] < 512 << 20


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int8"])
@pytest.mark.parametrize("dim", [16, 13])
def test_all_types_metrics_and_paddings(torch, metric, dtype, dim):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2000, dim)) * (1 if dtype.startswith("float") else 40)
    vectors = np.clip(vectors, 1 if dtype == "uint8" else -100, 100).astype(dtype)
    index = jasper.Index.build(vectors, metric=metric).to_device("cuda:0")
    queries = torch.from_numpy(vectors[:300]).cuda()
    found, expected = index.search(queries, 8), index.search(vectors[:300], 8)
    assert (found.keys.cpu().numpy() == expected.keys).mean() > 0.98
    assert np.allclose(found.distances.cpu().numpy(), expected.distances, rtol=1e-2, atol=1e-2)


def test_floats_are_converted_on_the_device(torch, on_device, vectors):
    expected = on_device.search(vectors, 1)
    queries = torch.from_numpy(vectors).cuda()
    for convert in (torch.float64, torch.float16, torch.bfloat16):
        found = on_device.search(queries.to(convert), 1)
        assert (found.keys.cpu().numpy() == expected.keys).mean() > 0.9
    with pytest.raises(jasper.ParameterError, match="convert them to float32"):
        on_device.search(queries.to(torch.int32), 1)
    with pytest.raises(jasper.ParameterError, match="shape"):
        on_device.search(queries[:, :5], 1)
    with pytest.raises(jasper.ParameterError, match="cannot be read"):
        on_device.search(queries.clone().requires_grad_(), 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("distances", ["exact", "auto", "quantized"])
@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_values_on_a_device_are_not_checked_and_do_no_harm(torch, vectors, metric, distances, value):
    index = jasper.Index.build(vectors, metric=metric)
    index.quantize("rabitq:4")
    index.to_device("cuda:0")
    queries = torch.from_numpy(vectors[:100]).cuda()
    expected = index.search(queries, 5, distances=distances)
    harmful = queries.clone()
    harmful[7] = value
    harmful[8, 3] = value
    found = index.search(harmful, 5, distances=distances)
    others = [row for row in range(100) if row not in (7, 8)]
    assert (found.keys[others] == expected.keys[others]).all()
    # Keys of the index, or none.
    assert ((found.keys >= -1) & (found.keys < 1000)).all()
    one = index.search(harmful[7], 5, distances=distances)
    assert ((one.keys >= -1) & (one.keys < 1000)).all()
    assert (index.search(queries, 5, distances=distances).keys == expected.keys).all()
    # In host memory they are refused.
    with pytest.raises(jasper.ParameterError, match="not finite"):
        index.search(harmful.cpu(), 5, distances=distances)


def test_tensors_that_are_not_contiguous(torch, on_device, vectors):
    expected = on_device.search(vectors[:100], 3)
    queries = torch.from_numpy(vectors[:100]).cuda()
    wide = torch.zeros(100, 40, device="cuda:0")
    wide[:, 1:33:2] = queries
    for strided in (wide[:, 1:33:2], queries.t().contiguous().t(), torch.flip(queries, [0]).flip([0])):
        assert same(on_device.search(strided, 3), expected)
    misaligned = torch.zeros(100 * 16 + 1, device="cuda:0")[1:].reshape(100, 16)
    misaligned.copy_(queries)
    assert same(on_device.search(misaligned, 3), expected)
    repeated = on_device.search(queries[5].expand(20, 16), 3)
    assert (repeated.keys == repeated.keys[0]).all() and repeated.keys[0, 0] == 5


@pytest.mark.parametrize("as_stream", [lambda s: s, lambda s: s.cuda_stream, lambda s: Wrapped(s)])
def test_a_search_is_queued_in_the_stream_given(torch, on_device, vectors, as_stream):
    expected = on_device.search(vectors, 5)
    stream = torch.cuda.Stream()
    source = torch.from_numpy(vectors).cuda()
    torch.cuda.synchronize()
    for _ in range(20):
        with torch.cuda.stream(stream):
            # The search follows this work: the queries are zero until it is done.
            queries = torch.zeros_like(source)
            torch.cuda._sleep(5_000_000)
            queries.copy_(source)
            found = on_device.search(queries, 5, stream=as_stream(stream))
            copies = [array.clone() for array in found]
        stream.synchronize()
        assert same(jasper.Matches(*copies), expected)


class Wrapped:
    """A stream as cuda.core has it."""

    def __init__(self, stream):
        self.stream = stream

    def __cuda_stream__(self):
        return 0, self.stream.cuda_stream


def test_a_search_is_not_waited_for_with_a_stream(torch, on_device, vectors):
    queries, stream = torch.from_numpy(vectors).cuda(), torch.cuda.Stream()
    on_device.search(queries, 5, stream=stream)
    stream.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(1_000_000_000)
    began = time.perf_counter()
    found = on_device.search(queries, 5, stream=stream)
    queued = time.perf_counter() - began
    assert not stream.query() and queued < 0.2
    stream.synchronize()
    assert same(found, on_device.search(vectors, 5))


def test_results_are_complete_where_they_are_read(torch, on_device, vectors):
    expected = on_device.search(vectors, 5)
    queries, stream = torch.from_numpy(vectors).cuda(), torch.cuda.Stream()
    torch.cuda.synchronize()
    for shift in range(20):
        # Others each time: the memory may be that of the results before.
        shifted = torch.roll(queries, shift, 0)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
        # Read in the current stream, which is another.
        found = on_device.search(shifted, 5, stream=stream)
        assert same(found, jasper.Matches(*(np.roll(array, shift, 0) for array in expected)))


def test_the_current_stream_is_followed(torch, on_device, vectors):
    expected, source = on_device.search(vectors, 5), torch.from_numpy(vectors).cuda()
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            queries = torch.zeros_like(source)
            torch.cuda._sleep(5_000_000)
            queries.copy_(source)
            assert same(on_device.search(queries, 5), expected)


def test_wrong_streams_are_refused(torch, on_device, vectors):
    queries = torch.from_numpy(vectors).cuda()
    for wrong, message in [("fast", "must be the number"), (2, "per-thread"), (-1, "must be the number"), (1.5, "must be")]:
        with pytest.raises(jasper.ParameterError, match=message):
            on_device.search(queries, stream=wrong)
    with pytest.raises(jasper.ParameterError, match="stream is for queries on a CUDA device"):
        on_device.search(vectors, stream=torch.cuda.current_stream())
    if len(DEVICES) > 1:
        with pytest.raises(jasper.ParameterError, match="belongs to another device"):
            on_device.search(queries, stream=torch.cuda.Stream("cuda:1"))


def test_tensors_of_another_device_are_refused(torch, on_device, shared, vectors):
    with pytest.raises(jasper.ParameterError, match="queries are on cuda:0 and the index on cpu"):
        shared.search(torch.from_numpy(vectors).cuda())
    if len(DEVICES) > 1:
        with pytest.raises(jasper.ParameterError, match="queries are on cuda:1 and the index on cuda:0"):
            on_device.search(torch.from_numpy(vectors).to("cuda:1"))
        # The current device of torch is not changed.
        with torch.cuda.device(1):
            on_device.search(torch.from_numpy(vectors).to("cuda:0"))
            on_device.search(vectors)
            assert torch.cuda.current_device() == 1


def test_vectors_on_a_device_are_stored(torch, vectors):
    tensor = torch.from_numpy(vectors).cuda()
    index = jasper.Index.build(tensor, device="cpu")
    assert index.__reduce__()[1] == jasper.Index.build(vectors, device="cpu").__reduce__()[1]
    for place in ("cpu", "cuda:0"):
        index = jasper.Index(16).to_device(place)
        keys = index.insert(tensor[:200, :], torch.arange(200, device="cuda:0"))
        index.upsert(tensor.t()[:, 200:300].t(), keys[:100])
        assert (index.vectors(keys[:100]) == vectors[200:300]).all()
        assert (index.vectors(keys[100:]) == vectors[100:200]).all()
    assert (index.vectors(index.insert(tensor[:10].double())) == vectors[:10]).all()


def test_cupy_arrays_stay_cupy_arrays(on_device, vectors):
    cupy = pytest.importorskip("cupy")
    expected = on_device.search(vectors, 5)
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream:
            queries = cupy.asarray(vectors)
            for given in (None, stream):
                found = on_device.search(queries, 5, stream=given)
                stream.synchronize()
                assert isinstance(found.keys, cupy.ndarray)
                assert (found.keys.get() == expected.keys).mean() > 0.999
            assert (on_device.search(queries[:, ::-1][:, ::-1].astype(cupy.float16), 1).keys.get()[:, 0] >= 0).all()


def test_quantized_searches_on_the_device(torch, index, vectors):
    index.quantize("rabitq:4")
    index.to_device("cuda:0")
    found = index.search(torch.from_numpy(vectors).cuda(), 5)
    assert (found.keys.cpu().numpy() == index.search(vectors, 5).keys).mean() > 0.99


def test_the_time_of_a_batch(torch, capsys):
    """Prints queries per second from host and device memory, and in streams; the bar is a comparison with Rust."""
    vectors = np.random.default_rng(0).normal(size=(100_000, 64)).astype(np.float32)
    index = jasper.Index.build(vectors, device="cuda:0")
    host = np.ascontiguousarray(vectors[:10_000])
    device = torch.from_numpy(host).cuda()
    stream = torch.cuda.Stream()

    def queued():
        for _ in range(10):
            index.search(device, 10, stream=stream)
        stream.synchronize()

    calls = {"host": lambda: index.search(host, 10), "device": lambda: index.search(device, 10), "10 queued": queued}
    for name, call in calls.items():
        call()
        times = []
        for _ in range(20):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        rate = 10_000 * (10 if call is queued else 1) / sorted(times)[10]
        with capsys.disabled():
            print(f"\n{name}: {rate / 1e6:.2f} M queries/s")
