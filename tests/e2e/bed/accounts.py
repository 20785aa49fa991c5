"""Who may log in where: keys, users, ssh settings."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.bed.machine import require
from tests.e2e.bed.plan import BedPlan, HostPlan, Person

DOCKER_GID = 900
"""Of host 1; each host has another."""
PEOPLE_UIDS = range(1000, 60000)
SSHD_CONFIG = """\
HostKey /etc/ssh/ssh_host_ed25519_key
UsePAM no
PasswordAuthentication no
PermitRootLogin no
PrintMotd no
UseDNS no
LogLevel VERBOSE
Subsystem sftp internal-sftp
"""


class Keys:
    """Key pairs of a bed; they outlive it, since making them takes time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def control(self) -> Path:
        """The private key that opens every host."""
        return self._folder / "control"

    def user(self, host: HostPlan) -> Path:
        """The private key of the user of a host."""
        return self._folder / f"{host.name}-user"

    def host(self, host: HostPlan) -> Path:
        """The private key by which a host is known."""
        return self._folder / f"{host.name}-host"

    def ensure(self, plan: BedPlan) -> None:
        """Make what is missing, or was never finished: the public half is written last."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in (self.control, *(path for host in plan.hosts for path in (self.user(host), self.host(host)))):
            if not Path(f"{path}.pub").exists():
                path.unlink(missing_ok=True)
                require("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", path)


def public(key: Path) -> str:
    """The public half of a key: its kind and its text."""
    return " ".join(Path(f"{key}.pub").read_text().split()[:2])


def known_hosts(plan: BedPlan, keys: Keys) -> str:
    """Every host by its name and by each of its addresses."""
    return "".join(f"{','.join((host.name, host.address, *host.fabric_addresses))} {public(keys.host(host))}\n" for host in plan.hosts)


def ssh_config(plan: BedPlan, keys: Keys, folder: Path) -> str:
    """How this machine reaches the hosts, by name or by management address."""
    hosts = "".join(f"Host {host.name} {host.address}\n  HostName {host.address}\n  User {host.person.name}\n" for host in plan.hosts)
    return (
        f"{hosts}Host *\n  IdentityFile {keys.control}\n  IdentitiesOnly yes\n  GlobalKnownHostsFile /dev/null\n"
        f"  UserKnownHostsFile {folder}/known_hosts\n  StrictHostKeyChecking yes\n"
    )


def write_accounts(root: Path, host: HostPlan, plan: BedPlan, keys: Keys) -> None:
    """What makes a root folder this host's: its name, its user, who may log in, whom it knows."""
    etc = root / "etc"
    _write_users(etc, host)
    names = "".join(f"{other.address} {other.name}\n" for other in plan.hosts)
    write(etc / "hostname", f"{host.name}\n")
    write(etc / "hosts", f"127.0.0.1 localhost\n127.0.1.1 {host.name}\n{names}")
    write(etc / "machine-id", f"{uuid.uuid4().hex}\n")
    write(etc / "resolv.conf", "# a name server would be outside, and nothing leads there\n")
    hf_home = f"SetEnv HF_HOME={host.person.hf_home}\n" if host.person.hf_home else ""
    write(etc / "ssh/sshd_config", SSHD_CONFIG + hf_home)
    for own in (etc / "ssh").glob("ssh_host_*"):
        own.unlink()
    write(etc / "ssh/ssh_host_ed25519_key", keys.host(host).read_text(), mode=0o600)
    _write_home(root, host, plan, keys)


def write(path: Path, text: str, *, mode: int = 0o644, uid: int = 0) -> None:
    """A file with its folders. A link is replaced: an absolute one would lead out of the host."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)
    os.chown(path, uid, uid)


def make_folder(path: Path, person: Person, mode: int = 0o755) -> Path:
    """A folder that belongs to a person."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    os.chown(path, person.uid, person.uid)
    return path


def _write_users(etc: Path, host: HostPlan) -> None:
    person = host.person
    users = [line for line in (etc / "passwd").read_text().splitlines() if int(line.split(":")[2]) not in PEOPLE_UIDS]
    users.append(f"{person.name}:x:{person.uid}:{person.uid}::{person.home}:/bin/bash")
    write(etc / "passwd", "\n".join(users) + "\n")
    write(etc / "group", "\n".join(_groups(etc, host)) + "\n")
    write(etc / "shadow", "".join(f"{line.partition(':')[0]}:*:19700:0:99999:7:::\n" for line in users), mode=0o640)


def _groups(etc: Path, host: HostPlan) -> Iterator[str]:
    gid = DOCKER_GID + host.index
    for line in (etc / "group").read_text().splitlines():
        fields = line.split(":")
        if fields[0] != "docker" and int(fields[2]) not in {gid, *PEOPLE_UIDS}:
            yield line
    yield f"docker:x:{gid}:{host.person.name}"
    yield f"{host.person.name}:x:{host.person.uid}:"


def _write_home(root: Path, host: HostPlan, plan: BedPlan, keys: Keys) -> None:
    person = host.person
    home = make_folder(root / person.home.lstrip("/"), person)
    if person.hf_home:
        make_folder(root / person.hf_home.lstrip("/"), person)
    ssh = make_folder(home / ".ssh", person, 0o700)
    allowed = (keys.control, *(keys.user(other) for other in plan.hosts))
    write(ssh / "authorized_keys", "".join(f"{public(key)}\n" for key in allowed), mode=0o600, uid=person.uid)
    write(ssh / "known_hosts", known_hosts(plan, keys), uid=person.uid)
    write(ssh / "id_ed25519", keys.user(host).read_text(), mode=0o600, uid=person.uid)
    write(ssh / "id_ed25519.pub", f"{public(keys.user(host))} {person.name}@{host.name}\n", uid=person.uid)
