"""Modular MAX."""

from __future__ import annotations

from sparkrun.core.flags import FlagMap, flag
from sparkrun.core.shell_text import EngineSyntax

ENGINE = EngineSyntax("max serve", starts=(("max", "serve"),), model_flags=("--model", "--model-path"), model_is_positional=False)

FLAGS = FlagMap(
    (
        flag("port"),
        flag("max_model_len", "--max-length"),
        flag("max_num_seqs", "--max-batch-size"),
        flag("served_model_name"),
        flag("quantization", "--quantization-encoding"),
        flag("devices"),
        flag("host"),
    )
)
