from __future__ import annotations

import re

import msgspec
import pytest

from sparkrun.core.errors import RecipeError
from sparkrun.core.recipe.checks.environment import COMPILE_CACHE_ENV
from sparkrun.core.recipe.detect import CONCRETE_RUNTIMES
from sparkrun.core.templating import UnknownEnvReference
from sparkrun.orchestration.primitives import merge_env
from sparkrun.runtimes.environment import LaunchFields, render_recipe_env
from sparkrun.runtimes.ranks import RankContext
from sparkrun.runtimes.runtime_cache import CacheKey, CacheSettings, cache_label, cache_settings, plan_runtime_cache
from tests.runtimes.serving import Serve

SECOND = RankContext(rank=1, node_count=2, replica_nodes=2, host="spark-2", address="10.0.0.2")
HF = {"HF_HOME": "/cache/huggingface", "HF_HUB_CACHE": "/cache/huggingface/hub"}
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
KEY = CacheKey(family="vllm", model="org/m")


def plain(runtime: str) -> str:
    return f"model: org/m\nruntime: {runtime}\ncontainer: x:1\n"


@pytest.mark.parametrize("runtime", CONCRETE_RUNTIMES)
def test_paths_of_the_container_are_always_set(serve: Serve, runtime: str) -> None:
    served = serve(plain(runtime))
    offline = {} if runtime in ("llama-cpp", "tokenary") else OFFLINE
    assert served.runtime.get_container_env(served.ctx) == {**HF, **offline}


@pytest.mark.parametrize("runtime", CONCRETE_RUNTIMES)
def test_one_process_gets_no_variable_of_a_cluster(serve: Serve, runtime: str) -> None:
    served = serve(plain(runtime))
    assert served.runtime.get_extra_env(served.ctx) == {}


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        ("vllm-distributed", {"NCCL_CUMEM_ENABLE": "0", "VLLM_HOST_IP": "10.0.0.2"}),
        (
            "vllm-ray",
            {"RAY_memory_monitor_refresh_ms": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "VLLM_HOST_IP": "10.0.0.2"},
        ),
        ("sglang", {"NCCL_CUMEM_ENABLE": "0", "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK": "0", "SGLANG_HOST_IP": "10.0.0.2"}),
        (
            "trtllm",
            {
                "NCCL_CUMEM_ENABLE": "0",
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "OMPI_MCA_rmaps_ppr_n_pernode": "1",
            },
        ),
        ("llama-cpp", {}),
        ("tokenary", {}),
    ],
)
def test_a_node_of_several(serve: Serve, runtime: str, expected: dict[str, str]) -> None:
    served = serve(plain(runtime)).given(rank=SECOND)
    assert served.runtime.get_extra_env(served.ctx) == expected


def test_atlas_blanks_what_was_detected(serve: Serve) -> None:
    served = serve(plain("atlas")).given(rank=SECOND)
    env = merge_env({"NCCL_IB_GID_INDEX": "3", "NCCL_CROSS_NIC": "1"}, served.runtime.get_extra_env(served.ctx))
    assert (env["NCCL_IB_GID_INDEX"], env["NCCL_CROSS_NIC"], env["NCCL_ALGO"]) == ("", "", "Ring")


def test_a_higher_tier_wins_and_nothing_is_lost() -> None:
    assert merge_env({"A": "1", "B": "1"}, {"B": "2"}, {}, {"C": "3"}) == {"A": "1", "B": "2", "C": "3"}


def test_a_recipe_s_values_are_those_of_each_host() -> None:
    launch = LaunchFields(cluster_id="job", rank=SECOND, model_path="/m", model_revision="abc", runtime_cache_dir="/cache/runtime")
    env = {
        "PORT": "{config.port}",
        "WHO": "{launch.node_rank}/{launch.num_nodes} on {launch.node_host}",
        "JOB": "{launch.cluster_id}",
        "MODEL": "{launch.model_path}@{launch.model_revision}",
        "CACHE": "{launch.runtime_cache_dir}",
        "HOME_KEPT": "${HOME}",
        "BRACES": "{{x}}",
    }
    assert render_recipe_env(env, {"port": 8000}, launch) == {
        "PORT": "8000",
        "WHO": "1/2 on spark-2",
        "JOB": "job",
        "MODEL": "/m@abc",
        "CACHE": "/cache/runtime",
        "HOME_KEPT": "${HOME}",
        "BRACES": "{x}",
    }
    with pytest.raises(UnknownEnvReference, match=r"config\.prt"):
        render_recipe_env({"A": "{config.prt}"}, {"port": 1}, launch)


def test_the_compile_cache_of_a_model(serve: Serve) -> None:
    runtime = serve(plain("vllm-distributed")).runtime
    cache = plan_runtime_cache(CacheSettings(), KEY, runtime.cache_variables, "/home/ann/.cache/sparkrun")
    assert cache is not None
    assert re.fullmatch(r"/home/ann/\.cache/sparkrun/runtime-cache/vllm/org__m-[0-9a-f]{8}", cache.host_dir)
    assert (cache.mount.source, cache.mount.target, cache.mount.create) == (cache.host_dir, "/cache/runtime", True)
    assert cache.env == {
        "XDG_CACHE_HOME": "/cache/runtime",
        "VLLM_CACHE_ROOT": "/cache/runtime/vllm",
        "TORCH_HOME": "/cache/runtime/torch",
        "TORCH_EXTENSIONS_DIR": "/cache/runtime/torch_extensions",
        "TORCHINDUCTOR_CACHE_DIR": "/cache/runtime/inductor",
        "TRITON_CACHE_DIR": "/cache/runtime/triton",
        "FLASHINFER_CACHE_DIR": "/cache/runtime/flashinfer",
        "FLASHINFER_WORKSPACE_BASE": "/cache/runtime/flashinfer",
        "CUTE_DSL_CACHE_DIR": "/cache/runtime/cute_dsl",
        "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR": "/cache/runtime/flash_attn_cute_dsl",
    }


def test_the_compile_cache_can_be_elsewhere_keyed_otherwise_or_off() -> None:
    key = msgspec.structs.replace(KEY, image="reg.io/x:1")
    settings = CacheSettings(dir="/fast/", key_by_image=True, key_by_model=False)
    cache = plan_runtime_cache(settings, key, {}, "/c")
    assert cache is not None
    assert re.fullmatch(r"/fast/vllm/reg\.io__x_1-[0-9a-f]{8}", cache.host_dir)
    assert plan_runtime_cache(CacheSettings(enabled=False), KEY, {}, "/c") is None


@pytest.mark.parametrize(("one", "other"), [("a/b", "a__b"), ("/m/x", "m/x"), ("x:1", "x_1"), ("..", "...")])
def test_no_two_models_share_a_folder_and_none_leaves_it(one: str, other: str) -> None:
    assert cache_label(one) != cache_label(other)
    assert not cache_label(one).startswith(".")
    assert "/" not in cache_label(one)


@pytest.mark.parametrize("runtime", CONCRETE_RUNTIMES)
def test_cache_variables_are_among_those_that_validation_knows(serve: Serve, runtime: str) -> None:
    assert set(serve(plain(runtime)).runtime.cache_variables) <= COMPILE_CACHE_ENV


def test_sglang_and_trtllm_cache_their_own(serve: Serve) -> None:
    sglang, trtllm = serve(plain("sglang")).runtime, serve(plain("trtllm")).runtime
    assert "TORCH_HOME" not in sglang.cache_variables
    assert {"SGLANG_CACHE_DIR", "SGLANG_JIT_CACHE_DIR", "TILELANG_CACHE_DIR", "TVM_FFI_CACHE_DIR"} <= set(sglang.cache_variables)
    assert (trtllm.cache_by_image, sglang.cache_by_image) == (True, False)


@pytest.mark.parametrize("days", [float("inf"), float("nan"), -1, 1e300])
def test_an_age_of_compiled_kernels_that_is_none_is_refused(days: float) -> None:
    with pytest.raises(RecipeError, match=r"r\.yaml: runtime_cache: .*max_age_days"):
        cache_settings({"prune": {"max_age_days": days}}, "r.yaml")
