"""Random calls, compared with a dictionary of keys and vectors."""

import asyncio

import numpy as np
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import jasper

from test_interop import Tensor

DIM = 3

keys = st.integers(-1, 30)
vectors = st.lists(st.integers(0, 9), min_size=DIM, max_size=DIM)
entries = st.lists(st.tuples(keys, vectors), max_size=8)


class Model(RuleBasedStateMachine):
    """Every call does what it does to a dictionary, or raises and does nothing."""

    calls = 0

    def __init__(self):
        super().__init__()
        self.index = jasper.Index(DIM, dtype="uint8", threads=1)
        self.live, self.deleted = {}, {}

    def expect(self, allowed, call):
        try:
            result = call()
        except jasper.Error:
            assert not allowed
            return None
        assert allowed
        return result

    @rule(entries=entries, replace=st.booleans())
    def write(self, entries, replace):
        keys, vectors = [key for key, _ in entries], [vector for _, vector in entries]
        array = np.array(vectors, np.uint8).reshape(-1, DIM)
        distinct = len(set(keys)) == len(keys) and -1 not in keys
        allowed = distinct and (replace or not self.live.keys() & keys)
        call = self.index.upsert if replace else self.index.insert
        self.expect(allowed, lambda: call(array, keys))
        if allowed:
            for key, vector in entries:
                self.live[key] = vector
                self.deleted.pop(key, None)

    @rule(vectors=st.lists(vectors, min_size=1, max_size=4), as_tensor=st.booleans())
    def insert_next(self, vectors, as_tensor):
        array = np.array(vectors, np.uint8)
        keys = self.index.insert(Tensor(array) if as_tensor else array)
        assert not self.live.keys() & set(keys.tolist())
        self.live.update(zip(keys.tolist(), vectors))

    @rule(keys=st.lists(keys, max_size=5), ignore=st.booleans())
    def delete(self, keys, ignore):
        allowed = -1 not in keys and (ignore or len(set(keys)) == len(keys) and set(keys) <= self.live.keys())
        missing = "ignore" if ignore else "raise"
        count = self.expect(allowed, lambda: self.index.delete(keys, missing=missing))
        if allowed:
            gone = self.live.keys() & set(keys)
            assert count == len(gone)
            self.deleted.update({key: self.live.pop(key) for key in gone})

    @rule(keys=st.lists(keys, max_size=3, unique=True))
    def undelete(self, keys):
        allowed = set(keys) <= self.deleted.keys()
        self.expect(allowed, lambda: self.index.undelete(keys))
        if allowed:
            self.live.update({key: self.deleted.pop(key) for key in keys})

    async def search_async(self, query, k, allowed):
        return await self.index.search_async(query, k, filter=allowed)

    @rule()
    def consolidate(self):
        self.index.consolidate()
        self.deleted.clear()

    @rule()
    def compact(self):
        self.index.compact()

    @rule()
    def reopen(self):
        self.index = jasper.Index.open(self.index.__reduce__()[1][0], threads=1)

    @rule(query=vectors, k=st.integers(0, 40), allowed=st.none() | st.lists(keys, max_size=9), awaits=st.booleans())
    def search(self, query, k, allowed, awaits):
        def call():
            if awaits:
                return asyncio.run(self.search_async(query, k, allowed))
            return self.index.search(query, k, filter=allowed)

        if allowed is not None and -1 in allowed or k == 0:
            self.expect(False, call)
            return
        found = call()
        wanted = self.live.keys() if allowed is None else self.live.keys() & set(allowed)
        distance = {key: float(np.sum((np.array(query) - self.live[key]) ** 2)) for key in wanted}
        hits = [key for key in found.keys.tolist() if key != -1]
        # So few vectors are all found.
        assert len(set(hits)) == len(hits) == min(k, len(wanted))
        assert found.distances[: len(hits)].tolist() == sorted(distance.values())[:k]
        assert [distance[key] for key in hits] == found.distances[: len(hits)].tolist()

    @invariant()
    def same_as_the_dictionary(self):
        Model.calls += 1
        found = self.index.keys()
        assert len(self.index) == len(self.live) and set(found.tolist()) == self.live.keys()
        assert self.index.vectors(found).tolist() == [self.live[key] for key in found.tolist()]
        assert self.index.check().is_sound


def test_ten_thousand_calls():
    """The same calls in every run."""
    examples = 300
    run_state_machine_as_test(
        Model, settings=settings(max_examples=examples, stateful_step_count=50, deadline=None, derandomize=True)
    )
    # The dictionary is compared after each call, and once before the first.
    assert Model.calls - examples >= 10_000
