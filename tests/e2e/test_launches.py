"""Every engine on one, two and four hosts: it serves, its ranks were told the truth, and what runs is what the plan said."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.bed import Bed, Host, Options
from tests.e2e.bed.images import MODEL as GGUF
from tests.e2e.launching import (
    MODEL,
    PORT,
    Logins,
    Operator,
    assert_executed,
    chat,
    containers,
    engine_call,
    fabric_env,
    flags,
    foreign,
    put_model,
    say,
)

pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("bed", [Options(count=4)], indirect=True, ids=["bed"])]
pytest_plugins = ["tests.e2e.bed.fixtures", "tests.e2e.launching"]

HEADS = {
    "vllm-distributed": "vllm",
    "vllm-ray": "vllm",
    "eugr-vllm": "vllm",
    "sglang": "sglang",
    "llama-cpp": "llama-server",
    "trtllm": "trtllm-serve",
    "atlas": "spark",
}
"""The program that answers requests."""
LOADED = {"vllm-ray": "joined the Ray head", "eugr-vllm": "joined the Ray head", "llama-cpp": "Starting RPC server"}
"""What a worker says in its log; ` loaded` where nothing stands here."""
OWN_ADDRESS = {"vllm-distributed": "VLLM_HOST_IP", "vllm-ray": "VLLM_HOST_IP", "eugr-vllm": "VLLM_HOST_IP", "sglang": "SGLANG_HOST_IP"}
RECIPES = {
    "scitrera+oss-spark-run/recipes/qwen3/qwen3-1.7b-vllm.yaml": 1,
    "scitrera+oss-spark-run/recipes/qwen3/qwen3-1.7b-sglang.yaml": 1,
    "scitrera+oss-spark-run/recipes/qwen3/qwen3-1.7b-llama-cpp.yaml": 1,
    "scitrera+oss-spark-run/recipes/qwen3-coder-next/qwen3-coder-next-fp8-sglang-cluster.yaml": 2,
    "scitrera+oss-spark-run/recipes/neomtron3-nano/nemotron3-nano-30b-vllm.yaml": 2,
    "scitrera+oss-spark-run/recipes/minimax-m2.5/minimax-m2.5-sglang-tp4.yaml": 4,
    "scitrera+oss-spark-run/recipes/qwen3.5-gguf/qwen3.5-397b-gguf-q3km-llama-cpp.yaml": 2,
    "spark-arena+recipe-registry/official-recipes/minimax-m2.7/minimax-m2.7-awq4-vllm.yaml": 2,
    "spark-arena+recipe-registry/official-recipes/qwen3-vl/vllm/qwen3-vl-embedding-8b-vllm.yaml": 1,
    "spark-arena+recipe-registry/official-recipes/qwen3-vl/vllm/qwen3-vl-reranker-8b-vllm.yaml": 1,
    "spark-arena+recipe-registry/experimental-recipes/eugr-vllm/minimax-m2.5-4x-vllm.yaml": 4,
    "isolitude+spark-vllm-docker/recipes/glm-4.7-flash-awq.yaml": 1,
    "luck02+spark-vllm-docker/recipes/qwen3-coder-next-fp8.yaml": 2,
    "littlecedar+sparkrun-recipe-registry/official-recipes/qwen3.8/qwen3.8-27b-fp8-mtp-vllm.yaml": 1,
}
"""Real public recipes, and on how many hosts."""


# --- every engine, on one, two and four hosts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("runtime", HEADS)
def test_a_runtime_launches_serves_tells_and_stops(bed: Bed, operator: Operator, runtime: str, count: int) -> None:
    hosts, recipe, logins = bed.hosts[:count], operator.write(runtime), Logins(bed)
    put_model(hosts)
    planned = operator.plan(recipe, hosts, "--tp", str(count))
    operator.run(recipe, hosts, "--tp", str(count))
    allowed = 1 + (runtime == "trtllm" and count > 1)  # mpirun comes from the head
    assert logins.most() <= allowed
    assert "ready" in chat(hosts[0])
    assert_executed(planned, bed)
    assert_told_the_truth(runtime, planned, bed)
    assert operator.states(hosts) == {host.name: "running" for host in hosts}
    log = say(operator, "logs", "-a", "-H", hosts, runtime)
    assert "Application startup complete" in log
    for rank in planned["ranks"][1:] if runtime != "trtllm" else ():  # MPI brings all ranks' output to the head
        own = [line for line in log.splitlines() if line.startswith(f"[{rank['role']}]")]
        assert any(LOADED.get(runtime, " loaded") in line for line in own), log
    operator.stop(runtime, hosts)
    assert logins.most() <= allowed


def assert_told_the_truth(runtime: str, plan: Mapping[str, Any], bed: Bed) -> None:
    """World size, place, meeting point and network of every rank."""
    ranks = containers(plan, bed)
    head = ranks[0].host
    for number, (rank, found) in enumerate(zip(plan["ranks"], ranks, strict=True)):
        told = TOLD[runtime](number, [other.host for other in ranks]) if len(ranks) > 1 else (HEADS[runtime], {}, set())
        program, wanted, unwanted = told
        call = engine_call(found.host, rank["name"], program)
        given = flags(call.argv)
        assert {name: given.get(name) for name in wanted} == wanted
        assert not unwanted & set(given)
        assert call.host == found.host.name
        expected = fabric_env(found.host) if len(ranks) > 1 else dict.fromkeys(fabric_env(found.host))
        assert {name: call.env.get(name) for name in expected} == expected
        if name := OWN_ADDRESS.get(runtime):
            assert call.env.get(name) == (found.host.address if len(ranks) > 1 else None)
        assert not foreign({name: text for name, text in call.env.items() if not name.startswith("BED_")}, found.host, bed)
        if number and runtime != "trtllm":
            assert not foreign(dict(enumerate(call.argv)), found.host, bed, besides=head)


Told = tuple[str, dict[str, str], set[str]]


def _vllm(rank: int, hosts: Sequence[Host]) -> Told:
    place = {"--nnodes": str(len(hosts)), "--node-rank": str(rank), "--master-addr": hosts[0].address, "--master-port": "25000"}
    return "vllm", {"-tp": str(len(hosts)), **place, **({"--headless": ""} if rank else {})}, set() if rank else {"--headless"}


def _ray(rank: int, hosts: Sequence[Host]) -> Told:
    own = {"--node-ip-address": hosts[rank].address, "--disable-usage-stats": ""}
    if rank:
        return "ray", {"--address": f"{hosts[0].address}:46379", "--block": "", **own}, {"--head"}
    return "vllm", {"--distributed-executor-backend": "ray", "-tp": str(len(hosts))}, {"--nnodes"}


def _sglang(rank: int, hosts: Sequence[Host]) -> Told:
    return "sglang", {"--nnodes": str(len(hosts)), "--node-rank": str(rank), "--dist-init-addr": f"{hosts[0].address}:25000"}, set()


def _llama(rank: int, hosts: Sequence[Host]) -> Told:
    if rank:
        return "rpc-server", {"--host": hosts[rank].fabric_addresses[0], "--port": "50052"}, set()
    servers = ",".join(f"{host.fabric_addresses[0]}:50052" for host in hosts[1:])
    return "llama-server", {"--rpc": servers, "--split-mode": "layer"}, {"-hf"}


def _trtllm(rank: int, hosts: Sequence[Host]) -> Told:
    return "trtllm-serve", {"--tp_size": str(len(hosts))}, set()


def _atlas(rank: int, hosts: Sequence[Host]) -> Told:
    place = {"--rank": str(rank), "--world-size": str(len(hosts)), "--master-addr": hosts[0].address, "--master-port": "29500"}
    return "spark", {**place, "--port": "0" if rank else str(PORT)}, set()


TOLD: dict[str, Callable[[int, Sequence[Host]], Told]] = {
    "vllm-distributed": _vllm,
    "vllm-ray": _ray,
    "eugr-vllm": _ray,
    "sglang": _sglang,
    "llama-cpp": _llama,
    "trtllm": _trtllm,
    "atlas": _atlas,
}
"""What each rank's program is, which flags it is given, and which not."""


def test_mpi_ranks_keep_the_environment_of_their_own_host(bed: Bed, operator: Operator) -> None:
    hosts = bed.hosts[:3]
    put_model(hosts)
    operator.run(operator.write("trtllm"), hosts, "--tp", "3")
    plan = operator.plan(operator.write("trtllm"), hosts, "--tp", "3")
    for number, rank in enumerate(plan["ranks"]):
        call = engine_call(hosts[number], rank["name"], "trtllm-serve")
        assert (call.env["OMPI_COMM_WORLD_RANK"], call.env["OMPI_COMM_WORLD_SIZE"]) == (str(number), "3")
        assert (call.env["NODE_IP"], call.env["NCCL_SOCKET_IFNAME"]) == (
            hosts[number].address,
            fabric_env(hosts[number])["NCCL_SOCKET_IFNAME"],
        )
    keys = [bind for found in containers(plan, bed) for bind in found.binds if "/.ssh" in bind]
    assert keys == [f"{hosts[0].home}/.ssh/id_ed25519:/tmp/.ssh/id_ed25519:ro"]


# --- other shapes -------------------------------------------------------------------------------------------------------------------------

SHAPES: dict[str, tuple[str, tuple[str, ...], list[dict[str, str]]]] = {
    "vllm, data parallel": (
        "vllm-distributed",
        ("-o", "data_parallel=2"),
        [{"--data-parallel-size": "2", "--data-parallel-rank": str(rank), "--data-parallel-address": "{0}"} for rank in (0, 1)],
    ),
    "vllm, hybrid": (
        "vllm-distributed",
        ("-o", "data_parallel=2", "--tp", "2"),
        [
            {"--data-parallel-rank": str(rank // 2), "--nnodes": "2", "--node-rank": str(rank % 2), "--master-addr": f"{{{rank // 2 * 2}}}"}
            for rank in range(4)
        ],
    ),
    "vllm, pipeline": (
        "vllm-distributed",
        ("--pp", "3"),
        [{"--nnodes": "3", "--node-rank": str(rank), "--master-addr": "{0}", "-pp": "3"} for rank in range(3)],
    ),
    "sglang, data-parallel attention": (
        "sglang",
        ("--tp", "2", "-o", "data_parallel=2", "-o", "enable_dp_attention=true"),
        [{"--nnodes": "2", "--node-rank": str(rank), "--dist-init-addr": "{0}:25000", "--dp-size": "2"} for rank in (0, 1)],
    ),
    "sglang, independent replicas": (
        "sglang",
        ("--tp", "2", "-o", "data_parallel=2"),
        [{"--nnodes": "2", "--node-rank": str(rank % 2), "--dist-init-addr": f"{{{rank // 2 * 2}}}:25000"} for rank in range(4)],
    ),
}
"""Runtime, options, and what each rank is given; {n} is the address of the n-th host."""


@pytest.mark.parametrize("shape", SHAPES)
def test_other_kinds_of_parallelism(bed: Bed, operator: Operator, shape: str) -> None:
    runtime, words, ranks = SHAPES[shape]
    hosts, recipe = bed.hosts[: len(ranks)], operator.write(runtime)
    put_model(hosts)
    plan = operator.plan(recipe, hosts, *words)
    operator.run(recipe, hosts, *words)
    assert_executed(plan, bed)
    addresses = [host.address for host in hosts]
    for host, rank, wanted in zip(hosts, plan["ranks"], ranks, strict=True):
        given = flags(engine_call(host, rank["name"], HEADS[runtime]).argv)
        assert {name: given.get(name) for name in wanted} == {name: text.format(*addresses) for name, text in wanted.items()}
    assert "ready" in chat(hosts[0])
    operator.stop(runtime, hosts)


def test_hosts_that_are_named_by_their_fabric_addresses_meet_there(bed: Bed, operator: Operator) -> None:
    hosts = bed.hosts[:2]
    put_model(hosts)
    given = operator.by_fabric_address(hosts)
    for runtime in ("vllm-distributed", "sglang"):
        operator.run(operator.write(runtime), given, "--tp", "2")
        for rank, host in enumerate(hosts):
            (name,) = host.docker("ps", "--format", "{{.Names}}").split()
            call = engine_call(host, name, HEADS[runtime])
            address, netdev = host.fabric_addresses[0], host.plan.ports[1].netdev
            assert {call.env[key] for key in ("NODE_IP", OWN_ADDRESS[runtime])} == {address}
            assert (call.env["GLOO_SOCKET_IFNAME"], call.env["NCCL_SOCKET_IFNAME"].split(",")[0].lstrip("=")) == (netdev, netdev)
            assert hosts[0].fabric_addresses[0] in " ".join(call.argv)
            assert not foreign(dict(enumerate(call.argv)), host, bed, besides=hosts[0]), rank
        assert operator("stop", "--all", "-H", ",".join(given)).code == 0


def test_a_port_of_the_command_line_replaces_a_literal_one(bed: Bed, operator: Operator) -> None:
    host = bed.hosts[0]
    put_model([host])
    recipe = operator.write("vllm-distributed", command="vllm serve {model} --port 9001")
    told = operator("run", recipe, "-H", host.name, "--port", "8123", "--no-follow")
    assert (told.code, "9001" in told.err) == (0, True)
    assert "ready" in chat(host, port=8123)
    assert '"port": 8123' in say(operator, "status", "--json", "-H", [host])


# --- the real engine ----------------------------------------------------------------------------------------------------------------------


def test_a_real_engine_answers(bed: Bed, operator: Operator) -> None:
    host = bed.hosts[0]
    bed.load("llama", host)
    host.write(f"{host.home}/models/here", "")
    recipe = operator.write(
        "llama-cpp",
        model="org/tiny",
        container="sparkrun-e2e/llama:1",
        command=f"llama-server -m {GGUF} --host 0.0.0.0 --port {{port}} --ctx-size 512 --threads 1 --alias tiny",
    )
    operator.run(recipe, [host])
    assert chat(host, "tiny")
    assert operator.stop("llama-cpp", [host])


# --- real recipes -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES, ids=lambda name: Path(name).stem)
def test_a_real_recipe_launches_unchanged(bed: Bed, operator: Operator, name: str) -> None:
    folder = Path(os.environ.get("SPARKRUN_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "recipes"
    if not (folder / name).is_file():
        pytest.skip("no shared recipes on this machine")
    hosts = bed.hosts[: RECIPES[name]]
    put_model(hosts, operator.plan(str(folder / name), hosts, "--image", "sparkrun-e2e/engines:1")["model"])
    plan = operator.plan(str(folder / name), hosts, "--image", "sparkrun-e2e/engines:1")
    told = operator.run(str(folder / name), hosts, "--image", "sparkrun-e2e/engines:1")
    assert told["served_model_name"] == plan["served_model_name"]
    assert_executed(plan, bed)
    operator.stop(plan["cluster_id"], hosts)


# --- secrets ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runtime", ["vllm-distributed", "sglang", "llama-cpp"])
def test_secrets_reach_the_engine_and_nothing_else(bed: Bed, operator: Operator, runtime: str) -> None:
    hosts = bed.hosts[:1] if runtime == "llama-cpp" else bed.hosts[:2]
    token, key = "hf_s3cr3tT0ken", "sk-s3cr3tKey"
    put_model(hosts)
    recipe = operator.write(runtime, defaults={"port": PORT, "api_key": key})
    told = operator("run", recipe, "-H", ",".join(host.name for host in hosts), "--tp", str(len(hosts)), "-e", f"HF_TOKEN={token}")
    seen = [told.out, told.err, say(operator, "logs", "-a", "-H", hosts, runtime), say(operator, "status", "--json", "-H", hosts)]
    for host in hosts:
        (name,) = host.docker("ps", "--format", "{{.Names}}").split()
        call = host.engine_calls(name)[-1]
        assert call.env["HF_TOKEN"] == token
        assert key in call.env.values()
        shown = host.inside("ps", "-eww", "-o", "args").out
        shown = shown.replace(f"--api-key {key}", "") if runtime == "sglang" else shown  # SGLang reads its key nowhere else
        seen += [host.docker("inspect", name), host.docker("logs", name), shown]
    seen += [path.read_text(errors="replace") for path in operator.home.rglob("*") if path.is_file() and path.suffix != ".yaml"]
    assert not [text for text in seen if token in text or key in text]


# --- from another control machine ---------------------------------------------------------------------------------------------------------


def test_another_control_machine_sees_and_stops_what_runs(bed: Bed, operator: Operator, tmp_path: Path) -> None:
    hosts = bed.hosts[:2]
    put_model(hosts)
    operator.run(operator.write("vllm-distributed"), hosts, "--tp", "2")
    (tmp_path / "other").mkdir()
    other = Operator(tmp_path / "other", bed)
    assert other.states(hosts) == {"spark-1": "running", "spark-2": "running"}
    assert "[worker_1]" in say(other, "logs", "-a", "-H", hosts, MODEL)
    assert other("stop", "deadbeef", "-H", "spark-1,spark-2").code == 1
    (group,) = other("status", "--json", "-H", "spark-1,spark-2").json["groups"]
    other.stop(group.removeprefix("sparkrun_")[:8], hosts)
    assert json.loads(say(operator, "status", "--json", "-H", hosts))["total_containers"] == 0
