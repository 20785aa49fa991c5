"""How long an image and a model take to N hosts, beside plain tools host after host, on test hosts (root and docker are needed).

python -m benchmarks.distribution [--hosts 1,2,4] [--image-mb 1000] [--model-mb 2000] [--control-mbit N] [--fabric-mbit N]
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import report
from tests.e2e.bed import Bed, Host, Options, down, up
from tests.e2e.bed.host import MODEL_COMMIT
from tests.e2e.launching import MODEL, Operator, names

BASE, IMAGE = "sparkrun-e2e/engines:1", "bench/image:1"
STUB = "org/stub"
"""A model of no weight, on every host, beside which an image is brought."""
FOLDER = f"models--{MODEL.replace('/', '--')}"
SHARDS = 8
LIMIT_S = 1800
MGMT = "enP7s7"


class Row(NamedTuple):
    """One transfer: bytes that hosts sent by the management network, the most on one link, and the whole machine's processor time."""

    what: str
    way: str
    hosts: int
    seconds: float
    control_mb: float
    link_mb: float
    cpu_s: float


def main() -> int:
    """Bring hosts up, measure, print the table, take them down."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="bench-bed") as folder, tempfile.TemporaryDirectory(prefix="bench-home") as home:
        bed = up(Options(count=max(arguments.hosts) + 1, images=()), folder=Path(folder))
        try:
            bench = Bench(bed, Operator(Path(home), bed), arguments)
            rows = [row for count in arguments.hosts for row in bench.rounds(count)]
        finally:
            down(Path(folder))
    _show(rows)
    print(f"written to {_save(rows, arguments)}")
    return 0


class Bench:
    """Head spark-1 has everything; the others get it."""

    def __init__(self, bed: Bed, operator: Operator, arguments: argparse.Namespace) -> None:
        self._bed, self._operator, self._arguments = bed, operator, arguments
        self._head = bed.hosts[0]
        self._build_image()
        self._make_model()
        self._image_recipe = operator.write("vllm", model=STUB, container=IMAGE)
        self._model_recipe = operator.write("vllm-distributed", container=BASE)
        for host in bed.hosts:
            for link, mbit in (("mgmt", arguments.control_mbit), ("fabric", arguments.fabric_mbit)):
                if mbit:
                    _throttle(host, link, mbit)

    def rounds(self, count: int) -> Iterator[Row]:
        """Image and model to ``count`` hosts besides the head: plain tools, ours, and ours once more."""
        targets = self._bed.hosts[1 : count + 1]
        yield self._measured("image", "docker save | ssh docker load", targets, self._plain_image)
        self._forget(targets)
        yield self._measured("model", "rsync", targets, self._plain_model)
        self._forget(targets)
        self._give_stub(targets)
        yield self._measured("image", "sparkrun", targets, self._stage_image)
        yield self._measured("image", "sparkrun, nothing to send", targets, self._stage_image)
        self._forget(targets)
        self._bed.load("engines", *targets)
        yield self._measured("model", "sparkrun", targets, self._stage_model)
        yield self._measured("model", "sparkrun, nothing to send", targets, self._stage_model)
        self._forget(targets)

    def _measured(self, what: str, way: str, targets: Sequence[Host], job: Callable[[Sequence[Host]], None]) -> Row:
        before, cpu, began = self._sent(), _cpu_s(), time.monotonic()
        job(targets)
        seconds = time.monotonic() - began
        after = self._sent()
        control = sum(after[host.name, MGMT] - before[host.name, MGMT] for host in (self._head, *targets))
        links = max(after[key] - before[key] for key in after)
        row = Row(what, way, len(targets), seconds, control / 1e6, links / 1e6, _cpu_s() - cpu)
        print(_line(row), flush=True)
        return row

    def _stage_image(self, targets: Sequence[Host]) -> None:
        self._stage(self._image_recipe, targets)

    def _stage_model(self, targets: Sequence[Host]) -> None:
        self._stage(self._model_recipe, targets)

    def _stage(self, recipe: str, targets: Sequence[Host]) -> None:
        running = self._operator.start("stage", recipe, "-H", names((self._head, *targets)), "--tp", str(len(targets) + 1))
        told, _ = running.communicate(timeout=LIMIT_S)
        if running.returncode:
            raise SystemExit(told)

    def _plain_image(self, targets: Sequence[Host]) -> None:
        for host in targets:
            self._on_head(f"docker save {IMAGE} | {_ssh(host)} docker load -q")

    def _plain_model(self, targets: Sequence[Host]) -> None:
        for host in targets:
            target = f"{host.user}@{_address(host)}:{host.hf_home}/hub/{FOLDER}"
            self._on_head(f"rsync -a --mkpath -e 'ssh {_OPTIONS}' {self._head.hf_home}/hub/{FOLDER}/ {target}/")

    def _on_head(self, script: str) -> None:
        ended = self._head.run(f"set -euo pipefail; {script}", timeout_s=LIMIT_S)
        if ended.code:
            raise SystemExit(f"{script}: {ended.err}")

    def _sent(self) -> dict[tuple[str, str], int]:
        found = {}
        for host in self._bed.hosts:
            for port in host.plan.ports:
                text = host.inside("cat", f"/.sys/class/net/{port.netdev}/statistics/tx_bytes").text
                found[host.name, port.netdev] = int(text)
        return found

    def _forget(self, targets: Sequence[Host]) -> None:
        for host in targets:
            if ids := host.docker("images", "--quiet").split():
                host.docker("rmi", "--force", *dict.fromkeys(ids))
            host.inside("rm", "-rf", f"{host.hf_home}/hub")

    def _give_stub(self, targets: Sequence[Host]) -> None:
        for host in targets:
            host.put_model(STUB)

    def _build_image(self) -> None:
        self._bed.load("engines", self._head)
        share = self._arguments.image_mb // 4
        layers = "".join(f"COPY layer{number} /layer{number}\\n" for number in range(4))
        made = "; ".join(f"head -c {share}M /dev/urandom >layer{number}" for number in range(4))
        done = self._head.run(
            f"mkdir -p ctx && cd ctx && {made} && printf 'FROM {BASE}\\n{layers}' >Dockerfile"
            f" && DOCKER_BUILDKIT=0 docker build -q -t {IMAGE} . && cd .. && rm -r ctx",
            timeout_s=LIMIT_S,
        )
        if done.code:
            raise SystemExit(done.err)

    def _make_model(self) -> None:
        self._head.put_model(STUB)
        self._head.put_model(MODEL)
        snapshot = f"{self._head.hf_home}/hub/{FOLDER}/snapshots/{MODEL_COMMIT}"
        share = self._arguments.model_mb // SHARDS
        shards = [f"model-{number:05d}-of-{SHARDS:05d}.safetensors" for number in range(1, SHARDS + 1)]
        blob = "sum=$(sha256sum <x); sum=${sum%% *}; mv x ../../blobs/$sum; ln -s ../../blobs/$sum"
        made = "; ".join(f"head -c {share}M /dev/urandom >x; {blob} {name}" for name in shards)
        done = self._head.run(f"set -e; cd {snapshot}; rm model.safetensors; mkdir -p ../../blobs; {made}", timeout_s=LIMIT_S)
        if done.code:
            raise SystemExit(done.err)


_OPTIONS = "-o BatchMode=yes -o StrictHostKeyChecking=accept-new -o Compression=no"


def _ssh(host: Host) -> str:
    return f"ssh {_OPTIONS} {host.user}@{_address(host)}"


def _address(host: Host) -> str:
    return host.fabric_addresses[0] if host.fabric_addresses else host.address


def _throttle(host: Host, link: str, mbit: int) -> None:
    """Limit what leaves the host by one network, and what comes to it."""
    for port in host.plan.ports:
        if port.cable and port.link == link:
            words = f"qdisc replace dev {port.netdev} root tbf rate {mbit}mbit burst 256kb latency 400ms"
            if host.inside("tc", *shlex.split(words)).code:
                raise SystemExit(f"cannot limit {port.netdev} of {host.name}")


def _cpu_s() -> float:
    """Processor time of this machine so far, idle time left out."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    idle = fields[3] + fields[4]
    return (sum(fields[:8]) - idle) / os.sysconf("SC_CLK_TCK")


HEADER = ("what", "way", "hosts", "seconds", "through control", "most on a link", "CPU")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.what,
        row.way,
        str(row.hosts),
        f"{row.seconds:.1f} s",
        f"{row.control_mb:.0f} MB",
        f"{row.link_mb:.0f} MB",
        f"{row.cpu_s:.0f} s",
    )


def _line(row: Row) -> str:
    return "  ".join(_cells(row))


def _show(rows: Sequence[Row]) -> None:
    table = [HEADER, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    print("\n".join("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in table))


def _save(rows: Sequence[Row], arguments: argparse.Namespace) -> Path:
    path = report.RESULTS / "distribution.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"benchmark": "distribution", "cpus": os.cpu_count(), "settings": vars(arguments), "rows": [row._asdict() for row in rows]}
    path.write_text(json.dumps(data, indent=2) + "\n")
    return path


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.distribution", description="An image and a model to N hosts, beside plain tools.")
    parser.add_argument("--hosts", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 4], help="how many targets")
    parser.add_argument("--image-mb", type=int, default=1000)
    parser.add_argument("--model-mb", type=int, default=2000)
    parser.add_argument("--control-mbit", type=int, default=0, help="limit of the management network")
    parser.add_argument("--fabric-mbit", type=int, default=0, help="limit of each fabric interface")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
