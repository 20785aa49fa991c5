"""SGLang."""

from __future__ import annotations

from sparkrun.core.flags import FlagKind, FlagMap, flag
from sparkrun.core.shell_text import EngineSyntax

LIST, PRESENCE = FlagKind.LIST, FlagKind.PRESENCE

ENGINE = EngineSyntax(
    "sglang serve",
    starts=(("sglang", "serve"), ("python", "-m", "sglang.launch_server")),
    model_flags=("--model-path", "--model"),
    model_is_positional=False,
)

FLAGS = FlagMap(
    (
        flag("port"),
        flag("host"),
        flag("tensor_parallel", "--tp-size", also="--tp --tensor-parallel-size"),
        flag("pipeline_parallel", "--pp-size", also="--pp --pipeline-parallel-size"),
        flag("expert_parallel", "--ep-size", also="--ep --expert-parallel-size"),
        flag("data_parallel", "--dp-size", also="--dp --data-parallel-size"),
        flag("enable_dp_attention", kind=PRESENCE),
        flag("gpu_memory_utilization", "--mem-fraction-static"),
        flag("max_model_len", "--context-length"),
        flag("max_num_seqs", "--max-running-requests"),
        flag("served_model_name"),
        flag("dtype"),
        flag("quantization"),
        flag("trust_remote_code", kind=PRESENCE),
        flag("chunked_prefill", "--chunked-prefill-size"),
        flag("kv_cache_dtype"),
        flag("tokenizer_path"),
        flag("api_key"),
        flag("attention_backend"),
        flag("load_format"),
        flag("revision"),
        flag("model_type"),
        flag("max_total_tokens"),
        flag("random_seed"),
        flag("reasoning_parser"),
        flag("tool_call_parser"),
        flag("mm_feature_transport"),
        flag("speculative_algorithm"),
        flag("speculative_draft_model_path", also="--speculative-draft-model", keys="speculative_draft_model"),
        flag("speculative_draft_model_revision"),
        flag("speculative_num_steps"),
        flag("speculative_eagle_topk"),
        flag("speculative_num_draft_tokens"),
        flag("speculative_dspark_block_size"),
        flag("cuda_graph_bs", kind=LIST),
        flag("cuda_graph_max_bs"),
        flag("cuda_graph_max_bs_decode"),
        flag("torch_compile_max_bs"),
        flag("num_continuous_decode_steps"),
        flag("fp8_gemm_backend"),
        flag("fp4_gemm_backend"),
        flag("moe_runner_backend"),
        flag("mamba_ssm_dtype"),
        flag("mamba_full_memory_ratio"),
        flag("enable_torch_compile", kind=PRESENCE),
        flag("disable_radix_cache", kind=PRESENCE),
        flag("disable_prefill_cuda_graph", kind=PRESENCE),
        flag("enable_decoder_swa_bounded_replay", kind=PRESENCE),
    )
)
