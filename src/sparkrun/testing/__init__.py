"""A test kit for sparkrun itself, for plugins and for recipes: hosts in memory that answer the same scripts."""

from sparkrun.testing.cluster import FakeCluster
from sparkrun.testing.docker import FakeContainer, FakeDocker
from sparkrun.testing.host import FakeHost, FakeProcess
from sparkrun.testing.hub import FakeHub
from sparkrun.testing.hub_cache import FakeHubCache
from sparkrun.testing.images import FakeImages

__all__ = ["FakeCluster", "FakeContainer", "FakeDocker", "FakeHost", "FakeHub", "FakeHubCache", "FakeImages", "FakeProcess"]
