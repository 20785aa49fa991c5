"""Rules on ``env``."""

from __future__ import annotations

from collections.abc import Iterator

from sparkrun.core.recipe.checks.case import Case, Rule
from sparkrun.core.recipe.schema import Finding
from sparkrun.core.templating import env_references
from sparkrun.utils.text import did_you_mean

MODEL_CACHE_ENV = frozenset({"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE"})
"""Where the engine finds the mounted models; set by every launch."""

COMPILE_CACHE_ENV = frozenset(
    {
        "XDG_CACHE_HOME",
        "VLLM_CACHE_ROOT",
        "TORCH_HOME",
        "TORCH_EXTENSIONS_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "FLASHINFER_CACHE_DIR",
        "FLASHINFER_WORKSPACE_BASE",
        "CUTE_DSL_CACHE_DIR",
        "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR",
        "SGLANG_CACHE_DIR",
        "SGLANG_JIT_CACHE_DIR",
        "TILELANG_CACHE_DIR",
        "TVM_FFI_CACHE_DIR",
        "TLLM_AUTOTUNER_CACHE_PATH",
    }
)
"""What points into the compile cache that is kept on each host."""

FABRIC_ENV = frozenset(
    {
        "NCCL_NET",
        "NCCL_IB_DISABLE",
        "NCCL_CROSS_NIC",
        "NCCL_IGNORE_CPU_AFFINITY",
        "NCCL_IB_HCA",
        "NCCL_IB_GID_INDEX",
        "NCCL_SOCKET_IFNAME",
        "UCX_NET_DEVICES",
        "GLOO_SOCKET_IFNAME",
        "TP_SOCKET_IFNAME",
        "MN_IF_NAME",
        "OMPI_MCA_btl_tcp_if_include",
        "NODE_IP",
        "VLLM_HOST_IP",
        "SGLANG_HOST_IP",
    }
)
"""What is detected on each host; a value that is right on one is wrong on another."""


def managed_variables(case: Case) -> Iterator[Finding]:
    """Variables that the launch works out for each host."""
    for name, value in case.recipe.env.items():
        where = case.where("env", name)
        if name in FABRIC_ENV:
            message = f"env {name} is detected on each host; {value} is used on all of them instead"
            yield Finding("warning", "managed-comm-env", message, fix="remove it, unless every host has the same", where=where)
        elif name in MODEL_CACHE_ENV:
            message = f"env {name} is set at launch to where the models are mounted, so this value has no effect"
            yield Finding("warning", "overridden-cache-env", message, fix="remove it", where=where)
        elif name in COMPILE_CACHE_ENV and case.recipe.runtime_cache is not False:
            message = f"env {name} points away from the compile cache that is kept on each host"
            yield Finding("warning", "managed-cache-env", message, fix="remove it, or write runtime_cache: false", where=where)


def restated_variables(case: Case) -> Iterator[Finding]:
    """Variables that the platform sets to the same value."""
    for name, value in case.recipe.env.items():
        if case.around.platform_env.get(name) == value:
            message = f"env {name}={value} is what the platform sets"
            yield Finding("suggestion", "restated-platform-env", message, fix="remove it", where=case.where("env", name))


def unresolved_variables(case: Case) -> Iterator[Finding]:
    """``{config.X}`` where no ``X`` is: the launch would fail."""
    for name, value in case.recipe.env.items():
        for key in env_references(value).config:
            if case.values.get(key) is None:
                fix = did_you_mean(key, case.values) or f"add {key} to defaults"
                message = f"env {name} uses {{config.{key}}}, which nothing sets"
                yield Finding("error", "unresolved-env-value", message, fix=fix, where=case.where("env", name))


ENVIRONMENT_RULES: tuple[Rule, ...] = (managed_variables, restated_variables, unresolved_variables)
