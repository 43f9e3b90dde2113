"""Calls lose no memory."""

import os

import pytest

from memory import Calls


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
def test_50_000_calls_leak_nothing():
    """With 128 bytes lost in each call, memory would grow by 6 MB. `python tests/memory.py` makes more calls."""
    process, _ = Calls("cpu").grow(50_000)
    assert process < 4 << 20
