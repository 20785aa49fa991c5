"""Images and models handed on from host to host: four real hosts, real ssh between them, real docker, and what goes wrong on the way."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.e2e.bed import Bed, Host, Options
from tests.e2e.bed.containers import ENGINES
from tests.e2e.bed.host import MODEL_COMMIT
from tests.e2e.conftest import wait_for
from tests.e2e.launching import MODEL, Operator, chat, names, put_model

pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("bed", [Options(count=4, images=())], indirect=True)]
pytest_plugins = ["tests.e2e.bed.fixtures", "tests.e2e.launching"]

FOLDER = f"models--{MODEL.replace('/', '--')}"
SIZE = 200_000_000
WEIGHTS = b"\2\0\0\0\0\0\0\0{}" + bytes(SIZE - 10)
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()
DERIVED = "sparkrun-e2e/derived:1"


@pytest.fixture(autouse=True)
def _bare(bed: Bed) -> None:
    """Hosts as new ones: no image, no model."""
    for host in bed.hosts:
        if images := host.docker("images", "--quiet").split():
            host.docker("rmi", "--force", *dict.fromkeys(images))
        host.inside("rm", "-rf", f"{host.hf_home}/hub")


def give_model(host: Host) -> None:
    """A model as the hub's client leaves it: blobs by their hashes, links, a name for the commit."""
    repo = f"{host.hf_home}/hub/{FOLDER}"
    config = json.dumps({"architectures": ["LlamaForCausalLM"]})
    config_blob = hashlib.sha1(f"blob {len(config)}\0{config}".encode()).hexdigest()
    host.write(f"{repo}/refs/main", MODEL_COMMIT)
    host.write(f"{repo}/blobs/{config_blob}", config)
    host.write(f"{repo}/blobs/{SHA256}", WEIGHTS.decode("latin-1"))
    links = f"ln -s ../../blobs/{config_blob} config.json; ln -s ../../blobs/{SHA256} model.safetensors"
    done = host.run(f"mkdir -p {repo}/snapshots/{MODEL_COMMIT} && cd {repo}/snapshots/{MODEL_COMMIT} && {links}")
    assert done.code == 0, done


def digest(host: Host) -> str:
    """SHA-256 of the model's weights, empty without a model."""
    return host.run(f"sha256sum {host.hf_home}/hub/{FOLDER}/snapshots/{MODEL_COMMIT}/model.safetensors").out[:64]


def sent_bytes(host: Host, netdev: str) -> int:
    """What has left an interface."""
    return int(host.inside("cat", f"/.sys/class/net/{netdev}/statistics/tx_bytes").text)


def parts(host: Host) -> int:
    """How many bytes of a model have come that is not whole yet."""
    listed = host.run(f"stat -c %s {host.hf_home}/hub/.sparkrun-incoming/{FOLDER}/blobs/*.part 2>/dev/null")
    return sum(map(int, listed.out.split()))


def serve(operator: Operator, hosts: tuple[Host, ...], **recipe: object) -> str:
    """The command line of a launch on all of them."""
    defaults = {"port": 8000, "tensor_parallel": len(hosts)}
    return operator.write("vllm", **{"defaults": defaults, **recipe})


def test_a_model_of_one_host_reaches_three_others_over_the_fabric_and_not_through_this_machine(bed: Bed, operator: Operator) -> None:
    bed.load("engines")
    head = bed.hosts[0]
    give_model(head)
    recipe = serve(operator, bed.hosts)
    (transfer,) = operator.plan(recipe, bed.hosts)["transfers"]
    before = sent_bytes(head, "enP7s7")

    result = operator.run(recipe, bed.hosts)

    assert chat(head)
    assert (transfer["source"], transfer["why"]) == ("spark-1", "spark-1 has it; handed on over the fabric")
    assert [link["target"] for link in transfer["branches"][0]["links"]] == ["spark-2", "spark-3", "spark-4"]
    assert transfer["bytes_by_host"] == dict.fromkeys(("spark-2", "spark-3", "spark-4"), transfer["size_bytes"])
    assert {digest(host) for host in bed.hosts} == {SHA256}
    assert {host.hf_home for host in bed.hosts} == {f"{host.home}/.cache/huggingface" for host in bed.hosts[:3]} | {"/data/huggingface"}
    assert sent_bytes(head, "enP7s7") - before < SIZE / 20
    operator.stop(result["cluster_id"], bed.hosts)


def test_only_the_layers_that_hosts_lack_are_sent(bed: Bed, operator: Operator) -> None:
    bed.load("engines")
    put_model(bed.hosts)
    head = bed.hosts[0]
    build = f"mkdir -p ctx && cd ctx && head -c 20000000 /dev/urandom >data && printf 'FROM {ENGINES}\\nCOPY data /data\\n' >Dockerfile"
    assert head.run(f"{build} && DOCKER_BUILDKIT=0 docker build -q -t {DERIVED} .").code == 0
    recipe = serve(operator, bed.hosts, container=DERIVED)
    (transfer,) = operator.plan(recipe, bed.hosts)["transfers"]

    result = operator.run(recipe, bed.hosts)

    assert chat(head)
    assert ", 1 of " in transfer["title"]
    assert 20_000_000 <= transfer["size_bytes"] < 21_000_000
    ids = {host.docker("image", "inspect", "--format", "{{.Id}}", DERIVED) for host in bed.hosts}
    assert len(ids) == 1
    operator.stop(result["cluster_id"], bed.hosts)


def test_an_image_that_differs_between_hosts_becomes_that_of_the_head(bed: Bed, operator: Operator) -> None:
    bed.load("engines")
    put_model(bed.hosts)
    other = bed.hosts[2]
    build = f"mkdir -p ctx && cd ctx && date >data && printf 'FROM {ENGINES}\\nCOPY data /data\\n' >Dockerfile"
    assert other.run(f"{build} && DOCKER_BUILDKIT=0 docker build -q -t {ENGINES} .").code == 0

    result = operator.run(serve(operator, bed.hosts), bed.hosts)

    assert len({host.docker("image", "inspect", "--format", "{{.Id}}", ENGINES) for host in bed.hosts}) == 1
    operator.stop(result["cluster_id"], bed.hosts)


def test_a_relay_that_is_killed_keeps_nobody_from_it(bed: Bed, operator: Operator) -> None:
    bed.load("engines")
    give_model(bed.hosts[0])
    for host in bed.hosts:
        host.fault("slow", "300")
    killed = bed.hosts[2]
    running = operator.start("run", serve(operator, bed.hosts), "-H", names(bed.hosts), "--no-follow")
    wait_for(lambda: parts(killed) > SIZE / 10 or running.poll() is not None, timeout_s=60)
    assert running.poll() is None, running.communicate()[0]

    assert killed.inside("pkill", "-KILL", "-u", killed.user, "-f", "F_SETPIPE_SZ|sparkrun-incoming").code == 0
    out, _ = running.communicate(timeout=120)

    assert running.returncode == 0, out
    assert {digest(host) for host in bed.hosts} == {SHA256}
    assert out.count("model org/m from ") > 1, out


def test_a_host_that_is_cut_off_in_the_middle_of_a_chain_is_named_and_the_rest_arrives(bed: Bed, operator: Operator) -> None:
    bed.load("engines")
    give_model(bed.hosts[0])
    for host in bed.hosts:
        host.fault("slow", "300")
    lost, last = bed.hosts[2], bed.hosts[3]
    recipe = serve(operator, bed.hosts)
    running = operator.start("run", recipe, "-H", names(bed.hosts), "--no-follow")
    wait_for(lambda: parts(lost) > SIZE / 10 or running.poll() is not None, timeout_s=60)
    assert running.poll() is None, running.communicate()[0]
    lost.fault("cut")

    out, _ = running.communicate(timeout=150)

    assert running.returncode == 1, out
    assert "\n  spark-3: " in out
    assert digest(bed.hosts[1]) == SHA256
    lost.fault("heal")
    for host in bed.hosts:
        host.fault("heal")
    result = operator.run(recipe, bed.hosts)
    assert (digest(lost), digest(last)) == (SHA256, SHA256)
    operator.stop(result["cluster_id"], bed.hosts)


def test_a_command_line_that_is_killed_leaves_no_process_on_any_host(bed: Bed, operator: Operator) -> None:
    bed.load("engines")
    give_model(bed.hosts[0])
    for host in bed.hosts:
        host.fault("slow", "100")
    running = operator.start("stage", operator.write("vllm"), "-H", names(bed.hosts))
    wait_for(lambda: parts(bed.hosts[3]) > SIZE / 20 or running.poll() is not None, timeout_s=60)
    assert running.poll() is None, running.communicate()[0]

    running.kill()
    running.communicate()

    at_work = "pgrep -f 'F_SETPIPE_SZ|sparkrun-incoming' || pgrep -x ssh || pgrep -x dd"
    wait_for(lambda: all(host.run(at_work).code != 0 for host in bed.hosts), timeout_s=30)
    assert parts(bed.hosts[3]) > SIZE / 20, "what has come is for the next run"
    assert json.loads(operator("status", "--json", "-H", names(bed.hosts)).out)["pending_ops"] == []


def test_two_that_lack_the_same_bring_it_once(bed: Bed, operator: Operator, tmp_path: Path) -> None:
    bed.load("engines")
    give_model(bed.hosts[0])
    for host in bed.hosts:
        host.fault("slow", "300")
    (tmp_path / "other").mkdir()
    users = (operator, Operator(tmp_path / "other", bed))
    before = sum(sent_bytes(bed.hosts[0], port.netdev) for port in bed.hosts[0].plan.ports)

    running = [user.start("stage", user.write("vllm"), "-H", names(bed.hosts)) for user in users]
    outs = [each.communicate(timeout=120)[0] for each in running]

    assert [each.returncode for each in running] == [0, 0], outs
    assert sum("another launch is bringing something to spark-2: waiting for it" in out for out in outs) == 1, outs
    assert {digest(host) for host in bed.hosts} == {SHA256}
    after = sum(sent_bytes(bed.hosts[0], port.netdev) for port in bed.hosts[0].plan.ports)
    assert after - before < 1.2 * SIZE, "from the first host once, whatever the number of hosts and of launches"


def test_hosts_are_staged_while_another_model_serves(bed: Bed, operator: Operator) -> None:
    bed.load("engines")
    put_model(bed.hosts, "org/other")
    give_model(bed.hosts[0])
    serving = operator.run(operator.write("vllm", model="org/other", defaults={"port": 8000, "tensor_parallel": 4}), bed.hosts)

    ended = operator("stage", operator.write("vllm"), "-H", names(bed.hosts), "--json")

    assert ended.code == 0, ended.err
    assert ended.json["hosts"] == [host.name for host in bed.hosts]
    assert {digest(host) for host in bed.hosts} == {SHA256}
    assert chat(bed.hosts[0], "org/other")
    operator.stop(serving["cluster_id"], bed.hosts)


def test_a_docker_without_room_for_an_image_is_refused_with_both_numbers(bed: Bed, operator: Operator) -> None:
    one, two = bed.hosts[:2]
    bed.load("engines", one)
    put_model((one, two))
    two.fault("full")

    ended = operator("run", operator.write("vllm", defaults={"tensor_parallel": 2}), "-H", "spark-1,spark-2", "--no-follow")

    assert ended.code == 1
    assert f"error: spark-2: image {ENGINES} is not there: it needs " in ended.err
    assert "are free at /var/lib/docker" in ended.err
    assert two.docker("images", "--quiet") == ""
