"""The images of the test hosts: the stand-in engine fails where the real ones do and serves where they do, and the real one serves."""

from __future__ import annotations

import json

import pytest

from tests.e2e.bed import Bed
from tests.e2e.bed.containers import PORT, ask, ended, healthy, start
from tests.e2e.bed.images import MODEL
from tests.e2e.conftest import wait_for

pytestmark = pytest.mark.e2e
pytest_plugins = ["tests.e2e.bed.fixtures"]

SERVE = f"vllm serve org/m --port {PORT}"
REFUSALS = (
    ("vllm serve org/m --prot 1", "--gpus all", 2, "vllm: error: unrecognized arguments: --prot"),
    ("vllm serve org/m", "", 1, "no accelerator is visible"),
    ("vllm serve org/m -tp 2", "--gpus all", 1, "World size (2) is larger than the number of available GPUs (1)"),
    ("vllm serve org/m", "--gpus all -e HF_HUB_OFFLINE=1", 1, "org/m is not in the cache at /root/.cache/huggingface/hub"),
    ("vllm serve org/m", "--gpus all -e GLOO_SOCKET_IFNAME=eth9", 1, "unable to find interface eth9"),
    ("sglang serve --model-path org/m", "--gpus all -e SGLANG_HOST_IP=10.9.9.9", 1, "10.9.9.9 is no address of spark-1"),
    ("python3 -m sglang.launch_server", "--gpus all", 2, "arguments are required: --model-path"),
    ("llama-server -hf org/m --rpc 127.0.0.1:9", "", 1, "Failed to connect to 127.0.0.1:9"),
    ("trtllm-serve org/m --tp_size 2", "--gpus all", 1, "world size 1 is not tp_size * pp_size (2)"),
    ("vllm serve org/m --bed-crash-after-s=0.1 --bed-code=7", "--gpus all", 7, "the stand-in engine was told to fail"),
    ("vllm serve org/m", "--gpus all -e BED_LOAD=3", 1, "no knob 'load'"),
)
"""Command, options of `docker run`, exit code and what is said."""
PAIRS = {
    "vllm data parallel": "vllm serve org/m -dp 2 --data-parallel-rank {rank} --data-parallel-address {head} --port {port}",
    "sglang": "sglang serve --model-path org/m --tp 2 --nnodes 2 --node-rank {rank} --dist-init-addr {head}:25000 --host :: --port {port}",
    "spark": "spark serve org/m --rank {rank} --world-size 2 --master-addr {head} --master-port 29500 --port {port}",
}


def start_ranks(bed: Bed, *, sizes: tuple[int, int] = (2, 2), master: str = "", options: str = "") -> None:
    """The two ranks of one vLLM, which meet on the fabric."""
    meeting = f"--nnodes 2 --master-port 25000 --master-addr {master or bed.hosts[0].fabric_addresses[0]}"
    for rank, host in enumerate(bed.hosts):
        headless = "--headless" if rank else ""
        start(host, f"rank{rank}", f"{SERVE} -tp {sizes[rank]} {meeting} --node-rank {rank} {headless}", options=f"--gpus all {options}")


def test_ranks_meet_and_serve_and_are_written_down(bed: Bed) -> None:
    one, two = bed.hosts
    start_ranks(bed, options="--env 'SOME_KEY=some value'")
    wait_for(lambda: healthy(one))
    assert json.loads(ask(one, "/v1/models").body)["data"][0]["id"] == "org/m"
    status, body = ask(one, "/v1/chat/completions", {"model": "org/m", "messages": [], "stream": True})
    assert (status, body.endswith(b"data: [DONE]\n\n"), b"stand" in body) == (200, True, True)
    assert ask(one, "/v1/chat/completions", {"model": "other"}).status == 404
    (call,) = two.engine_calls("rank1")
    assert (call.program, call.argv[-3:], call.host) == ("vllm", ("--node-rank", "1", "--headless"), "spark-2")
    assert call.env["SOME_KEY"] == "some value"
    assert "some value" not in two.inside("docker", "logs", "rank1").out
    two.docker("kill", "rank1")
    assert "rank 1 went away" in ended(one, "rank0")[1]


def test_ranks_that_disagree_end_with_the_reason(bed: Bed) -> None:
    start_ranks(bed, sizes=(2, 4), options="--env BED_GPUS=2")
    for number, host in enumerate(bed.hosts):
        code, log = ended(host, f"rank{number}")
        assert (code, "ranks 0 and 1 disagree: facts 'world 2 of org/m' against 'world 4 of org/m'" in log) == (1, True)


def test_a_rank_that_cannot_reach_the_master_ends_with_the_reason(bed: Bed) -> None:
    start_ranks(bed, master="127.0.0.1", options="--env BED_JOIN_S=0.5")
    code, log = ended(bed.hosts[1], "rank1")
    assert (code, "rank 1 cannot reach the master at 127.0.0.1:25000" in log) == (1, True)
    assert "1/2 ranks joined" in ended(bed.hosts[0], "rank0")[1]


@pytest.mark.parametrize("engine", PAIRS)
def test_two_ranks_of_each_kind_of_engine_meet(bed: Bed, engine: str) -> None:
    for rank, host in enumerate(bed.hosts):
        start(host, "engine", PAIRS[engine].format(rank=rank, head=bed.hosts[0].fabric_addresses[0], port=PORT))
    wait_for(lambda: healthy(bed.hosts[0]))
    assert f"INFO {engine}: rank 1 joined" in bed.hosts[1].docker("logs", "engine")


def test_llama_reaches_its_rpc_servers_before_it_serves(bed: Bed) -> None:
    one, two = bed.hosts
    start(two, "worker", f"rpc-server --host {two.fabric_addresses[0]} --port 50052", options="")
    start(one, "head", f"llama-server -hf org/m --rpc {two.fabric_addresses[0]}:50052 --host 0.0.0.0 --port {PORT}", options="")
    wait_for(lambda: healthy(one))
    assert f"client connection from {one.fabric_addresses[0]}" in two.docker("logs", "worker")


def test_an_engine_refuses_what_the_real_one_would(bed: Bed) -> None:
    host = bed.hosts[0]
    for number, (words, options, _, _) in enumerate(REFUSALS):
        start(host, f"engine{number}", words, options=options)
    for number, (words, _, code, reason) in enumerate(REFUSALS):
        got, log = ended(host, f"engine{number}")
        assert (words, got, reason in log) == (words, code, True), log


def test_an_engine_finds_a_model_that_was_put_into_the_cache(bed: Bed) -> None:
    host = bed.hosts[0]
    host.put_model("org/m")
    start(host, "engine", SERVE, options=f"--gpus all -e HF_HUB_OFFLINE=1 -e HF_HOME=/cache -v {host.hf_home}:/cache")
    wait_for(lambda: healthy(host))


def test_an_engine_is_unhealthy_and_deaf_as_told(bed: Bed) -> None:
    host = bed.hosts[0]
    start(host, "engine", SERVE, options="--gpus all -e BED_UNHEALTHY_S=1 -e BED_IGNORE_TERM=1")
    wait_for(lambda: ask(host, "/health").status == 503)
    wait_for(lambda: healthy(host))
    host.docker("stop", "--time", "1", "engine")
    assert host.docker("inspect", "--format", "{{.State.ExitCode}}", "engine") == "137"


def test_an_engine_hangs_on_one_rank_as_told(bed: Bed) -> None:
    start_ranks(bed, options="-e BED_HANG=1 -e BED_RANK=1")
    wait_for(lambda: healthy(bed.hosts[0]))
    log = bed.hosts[1].docker("logs", "rank1")
    assert ("loading org/m" in log, "loaded" in log) == (True, False)


def test_ray_counts_its_nodes(bed: Bed) -> None:
    one, two = bed.hosts
    address = one.fabric_addresses[0]
    start(one, "head", f"ray start --block --head --port 46379 --node-ip-address {address}")
    start(two, "worker", f"ray start --block --address={address}:46379 --node-ip-address {two.fabric_addresses[0]}")
    wait_for(lambda: one.inside("docker", "exec", "head", "ray", "status").out.count(" 1 node_") == 2)
    asked = "import ray; ray.init(address='auto'); print(len(ray.nodes()))"
    assert one.docker("exec", "head", "python3", "-c", asked) == "2"
    two.docker("kill", "worker")
    wait_for(lambda: one.docker("exec", "head", "ray", "status").count(" 1 node_") == 1)


def test_mpirun_starts_a_rank_in_a_container_of_another_host(bed: Bed) -> None:
    one, two = bed.hosts
    agent = f"#!/bin/sh\nshift\nexec ssh -o StrictHostKeyChecking=no -i /key {two.user}@{two.address} docker exec rank1 sh -c \"'$*'\"\n"
    one.write(f"{one.home}/agent.sh", agent)
    one.inside("chmod", "755", f"{one.home}/agent.sh")
    start(two, "rank1", "sleep 60")
    mpirun = f"mpirun --allow-run-as-root --mca plm_rsh_agent /agent.sh -H {one.address},{two.address} -x SHARED trtllm-llmapi-launch"
    mounts = f"-v {one.home}/agent.sh:/agent.sh -v {one.home}/.ssh/id_ed25519:/key"
    engine = f"trtllm-serve org/m --tp_size 2 --host 0.0.0.0 --port {PORT}"
    start(one, "rank0", f"{mpirun} {engine}", options=f"--gpus all -e SHARED=yes -e OWN=no {mounts}")
    wait_for(lambda: healthy(one))
    call = two.engine_calls("rank1")[-1]
    told = {name: call.env.get(name) for name in ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "SHARED", "OWN")}
    assert told == {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "SHARED": "yes", "OWN": None}


@pytest.mark.parametrize(("tag", "missing"), [("nobash", "bash"), ("bare", "bash kill ps ss python3 python ip ssh")])
def test_a_poor_image_lacks_what_it_should_and_still_serves(bed: Bed, tag: str, missing: str) -> None:
    host = bed.hosts[0]
    start(host, "engine", SERVE, image=f"sparkrun-e2e/engines:{tag}")
    looked = host.docker("exec", "engine", "sh", "-c", f"for name in sh {missing}; do [ ! -e /usr/bin/$name ] || echo $name; done")
    assert looked == "sh"
    wait_for(lambda: healthy(host))


def test_an_image_may_have_an_entrypoint_of_its_own(bed: Bed) -> None:
    host = bed.hosts[0]
    start(host, "serves", f"org/m --port {PORT}", image="sparkrun-e2e/engines:serves")
    wait_for(lambda: healthy(host))
    start(host, "passes", "sh -c 'exit 5'", image="sparkrun-e2e/engines:passes")
    assert ended(host, "passes")[0] == 5


def test_the_llama_image_holds_an_engine_that_answers(bed: Bed) -> None:
    host = bed.hosts[1]
    bed.load("llama", host)
    start(host, "llama", f"llama-server -m {MODEL} --host 0.0.0.0 --port {PORT} -c 256 -t 1", image="sparkrun-e2e/llama:1", options="")
    wait_for(lambda: healthy(host), timeout_s=40)
    status, body = ask(host, "/v1/chat/completions", {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 4})
    assert (status, bool(json.loads(body)["choices"][0]["message"]["content"])) == (200, True)
    host.docker("rm", "--force", "llama")
    host.docker("rmi", "sparkrun-e2e/llama:1")
