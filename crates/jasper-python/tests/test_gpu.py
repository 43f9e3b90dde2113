"""The same calls on a CUDA device; JASPER_REQUIRE_GPU makes its absence a failure."""

import os

import numpy as np
import pytest

import jasper

DEVICES = [device.device for device in jasper.devices()]


def test_there_is_a_device_if_one_is_required():
    assert DEVICES or not os.environ.get("JASPER_REQUIRE_GPU")


@pytest.mark.parametrize("device", DEVICES)
def test_an_index_moves_to_a_device_and_back(index, vectors, device):
    expected = index.search(vectors, 5)
    assert index.to(device) is index and index.device == device and index.device_bytes > 0
    assert jasper.recall(index.search(vectors, 5), expected) > 0.99
    assert (index.search(vectors[3], 5).keys == expected.keys[3]).all()
    assert (index.search(vectors, 5, filter=np.arange(0, 1000, 2)).keys % 2 == 0).all()
    keys = index.insert(vectors + np.float32(0.01))
    index.delete(keys[:500])
    assert index.consolidate().freed == 500
    index.to("cpu")
    assert index.device == "cpu" and len(index) == 1500 and index.check().is_sound


@pytest.mark.parametrize("device", DEVICES)
def test_a_beam_that_is_too_wide_is_refused(index, vectors, device):
    index.to(device)
    with pytest.raises(jasper.ParameterError, match="at most 1024 on this device"):
        index.search(vectors, beam_width=2000)


@pytest.mark.parametrize("device", DEVICES)
def test_indexes_are_built_on_a_device(vectors, device):
    index = jasper.Index.build(vectors, device=device)
    assert index.device == "cpu"
    assert (index.search(vectors, 1).keys[:, 0] == np.arange(1000)).all()
