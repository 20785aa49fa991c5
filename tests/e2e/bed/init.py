"""PID 1 of a test host. Runs alone, under the system's Python: standard library only.

Started in mount, PID, UTS, IPC and network namespaces of its own. Builds a root file system in memory (this machine's /usr, /etc and /var
under writable layers of its own), moves into it, prints its PID as the machine outside knows it, waits for a line on stdin, starts sshd
and dockerd, and from then on only reaps. When it is killed, the kernel ends every process of the host and drops every mount.

SIGUSR1 starts dockerd if it does not run.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

# linux/mount.h
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 8, 32, 4096, 16384
MNT_DETACH = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
# Room of a Spark's disk, so that nobody refuses a model for lack of it. Memory is used only by what is written.
DISK = "900g"
CHARACTER_DEVICE = 0o020666
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
DEVICE_LINKS = {
    "ptmx": "pts/ptmx",
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root"}
SSHD = ["/usr/sbin/sshd", "-D", "-E", "/var/log/sshd.log"]
DOCKERD = [
    *("dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false"),
    *("--host=unix:///run/docker.sock", "--exec-opt", "native.cgroupdriver=cgroupfs", "--log-level=warn"),
]
STORES = {"installed": "overlay2", "newer": "overlay2", "containerd": "overlayfs"}
NEWER_PROGRAMS = ("dockerd", "docker", "containerd", "containerd-shim-runc-v2", "runc", "docker-init")

libc = ctypes.CDLL(None, use_errno=True)


class Spec(NamedTuple):
    """What the host is to be. ``folder`` is its place on this machine."""

    name: str
    folder: str
    cgroup: str
    docker: str
    """Whose: ``plan.Docker``."""
    binds: dict[str, str]
    """By where the host sees it, what it sees of this machine."""


def main() -> None:
    spec = Spec(**json.loads(sys.argv[1]))
    # /proc is still that of the machine outside.
    outer_pid = Path("/proc/self").readlink()
    os.umask(0o022)
    root = build_root(spec)
    enter_root(root)
    socket.sethostname(spec.name)
    print(outer_pid, flush=True)
    if sys.stdin.readline():
        Init(spec).run()


def build_root(spec: Spec) -> Path:
    """Everything the host sees, below one folder."""
    area = Path(spec.folder)
    root = area / "root"
    mount("tmpfs", root, "tmpfs", 0, f"mode=755,size={DISK},nr_inodes=0")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(Path("/", name).readlink())
    for name in ("usr", "etc", "var"):
        overlay(Path("/", name), root / ".disk" / name, root / name)
    for name in ("bin", "sbin", "lib", "share"):
        (root / ".disk/local" / name).mkdir(parents=True)
    bind(root / ".disk/local", root / "usr/local")
    bind(area / "log", root / "var/log")
    (root / ".disk/docker").mkdir(mode=0o710)
    bind(root / ".disk/docker", root / "var/lib/docker")
    make_folders(root)
    make_proc(root, area)
    make_dev(root / "dev")
    make_sys(root)
    for seen, path in spec.binds.items():
        bind(Path(path), root / seen.lstrip("/"), read_only=True)
    choose_docker(root, spec.docker)
    return root


def choose_docker(root: Path, kind: str) -> None:
    if not kind:
        for path in ("usr/bin/docker", "usr/sbin/dockerd", "usr/bin/dockerd"):
            (root / path).unlink(missing_ok=True)
    elif kind != "installed":
        for name in NEWER_PROGRAMS:
            (root / "usr/local/bin" / name).symlink_to(f"/usr/local/lib/docker/{name}")
    if kind == "containerd":
        (root / "etc/docker").mkdir(exist_ok=True)
        (root / "etc/docker/daemon.json").write_text('{"features": {"containerd-snapshotter": true}}')


def make_folders(root: Path) -> None:
    for name in ("home", "mnt", "opt", "proc", "root", "srv", "sys", "tmp"):
        (root / name).mkdir()
    (root / "root").chmod(0o700)
    (root / "tmp").chmod(0o1777)
    mount("tmpfs", root / "run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    (root / "run/sshd").mkdir()


def make_proc(root: Path, area: Path) -> None:
    """What tells hosts apart, and what tells a Spark's memory from this machine's."""
    mount("proc", root / "proc", "proc", MS_NOSUID | MS_NOEXEC | MS_NODEV)
    bind(area / "boot_id", root / "proc/sys/kernel/random/boot_id")
    bind(area / "meminfo", root / "proc/meminfo")


def make_dev(dev: Path) -> None:
    mount("tmpfs", dev, "tmpfs", MS_NOSUID, "mode=755")
    os.umask(0)
    for name, (major, minor) in DEVICES.items():
        os.mknod(dev / name, CHARACTER_DEVICE, os.makedev(major, minor))
    os.umask(0o022)
    for name, target in DEVICE_LINKS.items():
        (dev / name).symlink_to(target)
    mount("devpts", dev / "pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5")
    mount("tmpfs", dev / "shm", "tmpfs", MS_NOSUID, "mode=1777")
    mount("mqueue", dev / "mqueue", "mqueue", MS_NOSUID | MS_NOEXEC | MS_NODEV)


def make_sys(root: Path) -> None:
    """The namespace's sysfs, with a /sys/class that can be written to: sysfs itself allows no mkdir. The untouched one is at /.sys."""
    for name in ("sys", ".sys"):
        mount("sysfs", root / name, "sysfs", MS_NOSUID | MS_NOEXEC | MS_NODEV)
    mount("/sys/fs/cgroup", root / "sys/fs/cgroup", flags=MS_BIND | MS_REC)
    mount("tmpfs", root / "sys/class", "tmpfs", MS_NOSUID, "mode=755")
    for folder in (root / ".sys/class").iterdir():
        if folder.name not in {"net", "infiniband", "kfd", "accel"}:
            (root / "sys/class" / folder.name).symlink_to(f"../../.sys/class/{folder.name}")


def mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """As mount(2), on a folder that is made where it is missing."""
    if kind:
        target.mkdir(parents=True, exist_ok=True)
    words = (source.encode(), str(target).encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None)
    check(libc.mount(*words), f"mount {source} on {target}")


def bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    """Show a folder or a file at another place too."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.touch()
    mount(str(source), target, flags=MS_BIND | MS_REC)
    if read_only:
        mount("none", target, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)


def overlay(lower: Path, area: Path, target: Path) -> None:
    """A writable copy that shares what is not written."""
    for folder in (area / "upper", area / "work"):
        folder.mkdir(parents=True)
    mount("overlay", target, "overlay", 0, f"lowerdir={lower},upperdir={area}/upper,workdir={area}/work")


def enter_root(root: Path) -> None:
    old = root / ".old"
    old.mkdir()
    check(libc.syscall(PIVOT_ROOT[os.uname().machine], str(root).encode(), str(old).encode()), "pivot_root")
    os.chdir("/")
    check(libc.umount2(b"/.old", MNT_DETACH), "umount /.old")
    Path("/.old").rmdir()


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


class Init:
    """Starts the host's services, and reaps."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._services: dict[int, str] = {}

    def run(self) -> None:
        """Until it is killed."""
        signal.signal(signal.SIGUSR1, self._start_dockerd)
        self._start("sshd", SSHD)
        self._start_dockerd()
        while True:
            try:
                pid, _ = os.waitpid(-1, 0)
            except ChildProcessError:
                signal.pause()
            else:
                self._services.pop(pid, None)

    def _start_dockerd(self, *_: object) -> None:
        if not self._spec.docker or "dockerd" in self._services.values():
            return
        for stale in ("docker.pid", "docker/containerd/containerd.pid"):
            Path("/run", stale).unlink(missing_ok=True)
        own = (f"--storage-driver={STORES[self._spec.docker]}", "--cgroup-parent", f"{self._spec.cgroup}/docker")
        self._start("dockerd", [*DOCKERD, *own])

    def _start(self, name: str, words: list[str]) -> None:
        with Path(f"/var/log/{name}.out").open("ab") as log:
            service = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=ENVIRONMENT, start_new_session=True)
        self._services[service.pid] = name
        # Reaped by run().
        service.returncode = 0


if __name__ == "__main__":
    main()
