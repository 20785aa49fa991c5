"""Shapes of public models' ``config.json``, cut down to what memory depends on."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

LLAMA_8B: Config = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192},
}  # fmt: skip
QWEN3_MOE: Config = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
    "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "intermediate_size": 6144,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "max_position_embeddings": 40960, "torch_dtype": "bfloat16", "sliding_window": None,
}  # fmt: skip
DEEPSEEK_V3: Config = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "first_k_dense_replace": 3,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "moe_layer_freq": 1,
    "intermediate_size": 18432, "max_position_embeddings": 163840, "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
}  # fmt: skip
QWEN3_NEXT: Config = {
    "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2,
    "head_dim": 256, "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
    "linear_num_value_heads": 32, "linear_value_head_dim": 128, "num_experts": 512, "num_experts_per_tok": 10,
    "moe_intermediate_size": 512, "max_position_embeddings": 262144, "torch_dtype": "bfloat16",
}  # fmt: skip
GEMMA3_27B: Config = {
    "model_type": "gemma3", "torch_dtype": "bfloat16", "vision_config": {"num_hidden_layers": 27, "hidden_size": 1152},
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 5376, "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16,
        "head_dim": 128, "sliding_window": 1024, "sliding_window_pattern": 6, "max_position_embeddings": 131072,
    },
}  # fmt: skip
GPT_OSS: Config = {
    "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8,
    "head_dim": 64, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 12, "num_local_experts": 32,
    "num_experts_per_tok": 4, "intermediate_size": 2880, "quantization_config": {"quant_method": "mxfp4"},
}  # fmt: skip
NEMOTRON_H: Config = {
    "model_type": "nemotron_h", "hidden_size": 4096, "num_hidden_layers": 8, "hybrid_override_pattern": "M-M*-ME*",
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8,
    "ssm_state_size": 128, "conv_kernel": 4, "torch_dtype": "bfloat16",
}  # fmt: skip
MAMBA2: Config = {
    "model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64, "num_heads": 128, "head_dim": 64, "n_groups": 8,
    "state_size": 128, "conv_kernel": 4, "torch_dtype": "bfloat16",
}  # fmt: skip
KIMI_LINEAR: Config = {
    "model_type": "kimi_linear", "num_hidden_layers": 27, "hidden_size": 2304, "num_attention_heads": 32, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "linear_attn_config": {"full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4},
}  # fmt: skip
DEEPSEEK_V4: Config = {
    "model_type": "deepseek_v4", "num_hidden_layers": 4, "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512,
    "qk_rope_head_dim": 64, "compress_ratios": [0, 4, 128, 4], "index_head_dim": 128,
}  # fmt: skip
