"""Several threads call one index at once; in parallel where Python is free-threaded."""

import asyncio
import os
import subprocess
import sys
import sysconfig
import threading

import numpy as np
import pytest

import jasper

from conftest import DIM

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
THREADS = 4


@pytest.fixture(autouse=True)
def parallel():
    """Tests of a free-threaded Python are of no use if some module has turned the interpreter lock on."""
    assert not FREE_THREADED or not sys._is_gil_enabled()


def in_threads(call):
    """Calls `call(thread)` in each of `THREADS` threads, which begin together, and returns what they return."""
    barrier, returned, raised = threading.Barrier(THREADS), [None] * THREADS, []

    def run(thread):
        try:
            barrier.wait()
            returned[thread] = call(thread)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=[thread]) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
    return returned


@pytest.mark.skipif(not FREE_THREADED, reason="needs a free-threaded Python")
def test_the_package_leaves_the_interpreter_lock_off():
    script = """
import sys, jasper, jasper.data, jasper.graph
assert not sys._is_gil_enabled()
jasper.Index(2).insert([[0.0, 1.0]])
assert not sys._is_gil_enabled()
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    run = subprocess.run([sys.executable, "-W", "error", "-c", script], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_threads_insert_replace_delete_and_search(index, vectors):
    """Each thread changes keys of its own, and compares the index with what it should hold of them."""

    def change(thread):
        rng = np.random.default_rng(thread)
        held = {}
        for step in range(60):
            key = 10_000 * (thread + 1) + step
            held[key] = rng.normal(size=DIM).astype(np.float32)
            index.insert(held[key], key)
            if step % 3 == 1:
                held[key - 1] = rng.normal(size=DIM).astype(np.float32)
                index.upsert(held[key - 1], key - 1)
            if step % 3 == 2:
                index.delete(key - 1)
                del held[key - 1]
            if step == 30:
                index.consolidate()
            kept = np.array(list(held))
            assert (index.vectors(kept) == list(held.values())).all()
            assert set(index.search(held[key], len(kept), filter=kept).keys) == set(kept)
            assert index.search(vectors[step], 1).keys == [step]
        return held

    held = {key: vector for part in in_threads(change) for key, vector in part.items()}
    held |= dict(enumerate(vectors))
    assert set(index.keys()) == set(held) and len(index) == len(held)
    assert (index.vectors(list(held)) == list(held.values())).all()
    assert index.check().is_sound
    queries = vectors[:200] + np.float32(0.05)
    truth = np.array(list(held))[jasper.exact_search(np.array(list(held.values())), queries, 10).keys]
    assert jasper.recall(index.search(queries, 10, beam_width=64), truth) > 0.97


def test_one_thread_wins_each_key(index):
    """Threads insert and delete the same keys: each change of a key is made once."""

    def change(thread):
        inserted, deleted = 0, 0
        for key in range(2000, 2050):
            try:
                index.insert(np.full(DIM, thread, np.float32), key)
                inserted += 1
            except jasper.DuplicateKeyError:
                pass
        for key in range(100):
            try:
                deleted += index.delete(key)
            except jasper.UnknownKeyError:
                pass
        return inserted, deleted

    assert np.sum(in_threads(change), axis=0).tolist() == [50, 100]
    assert len(index) == 950 and index.check().is_sound


def test_threads_share_queries_filters_and_results(shared, vectors):
    """Arrays may be read by several calls at once, and be written by one."""
    even = jasper.Filter.keys(np.arange(0, 1000, 2))
    truth = shared.search(vectors, 5, filter=even).keys
    out = np.empty((1000, 5), np.int64), np.empty((1000, 5), np.float32)

    def search(thread):
        refused = 0
        for _ in range(20):
            assert (shared.search(vectors, 5, filter=even).keys == truth).all()
            try:
                shared.search(vectors, 5, filter=even, out=out)
            except jasper.Error as error:
                assert "in use" in str(error)
                refused += 1
        return refused

    assert sum(in_threads(search)) < 20 * THREADS
    assert (out[0] == truth).all()


def test_event_loops_of_several_threads(shared, vectors):
    async def search():
        found = await asyncio.gather(*(shared.search_async(query, 1) for query in vectors))
        return [int(matches.keys[0]) for matches in found]

    for keys in in_threads(lambda _: asyncio.run(search())):
        assert keys == list(range(1000))


def test_an_index_is_saved_and_copied_while_it_changes(index, tmp_path):
    """Each file holds what one moment held: the keys that one thread had inserted, without gaps."""

    def call(thread):
        if thread == 0:
            for key in range(1000, 1300):
                index.insert(np.full(DIM, key, np.float32), key)
            return
        for _ in range(5):
            path = tmp_path / str(thread)
            index.save(path)
            copy = jasper.Index.open(path)
            assert set(copy.keys()) == set(range(len(copy))) and copy.check().is_sound

    in_threads(call)
    assert len(index) == 1300


def test_progress_and_exceptions_reach_the_thread_of_the_call(vectors):
    def build(thread):
        def progress(stage, done, total):
            threads.add(threading.get_ident())
            if done > 500 and thread % 2:
                raise KeyError(thread)

        threads = set()
        try:
            index = jasper.Index.build(vectors, device="cpu", progress=progress)
        except KeyError as error:
            return error.args == (thread,) and thread % 2 == 1
        return thread % 2 == 0 and len(index) == 1000 and threads == {threading.get_ident()}

    assert all(in_threads(build))
