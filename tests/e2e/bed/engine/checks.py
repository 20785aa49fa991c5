"""What an engine finds out about the place it runs in, and cannot do without."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.bed.engine.arguments import EngineError

INTERFACE_VARIABLES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES_TCP", "MN_IF_NAME")
ADDRESS_VARIABLES = ("VLLM_HOST_IP", "SGLANG_HOST_IP", "NODE_IP")


def gpu_count(environ: Mapping[str, str], told: int) -> int:
    """Accelerators of the container. Docker names NVIDIA's in a variable, unless the process came by
    `docker exec`; the hook brings nvidia-smi.
    """
    if told >= 0:
        return told
    named = environ.get("NVIDIA_VISIBLE_DEVICES", "")
    if re.fullmatch(r"[0-9]+(,[0-9]+)*", named):
        return len(named.split(","))
    if shutil.which("nvidia-smi") or Path("/dev/nvidia0").exists():
        return 1
    return sum(Path(path).exists() for path in ("/dev/kfd", "/dev/accel/accel0"))


def check_gpus(wanted: int, found: int) -> None:
    """An engine has as many as it wants on this node, in vLLM's words."""
    if found == 0:
        raise EngineError("RuntimeError: Failed to infer device type: no accelerator is visible")
    if wanted > found:
        raise EngineError(f"ValueError: World size ({wanted}) is larger than the number of available GPUs ({found}) in this node")


def check_network(environ: Mapping[str, str]) -> None:
    """Interfaces and addresses that variables name are this host's, in the words of NCCL and Gloo."""
    interfaces = {name for _, name in socket.if_nameindex()}
    for variable in INTERFACE_VARIABLES:
        for name in filter(None, environ.get(variable, "").split(",")):
            if name.lstrip("=^") not in interfaces and not any(each.startswith(name) for each in interfaces):
                raise EngineError(f"RuntimeError: {variable}: unable to find interface {name}: no socket interface found")
    for variable in ADDRESS_VARIABLES:
        address = environ.get(variable, "")
        if address and not is_own(address):
            raise EngineError(f"RuntimeError: {variable}={address} is no address of {socket.gethostname()}")


def is_own(address: str) -> bool:
    """Whether an address or a name is this host's."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.bind(where)
    except OSError:
        return False
    return True


def check_model(model: str, environ: Mapping[str, str]) -> None:
    """A path exists; a hub id is in the cache when the hub may not be asked."""
    if model.startswith(("/", "./", "~")):
        if not Path(model).expanduser().exists():
            raise EngineError(f"OSError: {model} does not exist")
        return
    if environ.get("HF_HUB_OFFLINE") != "1":
        return
    home = environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface")  # noqa: PTH111
    hub = environ.get("HF_HUB_CACHE") or f"{home}/hub"
    if not any(Path(hub, f"models--{model.replace('/', '--')}", "snapshots").glob("*/*")):
        raise EngineError(f"OSError: {model} is not in the cache at {hub}, and the hub may not be asked (HF_HUB_OFFLINE=1)")
