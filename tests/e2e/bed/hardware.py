"""What a host's /sys, /dev and tools say of its accelerators and fabric. Trees are decided here; ``install`` writes one."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.e2e.bed.plan import Accelerator, Function, HostPlan, Port

CDI = """\
cdiVersion: "0.5.0"
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits: {env: [NVIDIA_VISIBLE_DEVICES=0]}
"""
"""The list of devices that the container toolkit would write for the one GPU."""

TOOLS = Path(__file__).parent / "tools"
MEM_TOTAL_KIB = 125528656
"""MemTotal of a DGX Spark."""
CHARACTER_DEVICE = 0o020666
NULL_DEVICE = os.makedev(1, 3)
CAP_SYS_RESOURCE = 24
# Attributes that come from the real interface, so that they tell the truth when a cable is pulled.
LIVE = (
    *("address", "addr_len", "broadcast", "carrier", "carrier_changes", "dev_id", "dev_port", "duplex", "flags", "ifalias", "ifindex"),
    *("iflink", "mtu", "operstate", "statistics", "tx_queue_len", "type"),
)


class Tree(msgspec.Struct, frozen=True):
    """Files, relative links, character devices (each behaves as /dev/null) and programs. Paths begin below the root, without a slash."""

    files: dict[str, str] = {}
    links: dict[str, str] = {}
    devices: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """Programs of ``tools/``, by the last part of the path."""


ACCELERATORS = {
    Accelerator.NONE: Tree(),
    Accelerator.NVIDIA: Tree(
        devices=("dev/nvidia0", "dev/nvidiactl"), tools=("usr/bin/nvidia-smi", "usr/bin/nvidia-container-runtime-hook")
    ),
    Accelerator.AMD: Tree(
        files={
            "sys/class/kfd/kfd/topology/nodes/0/gpu_id": "0",
            "sys/class/kfd/kfd/topology/nodes/1/gpu_id": "50772",
            "sys/class/kfd/kfd/topology/nodes/1/name": "gfx1151",
            "sys/class/kfd/kfd/topology/nodes/1/properties": "vendor_id 4098\ndevice_id 5510\ngfx_target_version 110501",
        },
        devices=("dev/kfd", "dev/dri/card1", "dev/dri/renderD128"),
        tools=("usr/bin/rocm-smi",),
    ),
    Accelerator.GAUDI: Tree(
        # PCI vendor Habana Labs, device Gaudi 2.
        files={"sys/class/accel/accel0/device/vendor": "0x1da3", "sys/class/accel/accel0/device/device": "0x1020"},
        devices=("dev/accel/accel0", "dev/accel/accel_controlD0"),
        tools=("usr/bin/hl-smi",),
    ),
}
TOPS = (
    *("sys/class/kfd", "sys/class/accel", "dev/kfd", "dev/dri", "dev/accel", "dev/nvidia0", "dev/nvidiactl"),
    *(tool for tree in ACCELERATORS.values() for tool in tree.tools),
)
"""All that any accelerator brings."""


def fabric_tree(host: HostPlan) -> Tree:
    """Interfaces with their PCI devices, and the RDMA devices of a ConnectX-7. PCI devices are in /sys/class/.pci: /sys/devices is the
    kernel's own.
    """
    files: dict[str, str] = {}
    links = {"sys/class/net/lo": "../../../.sys/class/net/lo"}
    devices: list[str] = []
    for port in host.ports:
        _add_interface(files, links, port)
        if port.function:
            _add_rdma_device(files, links, port, port.function)
    if any(port.function for port in host.ports):
        devices = ["dev/infiniband/rdma_cm", *(f"dev/infiniband/uverbs{number}" for number in range(4))]
    return Tree(files, links, tuple(devices), ("usr/bin/ibdev2netdev",) if devices else ())


def runc_tree() -> Tree:
    """A runc that asks for no more than this machine's root may give: one in a sandbox may not raise limits (capabilities(7))."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    may_raise_limits = int(status["CapEff"], 16) >> CAP_SYS_RESOURCE & 1
    return Tree() if may_raise_limits else Tree(tools=("usr/local/sbin/runc",))


def port_state(port: Port, *, plugged: bool) -> dict[str, str]:
    """The files of an RDMA port that change with its cable."""
    if port.function is None:
        return {}
    base = f"{_rdma_folder(port.function)}/ports/1"
    if plugged:
        return {f"{base}/state": "4: ACTIVE", f"{base}/phys_state": "5: LinkUp", f"{base}/rate": "200 Gb/sec (4X HDR)"}
    return {f"{base}/state": "1: DOWN", f"{base}/phys_state": "3: Disabled", f"{base}/rate": "40 Gb/sec (4X QDR)"}


def install(root: Path, tree: Tree) -> None:
    """Write a tree below a host's root; what is there already is written over."""
    for path in tree.tools:
        (root / path).unlink(missing_ok=True)
        shutil.copyfile(TOOLS / Path(path).name, root / path)
        (root / path).chmod(0o755)
    for path, text in tree.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text + "\n")
    for path, target_text in tree.links.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).unlink(missing_ok=True)
        (root / path).symlink_to(target_text)
    for path in tree.devices:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mknod(root / path, CHARACTER_DEVICE, NULL_DEVICE)
            (root / path).chmod(0o666)


def remove(root: Path, paths: Iterable[str]) -> None:
    """Files and folders below a host's root, there or not."""
    for path in paths:
        if (root / path).is_dir():
            shutil.rmtree(root / path)
        else:
            (root / path).unlink(missing_ok=True)


def spark_meminfo(own: str) -> str:
    """This machine's /proc/meminfo with the size of a Spark, nearly all of it free."""
    shown = {"MemTotal": MEM_TOTAL_KIB, "MemFree": MEM_TOTAL_KIB * 94 // 100, "MemAvailable": MEM_TOTAL_KIB * 96 // 100}
    lines = (line.partition(":") for line in own.splitlines())
    return "".join(f"{name}:{shown[name]:>15} kB\n" if name in shown else f"{name}:{rest}\n" for name, _, rest in lines)


def _add_interface(files: dict[str, str], links: dict[str, str], port: Port) -> None:
    pci = port.function.pci if port.function else "0007:01:00.0"
    device, folder = f"sys/class/.pci/{pci}", f"sys/class/.pci/{pci}/net/{port.netdev}"
    driver, vendor = ("mlx5_core", "0x15b3") if port.function else ("r8127", "0x10ec")
    files[f"{device}/uevent"] = f"DRIVER={driver}\nPCI_SLOT_NAME={pci}"
    files[f"{device}/vendor"] = vendor
    files[f"{device}/numa_node"] = "0"
    files[f"{folder}/speed"] = "-1" if port.cable is None else "200000" if port.function else "10000"
    links[f"{folder}/device"] = "../.."
    links.update({f"{folder}/{name}": f"../../../../../../.sys/class/net/{port.netdev}/{name}" for name in LIVE})
    links[f"sys/class/net/{port.netdev}"] = f"../.pci/{pci}/net/{port.netdev}"


def _add_rdma_device(files: dict[str, str], links: dict[str, str], port: Port, function: Function) -> None:
    folder = _rdma_folder(function)
    guid = _guid(port.mac)
    files.update(
        {
            f"{folder}/node_type": "1: CA",
            f"{folder}/hca_type": "MT4129",
            f"{folder}/board_id": "NVD0000000087",
            f"{folder}/fw_ver": "28.45.4028",
            f"{folder}/node_guid": guid,
            f"{folder}/sys_image_guid": guid,
            f"{folder}/ports/1/link_layer": "Ethernet",
            f"{folder}/ports/1/lid": "0x0",
        }
    )
    files.update(port_state(port, plugged=port.cable is not None))
    for index, gid in enumerate(_gids(port)):
        files[f"{folder}/ports/1/gids/{index}"] = gid
        files[f"{folder}/ports/1/gid_attrs/ndevs/{index}"] = port.netdev
        files[f"{folder}/ports/1/gid_attrs/types/{index}"] = "RoCE v2" if index % 2 else "IB/RoCE v1"
    links[f"{folder}/device"] = "../.."
    links[f"sys/class/infiniband/{function.hca}"] = f"../.pci/{function.pci}/infiniband/{function.hca}"


def _rdma_folder(function: Function) -> str:
    return f"sys/class/.pci/{function.pci}/infiniband/{function.hca}"


def _guid(mac: str) -> str:
    a, b, c, d, e, f = mac.split(":")
    return f"{int(a, 16) ^ 2:02x}{b}:{c}ff:fe{d}:{e}{f}"


def _gids(port: Port) -> tuple[str, ...]:
    """Each address twice: for RoCE v1 and for v2."""
    link_local = f"fe80:0000:0000:0000:{_guid(port.mac)}"
    if not port.address:
        return (link_local, link_local)
    digits = "".join(f"{int(part):02x}" for part in port.address.partition("/")[0].split("."))
    mapped = f"0000:0000:0000:0000:0000:ffff:{digits[:4]}:{digits[4:]}"
    return (link_local, link_local, mapped, mapped)
