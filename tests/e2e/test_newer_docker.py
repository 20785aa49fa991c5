"""Hosts with dockers of different ages and image stores: they serve together, and images go from any to any."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.bed import Bed, Docker, Host, Options
from tests.e2e.bed.containers import ENGINES
from tests.e2e.bed.hardware import CDI
from tests.e2e.bed.newer_docker import is_there
from tests.e2e.launching import Operator, chat, names, put_model

DOCKERS = {"spark-2": Docker.NEWER, "spark-3": Docker.CONTAINERD}
HOOK = "usr/bin/nvidia-container-runtime-hook"
DERIVED = "sparkrun-e2e/derived:1"
ADDED_BYTES = 20_000_000

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not is_there(), reason="no newer docker: python -m tests.e2e.bed.newer_docker"),
    pytest.mark.parametrize("bed", [Options(count=3, dockers=DOCKERS, images=())], indirect=True, ids=["bed"]),
]
pytest_plugins = ["tests.e2e.bed.fixtures", "tests.e2e.launching"]


@pytest.fixture(autouse=True)
def _bare(bed: Bed) -> None:
    """Hosts with the model and without an image."""
    for host in bed.hosts:
        if images := host.docker("images", "--quiet").split():
            host.docker("rmi", "--force", *dict.fromkeys(images))
    put_model(bed.hosts)


def recipe_for(operator: Operator, hosts: tuple[Host, ...], image: str = ENGINES) -> str:
    return operator.write("vllm", container=image, defaults={"port": 8000, "tensor_parallel": len(hosts)})


def layers(host: Host, image: str) -> str:
    return host.docker("image", "inspect", "--format", "{{json .RootFS.Layers}}", image)


def derive(host: Host) -> None:
    """An image that has one layer more than that of the engines, made by the host itself."""
    write = f"head -c {ADDED_BYTES} /dev/urandom >/data"
    host.docker("run", "--name", "made", "--network=none", "--entrypoint", "/bin/sh", ENGINES, "-c", write)
    host.docker("commit", "made", DERIVED)
    host.docker("rm", "made")


def test_the_versions_are_different(bed: Bed) -> None:
    old, newer, containerd = (host.docker("version", "--format", "{{.Server.Version}}") for host in bed.hosts)
    assert int(old.partition(".")[0]) < 25 <= int(newer.partition(".")[0])
    assert newer == containerd
    assert "io.containerd.snapshotter" in bed.hosts[2].docker("info", "--format", "{{json .DriverStatus}}")


@pytest.mark.parametrize("head", [0, 1, 2])
def test_an_image_of_one_host_reaches_the_others_and_all_serve_together(bed: Bed, operator: Operator, head: int) -> None:
    hosts = (*bed.hosts[head:], *bed.hosts[:head])
    bed.load("engines", hosts[0])

    result = operator.run(recipe_for(operator, hosts), hosts)

    assert chat(hosts[0])
    assert len({layers(host, ENGINES) for host in hosts}) == 1
    assert set(operator.states(hosts)) == {host.name for host in hosts}
    assert operator("logs", result["cluster_id"], "-H", names(hosts), "-a").code == 0
    again = operator.plan(recipe_for(operator, hosts), hosts)
    assert again["transfers"] == []
    operator.stop(result["cluster_id"], hosts)


@pytest.mark.parametrize("source", [0, 1])
def test_docker_is_sent_only_the_layers_it_lacks_and_containerd_the_whole_archive(bed: Bed, operator: Operator, source: int) -> None:
    bed.load("engines")
    head = bed.hosts[source]
    derive(head)
    for host in bed.hosts:
        if host is not head:
            recipe = recipe_for(operator, (head, host), DERIVED)
            (transfer,) = operator.plan(recipe, (head, host))["transfers"]
            whole = host.plan.docker is Docker.CONTAINERD
            assert (transfer["size_bytes"] > ADDED_BYTES * 2) is whole

            result = operator.run(recipe, (head, host))

            assert chat(head)
            assert layers(host, DERIVED) == layers(head, DERIVED)
            operator.stop(result["cluster_id"], (head, host))


@pytest.mark.parametrize("rank", [1, 2])
def test_an_engine_that_dies_on_a_newer_docker_is_told_with_its_code(bed: Bed, operator: Operator, rank: int) -> None:
    bed.load("engines")
    crash = ("BED_CRASH_AFTER_S=1", "BED_LOAD_S=60", "BED_CODE=7", f"BED_RANK={rank}")

    ended = operator("run", recipe_for(operator, bed.hosts), "-H", names(bed.hosts), *(word for pair in crash for word in ("-e", pair)))

    assert ended.code == 1
    assert f"rank {rank} on {bed.hosts[rank].name}" in ended.err, ended.err
    assert "ended with exit code 7" in ended.err
    assert not [host.docker("ps", "--all", "--quiet") for host in bed.hosts if host.docker("ps", "--all", "--quiet")]


@pytest.fixture
def listed(bed: Bed) -> Iterator[Host]:
    """A host whose docker hands out NVIDIA's devices by a list, and has no hook for it."""
    host = bed.hosts[1]
    hook, settings, devices = (host.root / path for path in (HOOK, "etc/docker/daemon.json", "etc/cdi/nvidia.yaml"))
    text, mode = hook.read_bytes(), hook.stat().st_mode
    hook.unlink()
    for path, said in ((settings, '{"features": {"cdi": true}}'), (devices, CDI)):
        path.parent.mkdir(exist_ok=True)
        path.write_text(said)
    host.fault("kill-dockerd")
    host.fault("heal")
    yield host
    hook.write_bytes(text)
    hook.chmod(mode)
    settings.unlink()
    devices.unlink()
    host.fault("kill-dockerd")
    host.fault("heal")


def test_a_gpu_comes_by_the_list_of_devices_where_there_is_no_hook(bed: Bed, operator: Operator, listed: Host) -> None:
    bed.load("engines", listed)

    result = operator.run(operator.write("vllm"), (listed,))

    assert chat(listed)
    wanted = listed.docker("inspect", "--format", "{{json .HostConfig.DeviceRequests}}", f"{result['cluster_id']}_solo")
    assert [(each["Driver"], each["DeviceIDs"]) for each in json.loads(wanted)] == [("cdi", ["nvidia.com/gpu=0"])]
    operator.stop(result["cluster_id"], (listed,))
