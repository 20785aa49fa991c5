"""Memory of a launch: judged before a host is changed, against each GPU's budget and what its host has available."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.core.events import Note
from sparkrun.core.jobs import read_jobs
from sparkrun.testing import FakeCluster, FakeHub
from tests.models.model_configs import LLAMA_8B

GIB = 1024**3
COMMIT = "0123456789abcdef0123456789abcdef01234567"
LOOKS = {"claim", "observe", "docker_status", "local_status"}
BIG = "metadata: {model_params: 470e9, model_dtype: nvfp4}\ndefaults: {tensor_parallel: 2, gpu_memory_utilization: 0.87}\n"
SMALL = "metadata: {model_params: 8B, model_dtype: bf16, num_layers: 36, num_kv_heads: 8, head_dim: 128}\n"


@pytest.fixture
def spark(tmp_path: Path) -> FakeCluster:
    """Two hosts with one GB10 each, that have the model."""
    cluster = FakeCluster("spark-1", "spark-2", root=tmp_path)
    cluster.join()
    for name in cluster.hosts:
        cluster[name].gpus = 1
        cluster[name].models["org/m"] = f"{cluster[name].hub}/models--org--m/snapshots/{COMMIT}"
    return cluster


def options(tmp_path: Path, text: str, *hosts: str, runtime: str = "vllm", **changes: object) -> api.RunOptions:
    recipe = tmp_path / "m.yaml"
    recipe.write_text(f"model: org/m\nruntime: {runtime}\ncontainer: e/v:1\n{text}")
    return api.RunOptions(recipe=str(recipe), hosts=api.HostOptions(hosts=hosts or ("spark-1", "spark-2")), **changes)  # type: ignore[arg-type]


def changed(cluster: FakeCluster) -> set[str]:
    """Scripts that did more than look."""
    return {call.name for name in cluster.hosts for call in cluster[name].ran} - LOOKS


def plan(cluster: FakeCluster, wanted: api.RunOptions) -> api.MemoryVerdict:
    verdict = api.plan(wanted, sctx=cluster.sctx).memory
    assert verdict is not None
    return verdict


def test_a_model_that_is_too_large_is_refused_before_a_host_is_changed(spark: FakeCluster, tmp_path: Path) -> None:
    with pytest.raises(api.MemoryExceededError) as refused:
        api.run(options(tmp_path, BIG), sctx=spark.sctx)

    assert refused.value.message == "weights 109.4 GiB per GPU, allowed 105.3 (0.87 of 121 GiB, gpu_memory_utilization)"
    assert "--tp 4" in (refused.value.hint or "")
    assert "--force" in (refused.value.hint or "")
    assert changed(spark) == set()
    assert read_jobs(spark.sctx.config.paths) == ()


def test_force_starts_it_all_the_same(spark: FakeCluster, tmp_path: Path) -> None:
    assert api.run(options(tmp_path, BIG, force=True), sctx=spark.sctx).ready


def test_a_plan_tells_the_verdict_and_the_numbers(spark: FakeCluster, tmp_path: Path) -> None:
    verdict = plan(spark, options(tmp_path, BIG))
    assert (verdict.fit, verdict.word, verdict.refused) == (api.Fit.EXCEEDS, "EXCEEDS", True)
    assert verdict.need.weights_gib == pytest.approx(109.43, abs=0.01)
    assert verdict.allowed_gib == pytest.approx(105.27, abs=0.01)
    assert verdict.spare_gib == pytest.approx(-4.16, abs=0.01)


def test_a_plan_as_data_holds_the_verdict(spark: FakeCluster, tmp_path: Path) -> None:
    memory = json.loads(json.dumps(api.plan(options(tmp_path, BIG), sctx=spark.sctx).public()))["memory"]
    assert (memory["fit"], memory["need"]["weights_gib"] > 109, memory["budget"]["utilization"]) == ("exceeds", True, 0.87)


def test_a_run_tells_what_fits_in_one_line(spark: FakeCluster, tmp_path: Path) -> None:
    api.run(options(tmp_path, f"{SMALL}defaults: {{max_model_len: 32768, gpu_memory_utilization: 0.5}}\n", "spark-1"), sctx=spark.sctx)
    told = [event.text for event in spark.events if isinstance(event, Note)]
    line = "memory per GPU: weights 14.9 + KV cache 4.5 = 19.4 GiB of 60.5 allowed (0.5 of 121 GiB, gpu_memory_utilization): FITS"
    assert line in told


def test_a_cache_that_does_not_fit_names_the_context_that_does(spark: FakeCluster, tmp_path: Path) -> None:
    text = f"{SMALL}defaults: {{max_model_len: 131072, gpu_memory_utilization: 0.2}}\n"
    with pytest.raises(api.MemoryExceededError, match=r"weights 14\.9 \+ KV cache 18\.0 = 32\.9 GiB per GPU, allowed 24\.2") as refused:
        api.run(options(tmp_path, text, "spark-1"), sctx=spark.sctx)

    hint = refused.value.hint or ""
    assert "raise --gpu-mem to 0.28" in hint
    assert "lower --max-model-len to 67584" in hint
    smaller = {"max_model_len": 67584}
    assert api.plan(options(tmp_path, text, "spark-1", settings=smaller), sctx=spark.sctx).memory.fit is api.Fit.FITS  # type: ignore[union-attr]
    larger = {"gpu_memory_utilization": 0.28}
    assert api.plan(options(tmp_path, text, "spark-1", settings=larger), sctx=spark.sctx).memory.fit is api.Fit.FITS  # type: ignore[union-attr]


def test_the_files_on_the_hosts_tell_what_the_recipe_does_not(spark: FakeCluster, tmp_path: Path) -> None:
    for name in spark.hosts:
        spark[name].model_config = json.dumps(LLAMA_8B)
        spark[name].weight_bytes = 16 * GIB
    verdict = plan(spark, options(tmp_path, "defaults: {max_model_len: 8192}\n", "spark-1", probe=True))
    assert (verdict.need.weights_gib, verdict.need.kv_cache_gib, verdict.fit) == (16, 1, api.Fit.FITS)
    assert verdict.weights_source == "its files on spark-1"


def test_the_hub_is_not_asked_where_the_hosts_tell_enough(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].model_config = json.dumps(LLAMA_8B)
    spark["spark-1"].weight_bytes = 16 * GIB
    api.run(options(tmp_path, "defaults: {max_model_len: 8192}\n", "spark-1"), sctx=spark.sctx)
    assert spark.hub.asked == []


def test_a_run_asks_the_hub_for_what_nobody_else_tells(spark: FakeCluster, tmp_path: Path) -> None:
    spark.hub.reachable = True
    spark.hub.files["org/m"] = {"config.json": json.dumps(LLAMA_8B).encode()}
    spark.hub.sizes["org/m"] = {"model.safetensors": 200 * GIB}
    with pytest.raises(api.MemoryExceededError, match=r"weights 200\.0 \+ KV cache 1\.0"):
        api.run(options(tmp_path, "defaults: {max_model_len: 8192}\n", "spark-1"), sctx=spark.sctx)
    assert changed(spark) == set()


def test_a_hub_that_is_silent_stops_no_launch(spark: FakeCluster, tmp_path: Path) -> None:
    assert api.run(options(tmp_path, "", "spark-1"), sctx=spark.sctx).ready
    told = next(event.text for event in spark.events if isinstance(event, Note) and event.text.startswith("memory per GPU"))
    assert "UNVERIFIED" in told
    assert "the hub does not answer (no network)" in told
    assert len(spark.hub.asked) == 1


@pytest.mark.parametrize("how", ["dry", "probe", "no_auto_detect", "offline"])
def test_the_hub_is_asked_by_nothing_else_than_a_run(spark: FakeCluster, tmp_path: Path, how: str) -> None:
    import msgspec

    wanted = options(tmp_path, "", "spark-1", probe=how == "probe", auto_detect=how != "no_auto_detect")
    if how in ("dry", "probe"):
        api.plan(wanted, sctx=spark.sctx)
    else:
        api.run(wanted, sctx=msgspec.structs.replace(spark.sctx, offline=how == "offline"))
    assert spark.hub.asked == []


def test_an_engine_that_claims_its_share_needs_it_available(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-2"].available_bytes = 60 * GIB
    text = f"{SMALL}defaults: {{tensor_parallel: 2, gpu_memory_utilization: 0.8}}\n"
    with pytest.raises(api.HostMemoryError) as refused:
        api.run(options(tmp_path, text), sctx=spark.sctx)

    why = "gpu_memory_utilization 0.8 of 121 GiB, which vllm claims at once"
    assert refused.value.message == f"spark-2: needs 96.8 GiB ({why}), 60.0 available now"
    assert changed(spark) == set()
    assert api.run(options(tmp_path, text, force=True), sctx=spark.sctx).ready


def test_any_other_engine_needs_what_it_loads(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].available_bytes = 20 * GIB
    fits = f"{SMALL}defaults: {{max_model_len: 4096}}\n"
    assert api.run(options(tmp_path, fits, "spark-1", runtime="sglang"), sctx=spark.sctx).ready
    spark["spark-2"].available_bytes = 15 * GIB
    with pytest.raises(api.HostMemoryError, match=r"spark-2: needs 17\.5 GiB \(weights 14\.9 .*\), 15\.0 available now"):
        api.run(options(tmp_path, fits, "spark-2", runtime="sglang"), sctx=spark.sctx)


def test_what_a_launch_replaces_is_free_by_then(spark: FakeCluster, tmp_path: Path) -> None:
    text = f"{SMALL}defaults: {{gpu_memory_utilization: 0.8}}\n"
    first = api.run(options(tmp_path, text, "spark-1"), sctx=spark.sctx)
    spark["spark-1"].available_bytes = 20 * GIB
    second = api.run(options(tmp_path, f"{text}env: {{A: b}}\n", "spark-1"), sctx=spark.sctx)
    assert (second.ready, second.cluster_id) == (True, first.cluster_id)


def test_a_host_with_too_little_memory_is_passed_over_for_one_with_enough(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].memory_bytes = 24 * GIB
    text = f"{SMALL}defaults: {{max_model_len: 32768, kv_cache_memory_bytes: 10G}}\n"
    planned = api.plan(options(tmp_path, text, probe=True), sctx=spark.sctx)
    assert planned.hosts == ("spark-2",)
    assert planned.memory is not None
    assert planned.memory.fit is api.Fit.FITS


def test_the_tightest_gpu_decides(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-2"].memory_bytes = 64 * GIB
    text = "metadata: {model_params: 100B, model_dtype: bf16}\ndefaults: {tensor_parallel: 2, gpu_memory_utilization: 0.9}\n"
    with pytest.raises(api.InsufficientCapacity, match=r"spark-2 GPU 0: memory_budget \(needs 93\.1 GiB, 57\.6 allowed: 0\.9 of 64 GiB"):
        api.run(options(tmp_path, text), sctx=spark.sctx)
    verdict = plan(spark, options(tmp_path, text, probe=True, force=True))
    assert (verdict.host, verdict.fit) == ("spark-2", api.Fit.EXCEEDS)


def test_a_host_without_accelerators_gives_its_own_memory(cluster: FakeCluster, tmp_path: Path) -> None:
    recipe = tmp_path / "cpu.yaml"
    recipe.write_text(f"model: /models/tiny.gguf\nruntime: llama-cpp\nexecutor: local\n{SMALL}defaults: {{ctx_size: 4096}}\n")
    verdict = plan(cluster, api.RunOptions(recipe=str(recipe)))
    assert (verdict.fit, verdict.allowed_gib) == (api.Fit.FITS, 121.0)
    assert "the memory of the host" in verdict.budget.why

    cluster["localhost"].memory_bytes = 8 * GIB
    with pytest.raises(api.MemoryExceededError, match=r"allowed 8\.0"):
        api.run(api.RunOptions(recipe=str(recipe)), sctx=cluster.sctx)
    assert changed(cluster) == set()


def test_what_only_the_command_says_counts(spark: FakeCluster, tmp_path: Path) -> None:
    command = "command: vllm serve {model} --max-model-len 32768 --kv-cache-dtype fp8 --gpu-memory-utilization 0.5\n"
    verdict = plan(spark, options(tmp_path, SMALL + command, "spark-1"))
    assert (verdict.need.kv_cache_gib, verdict.budget.utilization, verdict.kv_dtype) == (2.25, 0.5, "fp8")
    assert any("command alone" in warning for warning in verdict.warnings)


def test_words_behind_the_dashes_count_too(spark: FakeCluster, tmp_path: Path) -> None:
    verdict = plan(spark, options(tmp_path, SMALL, "spark-1", extra_args=("--gpu-memory-utilization", "0.3")))
    assert verdict.budget.utilization == 0.3


def test_llama_cpp_has_no_share_and_spreads_layers_over_all_hosts(spark: FakeCluster, tmp_path: Path) -> None:
    text = f"{SMALL}defaults: {{ctx_size: 32768, gpu_memory_utilization: 0.1}}\n"
    verdict = plan(spark, options(tmp_path, text, runtime="llama-cpp"))
    assert verdict.need.total_gib == pytest.approx((14.90 + 4.5) / 2, abs=0.01)
    assert verdict.budget.utilization is None


@pytest.mark.parametrize(("flags", "gib"), [("", 4.5), ("-ctk q8_0 -ctv q8_0", 4.5 * 1.0625 / 2), ("--cache-type-k q8_0", 4.5)])
def test_the_cache_types_of_llama_cpp_count(spark: FakeCluster, tmp_path: Path, flags: str, gib: float) -> None:
    text = f"{SMALL}command: llama-server -m {{model}} -c 32768 {flags}\n"
    verdict = plan(spark, options(tmp_path, text, "spark-1", runtime="llama-cpp"))
    assert verdict.need.kv_cache_gib == pytest.approx(gib)


def test_a_draft_model_of_the_configuration_is_looked_for(spark: FakeCluster, tmp_path: Path) -> None:
    spark.hub.reachable = True
    spark.hub.files["org/draft"] = {"config.json": json.dumps(LLAMA_8B).encode()}
    spark.hub.sizes["org/draft"] = {"model.safetensors": 100 * GIB}
    text = (
        f"{SMALL}defaults: {{max_model_len: 1024, speculative_config: {{method: eagle3, model: org/draft, num_speculative_tokens: 3}}}}\n"
    )
    with pytest.raises(api.MemoryExceededError, match=r"weights 114\.9"):
        api.run(options(tmp_path, text, "spark-1"), sctx=spark.sctx)


def test_a_draft_model_on_the_hosts_is_known_by_its_files_there(spark: FakeCluster, tmp_path: Path) -> None:
    host = spark["spark-1"]
    host.models["org/draft"] = f"{host.hub}/models--org--draft/snapshots/{'d' * 40}"
    host.model_config, host.weight_bytes = json.dumps(LLAMA_8B), 10 * GIB
    text = f"{SMALL}defaults: {{max_model_len: 1024, speculative_config: {{method: eagle3, model: org/draft}}}}\n"

    verdict = plan(spark, options(tmp_path, text, "spark-1", probe=True))

    assert (verdict.fit, verdict.need.weights_gib) == (api.Fit.FITS, pytest.approx(14.90 + 10, abs=0.01))


def test_experts_spread_over_more_ranks_are_not_guessed(spark: FakeCluster, tmp_path: Path) -> None:
    text = f"{BIG.replace('tensor_parallel: 2', 'data_parallel: 2')}command: vllm serve {{model}} --enable-expert-parallel\n"
    verdict = plan(spark, options(tmp_path, text))
    assert verdict.fit is api.Fit.UNKNOWN
    assert "data-parallel ranks" in verdict.reason


def test_limits_of_the_cluster_hold_and_idle_ones_are_told(spark: FakeCluster, tmp_path: Path) -> None:
    folder = spark.sctx.config.paths.clusters_dir
    folder.mkdir(parents=True)
    (folder / "lab.yaml").write_text("name: lab\nhosts: [spark-1]\naccelerator_memory_limits: {gb10: 0.5, h100: 0.9}\n")
    recipe = options(tmp_path, f"{SMALL}defaults: {{gpu_memory_utilization: 0.8}}\n").recipe
    planned = api.plan(api.RunOptions(recipe=recipe, hosts=api.HostOptions(cluster="lab"), probe=True), sctx=spark.sctx)
    assert planned.memory is not None
    assert planned.memory.budget.why == "0.5 of 121 GiB, accelerator_memory_limits of the cluster"
    assert any("accelerator_memory_limits.h100 holds for no accelerator here (gb10)" in warning for warning in planned.warnings)


def test_a_fake_hub_answers_as_the_hub_does() -> None:
    hub = FakeHub()
    hub.files["org/m"] = {"config.json": b"{}"}
    assert hub.get("/org/m/resolve/main/config.json", size_bytes=1).body == b"{"
    assert hub.get("/org/m/resolve/main/absent", size_bytes=1).status == 404
    assert hub.get("/api/models/org/x/revision/main?blobs=true", size_bytes=99).status == 401
    assert hub.get("/elsewhere", size_bytes=1).status == 404
