"""Vectors and indexes that tests share."""

import signal

import numpy as np
import pytest

import jasper

# A shell without job control ignores interrupts of what it runs in the background, and Python then does too.
signal.signal(signal.SIGINT, signal.default_int_handler)

DIM = 16


@pytest.fixture(scope="session")
def vectors():
    """1,000 vectors in 20 clusters."""
    rng = np.random.default_rng(7)
    centers = rng.normal(size=(20, DIM))
    return (centers[rng.integers(20, size=1000)] + 0.2 * rng.normal(size=(1000, DIM))).astype(np.float32)


@pytest.fixture
def index(vectors):
    """An index of the vectors, under the keys 0 to 999, for tests that change it."""
    return jasper.Index.build(vectors, device="cpu")


@pytest.fixture(scope="session")
def shared(vectors):
    """The same index, for tests that only search it."""
    return jasper.Index.build(vectors, device="cpu")
