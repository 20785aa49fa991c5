"""A cluster from the ``.env`` file of a spark-vllm-docker checkout. Pure: the file's text goes in, an edit comes out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from sparkrun.core.cluster_manager.addresses import parse_hosts
from sparkrun.core.cluster_manager.edit import ClusterEdit
from sparkrun.core.cluster_manager.env_file import parse_env_file
from sparkrun.core.cluster_manager.errors import ClusterError
from sparkrun.core.cluster_manager.model import NEW_CLUSTER_SCHEDULER
from sparkrun.core.values import ConfigValue

SOURCE = "eugr-env"
_PREFIX = "CONTAINER_"
_READ = frozenset({"CLUSTER_NODES", "ETH_IF", "IB_IF", "CONTAINER_NAME"})
_DETECTED = frozenset(
    """
    NCCL_NET NCCL_IB_DISABLE NCCL_CROSS_NIC NCCL_IGNORE_CPU_AFFINITY NCCL_IB_HCA NCCL_IB_GID_INDEX NCCL_SOCKET_IFNAME UCX_NET_DEVICES
    GLOO_SOCKET_IFNAME TP_SOCKET_IFNAME MN_IF_NAME OMPI_MCA_btl_tcp_if_include NODE_IP
    """.split()
)
"""What a launch finds out for each host by itself; a value for all hosts would be wrong on some."""
_ETH_PORT = re.compile(r"np(\d+)$")
_IB_PORT = re.compile(r"f(\d+)$")


class ClusterImport(msgspec.Struct, frozen=True):
    """A cluster to create, and what of the file went another way."""

    edit: ClusterEdit
    notes: tuple[str, ...] = ()


def plan_import(text: str, path: Path) -> ClusterImport:
    """Hosts from ``CLUSTER_NODES``, the fabric port from ``ETH_IF``, ``CONTAINER_X`` as variable ``X`` that refers to the file.

    Raises ``ConfigError`` with the line of a broken file, ``ClusterError`` for one that names no host, ``UsageError`` for a bad host.
    """
    found = parse_env_file(text, str(path))
    hosts = parse_hosts([found.get("CLUSTER_NODES", "")])
    if not hosts:
        raise ClusterError(f"{path}: CLUSTER_NODES names no host", hint="add a line CLUSTER_NODES=10.0.0.1,10.0.0.2")
    values: dict[str, ConfigValue] = {
        "hosts": list(hosts),
        "description": f"imported from {path}",
        "scheduler": NEW_CLUSTER_SCHEDULER,
        "sync_source": SOURCE,
    }
    port = _eth_port(found)
    if port is not None:
        values["fabric_interfaces"] = [f"*np{port}"]
    env: dict[str, ConfigValue] = {name: f"${{{_PREFIX}{name}}}" for name in _container_variables(found)}
    if env:
        values |= {"env": env, "env_file": str(path)}
    return ClusterImport(ClusterEdit(values=values), tuple(_notes(found, port)))


def _container_variables(found: Mapping[str, str]) -> Iterator[str]:
    for name in found:
        inner = name.removeprefix(_PREFIX)
        if name not in _READ and name.startswith(_PREFIX) and inner and not inner[0].isdigit() and inner not in _DETECTED:
            yield inner


def _eth_port(found: Mapping[str, str]) -> str | None:
    match = _ETH_PORT.search(found.get("ETH_IF", "").strip())
    return match[1] if match else None


def _notes(found: Mapping[str, str], port: str | None) -> Iterator[str]:
    if found.get("ETH_IF") and port is None:
        yield f"ETH_IF {found['ETH_IF']} names no port (…np0, …np1), so the fabric interfaces are left to detection"
    ib_ports = {match[1] for name in found.get("IB_IF", "").split(",") if (match := _IB_PORT.search(name.strip()))}
    if port is not None and ib_ports and ib_ports != {port}:
        yield f"ETH_IF is port {port}, IB_IF is port {', '.join(sorted(ib_ports))}: *np{port} is used"
    detected = [name for name in found if name.removeprefix(_PREFIX) in _DETECTED]
    if detected:
        yield f"left out, because a launch finds it out for each host: {', '.join(detected)}"
    others = [name for name in found if name not in _READ and not name.startswith(_PREFIX) and name not in _DETECTED]
    if others:
        yield f"without a meaning here: {', '.join(others)}"
