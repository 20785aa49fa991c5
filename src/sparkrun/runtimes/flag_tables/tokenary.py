"""Tokenary."""

from __future__ import annotations

from sparkrun.core.flags import FlagKind, FlagMap, flag
from sparkrun.core.shell_text import EngineSyntax

PRESENCE = FlagKind.PRESENCE

ENGINE = EngineSyntax("tokenary serve", starts=(("tokenary", "serve"),), model_flags=("--model",))

FLAGS = FlagMap(
    (
        flag("port"),
        flag("host"),
        flag("max_model_len"),
        flag("max_num_seqs"),
        flag("max_tokens"),
        flag("dtype"),
        flag("kv_cache_dtype", "--kvcache-dtype"),
        flag("gpu_memory_utilization"),
        flag("prefill_chunk_size"),
        flag("disable_prefix_cache", kind=PRESENCE),
        flag("disable_reasoning", kind=PRESENCE),
        flag("disable_cuda_graph", kind=PRESENCE),
        flag("encode_only", kind=PRESENCE),
        flag("ner", kind=PRESENCE),
    )
)
