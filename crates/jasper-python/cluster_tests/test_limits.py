"""Time limits, what opening may end, names of folders, and replicas that cannot follow the others."""

import pytest

from jasper.ray import Cluster

pytestmark = pytest.mark.filterwarnings("ignore")


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
