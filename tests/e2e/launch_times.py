"""``python -m tests.e2e.launch_times``: from `sparkrun run` to ready with everything in place, on 1, 2, 4 and 8 test hosts.

The engine loads in 1 s. Each launch is by a user with a home of its own, so that its connections are cold. Beside each stands the least
that any launch could take here: `docker run` of the same ranks by plain ssh, on all hosts at once, until the head has answered. What is
between the two is our own share.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.bed import Bed, BedError, Host, Options, down, up
from tests.e2e.launching import PORT, Operator, chat, put_model

ROUNDS = 3
RUNTIME = "vllm-distributed"
LOAD = ("-e", "BED_LOAD_S=1")
PATIENCE_S = 60


def main() -> None:
    """Bring hosts up, print the table, take them down."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.launch_times", description=__doc__)
    parser.add_argument("counts", nargs="*", type=int, default=[1, 2, 4, 8], help="how many hosts, one line of the table each")
    counts = parser.parse_args().counts
    with tempfile.TemporaryDirectory(prefix="bed") as folder:
        bed = up(Options(count=max(counts)), folder=Path(folder))
        try:
            show(bed, counts)
        finally:
            down(Path(folder))


def show(bed: Bed, counts: list[int]) -> None:
    """A line for each number of hosts; the least of all rounds, which take turns."""
    put_model(bed.hosts)
    print(f"{'hosts':>5}  {'run s':>6}  {'bare s':>6}  {'own s':>6}  all rounds, s: run, bare")
    for count in counts:
        hosts = bed.hosts[:count]
        rounds = [(launch(bed, hosts), bare(bed, hosts)) for _ in range(ROUNDS)]
        ours, least = (min(times) for times in zip(*rounds, strict=True))
        told = "; ".join(f"{one:.2f}, {other:.2f}" for one, other in rounds)
        print(f"{count:>5}  {ours:>6.2f}  {least:>6.2f}  {ours - least:>6.2f}  {told}", flush=True)


def launch(bed: Bed, hosts: tuple[Host, ...]) -> float:
    """How long one launch takes."""
    with tempfile.TemporaryDirectory(prefix="h") as home:
        user = Operator(Path(home), bed)
        recipe, began = user.write(RUNTIME), time.monotonic()
        user.run(recipe, hosts, "--tp", str(len(hosts)), *LOAD)
        taken = time.monotonic() - began
        bed.restore()
        return taken


def bare(bed: Bed, hosts: tuple[Host, ...]) -> float:
    """How long the same ranks take when nobody looks, plans or watches."""
    with tempfile.TemporaryDirectory(prefix="h") as home:
        user = Operator(Path(home), bed)
        ranks = user.plan(user.write(RUNTIME), hosts, "--tp", str(len(hosts)), *LOAD)["ranks"]
    began = time.monotonic()
    ssh = ("ssh", "-F", str(bed.ssh_config), "-o", "BatchMode=yes")
    logins = [subprocess.Popen([*ssh, rank["host"], docker_run(rank)], stdout=subprocess.DEVNULL) for rank in ranks]
    assert not any(login.wait(PATIENCE_S) for login in logins)
    _await_chat(hosts[0], began)
    taken = time.monotonic() - began
    bed.restore()
    return taken


def docker_run(rank: Mapping[str, Any]) -> str:
    """The rank's container with its command as the main process."""
    env = [word for name, value in rank["env"].items() for word in ("-e", f"{name}={value}")]
    mounts = [word for mount in rank["mounts"] for word in ("-v", f"{mount['source']}:{mount['target']}")]
    words = ["docker", "run", "-d", "--init", "--network=host", "--ipc=shareable", "--gpus", "device=0", *env, *mounts, rank["image"]]
    return shlex.join([*words, "sh", "-c", rank["command"]])


def _await_chat(head: Host, began: float) -> None:
    while time.monotonic() - began < PATIENCE_S:
        try:
            chat(head)
        except (AssertionError, OSError):
            time.sleep(0.02)
        else:
            return
    raise BedError(f"nothing answers on port {PORT} of {head.name}")


if __name__ == "__main__":
    main()
