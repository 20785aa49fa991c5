"""Images built on a host from a repository's build-and-copy.sh, by a real git and docker; and tuning configs that reach real homes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.bed import Bed, Host
from tests.e2e.bed.containers import ENGINES
from tests.e2e.conftest import press_ctrl_c, wait_for
from tests.e2e.launching import Operator, chat, container, put_model
from tests.registry_tree import put_registry

pytestmark = pytest.mark.e2e
pytest_plugins = ["tests.e2e.bed.fixtures", "tests.e2e.launching"]

SOURCE = "spark-vllm-docker"
BUILDS = f"""#!/bin/bash
set -e
echo "$*" >>"$HOME/calls"
ls -A >"$HOME/files"
touch leftover
echo "downloading wheels"
printf 'FROM {ENGINES}\\nLABEL arguments="%s"\\n' "${{*:3}}" | docker build -t "$2" -
"""
SMOKE = "import vllm; print('sparkrun-smoke-ok')"
CONFIG = "E=8,N=512,device_name=NVIDIA_GB10.json"


def put_source(host: Host, script: str = BUILDS) -> str:
    """The repository of the stand-in script, in the home of the host's user; its address."""
    host.write(f"{host.home}/{SOURCE}/build-and-copy.sh", script)
    made = host.run(
        f"cd {host.home}/{SOURCE} && chmod +x build-and-copy.sh && git init -q -b main && git add -A"
        " && git -c user.name=t -c user.email=t@t commit -q -m x"
    )
    assert made.code == 0, made
    return f"file://{host.home}/{SOURCE}"


def settings(operator: Operator, repo: str, **more: object) -> None:
    """Let the builder take its source from there."""
    config = operator.home / ".config/sparkrun/config.yaml"
    builders = {"eugr": {"repo": repo, "smoke_test": SMOKE, "save_build_logs": True, **more}}
    config.write_text(f"{operator.bed.config_yaml}\ndefaults: {json.dumps({'builders': builders})}\n")


@pytest.fixture(autouse=True)
def _clean(bed: Bed) -> Iterator[None]:
    """A model on every host; afterwards no build and no config of this test."""
    put_model(bed.hosts)
    yield
    for host in bed.hosts:
        tags = host.docker("images", "--format", "{{.Repository}}:{{.Tag}}", "vllm-node").split()
        if tags:
            host.docker("rmi", "--force", *tags)
        for path in (SOURCE, "calls", "files", ".cache/sparkrun/eugr-builds", ".cache/sparkrun/tuning"):
            host.inside("rm", "-rf", f"{host.home}/{path}")


def write(operator: Operator) -> str:
    return operator.write("vllm", builder="eugr", container="vllm-node", build_args=["--apply-vllm-pr", "41703"])


def test_an_image_is_built_on_the_host_once_and_serves(bed: Bed, operator: Operator) -> None:
    host = bed.hosts[0]
    settings(operator, put_source(host))
    recipe = write(operator)

    plan = operator.plan(recipe, [host])
    first = operator("run", recipe, "-H", host.name, "--json", "--no-follow")

    assert first.code == 0, first.err
    assert chat(host)
    (build,) = plan["builds"]
    image = build["image"]
    assert f"[2/6] Building image\n  Step 1/1: {build['title']}\n" in first.err
    assert [line for line in first.err.splitlines() if line.startswith(f"Note: {host.name}: ")] == [
        f"Note: {host.name}: {stage}"
        for stage in ("clone (1/5)", "docker build (3/5)", "download wheels (2/5)", "export (4/5)", "smoke test (5/5)")
    ]
    assert container(host, plan["ranks"][0]["name"]).text.count(f'"Image": "{image}"') == 1
    assert host.docker("inspect", "--format", "{{.Config.Labels.arguments}}", image).strip() == "--apply-vllm-pr 41703"
    assert host.read(f"{host.home}/files").split() == [".git", "build-and-copy.sh"]
    (log,) = (operator.home / ".cache/sparkrun/eugr-builds").iterdir()
    assert "downloading wheels\n" in log.read_text()
    operator.stop(first.json["cluster_id"], [host])

    second = operator("run", recipe, "-H", host.name, "--json", "--no-follow")

    assert "[2/6] Building image — skipped (nothing to build)" in second.err
    assert host.read(f"{host.home}/calls").splitlines() == [f"-t {image}-building --apply-vllm-pr 41703"]
    operator.stop(second.json["cluster_id"], [host])


def test_the_head_builds_and_hands_the_image_on(bed: Bed, operator: Operator) -> None:
    one, two = bed.hosts
    settings(operator, put_source(one))
    recipe = operator.write(
        "vllm",
        builder="eugr",
        container="vllm-node",
        build_args=["--apply-vllm-pr", "41703"],
        defaults={"host": "0.0.0.0", "port": 8000, "tensor_parallel": 2},
    )

    ended = operator("run", recipe, "-H", "spark-1,spark-2", "--json", "--no-follow")

    assert ended.code == 0, ended.err
    assert chat(one)
    images = [host.docker("images", "--format", "{{.ID}} {{.Tag}}", "vllm-node").split() for host in bed.hosts]
    assert images[0] == images[1]
    assert two.inside("test", "-e", f"{two.home}/calls").code == 1
    operator.stop(ended.json["cluster_id"], bed.hosts)


def test_a_build_alone_launches_nothing_and_a_failed_one_leaves_nothing(bed: Bed, operator: Operator) -> None:
    host = bed.hosts[0]
    settings(operator, put_source(host, "#!/bin/bash\necho '#5 [2/2] RUN make'\necho 'c++: Killed signal 9' >&2\nexit 1\n"))
    recipe = write(operator)

    failed = operator("build", recipe, "-H", host.name)

    assert failed.code == 1
    assert "it failed in the stage 'docker build': build-and-copy.sh ended with exit code 1: c++: Killed signal 9" in failed.err
    assert "  | #5 [2/2] RUN make\n" in failed.err
    assert "--build-jobs" in failed.err
    host.inside("rm", "-rf", f"{host.home}/{SOURCE}")
    put_source(host)

    built = operator("build", recipe, "-H", host.name, "--json")

    assert built.code == 0, built.err
    assert [(made["builder"], made["hosts"]) for made in built.json["built"]] == [("eugr", [host.name])]
    assert host.docker("ps", "--all", "--quiet") == ""
    assert host.inside("ls", f"{host.home}/.cache/sparkrun/eugr-builds").out.split() == ["lock"]


def test_ctrl_c_ends_a_build_with_all_its_processes(bed: Bed, operator: Operator) -> None:
    host = bed.hosts[0]
    settings(operator, put_source(host, "#!/bin/bash\necho begun >$HOME/calls\nsleep 4711 &\nwait\n"))
    running = operator.start("build", write(operator), "-H", host.name)
    wait_for(lambda: host.inside("test", "-e", f"{host.home}/calls").code == 0 or running.poll() is not None, timeout_s=40)
    assert running.poll() is None, running.communicate()[0]

    ended = press_ctrl_c(running)

    assert ended.code == 130, ended.out
    wait_for(lambda: host.inside("pgrep", "-f", "sleep 4711").code == 1)
    wait_for(lambda: host.inside("ls", f"{host.home}/.cache/sparkrun/eugr-builds").out.split() == ["lock"])


def test_tuning_configs_reach_two_homes_and_the_containers(bed: Bed, operator: Operator) -> None:
    recipe = {
        "model": "org/m",
        "runtime": "vllm",
        "container": ENGINES,
        "defaults": {"host": "0.0.0.0", "port": 8000, "tensor_parallel": 2},
    }
    files = {"recipes/r.yaml": json.dumps(recipe), f"tuning/vllm/{CONFIG}": '{"1": {}}'}
    put_registry(operator.home, "reg", files)

    result = operator.run("@reg/r", bed.hosts)
    plan = operator.plan("@reg/r", bed.hosts)

    assert chat(bed.hosts[0])
    assert {host.home for host in bed.hosts} == {"/home/spark", "/home/nvidia"}
    for host, rank in zip(bed.hosts, plan["ranks"], strict=True):
        assert host.read(f"{host.home}/.cache/sparkrun/tuning/vllm/{CONFIG}") == '{"1": {}}'
        (name,) = host.docker("ps", "--format", "{{.Names}}").split()
        assert host.docker("exec", name, "cat", f"/tuning/vllm/{CONFIG}") == '{"1": {}}'
        assert rank["env"]["VLLM_TUNED_CONFIG_FOLDER"] == "/tuning/vllm"
    assert plan["tuning"]["sends"] == []
    operator.stop(result["cluster_id"], bed.hosts)
