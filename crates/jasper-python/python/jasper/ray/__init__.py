"""An index on several machines, on Ray: `pip install jasper-ann[ray]`.

Each shard has the keys of some of 1,024 hash buckets, in an actor per replica. Changes are put in order, validated by
all shards, and appended to a log on shared storage before they are acknowledged.
"""

from jasper.ray._cluster import Cluster, ClusterMatches
from jasper.ray._router import Unavailable

__all__ = ["Cluster", "ClusterMatches", "Unavailable"]
