"""The names that a recipe may use: its fields, and the keys that sparkrun itself consumes."""

from __future__ import annotations

TOP_LEVEL = (
    "recipe_version",
    "sparkrun_version",
    "min_sparkrun_version",
    "name",
    "description",
    "model",
    "model_revision",
    "runtime",
    "runtime_version",
    "mode",
    "solo_only",
    "cluster_only",
    "min_nodes",
    "max_nodes",
    "container",
    "containers",
    "builder",
    "builder_config",
    "build_args",
    "mods",
    "defaults",
    "overrides",
    "env",
    "command",
    "runtime_config",
    "metadata",
    "pre_exec",
    "post_exec",
    "post_commands",
    "stop_after_post",
    "benchmark",
    "layout",
    "executor",
    "executor_config",
    "scheduler",
    "distribution_config",
    "cluster_config",
    "runtime_cache",
    "readiness",
    "capabilities",
    "unsupported_capabilities",
    "include",
)

RUNTIME_READS = frozenset({"dashboard", "mmproj"})
"""Keys that a recipe may write at the top and that a runtime reads from ``runtime_config``."""

CONSUMED = frozenset(
    {
        "model",
        "model_revision",
        "resolved_model_path",
        "tensor_parallel",
        "pipeline_parallel",
        "data_parallel",
        "expert_parallel",
        "ep_size",
        "init_port",
        "max_model_len",
        "gpu_memory_utilization",
        "kv_cache_dtype",
        "served_model_name",
        "api_key",
        "port",
        "host",
        "executor",
        "image_prefix",
        "launcher_image",
        "use_sentinel_image",
        "save_build_logs",
        "transformers",
        "kubectl",
        "benchmark_framework",
        "benchmark_output_dir",
    }
)
"""Keys of the configuration chain that sparkrun reads itself, whatever the command says."""

PARALLELISM = frozenset(
    {"tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel", "ep_size", "context_parallel", "decode_context_parallel"}
)

DOCKER_OPTIONS = frozenset(
    {
        "auto_remove",
        "restart_policy",
        "privileged",
        "gpus",
        "gpu_access_mode",
        "ipc",
        "shm_size",
        "network",
        "user",
        "security_opt",
        "cap_add",
        "ulimit",
        "devices",
        "volumes",
        "entrypoint",
        "memory_limit",
        "labels",
        "accelerator_vendor",
    }
)
"""What ``executor_config`` takes for Docker."""

LOCAL_OPTIONS = frozenset({"working_dir", "log_dir", "log_file", "pid_dir", "pid_file", "env_file", "command_prefix"})
"""What ``executor_config`` takes for the local executor."""
