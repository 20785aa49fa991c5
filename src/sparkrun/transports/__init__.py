"""How the hosts of a cluster are reached."""

from sparkrun.transports.base import EXT_TRANSPORT, Transport

__all__ = ["EXT_TRANSPORT", "Transport"]
