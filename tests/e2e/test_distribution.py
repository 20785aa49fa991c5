"""Images and models that hosts lack, brought to real docker daemons and real home folders over real ssh."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.e2e.bed import Bed, Host, Options
from tests.e2e.bed.containers import ENGINES
from tests.e2e.bed.host import MODEL_COMMIT
from tests.e2e.bed.images import ensure_archive
from tests.e2e.bed.state import IMAGES
from tests.e2e.conftest import press_ctrl_c, wait_for
from tests.e2e.launching import MODEL, Operator, chat, put_model

pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("bed", [Options(images=())], indirect=True)]
pytest_plugins = ["tests.e2e.bed.fixtures", "tests.e2e.launching"]

FOLDER = f"models--{MODEL.replace('/', '--')}"
DOCKER = """#!/bin/bash
case $1 in
  version) echo 28.0.0 ;;
  info) printf 'overlay2\\t[]\\t/\\n' ;;
  ps) ;;
  history) ;;
  image)
    case $2 in
      ls) echo sha256:abc ;;
      *) [[ ${{@: -1}} == {image} || ${{@: -1}} == sha256:abc ]] || {{ echo "Error: No such image: ${{@: -1}}" >&2; exit 1; }}
        case $4 in
          *RepoDigests*) printf 'sha256:abc\\t%s\\t\\t\\n' "$(stat -c %s {archive})" ;;
          *Architecture*) echo 'sha256:abc amd64 '$(stat -c %s {archive}) ;;
          *) echo ;;
        esac ;;
    esac ;;
  save) echo x >>{folder}/saved; exec cat {archive} ;;
  *) exit 1 ;;
esac
"""
"""Docker of the control machine, which needs no daemon to have an image."""


@pytest.fixture(autouse=True)
def _bare(bed: Bed) -> None:
    """Hosts as new ones: no image, no model."""
    for host in bed.hosts:
        if images := host.docker("images", "--quiet").split():
            host.docker("rmi", "--force", *dict.fromkeys(images))
        host.inside("rm", "-rf", f"{host.hf_home}/hub")


def give_image(operator: Operator) -> Path:
    """The control machine's docker has the image; the file has a line for each time it was read."""
    folder = operator.home / "bin"
    folder.mkdir()
    (folder / "docker").write_text(DOCKER.format(image=ENGINES, archive=ensure_archive(IMAGES, "engines"), folder=folder))
    (folder / "docker").chmod(0o755)
    operator.env["PATH"] = f"{folder}:{operator.env['PATH']}"
    return folder / "saved"


WEIGHTS = b"\2\0\0\0\0\0\0\0{}"
WEIGHTS_300_MB = hashlib.sha256(WEIGHTS + bytes(300_000_000 - len(WEIGHTS))).hexdigest()


def give_model(operator: Operator, size: int = 3_000_000) -> None:
    """The control machine's cache has the model, as the hub's client leaves it."""
    repo = operator.home / ".cache/huggingface/hub" / FOLDER
    snapshot = repo / "snapshots" / MODEL_COMMIT
    for folder in (repo / "blobs", repo / "refs", snapshot):
        folder.mkdir(parents=True)
    (repo / "refs/main").write_text(MODEL_COMMIT)
    (repo / "blobs/config").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    with (repo / "blobs/weights").open("wb") as weights:
        weights.write(WEIGHTS)
        weights.truncate(size)
    (snapshot / "config.json").symlink_to("../../blobs/config")
    (snapshot / "model.safetensors").symlink_to("../../blobs/weights")


def arrives(host: Host) -> bool:
    """Whether a model is on its way into the host's cache."""
    return host.inside("test", "-d", f"{host.hf_home}/hub/.sparkrun-incoming/{FOLDER}/blobs").code == 0


def part_bytes(host: Host) -> int:
    """How much of a model has come that is not whole yet."""
    listed = host.run(f"stat -c %s {host.hf_home}/hub/.sparkrun-incoming/{FOLDER}/blobs/*.part 2>/dev/null")
    return sum(map(int, listed.out.split()))


def writes(host: Host) -> bool:
    """Whether something is still taking a stream there."""
    return host.run("pgrep -x dd || pgrep -x tee || pgrep -f sparkrun-incoming").code == 0


def digest(host: Host) -> str:
    """SHA-256 of the model's weights."""
    return host.run(f"sha256sum {host.hf_home}/hub/{FOLDER}/snapshots/{MODEL_COMMIT}/model.safetensors").out.split()[0]


def looks_whole(host: Host) -> bool:
    """Whether the host's cache has a model, or half of one."""
    return host.inside("test", "-e", f"{host.hf_home}/hub/{FOLDER}").code == 0


def files_of(host: Host) -> list[str]:
    """What there is of the model in the host's cache, as that host's user sees it."""
    listed = host.run(f"cd {host.hf_home}/hub/{FOLDER} && find . ! -type d -user {host.user} -printf '%y %P\\n' | sort")
    assert listed.code == 0, listed
    return listed.out.split("\n")[:-1]


def test_an_image_missing_on_one_of_two_hosts_gets_there_and_the_launch_serves(bed: Bed, operator: Operator) -> None:
    one, two = bed.hosts
    bed.load("engines", one)
    saved = give_image(operator)
    put_model(bed.hosts)
    recipe = operator.write("vllm", defaults={"port": 8000, "tensor_parallel": 2})

    plan = operator.plan(recipe, bed.hosts)
    ended = operator("run", recipe, "-H", "spark-1,spark-2", "--json", "--no-follow")

    assert ended.code == 0, ended.err
    assert chat(one)
    (transfer,) = plan["transfers"]
    assert (transfer["source"], [action["host"] for action in transfer["flows"][0]["actions"]]) == ("spark-1", ["spark-2"])
    assert f"[3/6] Distributing resources\n  Step 1/1: {transfer['title']}\n" in ended.err
    assert transfer["title"].startswith(f"image {ENGINES} from spark-1 to spark-2 (save | load, ")
    assert transfer["why"] == "spark-1 has it; handed on over the fabric"
    assert two.docker("image", "inspect", "--format", "{{index .RepoTags 0}}", ENGINES)
    assert not saved.exists(), "this machine has it too, and nothing goes through it"
    operator.stop(ended.json["cluster_id"], bed.hosts)


def test_a_model_of_this_machine_reaches_two_hosts_with_different_homes(bed: Bed, operator: Operator) -> None:
    bed.load("engines")
    give_model(operator)
    recipe = operator.write("vllm", defaults={"port": 8000, "tensor_parallel": 2})

    result = operator.run(recipe, bed.hosts)

    assert chat(bed.hosts[0])
    assert {host.home for host in bed.hosts} == {"/home/spark", "/home/nvidia"}
    for host in bed.hosts:
        links = [f"l snapshots/{MODEL_COMMIT}/{name}" for name in ("config.json", "model.safetensors")]
        assert files_of(host) == ["f blobs/config", "f blobs/weights", "f refs/main", *links]
    operator.stop(result["cluster_id"], bed.hosts)


def test_one_stream_brings_image_and_model_to_all_hosts(bed: Bed, operator: Operator) -> None:
    saved = give_image(operator)
    give_model(operator)
    recipe = operator.write("vllm", defaults={"port": 8000, "tensor_parallel": 2})

    result = operator.run(recipe, bed.hosts)

    assert saved.read_text() == "x\n", "read once for both"
    assert chat(bed.hosts[0])
    operator.stop(result["cluster_id"], bed.hosts)


def test_an_image_that_nobody_can_bring_is_told_in_dockers_words(bed: Bed, operator: Operator) -> None:
    put_model(bed.hosts)

    ended = operator("run", operator.write("vllm"), "-H", "spark-2", "--no-follow")

    assert ended.code == 1
    assert f"error: cannot bring image {ENGINES} to\n  spark-2: " in ended.err
    assert "hint: have the image in this machine's docker" in ended.err or "hint: correct the image's name" in ended.err
    assert bed.hosts[1].docker("ps", "--all", "--quiet") == ""


def test_a_disk_without_room_for_a_model_is_refused_with_both_numbers(bed: Bed, operator: Operator) -> None:
    host = bed.hosts[0]
    bed.load("engines", host)
    give_model(operator, 30_000_000)
    host.fault("full")

    ended = operator("run", operator.write("vllm"), "-H", "spark-1", "--no-follow")

    assert ended.code == 1
    assert "error: spark-1: model org/m is not there: it needs 30 MB, 0 bytes are free at /home/spark/.cache/huggingface/hub" in ended.err
    assert not looks_whole(host)


def test_a_folder_of_somebody_else_is_told_before_a_byte_is_sent(bed: Bed, operator: Operator) -> None:
    bed.load("engines")
    give_model(operator, 30_000_000)
    host = bed.hosts[1]
    blobs = f"{host.hf_home}/hub/{FOLDER}/blobs"
    host.write(f"{blobs}/x", "theirs")
    host.inside("chown", "root:root", blobs)

    ended = operator("stage", operator.write("vllm"), "-H", "spark-1,spark-2")

    assert ended.code == 1
    assert f"spark-2: {blobs} on spark-2 cannot be written\n  hint: there: sudo chown -R {host.user} {host.hf_home}/hub" in ended.err
    assert host.run(f"test -e {host.hf_home}/hub/.sparkrun-incoming/{FOLDER}").code


def test_hosts_with_different_commits_serve_that_of_the_head(bed: Bed, operator: Operator) -> None:
    bed.load("engines")
    put_model(bed.hosts)
    head, other = bed.hosts
    repo, commit = f"{other.hf_home}/hub/{FOLDER}", "f" * 40
    assert other.run(f"cd {repo} && mv snapshots/{MODEL_COMMIT} snapshots/{commit} && printf {commit} >refs/main").code == 0

    result = operator.run(operator.write("vllm", defaults={"port": 8000, "tensor_parallel": 2}), bed.hosts)

    assert chat(head)
    assert other.read(f"{repo}/refs/main") == MODEL_COMMIT
    assert other.run(f"test -e {repo}/snapshots/{commit}/model.safetensors").code == 0
    operator.stop(result["cluster_id"], bed.hosts)


def test_a_model_that_cannot_be_fetched_is_told_with_the_way_out(bed: Bed, operator: Operator) -> None:
    bed.load("engines", bed.hosts[0])

    ended = operator("run", operator.write("vllm"), "-H", "spark-1", "--no-follow")

    assert ended.code == 1
    assert f"error: cannot bring model {MODEL} to\n  spark-1: " in ended.err
    assert f"hf download {MODEL}" in ended.err


def test_a_cut_link_is_told_and_the_next_run_goes_on_from_there(bed: Bed, operator: Operator) -> None:
    one, two = bed.hosts
    bed.load("engines")
    give_model(operator, 300_000_000)
    recipe = operator.write("vllm", defaults={"port": 8000, "tensor_parallel": 2})
    for host in bed.hosts:
        host.fault("slow", "200")
    running = operator.start("run", recipe, "-H", "spark-1,spark-2", "--no-follow")
    wait_for(lambda: part_bytes(two) > 50_000_000, timeout_s=40)
    two.fault("cut")

    out, _ = running.communicate(timeout=90)

    assert running.returncode == 1
    assert "error: no answer from\n  spark-2: no answer from " in out, "why it is silent, before what that kept from it"
    assert f"\ncannot bring model {MODEL} to\n  spark-2: " in out
    for host in bed.hosts:
        host.fault("heal")
    assert not looks_whole(two)
    kept = part_bytes(two)
    assert kept > 50_000_000
    (transfer,) = operator.plan(recipe, bed.hosts)["transfers"]
    assert transfer["bytes_by_host"]["spark-2"] <= 300_000_000 - kept + 1000
    result = operator.run(recipe, bed.hosts)
    assert chat(one)
    assert digest(two) == digest(one) == WEIGHTS_300_MB
    operator.stop(result["cluster_id"], bed.hosts)


def test_ctrl_c_during_a_transfer_leaves_no_process_and_what_came_so_far(bed: Bed, operator: Operator) -> None:
    host = bed.hosts[0]
    bed.load("engines", host)
    give_model(operator, 300_000_000)
    host.fault("slow", "50")
    running = operator.start("run", operator.write("vllm"), "-H", "spark-1", "--no-follow")
    wait_for(lambda: part_bytes(host) > 0 or running.poll() is not None, timeout_s=40)
    assert running.poll() is None, running.communicate()[0]

    ended = press_ctrl_c(running)

    assert ended.code == 130, ended.out
    wait_for(lambda: not writes(host))
    assert part_bytes(host) > 0
    assert not looks_whole(host)
    assert host.docker("ps", "--all", "--quiet") == ""
