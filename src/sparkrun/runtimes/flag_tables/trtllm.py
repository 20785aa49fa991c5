"""TensorRT-LLM: flags of ``trtllm-serve``, and the settings that it reads from a YAML file."""

from __future__ import annotations

from sparkrun.core.flags import FlagKind, FlagMap, flag
from sparkrun.core.shell_text import EngineSyntax, FlagForm

PRESENCE = FlagKind.PRESENCE

ENGINE = EngineSyntax("trtllm-serve", starts=(("trtllm-serve",), ("trtllm-serve", "serve")))

FLAGS = FlagMap(
    (
        flag("tensor_parallel", "--tp_size"),
        flag("pipeline_parallel", "--pp_size"),
        flag("expert_parallel", "--ep_size"),
        flag("max_model_len", "--max_seq_len"),
        flag("port"),
        flag("host"),
        flag("max_num_tokens", "--max_num_tokens"),
        flag("max_batch_size", "--max_batch_size"),
        flag("backend"),
        flag("tokenizer"),
        flag("kv_cache_free_gpu_memory_fraction", "--kv_cache_free_gpu_memory_fraction"),
        flag("trust_remote_code", "--trust_remote_code", PRESENCE),
    )
)

EXTRA_CONFIG_FILE = "/tmp/extra-llm-api-config.yml"
EXTRA_CONFIG_FLAG = FlagForm(("--extra_llm_api_options",))
EXTRA_CONFIG = {
    "free_gpu_memory_fraction": ("kv_cache_config", "free_gpu_memory_fraction"),
    "kv_cache_dtype": ("kv_cache_config", "dtype"),
    "kv_cache_enable_block_reuse": ("kv_cache_config", "enable_block_reuse"),
    "cuda_graph_padding": ("cuda_graph_config", "enable_padding"),
    "cuda_graph_max_batch_size": ("cuda_graph_config", "max_batch_size"),
    "moe_backend": ("moe_config", "backend"),
    "print_iter_log": ("print_iter_log",),
}
"""Where a configuration key stands in the YAML file."""
