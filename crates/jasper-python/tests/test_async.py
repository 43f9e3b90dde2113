"""Searches and changes with asyncio."""

import asyncio
import gc
import time
import threading
import weakref

import numpy as np
import pytest

import jasper


def test_a_thousand_single_queries_are_gathered(shared, vectors):
    expected = shared.search(vectors, 5)
    threads = []

    async def main():
        searches = [shared.search_async(query, 5) for query in vectors]
        threads.append(threading.active_count())
        return await asyncio.gather(*searches)

    found = asyncio.run(main())
    assert all(isinstance(one, jasper.Matches) and one.keys.shape == (5,) for one in found)
    assert (np.array([one.keys for one in found]) == expected.keys).all()
    assert (np.array([one.distances for one in found]) == expected.distances).all()
    # No thread for a query.
    assert threads[0] < 20


def test_batches_parameters_and_filters(shared, vectors):
    async def main():
        batch = await shared.search_async(vectors[:20], 4, beam_width=32)
        filtered = await shared.search_async(vectors[3], 4, filter=np.arange(0, 1000, 2))
        none = await shared.search_async(np.zeros((0, 16), np.float32), 4)
        few = await shared.search_async(vectors[3], 4, filter=[7])
        return batch, filtered, none, few

    batch, filtered, none, few = asyncio.run(main())
    assert (batch.keys == shared.search(vectors[:20], 4, beam_width=32).keys).all()
    assert (filtered.keys % 2 == 0).all() and none.keys.shape == (0, 4)
    assert few.keys.tolist() == [7, -1, -1, -1] and np.isinf(few.distances[1:]).all()


def test_errors_are_raised_when_awaited_or_before(shared, vectors):
    async def main():
        with pytest.raises(jasper.ParameterError, match="3 coordinates"):
            await shared.search_async(np.zeros(3, np.float32))
        with pytest.raises(jasper.ParameterError, match=r"k \(0\) must be at least 1"):
            await shared.search_async(vectors[0], 0)
        with pytest.raises(jasper.OutOfMemoryError):
            await shared.search_async(vectors[0], 1 << 62)
        with pytest.raises(jasper.ParameterError, match="cannot filter a submitted search"):
            await shared.search_async(vectors[0], filter=jasper.Filter.keys([1], exclude=True))
        results = await asyncio.gather(
            shared.search_async(vectors[:2], 1),
            shared.search_async(vectors * np.float32(np.nan), 1),
            return_exceptions=True,
        )
        assert results[0].keys.tolist() == [[0], [1]] and isinstance(results[1], jasper.ParameterError)

    asyncio.run(main())
    with pytest.raises(RuntimeError, match="no running event loop"):
        shared.search_async(vectors[0])


def test_cancelled_searches_are_withdrawn(index, vectors):
    async def main():
        searches = [index.search_async(np.tile(vectors, (20, 1)), 100, beam_width=500) for _ in range(3)]
        await asyncio.sleep(0)
        for search in searches:
            search.cancel()
        results = await asyncio.gather(*searches, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(index.search_async(np.tile(vectors, (20, 1)), 100, beam_width=500), 0.01)
        # What was withdrawn does not delay this one.
        found = await asyncio.wait_for(index.search_async(vectors[7], 1), 10)
        assert found.keys.tolist() == [7]

    asyncio.run(main())


def test_an_index_is_dropped_after_its_searches(vectors):
    async def main():
        index = jasper.Index.build(vectors[:300], device="cpu", threads=1)
        searches = [index.search_async(query, 1) for query in vectors[:300]]
        dropped = weakref.ref(index)
        del index
        found = await asyncio.gather(*searches)
        assert [int(one.keys[0]) for one in found] == list(range(300))
        return dropped

    for _ in range(20):
        dropped = asyncio.run(main())
        # The thread that completed the last search may still hold the index for an instant.
        deadline = time.monotonic() + 30
        while dropped() is not None and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.01)
        assert dropped() is None


def test_searches_outlive_a_loop_that_ends(index, vectors):
    async def main():
        index.search_async(np.tile(vectors, (5, 1)), 100, beam_width=300)

    for _ in range(3):
        asyncio.run(main())
    index.to_device("cpu")
    index.delete([0])
    assert 0 not in index.search(vectors[0], 5).keys


def test_changes_are_made_in_order_and_each_has_its_result(vectors):
    async def main():
        index = jasper.Index(vectors.shape[1])
        inserted = [index.insert_async(vectors[key], key) for key in range(200)]
        again = [index.insert_async(vectors[key], key) for key in (3, 4)]
        replaced = [index.upsert_async(vectors[key + 1], key) for key in range(0, 200, 2)]
        deleted = index.delete_async([1, 5, 9])
        unknown = index.delete_async(5_000)
        batch = index.insert_async(vectors[300:400], range(300, 400))
        assert [keys.tolist() for keys in await asyncio.gather(*inserted)] == [[key] for key in range(200)]
        for result in await asyncio.gather(*again, return_exceptions=True):
            assert isinstance(result, jasper.DuplicateKeyError)
        assert [keys.tolist() for keys in await asyncio.gather(*replaced)] == [[key] for key in range(0, 200, 2)]
        assert await deleted == 3
        with pytest.raises(jasper.UnknownKeyError):
            await unknown
        assert (await batch).tolist() == list(range(300, 400))
        with pytest.raises(jasper.ParameterError):
            await index.insert_async(np.full(vectors.shape[1], np.nan, np.float32), 7_000)
        with pytest.raises(jasper.ParameterError):
            await index.insert_async(vectors[:2], 7_000)
        return index

    index = asyncio.run(main())
    assert len(index) == 297
    for key in (0, 2, 3, 198, 300):
        row = key + 1 if key < 200 and key % 2 == 0 else key
        assert (index[key] == vectors[row]).all()
    with pytest.raises(RuntimeError, match="no running event loop"):
        index.insert_async(vectors[0], 8_000)


def test_threads_share_changes(vectors):
    index = jasper.Index(vectors.shape[1])

    def insert(thread):
        for step in range(30):
            assert index.insert(vectors[step], keys=1000 * thread + step).tolist() == [1000 * thread + step]
            with pytest.raises(jasper.DuplicateKeyError):
                index.insert(vectors[step], keys=1000 * thread + step)

    threads = [threading.Thread(target=insert, args=(thread,)) for thread in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(index) == 180
    assert index.check().is_sound
