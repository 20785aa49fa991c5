"""What can be wrong with a saved cluster."""

from __future__ import annotations

from sparkrun.core.errors import HostsError


class ClusterError(HostsError):
    """A saved cluster is unknown, exists already, or cannot be what somebody wants to make of it."""
