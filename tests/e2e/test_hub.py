"""Models from a hub: fetched once, by a host or by this machine, with the hub's own client, and handed on."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.bed import Bed, Host, Options
from tests.e2e.conftest import press_ctrl_c, wait_for
from tests.e2e.hub import FakeHub, Repo
from tests.e2e.launching import MODEL, Operator, chat, names, put_model

SPEC = importlib.util.find_spec("huggingface_hub")
PACKAGES = str(Path(SPEC.origin).parent.parent) if SPEC and SPEC.origin else "/nowhere"
pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("bed", [Options(binds=(PACKAGES,))], indirect=True)]
pytest_plugins = ["tests.e2e.bed.fixtures", "tests.e2e.launching"]

FOLDER = f"models--{MODEL.replace('/', '--')}"
WEIGHTS = b"\2\0\0\0\0\0\0\0{}" + bytes(20_000_000)
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()
SHARDS = {f"model-0000{number}-of-00002.safetensors": WEIGHTS + bytes(number) for number in (1, 2)}
SHARDED = "org/sharded"
CONFIG = json.dumps({"architectures": ["LlamaForCausalLM"]}).encode()
FILES = {"config.json": CONFIG, "model.safetensors": WEIGHTS, "pytorch_model.bin": bytes(3_000_000), "original/a.pth": b"x" * 2_000_000}
GATED, TOKEN = "org/gated", "hf_sesame"
CLIENT = f'#!/bin/bash\nexec env PYTHONPATH={PACKAGES} /usr/bin/python3 "$@"\n'


@pytest.fixture
def hub(bed: Bed, operator: Operator) -> Iterator[FakeHub]:
    """A hub that every host reaches, and hosts as new ones that have the hub's client."""
    for host in bed.hosts:
        host.inside("rm", "-rf", f"{host.hf_home}/hub")
        host.inside("mkdir", "-p", "/opt/hf/bin")
        for path, text in (("/opt/hf/bin/python3", CLIENT), ("/usr/local/bin/hf", "#!/opt/hf/bin/python3\n")):
            host.inside("bash", "-c", f"cat >{path} <<'X'\n{text}X\nchmod 755 {path}")
    control = bed.hosts[0].address.rpartition(".")[0] + ".1"
    served = FakeHub(
        control,
        {
            MODEL: Repo({"main": FILES, "v1": {**FILES, "extra.txt": b"old"}}),
            GATED: Repo({"main": FILES}, TOKEN),
            SHARDED: Repo({"main": SHARDS}),
        },
    )
    operator.env["HF_ENDPOINT"] = served.endpoint
    yield served
    served.close()
    for host in bed.hosts:
        host.inside("rm", "-rf", "/opt/hf", "/usr/local/bin/hf")


def serve(operator: Operator, hosts: tuple[Host, ...], **recipe: object) -> str:
    return operator.write("vllm", **{"defaults": {"port": 8000, "tensor_parallel": len(hosts)}, **recipe})


def files_of(host: Host) -> list[str]:
    listed = host.run(f"cd {host.hf_home}/hub/{FOLDER}/snapshots/* && find -L . -type f -printf '%P\\n' | sort")
    return listed.out.split()


def digest(host: Host) -> str:
    return host.run(f"sha256sum {host.hf_home}/hub/{FOLDER}/snapshots/*/model.safetensors").out[:64]


def test_the_head_fetches_what_an_engine_needs_and_hands_it_on(bed: Bed, operator: Operator, hub: FakeHub) -> None:
    result = operator.run(serve(operator, bed.hosts), bed.hosts)

    assert chat(bed.hosts[0])
    assert len(WEIGHTS) <= hub.served < 1.05 * len(WEIGHTS), "once, besides headers, and no weights in other formats"
    for host in bed.hosts:
        assert (files_of(host), digest(host)) == (["config.json", "model.safetensors"], SHA256)
    operator.stop(result["cluster_id"], bed.hosts)


def test_a_revision_is_what_is_fetched(bed: Bed, operator: Operator, hub: FakeHub) -> None:
    head = bed.hosts[:1]

    result = operator.run(serve(operator, head, model_revision="v1"), head)

    assert "extra.txt" in files_of(head[0])
    assert head[0].run(f"ls {head[0].hf_home}/hub/{FOLDER}/snapshots").out.strip() == Repo({"v1": {}}).commit("v1")
    operator.stop(result["cluster_id"], head)


def test_this_machine_fetches_when_hosts_are_not_to(bed: Bed, operator: Operator, hub: FakeHub) -> None:
    result = operator.run(serve(operator, bed.hosts), bed.hosts, "--transfer-mode", "push")

    assert chat(bed.hosts[0])
    assert len(WEIGHTS) <= hub.served < 1.05 * len(WEIGHTS)
    assert (operator.home / f".cache/huggingface/hub/{FOLDER}").is_dir()
    assert {digest(host) for host in bed.hosts} == {SHA256}
    operator.stop(result["cluster_id"], bed.hosts)


def test_a_gate_is_told_with_the_way_through_it_and_a_token_opens_it(bed: Bed, operator: Operator, hub: FakeHub) -> None:
    head = bed.hosts[:1]
    recipe = operator.write("vllm", model=GATED)

    shut = operator("run", recipe, "-H", "spark-1", "--no-follow", "--transfer-mode", "delegated")
    wrong = operator("run", recipe, "-H", "spark-1", "--no-follow", "--transfer-mode", "delegated", HF_TOKEN="hf_wrong")

    for ended in (shut, wrong):
        assert ended.code == 1
        assert f"\n  spark-1: the hub does not give {GATED}: 40" in ended.err
        assert "hint: accept its terms on the hub" in ended.err
    operator.env["HF_TOKEN"] = TOKEN
    result = operator.run(recipe, head)
    assert TOKEN not in host_text(head[0])
    operator.stop(result["cluster_id"], head)


def test_a_model_that_does_not_exist_is_told(bed: Bed, operator: Operator, hub: FakeHub) -> None:
    ended = operator("run", operator.write("vllm", model="org/nowhere"), "-H", "spark-1", "--no-follow", "--transfer-mode", "delegated")

    assert ended.code == 1
    assert "cannot bring model org/nowhere to\n  spark-1: " in ended.err


def test_a_revision_is_fetched_and_served_though_hosts_have_another_one(bed: Bed, operator: Operator, hub: FakeHub) -> None:
    head = bed.hosts[:1]
    put_model(head)

    result = operator.run(serve(operator, head, model_revision="v1"), head)

    commit = hub.repos[MODEL].commit("v1")
    (call,) = head[0].engine_calls(head[0].docker("ps", "--format", "{{.Names}}"))
    assert call.argv[call.argv.index("--revision") + 1] == commit
    assert head[0].read(f"{head[0].hf_home}/hub/{FOLDER}/refs/v1") == commit
    operator.stop(result["cluster_id"], head)


def test_what_a_hub_sends_damaged_becomes_no_model(bed: Bed, operator: Operator, hub: FakeHub) -> None:
    hub.damages = (WEIGHTS,)

    ended = operator("stage", serve(operator, bed.hosts), "-H", names(bed.hosts))

    assert ended.code == 1
    assert f"this machine: a file of {MODEL} came damaged from the hub: {SHA256}" in ended.err
    assert all(host.run(f"test -e {host.hf_home}/hub/{FOLDER}").code for host in bed.hosts)
    hub.damages = ()
    assert operator("stage", serve(operator, bed.hosts), "-H", names(bed.hosts)).code == 0
    assert {digest(host) for host in bed.hosts} == {SHA256}


@pytest.mark.parametrize(("status", "told"), [(401, "does not give org/m: 401"), (429, "is asked too often: 429"), (500, "fails: 500")])
def test_a_hub_that_refuses_is_told_in_one_line_for_all(bed: Bed, operator: Operator, hub: FakeHub, status: int, told: str) -> None:
    hub.status = status

    ended = operator("stage", serve(operator, bed.hosts), "-H", names(bed.hosts))

    (line,) = [line for line in ended.err.splitlines() if told in line]
    assert (ended.code, line.startswith("  spark-1, spark-2, this machine: ")) == (1, True), ended.err
    assert "  hint: " in ended.err


def test_ctrl_c_in_a_download_leaves_no_process_and_the_next_run_goes_on(bed: Bed, operator: Operator, hub: FakeHub) -> None:
    head = bed.hosts[:1]
    first, second = SHARDS.values()
    hub.hangs = (second,)
    recipe = operator.write("vllm", model=SHARDED)
    incoming = f"{head[0].hf_home}/hub/.sparkrun-incoming/models--org--sharded/blobs/{hashlib.sha256(first).hexdigest()}"
    running = operator.start("run", recipe, "-H", "spark-1", "--no-follow")
    wait_for(lambda: head[0].run(f"test -s {incoming}").code == 0 or running.poll() is not None, timeout_s=60)
    assert running.poll() is None, running.communicate()[0]

    assert press_ctrl_c(running).code == 130
    wait_for(lambda: head[0].run("pgrep -f huggingface_hub").code != 0)
    hub.hangs, hub.served = (), 0

    result = operator.run(recipe, head)

    assert hub.served < 1.5 * len(second), "what had come as a whole is not fetched again"
    operator.stop(result["cluster_id"], head)


def test_offline_what_no_host_has_is_one_list_and_nobody_is_asked(bed: Bed, operator: Operator, hub: FakeHub) -> None:
    recipe = serve(operator, bed.hosts, container="ghcr.io/org/engine:1")

    ended = operator("run", recipe, "-H", names(bed.hosts), "--offline", "--no-follow")

    assert ended.code == 1
    hosts = ", ".join(host.name for host in bed.hosts)
    assert f"\n  {hosts}: image ghcr.io/org/engine:1 is not there: offline, and " in ended.err
    assert f"\n  {hosts}: model {MODEL} is not there: offline, and " in ended.err
    assert hub.asked == []


def host_text(host: Host) -> str:
    """Everything that docker and the process list of a host tell."""
    return host.docker("inspect", *host.docker("ps", "--quiet").split()) + host.inside("ps", "axww").out
