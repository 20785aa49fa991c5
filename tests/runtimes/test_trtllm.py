from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest
import yaml

from sparkrun.core.errors import RecipeError
from sparkrun.runtimes.ranks import with_env_keys
from sparkrun.runtimes.trtllm import KEY, rsh_wrapper
from tests.runtimes.serving import SNAPSHOT, Serve

PLAIN = "model: org/m\nruntime: trtllm\ncontainer: t:1\n"
EXTRA = (
    "defaults: {tensor_parallel: 2, free_gpu_memory_fraction: 0.8, kv_cache_dtype: fp8, cuda_graph_padding: true, moe_backend: TRTLLM}\n"
)


def test_a_command_without_template(serve: Serve) -> None:
    recipe = PLAIN + "defaults: {port: 8000, tensor_parallel: 2, max_model_len: 4096, max_batch_size: 8, trust_remote_code: true}\n"
    assert serve(recipe).command.text == (
        "trtllm-serve org/m --backend pytorch --tp_size 2 --max_seq_len 4096 --port 8000 --max_batch_size 8 --trust_remote_code"
    )
    assert serve(PLAIN + "defaults: {backend: tensorrt}\n", model=SNAPSHOT).command.text == f"trtllm-serve {SNAPSHOT} --backend tensorrt"


def test_a_served_name_has_no_effect_and_is_told(serve: Serve) -> None:
    assert serve(PLAIN, "served_model_name=n").command.warnings == ("trtllm cannot be given a served_model_name; it has no effect",)


def test_settings_without_a_flag_go_into_a_file(serve: Serve, tmp_path: Path) -> None:
    command = serve(PLAIN + EXTRA, "moe_backend=CUTLASS").command
    first, *_, last = command.text.splitlines()
    assert first == "cat > /tmp/extra-llm-api-config.yml <<'SPARKRUN_END' || exit"
    assert last == "trtllm-serve org/m --backend pytorch --tp_size 2 --extra_llm_api_options /tmp/extra-llm-api-config.yml"
    place = tmp_path / "extra.yml"
    script = command.text.replace("/tmp/extra-llm-api-config.yml", str(place)).replace("trtllm-serve", "true")
    subprocess.run(["bash", "-c", script], check=True)
    assert yaml.safe_load(place.read_text()) == {
        "kv_cache_config": {"free_gpu_memory_fraction": 0.8, "dtype": "fp8"},
        "cuda_graph_config": {"enable_padding": True},
        "moe_config": {"backend": "CUTLASS"},
    }


def test_an_author_s_own_file_of_settings_stays(serve: Serve) -> None:
    command = serve(f"{PLAIN}{EXTRA}command: trtllm-serve {{model}} --extra_llm_api_options /own.yml\n").command
    assert command.text == "trtllm-serve org/m --extra_llm_api_options /own.yml"
    assert any("names its own file of settings" in warning for warning in command.warnings)


def test_mpirun_starts_all_ranks_from_the_head(serve: Serve) -> None:
    served = serve(PLAIN + EXTRA)
    ranks = with_env_keys(served.ranks(2), [{"A": "1", "NODE_IP": "1"}, {"A": "1", "NODE_IP": "2"}])
    head, worker = (served.rank_command(rank).text for rank in ranks)
    last = head.splitlines()[-1]
    keys = "A NCCL_CUMEM_ENABLE OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_ppr_n_pernode".split()
    assert last == (
        "mpirun --allow-run-as-root --mca plm_rsh_agent /tmp/sparkrun-rsh-wrapper.sh --mca rmaps_ppr_n_pernode 1 -H 10.0.0.1,10.0.0.2 "
        + " ".join(f"-x {key}" for key in keys)
        + " trtllm-llmapi-launch trtllm-serve org/m --backend pytorch --tp_size 2 --extra_llm_api_options /tmp/extra-llm-api-config.yml"
    )
    assert "kv_cache_config" in head
    assert "kv_cache_config" in worker
    assert worker.splitlines()[-1] == "exec sleep infinity"


@pytest.mark.parametrize("lead", ["exec trtllm-llmapi-launch ", "A=1 "])
def test_what_stands_before_the_engine_stays_there(serve: Serve, lead: str) -> None:
    served = serve(f"{PLAIN}defaults: {{tensor_parallel: 2}}\ncommand: {lead}trtllm-serve {{model}}\n")
    last = served.rank_commands(2)[0].text.splitlines()[-1]
    assert last.startswith(f"{lead.split(maxsplit=1)[0]} mpirun ")
    assert last.endswith("trtllm-llmapi-launch trtllm-serve org/m")
    assert last.count("trtllm-llmapi-launch") == 1


def test_an_mpirun_in_the_command_is_refused_on_several_hosts(serve: Serve) -> None:
    served = serve(f"{PLAIN}defaults: {{tensor_parallel: 2}}\ncommand: mpirun -n 2 trtllm-llmapi-launch trtllm-serve {{model}}\n")
    with pytest.raises(RecipeError, match="starts mpirun itself"):
        served.rank_commands(2)


def test_only_the_key_of_the_head_s_own_host_is_mounted(serve: Serve) -> None:
    served = serve(PLAIN + EXTRA)
    mounts = [served.runtime.get_extra_volumes(served.given(rank=rank).ctx) for rank in served.ranks(2)]
    assert [(mount.source, mount.target, mount.read_only) for mount in mounts[0]] == [("~/.ssh/id_ed25519", KEY, True)]
    assert mounts[1] == ()
    assert served.runtime.get_extra_volumes(served.ctx) == ()


def test_the_wrapper_reaches_each_container_with_its_command_unharmed(serve: Serve, tmp_path: Path) -> None:
    """The fake ssh does what a login shell on the host would do with the words, and the fake docker tells what it got."""
    (rank, _) = serve(PLAIN + EXTRA).ranks(2)
    place, tools = tmp_path / "wrapper.sh", tmp_path / "bin"
    place.write_text(rsh_wrapper(rank))
    tools.mkdir()
    (tools / "ssh").write_text('#!/bin/sh\nwhile [ "$1" != docker ]; do printf "%s " "$1"; shift; done\necho\nexec sh -c "$*"\n')
    (tools / "docker").write_text('#!/bin/sh\necho "$1 $2 $3 $4"\nshift 4\nexec sh -c "$1"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    agent = ["sh", str(place), "10.0.0.2", "A='it is'; export A;", 'printf "%s|" "$A" "a  b"']
    found = subprocess.run(agent, capture_output=True, text=True, check=True, env={**os.environ, "PATH": f"{tools}:/usr/bin:/bin"})
    login, docker, said = found.stdout.splitlines()
    assert login.split()[-1] == "ann@10.0.0.2"
    assert login.startswith("-o StrictHostKeyChecking=accept-new ")
    assert docker == "exec job_node_1 sh -c"
    assert said == "it is|a  b|"


def test_an_unknown_host_is_refused_by_the_wrapper(serve: Serve, tmp_path: Path) -> None:
    place = tmp_path / "wrapper.sh"
    place.write_text(rsh_wrapper(msgspec.structs.replace(serve(PLAIN).ranks(2)[0])))
    found = subprocess.run(["sh", str(place), "10.9.9.9", "true"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (1, "unknown host 10.9.9.9\n")
