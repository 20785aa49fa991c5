"""Caches of models and images on real hosts with users and homes of their own, and what a launch leaves in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.bed import Bed, Host
from tests.e2e.bed.containers import ENGINES
from tests.e2e.bed.host import MODEL_COMMIT
from tests.e2e.launching import MODEL, Operator, put_model, say

SHARED = "/srv/hf"
pytestmark = pytest.mark.e2e
pytest_plugins = ["tests.e2e.bed.fixtures", "tests.e2e.launching"]

OTHER = "org/other"
CONTENT = "weights " * 2000


@pytest.fixture(autouse=True)
def _bare(bed: Bed) -> None:
    """Hosts without a model."""
    for host in bed.hosts:
        host.inside("rm", "-rf", f"{host.hf_home}/hub", f"{host.home}/.cache/sparkrun/runtime-cache")


def put(host: Host, repo: str = OTHER, content: str = CONTENT, home: str = "") -> str:
    """A model as the hub's client leaves it, of the host's own user; the path of its one blob."""
    hub = f"{home or host.hf_home}/hub"
    folder = f"{hub}/models--{repo.replace('/', '--')}"
    blob = f"{folder}/blobs/{hashlib.sha256(content.encode()).hexdigest()}"
    host.write(blob, content)
    host.write(f"{folder}/refs/main", MODEL_COMMIT)
    host.write(f"{folder}/snapshots/{MODEL_COMMIT}/.keep", "")
    link = f"cd {folder}/snapshots/{MODEL_COMMIT} && rm .keep && ln -s ../../blobs/{blob.rpartition('/')[2]} weights.bin"
    assert host.run(link).code == 0
    assert host.inside("find", folder, "-exec", "touch", "-h", "-d", "2 hours ago", "{}", "+").code == 0
    return blob


def caches(operator: Operator, *words: str) -> Any:
    """What a command on models says, by host."""
    told = json.loads(say(operator, "model-cache", *words, "--json", "-H", operator.bed.hosts))
    return {cache["hosts"][0]: cache for cache in told["caches"]}


def test_a_damaged_model_is_found_mended_and_removed_for_each_hosts_own_user(bed: Bed, operator: Operator) -> None:
    one, two = bed.hosts
    blobs = {host.name: put(host) for host in bed.hosts}

    seen = caches(operator, "list")
    assert {name: cache["hub"] for name, cache in seen.items()} == {host.name: f"{host.hf_home}/hub" for host in bed.hosts}
    assert {one.home, two.home} == {"/home/spark", "/home/nvidia"}
    assert all(cache["models"][0]["state"] == "whole" and cache["writable"] for cache in seen.values())

    two.write(blobs[two.name], "Weights " * 2000)
    verified = operator("model-cache", "verify", OTHER, "-H", "spark-1,spark-2", "--json")
    assert verified.code == 1
    wrong = {cache["hosts"][0]: cache["models"][0]["verification"]["wrong"] for cache in verified.json["caches"]}
    assert wrong[one.name] == []
    assert [(each["files"], each["reason"]) for each in wrong[two.name]] == [
        ([f"{MODEL_COMMIT}/weights.bin"], "its content is not what it should be")
    ]

    dry = caches(operator, "repair", OTHER)
    assert two.inside("test", "-e", blobs[two.name]).code == 0
    mended = caches(operator, "repair", OTHER, "--apply")
    assert mended[one.name]["models"] == []
    assert mended[two.name]["models"][0]["missing"] == dry[two.name]["models"][0]["missing"] == [f"{MODEL_COMMIT}/weights.bin"]
    assert two.inside("test", "-e", blobs[two.name]).code == 1

    freed = json.loads(say(operator, "model-cache", "delete", OTHER, "--apply", "--json", "-H", bed.hosts))["frees_bytes"]
    assert freed >= len(CONTENT)
    for host in bed.hosts:
        assert host.inside("test", "-e", f"{host.hf_home}/hub/models--org--other").code == 1


def test_what_is_served_stays_and_what_a_launch_used_is_noted(bed: Bed, operator: Operator) -> None:
    one = bed.hosts[0]
    put_model(bed.hosts)
    old = f"{one.home}/.cache/sparkrun/runtime-cache/vllm/old-00000000"
    one.write(f"{old}/.sparkrun-last-used", "")
    assert one.inside("touch", "-d", "40 days ago", f"{old}/.sparkrun-last-used").code == 0

    served = operator.run(operator.write("vllm", defaults={"port": 8000, "tensor_parallel": 2}), bed.hosts)

    for host in bed.hosts:
        used = f"{host.hf_home}/hub/.sparkrun/used/models--org--m"
        marks = host.run(f"stat -c %U {used} ~/.cache/sparkrun/runtime-cache/vllm/*/.sparkrun-last-used").out.split()
        assert marks == [host.user] * 2
    assert one.run(f"for i in $(seq 50); do [ -e {old} ] || exit 0; sleep 0.1; done; exit 1").code == 0

    model = operator("model-cache", "delete", MODEL, "--apply", "-H", "spark-1,spark-2")
    assert model.code == 1
    assert model.out.count(f"org/m stays: {served['cluster_id']} uses it on ") == 2
    image = operator("image-cache", "delete", ENGINES, "--apply", "-H", "spark-1,spark-2")
    assert image.code == 1
    assert image.out.count(f"{ENGINES} stays: container ") == 2
    kernels = json.loads(say(operator, "setup", "prune-runtime-cache", "--json", "-H", bed.hosts))
    assert [[entry["outcome"] for entry in host["entries"]] for host in kernels["hosts"]] == [["fresh"], ["fresh"]]

    operator.stop(served["cluster_id"], bed.hosts)
    assert say(operator, "model-cache", "delete", MODEL, "--apply", "-H", bed.hosts).count("org/m: freed") == 2


def test_a_pinned_model_stays_until_it_is_unpinned(bed: Bed, operator: Operator) -> None:
    one, two = bed.hosts
    put(one)
    put(two)
    say(operator, "model-cache", "pin", OTHER, "--reason", "the demo", "-H", [one])

    ended = operator("model-cache", "delete", OTHER, "--apply", "-H", "spark-1,spark-2")

    assert ended.code == 1
    assert "org/other stays: it is pinned by " in ended.out
    assert one.inside("test", "-e", f"{one.hf_home}/hub/models--org--other").code == 0
    assert two.inside("test", "-e", f"{two.hf_home}/hub/models--org--other").code == 1
    say(operator, "model-cache", "unpin", OTHER, "-H", [one])
    say(operator, "model-cache", "delete", OTHER, "--apply", "-H", [one])


def test_after_a_repair_the_next_launch_brings_only_what_was_taken_out(bed: Bed, operator: Operator) -> None:
    host = bed.hosts[0]
    contents = {
        "config.json": json.dumps({"architectures": ["LlamaForCausalLM"]}),
        "extra.json": "extra",
        "model.safetensors": CONTENT * 20,
    }
    here = operator.home / ".cache/huggingface/hub/models--org--m"
    for name, content in contents.items():
        blob = hashlib.sha256(content.encode()).hexdigest()
        for folder, write in ((str(here), _write), (f"{host.hf_home}/hub/models--org--m", host.write)):
            write(f"{folder}/blobs/{blob}", content)
            write(f"{folder}/refs/main", MODEL_COMMIT)
            write(f"{folder}/snapshots/{MODEL_COMMIT}/.keep", "")
        link = f"snapshots/{MODEL_COMMIT}/{name}"
        (here / link).symlink_to(f"../../blobs/{blob}")
        assert host.run(f"cd {host.hf_home}/hub/models--org--m && ln -s ../../blobs/{blob} {link}").code == 0
    recipe = operator.write("vllm")
    assert operator.plan(recipe, [host])["transfers"] == []
    damaged = f"{host.hf_home}/hub/models--org--m/blobs/{hashlib.sha256(b'extra').hexdigest()}"
    host.write(damaged, "Extra")

    say(operator, "model-cache", "repair", MODEL, "--apply", "-H", [host])

    (transfer,) = operator.plan(recipe, [host])["transfers"]
    assert (transfer["kind"], transfer["size_bytes"]) == ("model", len("extra"))
    served = operator.run(recipe, [host])
    assert host.read(damaged) == "extra"
    assert caches(operator, "verify", MODEL)[host.name]["models"][0]["verification"]["wrong"] == []
    operator.stop(served["cluster_id"], [host])


def _write(path: str, text: str) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def test_what_a_broken_transfer_left_is_pruned(bed: Bed, operator: Operator) -> None:
    one = bed.hosts[0]
    blob = put(one)
    half = f"{blob.rpartition('/')[0]}/{'a' * 64}.incomplete"
    one.write(half, "half")
    assert caches(operator, "prune")[one.name]["models"] == [], "it may still be on its way"
    one.inside("touch", "-d", "2 hours ago", half)

    assert say(operator, "model-cache", "prune", "--apply", "-H", [one]).endswith("\nFreed 4 kB.\n")

    assert one.inside("test", "-e", half).code == 1
    assert one.inside("test", "-e", blob).code == 0


@pytest.fixture
def share(bed: Bed) -> Iterator[str]:
    """A Hugging Face home of the first host's user, which the second host mounts over the network."""
    server, client = bed.hosts
    if client.inside("test", "-x", "/usr/bin/sshfs").code:
        pytest.skip("sshfs is not installed")
    server.inside("install", "-d", "-o", server.user, SHARED)
    client.inside("install", "-d", "-o", client.user, SHARED)
    client.inside("sh", "-c", "test -e /dev/fuse || mknod -m 666 /dev/fuse c 10 229")
    owner = client.run("id -u; id -g").out.split()
    options = f"IdentityFile={client.home}/.ssh/id_ed25519,StrictHostKeyChecking=no,allow_other,uid={owner[0]},gid={owner[1]}"
    mounted = client.inside("sshfs", f"{server.user}@{server.address}:{SHARED}", SHARED, "-o", options)
    assert mounted.code == 0, mounted
    yield SHARED
    client.inside("umount", SHARED)
    server.inside("rm", "-rf", SHARED)


def test_a_cache_that_one_host_has_from_another_is_one(bed: Bed, operator: Operator, share: str) -> None:
    server = bed.hosts[0]
    put(server, home=share)

    report = json.loads(say(operator, "model-cache", "verify", "--json", "--cache-dir", share, "-H", bed.hosts))

    (cache,) = report["caches"]
    assert (cache["hosts"], cache["shared"]) == (["spark-1", "spark-2"], True)
    assert cache["models"][0]["verification"]["checked_blobs"] == 1
    assert "spark-1, spark-2 (one cache): " in say(operator, "model-cache", "list", "--cache-dir", share, "-H", bed.hosts)
    change = json.loads(say(operator, "model-cache", "delete", OTHER, "--apply", "--json", "--cache-dir", share, "-H", bed.hosts))
    assert [cache["hosts"] for cache in change["caches"]] == [["spark-1", "spark-2"]]
    assert change["frees_bytes"] >= len(CONTENT)
    assert server.run(f"ls {share}/hub").out == "", "the client may remember the folder for a while"


def test_an_image_is_the_same_on_all_hosts_and_goes_from_all(bed: Bed, operator: Operator) -> None:
    report = json.loads(say(operator, "image-cache", "inspect", ENGINES, "--json", "-H", bed.hosts))
    (image,) = report["images"]
    assert [copy["host"] for copy in image["copies"]] == ["spark-1", "spark-2"]

    bed.hosts[1].docker("tag", ENGINES, "extra:1")
    dry = say(operator, "image-cache", "delete", "extra:1", "-H", bed.hosts)
    assert "spark-2: extra:1 (only the name goes: it is " in dry
    say(operator, "image-cache", "delete", "extra:1", "--apply", "-H", bed.hosts)
    assert "extra" not in bed.hosts[1].docker("images")
    assert ENGINES.partition(":")[0] in bed.hosts[1].docker("images")
    assert say(operator, "image-cache", "verify", ENGINES, "-H", bed.hosts).count(": good") == 2
