"""What the environments of several hosts have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class SharedEnv(NamedTuple):
    """Variables that are equal on all hosts, and those that each host has for itself."""

    shared: dict[str, str]
    per_host: dict[str, dict[str, str]]


def split_shared(envs: Mapping[str, Mapping[str, str]]) -> SharedEnv:
    """Take what is equal everywhere out of the hosts' environments."""
    every = list(envs.values())
    shared = {name: value for name, value in every[0].items() if all(env.get(name) == value for env in every)} if every else {}
    return SharedEnv(shared, {host: {name: env[name] for name in env if name not in shared} for host, env in envs.items()})
