"""Test hosts: real sshd, real docker, a network of their own, on one machine."""

from tests.e2e.bed.bed import Bed, current, down, up
from tests.e2e.bed.host import EngineCall, Host
from tests.e2e.bed.machine import Ended
from tests.e2e.bed.needs import why_not
from tests.e2e.bed.plan import Accelerator, BedError, Docker, Options, Shape

__all__ = [
    "Accelerator",
    "Bed",
    "BedError",
    "Docker",
    "Ended",
    "EngineCall",
    "Host",
    "Options",
    "Shape",
    "current",
    "down",
    "up",
    "why_not",
]
