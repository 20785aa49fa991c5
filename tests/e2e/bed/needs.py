"""Whether this machine can have a bed."""

from __future__ import annotations

import os
from pathlib import Path

from tests.e2e.bed.machine import program, run, unified_cgroups

PROGRAMS = {
    "docker": "docker.io",
    "dockerd": "docker.io",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "python3": "python3",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "tc": "iproute2",
    "unshare": "util-linux",
}
"""What has to be here, and the Debian package that brings it."""
# In namespaces that go away with it: a layered file system in memory and a bridge, as each bed has them.
TRIAL = """
set -e
mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work /mnt/merged
mount -t overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work none /mnt/merged
ip link add name bed0 type bridge && ip link add name bed1 type veth peer name bed2 && ip link set dev bed1 master bed0
"""


def why_not() -> str | None:
    """The reason why there can be no bed here; ``None`` when there can."""
    if os.uname().sysname != "Linux":
        return "test hosts need Linux"
    if os.geteuid() != 0:
        return "test hosts need root"
    missing = {package for name, package in PROGRAMS.items() if program(name) is None}
    if missing:
        return f"not installed: {' '.join(sorted(missing))}"
    return _why_no_cgroups() or _why_no_namespaces()


def _why_no_cgroups() -> str | None:
    unified = unified_cgroups()
    if unified is None:
        return "control groups of version 2 are not mounted"
    if not os.access(unified, os.W_OK) or os.statvfs(unified).f_flag & os.ST_RDONLY:
        return f"{unified} cannot be written to"
    return None if Path(unified, "cgroup.procs").exists() else f"{unified} is no control group"


def _why_no_namespaces() -> str | None:
    ended = run("unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "/bin/sh", "-c", TRIAL)
    if ended.code == 0:
        return None
    said = (ended.err or ended.out).strip().splitlines()
    return f"no namespaces as test hosts need them: {said[0] if said else f'exit code {ended.code}'}"
