"""A host's network as files: a sysfs tree and an `ip` that answers from a list."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from sparkrun import scripts
from sparkrun.core.fabric import FabricFacts, parse_fabric
from sparkrun.utils.shell import Section, parse_answers

SCRIPTS = Path(scripts.__file__).parent
BASH = shutil.which("bash") or "/bin/bash"
ZERO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
ROUTE = "8.8.8.8 via 10.0.0.254 dev {dev} src {src} uid 1000 \n    cache \n"


class FakeNetwork:
    """What a test sets up, and ``probe``: what the real script makes of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sysfs = root / "sys"
        self.bin = root / "bin"
        self.bin.mkdir(parents=True)
        self.sysfs.mkdir()
        self.env: dict[str, str] = {}
        self._addresses: list[str] = []
        self._route = ""

    def interface(self, name: str, *addresses: str, **files: str) -> Path:
        """An interface with ``address/prefix`` texts. ``driver`` gives it a device; ``wireless`` makes it one; others are files."""
        path = self.sysfs / "class/net" / name
        defaults = {"operstate": "up", "flags": "0x1003", "mtu": "1500", "dev_port": "0"}
        for key, text in {**defaults, **{k: v for k, v in files.items() if k not in ("driver", "wireless")}}.items():
            write(path / key, text)
        if "driver" in files:
            write(path / "device/uevent", f"DRIVER={files['driver']}\nPCI_SLOT_NAME=0007:01:00.0")
        if "wireless" in files:
            (path / "wireless").mkdir()
        for text in addresses:
            family = "inet6" if ":" in text else "inet"
            self.ip_line(
                f"{len(self._addresses) + 2}: {name}    {family} {text} scope global {name}\\       valid_lft forever preferred_lft forever"
            )
        return path

    def ip_line(self, line: str) -> None:
        """One more line of `ip -o addr`."""
        self._addresses.append(line)

    def route(self, dev: str, src: str) -> None:
        """The default route."""
        self._route = ROUTE.format(dev=dev, src=src)

    def device(self, hca: str, pci: str | None, *netdevs: str) -> Path:
        """An RDMA device without ports; its folder."""
        path = self.sysfs / "class/infiniband" / hca
        path.mkdir(parents=True)
        if pci is not None:
            write(path / "device/uevent", f"DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_SLOT_NAME={pci}\nMODALIAS=x")
            write(path / "device/numa_node", "-1")
        for netdev in netdevs:
            (path / "device/net").mkdir(parents=True, exist_ok=True)
            (path / "device/net" / netdev).symlink_to(self.sysfs / "class/net" / netdev)
        return path

    def port(self, device: Path, number: int = 1, *, gids: dict[int, tuple[str, str, str]] | None = None, **files: str) -> None:
        """A port of a device; ``gids`` by index: type, address, interface. Entries that are not in use are there as well, as in life."""
        port = device / "ports" / str(number)
        defaults = {"state": "4: ACTIVE", "link_layer": "Ethernet", "rate": "200 Gb/sec (4X HDR)"}
        for key, text in {**defaults, **files}.items():
            write(port / key, text)
        table = gids or {}
        for index in range(max(table, default=-1) + 3):
            kind, address, netdev = table.get(index, ("", ZERO_GID, ""))
            write(port / f"gids/{index}", address)
            if index in table:
                write(port / f"gid_attrs/types/{index}", kind)
                write(port / f"gid_attrs/ndevs/{index}", netdev)
            else:
                # The kernel answers EINVAL there; a folder cannot be read either.
                (port / f"gid_attrs/types/{index}").mkdir(parents=True)
                (port / f"gid_attrs/ndevs/{index}").mkdir(parents=True)

    def without_ip(self) -> None:
        """A host where `ip` is not installed."""
        self._addresses, self._route = ["absent"], "absent"

    def section(self) -> Section:
        """The FABRIC section as the script gives it."""
        if self._route != "absent":
            self._write_ip()
        text = "\n".join((SCRIPTS / f"{name}.sh").read_text(encoding="utf-8") for name in ("common", "fabric"))
        env = {"PATH": str(self.bin), "SYSFS_ROOT": str(self.root), **self.env}
        done = subprocess.run(
            [BASH, "-s"],
            input=f"{text}\nsection FABRIC\nreport_fabric\nend_section\n",
            env=env,
            text=True,
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        answers = parse_answers(done.stdout)
        assert answers.noise == ()
        found = answers.section("FABRIC")
        assert found.complete
        return found

    def probe(self) -> FabricFacts:
        """The facts."""
        return parse_fabric(self.section())

    def _write_ip(self) -> None:
        answers = {"addr": "".join(f"{line}\n" for line in self._addresses), "route": self._route}
        for name, text in answers.items():
            write(self.root / name, text.rstrip("\n"))
        script = self.bin / "ip"
        script.write_text(
            f'#!{BASH}\ncase "$*" in\n'
            f'  "-o addr show") printf "%s\\n" "$(<{self.root}/addr)" ;;\n'
            f'  "route get 8.8.8.8") route=$(<{self.root}/route); [[ $route ]] || exit 2; printf "%s\\n" "$route" ;;\n'
            "  *) exit 1 ;;\nesac\n",
            encoding="utf-8",
        )
        script.chmod(0o755)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")
