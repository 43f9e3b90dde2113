"""A Ray cluster of several nodes, in processes of this machine."""

import os
import pathlib
import shutil

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
# Ray gives workers less of the CPU than other processes, and a busy machine then none.
os.environ.setdefault("RAY_worker_niceness", "0")

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="ray is in requirements-ray.txt")

from ray.cluster_utils import Cluster as Nodes

from jasper.ray import Cluster

NODE = {"num_cpus": 4, "object_store_memory": 100 << 20}


@pytest.fixture(scope="session")
def nodes():
    """A head with one CPU, and three nodes."""
    head = {**NODE, "num_cpus": 1, "include_dashboard": False}
    nodes = Nodes(initialize_head=True, head_node_args=head)
    for _ in range(3):
        nodes.add_node(**NODE)
    ray.init(address=nodes.address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture(scope="session")
def vectors():
    """4,000 vectors in 40 clusters."""
    rng = np.random.default_rng(7)
    centers = rng.normal(size=(40, 16))
    return (centers[rng.integers(40, size=4000)] + 0.3 * rng.normal(size=(4000, 16))).astype(np.float32)


@pytest.fixture(scope="session")
def built(nodes, vectors, tmp_path_factory):
    """A folder with a cluster of 3 shards, and its last batch in the log."""
    folder = tmp_path_factory.mktemp("built") / "cluster"
    cluster = Cluster.build(vectors, str(folder), shards=3, replicas=2, num_cpus=0.5)
    cluster.delete([3999])
    cluster.close()
    return folder


@pytest.fixture
def folder(built, tmp_path):
    """A copy of that folder."""
    return pathlib.Path(shutil.copytree(built, tmp_path / "cluster"))


@pytest.fixture
def cluster(nodes, folder):
    """A cluster for tests that change it."""
    cluster = Cluster.open(str(folder))
    yield cluster
    cluster.close()
