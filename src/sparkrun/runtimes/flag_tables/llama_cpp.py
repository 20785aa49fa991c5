"""llama.cpp."""

from __future__ import annotations

from sparkrun.core.flags import FlagKind, FlagMap, flag
from sparkrun.core.shell_text import EngineSyntax, FlagForm

ONLY_OFF, ONOFF, PRESENCE = FlagKind.ONLY_OFF, FlagKind.ONOFF, FlagKind.PRESENCE

MODEL_REPOSITORY = FlagForm(("-hf", "-hfr", "--hf-repo"))
MODEL_FILE = FlagForm(("-m", "--model"))
PROJECTOR_FILE = FlagForm(("--mmproj", "-mm"))

ENGINE = EngineSyntax(
    "llama-server",
    starts=(("llama-server",),),
    model_flags=(*MODEL_REPOSITORY.spellings, *MODEL_FILE.spellings),
    model_is_positional=False,
)

FLAGS = FlagMap(
    (
        flag("port"),
        flag("host"),
        flag("ctx_size", also="-c", keys="max_model_len"),
        flag("n_gpu_layers", also="-ngl --gpu-layers"),
        flag("parallel", also="-np"),
        flag("threads", also="-t"),
        flag("chat_template"),
        flag("reasoning_format"),
        flag("split_mode", also="-sm"),
        flag("api_key"),
        flag("top_p"),
        flag("top_k"),
        flag("min_p"),
        flag("presence_penalty"),
        flag("temperature", "--temp", also="--temperature"),
        flag("served_model_name", "--alias", also="-a"),
        flag("flash_attn", kind=ONOFF, also="-fa"),
        flag("cont_batching", kind=PRESENCE, also="-cb"),
        flag("no_webui", kind=PRESENCE),
        flag("jinja", kind=PRESENCE),
        flag("webui", kind=ONLY_OFF),
        flag("mmap", kind=ONLY_OFF),
    )
)
