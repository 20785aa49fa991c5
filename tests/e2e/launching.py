"""A user of test hosts: a command line with a home of its own, and what the hosts recorded of its launches."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.bed import Bed, EngineCall, Host
from tests.e2e.bed.containers import ENGINES, ask
from tests.e2e.conftest import Sparkrun

MODEL = "org/m"
PORT = 8000
DEFAULTS = {"host": "0.0.0.0", "port": PORT}
RESERVED_ENV = frozenset({"HOME", "PATH", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"})
"""What docker and images set besides the plan."""


class Container(NamedTuple):
    """What docker says of a container of a rank."""

    host: Host
    env: dict[str, str]
    words: tuple[str, ...]
    binds: tuple[str, ...]
    text: str
    """Everything that ``docker inspect`` says."""


class Operator(Sparkrun):
    """A user whose settings reach the hosts of a bed."""

    def __init__(self, home: Path, bed: Bed) -> None:
        super().__init__(home)
        self.bed = bed
        self.env.pop("SPARKRUN_FEATURE_EXECUTOR_LOCAL")
        config = home / ".config/sparkrun/config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text(bed.config_yaml)

    def write(self, runtime: str, model: str = MODEL, **fields: object) -> str:
        """A recipe for the stand-in engine; its path."""
        recipe = {"model": model, "runtime": runtime, "container": ENGINES, "defaults": DEFAULTS, **fields}
        path = self.home / f"{runtime}.yaml"
        path.write_text(json.dumps(recipe))
        return str(path)

    def run(self, recipe: str, hosts: Sequence[Host] | Sequence[str], *words: str) -> Any:
        """Serve until it answers; what ``run --json`` says."""
        return json.loads(say(self, "run", recipe, "-H", hosts, "--json", "--no-follow", *words))

    def plan(self, recipe: str, hosts: Sequence[Host], *words: str) -> Any:
        """What a launch would do, after a look at the hosts."""
        return json.loads(say(self, "run", recipe, "-H", hosts, "--dry-run", "--probe", "--json", *words))

    def states(self, hosts: Sequence[Host]) -> dict[str, str]:
        """What ``status`` says of each rank's container, by its host."""
        told = json.loads(say(self, "status", "--json", "-H", hosts))
        ranks = [rank for group in told["groups"].values() for rank in group["containers"]] + told["solo_entries"]
        return {rank["host"]: rank["status"] for rank in ranks}

    def stop(self, what: str, hosts: Sequence[Host]) -> str:
        """Stop it, and look on every host whether anything is left."""
        told = say(self, "stop", what, "-H", hosts)
        left = {host.name: host.docker("ps", "--all", "--format", "{{.Names}}") for host in self.bed.hosts}
        assert not any(left.values()), left
        return told

    def by_fabric_address(self, hosts: Sequence[Host]) -> list[str]:
        """Hosts by their fabric addresses, which ssh is taught to reach."""
        config = self.home / "ssh_config"
        aliases = "".join(f"Host {host.fabric_addresses[0]}\n  HostName {host.address}\n  User {host.user}\n" for host in hosts)
        config.write_text(f"{aliases}\n{self.bed.ssh_config.read_text()}")
        (self.home / ".config/sparkrun/config.yaml").write_text(f"ssh: {{options: [-F, {config}]}}\n")
        return [host.fabric_addresses[0] for host in hosts]


def say(user: Sparkrun, *words: str | Sequence[Host] | Sequence[str]) -> str:
    """What a command answers; a test fails when the command does. Hosts become what ``-H`` takes."""
    ended = user(*(word if isinstance(word, str) else names(word) for word in words))
    assert ended.code == 0, f"{words}: {ended.err}{ended.out}"
    return ended.out


@pytest.fixture
def operator(bed: Bed, tmp_path: Path) -> Operator:
    home = tmp_path / "operator"
    home.mkdir()
    return Operator(home, bed)


def names(hosts: Sequence[Host] | Sequence[str]) -> str:
    """As ``-H`` takes them."""
    return ",".join(host if isinstance(host, str) else host.name for host in hosts)


def put_model(hosts: Sequence[Host], model: str = MODEL) -> None:
    """The model in every host's cache; of a GGUF repository with a variant (``org/m:Q4_0``) that file."""
    repo, _, variant = model.partition(":")
    for host in hosts:
        host.put_model(repo)
        if variant:
            snapshots = f"{host.hf_home}/hub/models--{repo.replace('/', '--')}/snapshots"
            commit = host.read(f"{snapshots}/../refs/main")
            host.write(f"{snapshots}/{commit}/{repo.partition('/')[2]}-{variant}.gguf", "GGUF")


def chat(host: Host, model: str = MODEL, port: int = PORT) -> str:
    """What the model answers at the host's management address."""
    answer = ask(host, "/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": "hello"}]}, port=port)
    assert answer.status == 200, answer
    return str(json.loads(answer.body)["choices"][0]["message"]["content"])


def container(host: Host, name: str) -> Container:
    """What docker says of one container."""
    text = host.docker("inspect", name)
    told = json.loads(text)[0]
    env = dict(line.split("=", 1) for line in told["Config"]["Env"])
    return Container(host, env, tuple(told["Config"]["Cmd"]), tuple(told["HostConfig"]["Binds"]), text)


def containers(plan: Mapping[str, Any], bed: Bed) -> list[Container]:
    """Those of a plan's ranks, in rank order."""
    return [container(bed[rank["host"]], rank["name"]) for rank in plan["ranks"]]


def engine_call(host: Host, name: str, program: str) -> EngineCall:
    """The last start of a program of the stand-in in a container."""
    calls = host.engine_calls(name)
    found = [call for call in calls if call.program == program]
    assert found, (name, [call.program for call in calls])
    return found[-1]


def flags(words: Sequence[str]) -> dict[str, str]:
    """Each flag with the word after it, an empty text for a switch."""
    pairs = zip(words, [*words[1:], ""], strict=True)
    split = (word.split("=", 1) if "=" in word else (word, "" if follows.startswith("--") else follows) for word, follows in pairs)
    return {name: value for name, value in split if name.startswith("-")}


def assert_executed(plan: Mapping[str, Any], bed: Bed) -> None:
    """Every rank runs in a container with exactly the image's words, command and environment of the plan, on mounts of its own host."""
    for rank, found in zip(plan["ranks"], containers(plan, bed), strict=True):
        planned = rank["run"][rank["run"].index(rank["image"]) + 1 :]
        assert list(found.words) == planned
        assert {name: value for name, value in found.env.items() if name in rank["env"]} == rank["env"]
        assert set(found.env) - set(rank["env"]) <= RESERVED_ENV
        words = shlex.split(rank["command"])
        if "\n" not in rank["command"] and words[0] != "exec":
            call = engine_call(found.host, rank["name"], words[0])
            assert list(call.argv) == words[1:]
            assert {name: call.env.get(name) for name in rank["env"]} == rank["env"]


def foreign(texts: Mapping[Any, str], host: Host, bed: Bed, *, besides: Host | None = None) -> dict[Any, str]:
    """Texts that hold an address or a home of another host (``besides`` this one), or an address that means whoever uses it."""
    others = [other for other in bed.hosts if other.name != host.name and other is not besides]
    homes = {f"{other.home}/" for other in others} - {f"{host.home}/"}
    addresses = {"127.0.0.1", "localhost", "::1", *(address for other in others for address in (other.address, *other.fabric_addresses))}
    pattern = re.compile("|".join([*(rf"(?<![\w.]){re.escape(each)}(?![\w.])" for each in addresses), *map(re.escape, homes)]))
    return {name: text for name, text in texts.items() if pattern.search(text)}


def fabric_env(host: Host) -> dict[str, str]:
    """The variables of the network that a rank on this host needs, after its own ports."""
    management = host.plan.ports[0].netdev
    used = [port for port in host.plan.ports if port.function and port.address]
    hcas = [port.function.hca for port in used if port.function]
    return {
        **dict.fromkeys(("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "MN_IF_NAME", "OMPI_MCA_btl_tcp_if_include"), management),
        "NCCL_SOCKET_IFNAME": ",".join([management, *(port.netdev for port in used)]),
        "NCCL_IB_HCA": ",".join(hcas),
        "UCX_NET_DEVICES": ",".join(f"{hca}:1" for hca in hcas),
        "NODE_IP": host.address,
    }


class Logins:
    """How often hosts are logged in to from now on."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._before = {host.name: host.logins for host in bed.hosts}

    def most(self) -> int:
        """Of the host that was logged in to most."""
        return max(host.logins - self._before[host.name] for host in self._bed.hosts)
