"""The test hosts themselves: they come up, are what they pretend to be, break and heal as they are told, and leave nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.bed import Accelerator, Bed, BedError, Docker, Options, Shape, down, up, why_not
from tests.e2e.bed.containers import ENGINES, PORT, healthy, start
from tests.e2e.bed.plan import plan_bed
from tests.e2e.conftest import wait_for

pytestmark = pytest.mark.e2e
pytest_plugins = ["tests.e2e.bed.fixtures"]

ROOT = Path(__file__).parents[2]
UP_AND_AWAY = """
import os, pathlib, sys
from tests.e2e.bed import Options, up
from tests.e2e.bed.machine import process
up(Options(count=1, images=()), process(os.getpid()), pathlib.Path(sys.argv[1]))
"""
REACH = "timeout 1 bash -c '</dev/tcp/{}/22' && echo reached"


# --- what a host is -----------------------------------------------------------------------------------------------------------------------


def test_each_host_is_a_machine_of_its_own(bed: Bed) -> None:
    said = [
        host.run('echo "$(hostname) $(id -un) $(id -u) $HOME"; cat /etc/machine-id /proc/sys/kernel/random/boot_id').text
        for host in bed.hosts
    ]
    assert [text.splitlines()[0] for text in said] == ["spark-1 spark 1000 /home/spark", "spark-2 nvidia 1001 /home/nvidia"]
    assert len({line for text in said for line in text.splitlines()}) == 6
    bed["spark-1"].run("echo one >/tmp/mark; echo two >mark").text  # noqa: B018
    assert bed["spark-1"].read("/home/spark/mark") == "two\n"
    assert bed["spark-2"].run("cat /tmp/mark").code == 1


def test_logins_are_counted(bed: Bed) -> None:
    host = bed["spark-1"]
    before = host.logins
    host.run("true")
    host.inside("true")
    assert host.logins == before + 1


def test_hosts_reach_each_other_on_every_network_and_nothing_else(bed: Bed) -> None:
    one, two = bed.hosts
    assert len(two.fabric_addresses) == 2
    everywhere = (two.address, *two.fabric_addresses)
    assert one.run("\n".join(REACH.format(address) for address in everywhere)).text.split() == ["reached"] * 3
    assert one.run(f"ssh -o BatchMode=yes {two.user}@{two.fabric_addresses[0]} hostname").text == "spark-2"
    assert one.run("ip route get 8.8.8.8").text.startswith("8.8.8.8 via ")
    assert "No route to host" in one.run("</dev/tcp/8.8.8.8/22").err


def test_each_docker_has_images_of_its_own(bed: Bed) -> None:
    one, two = bed.hosts
    one.run(f"docker tag {ENGINES} only-here:1").text  # noqa: B018
    assert "only-here" in one.run("docker images").text
    assert "only-here" not in two.run("docker images").text
    assert set(two.run("docker images --format '{{.Tag}}'").text.split()) == {"1", "nobash", "bare", "serves", "passes"}
    one.docker("rmi", "only-here:1")


def test_a_host_looks_like_a_spark(bed: Bed) -> None:
    host = bed["spark-1"]
    assert host.run("nvidia-smi --query-gpu=name,memory.total,compute_cap --format=csv,noheader").text == "NVIDIA GB10, [N/A], 12.1"
    assert "MemTotal:      125528656 kB" in host.run("cat /proc/meminfo").text
    assert host.run("cat /sys/class/net/enp1s0f0np0/{speed,operstate,mtu}").text.split() == ["200000", "up", "9000"]
    assert host.run("ibdev2netdev | sort").text.splitlines() == [
        "roceP2p1s0f0 port 1 ==> enP2p1s0f0np0 (Up)",
        "roceP2p1s0f1 port 1 ==> enP2p1s0f1np1 (Down)",
        "rocep1s0f0 port 1 ==> enp1s0f0np0 (Up)",
        "rocep1s0f1 port 1 ==> enp1s0f1np1 (Down)",
    ]
    gid = host.run("cat /sys/class/infiniband/rocep1s0f0/ports/1/{gids,gid_attrs/types}/3").text
    assert gid == "0000:0000:0000:0000:0000:ffff:c0a8:b10b\nRoCE v2"


def test_another_accelerator_can_be_put_in(bed: Bed) -> None:
    host = bed["spark-1"]
    host.use(Accelerator.AMD)
    assert host.run("cat /sys/class/kfd/kfd/topology/nodes/1/gpu_id; command -v nvidia-smi").out == "50772\n"
    refused = host.run(f"docker run --rm --gpus all {ENGINES} true")
    assert 'could not select device driver "" with capabilities: [[gpu]]' in refused.err
    assert host.run(f"docker run --rm --device /dev/kfd {ENGINES} ls /dev/kfd").text == "/dev/kfd"
    host.use(Accelerator.NVIDIA)
    assert host.run(f"docker run --rm --gpus all {ENGINES} nvidia-smi -L").text.startswith("GPU 0: NVIDIA GB10")
    assert host.run("ls /dev/kfd /sys/class/kfd").out == ""


def test_what_cannot_be_is_refused() -> None:
    for options in (
        Options(count=10),
        Options(count=4, shape=Shape.RING),
        Options(count=1, shape=Shape.DIRECT),
        Options(accelerators={"spark-3": Accelerator.AMD}),
    ):
        with pytest.raises(BedError):
            plan_bed(options, "10.77.0")


@pytest.mark.parametrize(
    ("count", "shape", "cabled"),
    [(2, Shape.NONE, 0), (2, Shape.DIRECT, 2), (4, Shape.SWITCH, 2), (3, Shape.RING, 4)],
)
def test_a_shape_decides_which_ports_share_a_network(count: int, shape: Shape, cabled: int) -> None:
    hosts = plan_bed(Options(count=count, shape=shape), "10.77.0").hosts
    networks = [{port.address.rpartition(".")[0] for port in host.ports if port.function and port.address} for host in hosts]
    assert all(len(each) == cabled for each in networks)
    for number, own in enumerate(networks):
        for other in networks[number + 1 :]:
            assert len(own & other) == (2 if cabled else 0)
    addresses = [port.address for host in hosts for port in host.ports if port.address]
    assert len(addresses) == len(set(addresses))


# --- faults -------------------------------------------------------------------------------------------------------------------------------


def test_cut_and_heal(bed: Bed) -> None:
    one, two = bed.hosts
    two.fault("cut")
    assert two.run("true", timeout_s=1).code != 0
    assert one.run(REACH.format(two.fabric_addresses[0])).out == ""
    assert (
        "ACTIVE"
        not in one.run("cat /sys/class/infiniband/*/ports/1/state").text + two.inside("cat", "/sys/class/net/enp1s0f0np0/operstate").out
    )
    assert two.docker("version", "--format", "{{.Server.Os}}") == "linux"
    two.fault("heal")
    assert two.run("hostname").text == "spark-2"
    assert one.run(REACH.format(two.fabric_addresses[0])).text == "reached"
    assert one.run("cat /sys/class/infiniband/*/ports/1/state").text.count("ACTIVE") == 2


def test_cut_of_one_network_leaves_the_other(bed: Bed) -> None:
    one, two = bed.hosts
    two.fault("cut", "fabric")
    assert two.run("hostname; cat /sys/class/net/enp1s0f0np0/operstate").text == "spark-2\ndown"
    two.fault("heal")
    two.fault("cut", "mgmt")
    assert two.run("true", timeout_s=1).code != 0
    assert one.run(REACH.format(two.fabric_addresses[1])).text == "reached"


def test_kill_dockerd_leaves_containers_running(bed: Bed) -> None:
    host = bed["spark-1"]
    start(host, "engine", f"vllm serve org/m --port {PORT}")
    wait_for(lambda: healthy(host))
    host.fault("kill-dockerd")
    assert "Cannot connect to the Docker daemon" in host.run("docker ps").err
    assert healthy(host)
    host.fault("heal")
    assert "engine" in host.run("docker ps --all").text


def test_freeze_and_thaw(bed: Bed) -> None:
    host = bed["spark-2"]
    host.fault("freeze")
    assert host.run("true", timeout_s=1).code == 124
    host.fault("thaw")
    assert host.run("hostname").text == "spark-2"


def test_slow_and_heal(bed: Bed) -> None:
    host = bed["spark-1"]
    host.fault("slow", "16")
    began = time.monotonic()
    assert len(host.run("head -c 2000000 /dev/zero").out) == 2000000
    assert time.monotonic() - began > 0.8  # 2 MB at 16 Mbit/s take a second, but for what the first burst lets through
    host.fault("heal")
    assert "tbf" not in host.inside("tc", "qdisc", "show").text


def test_full_and_heal(bed: Bed) -> None:
    host = bed["spark-1"]
    write = "head -c 100000 /dev/zero >~/blob"
    host.fault("full")
    assert "No space left on device" in host.run(write).err
    assert "no space left on device" in host.run(f"docker run {ENGINES} true").err.lower()
    host.fault("heal")
    assert host.run(write).code == 0


def test_an_unknown_fault_is_refused(bed: Bed) -> None:
    with pytest.raises(BedError, match="no fault 'melt': cut, heal, "):
        bed["spark-1"].fault("melt")


# --- coming and going ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a second bed, beside the one of the other tests, keeps its things."""
    if reason := why_not():
        pytest.skip(reason)
    yield tmp_path / "bed"
    down(tmp_path / "bed")


def command_line(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def footprint(folder: Path) -> dict[str, set[str]]:
    """Everything on this machine that a bed in ``folder`` could leave behind."""
    return {
        "mounts": {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()},
        "interfaces": {path.name for path in Path("/sys/class/net").iterdir()},
        "namespaces": {path.name for path in Path("/run/netns").glob("*")},
        "control groups": {str(path) for path in Path("/sys/fs/cgroup").glob("**/sparkrun-bed*")},
        "processes": {path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if str(folder) in command_line(path)},
        "files": {path.name for path in folder.glob("run")},
    }


def test_down_leaves_nothing_whatever_state_the_bed_is_in(folder: Path) -> None:
    before = footprint(folder)
    bed = up(Options(count=2, images=()), folder=folder)
    up_now = footprint(folder)
    grown = {what for what in before if up_now[what] > before[what]}
    assert grown == {"interfaces", "control groups", "processes", "files"}
    bed.hosts[0].fault("slow")
    bed.hosts[0].fault("cut")
    bed.hosts[1].fault("full")
    bed.hosts[1].fault("freeze")
    down(folder)
    assert footprint(folder) == before


def test_down_leaves_nothing_of_a_bed_whose_maker_was_killed(folder: Path) -> None:
    before = footprint(folder)
    words = [sys.executable, "-m", "tests.e2e.bed", "--folder", str(folder), "up", "2"]
    maker = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for((folder / "run/spark-2/init.log").exists)
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    down(folder)
    assert footprint(folder) == before


def test_a_bed_that_is_wanted_is_left_alone_and_one_that_nobody_owns_makes_way(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", UP_AND_AWAY, folder], cwd=ROOT, check=True)
    up(Options(count=1, images=()), folder=folder)
    with pytest.raises(BedError, match="a bed is up already"):
        up(Options(count=1, images=()), folder=folder)


def test_a_host_may_lack_docker_and_accelerators_and_see_a_folder_of_this_machine(folder: Path) -> None:
    poor = Options(
        count=1, accelerators={"spark-1": Accelerator.NONE}, dockers={"spark-1": Docker.NONE}, images=(), binds=(str(ROOT / "tests"),)
    )
    (host,) = up(poor, folder=folder).hosts
    assert host.run("command -v docker nvidia-smi; ls /dev/nvidia0 /run/docker.sock").out == ""
    assert host.run(f"ls {ROOT}/tests/conftest.py").code == 0
    assert "Read-only file system" in host.inside("touch", f"{ROOT}/tests/x").err
