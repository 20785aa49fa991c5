"""The flags of llama-server that the embedded server understands, as one table.

Spellings, defaults and environment variables are those of llama.cpp's `tools/server/README.md`. `None` as a binding means that
the launcher itself acts on the flag.
"""

from enum import Enum
from typing import NamedTuple

from sparkrun.embedded import llama_bindings as to

Value = str | int | float | bool | tuple[float, ...]


class Kind(Enum):
    """What stands behind a flag; the value says it in messages and in the help."""

    TEXT = "a text"
    FILE = "a file"
    INT = "a whole number"
    FLOAT = "a number"
    NUMBERS = "numbers with commas between"
    LAYERS = "a whole number, auto or all"
    CHOICE = "one word"
    ON_OFF = "on or off"
    ON_OFF_AUTO = "on, off or auto"
    PRESENCE = "nothing"
    SWITCH = "nothing, or its opposite"


class Flag(NamedTuple):
    """One row. `off_names` are the spellings that say no; `low` and `high` bound a number, both included."""

    names: tuple[str, ...]
    kind: Kind
    bind: to.Binding | None
    help: str
    env: str = ""
    off_names: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None

    @property
    def name(self) -> str:
        """The first long spelling, which messages use."""
        return next(name for name in self.names if name.startswith("--"))

    @property
    def takes_value(self) -> bool:
        return self.kind not in (Kind.PRESENCE, Kind.SWITCH)


CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
LOAD_MODES = {"mmap+mlock": "MMAP_MLOCK", "dio": "DIRECT_IO"}
LAST_PORT = 65535
LAST_SEED = 2**32 - 1

K = Kind

# fmt: off
FLAGS: tuple[Flag, ...] = (
    # program
    Flag(("-h", "--help", "--usage"), K.PRESENCE, None, "print this help and end"),
    Flag(("--version",), K.PRESENCE, None, "print the version and end"),
    # model
    Flag(("-m", "--model"), K.FILE, to.field("model.path"), "model file (GGUF)", "LLAMA_ARG_MODEL"),
    Flag(("-hf", "-hfr", "--hf-repo"), K.TEXT, None, "Hugging Face repository user/repo[:quant], Q4_K_M unless said", "LLAMA_ARG_HF_REPO"),
    Flag(("-hff", "--hf-file"), K.TEXT, None, "file of that repository, instead of a quant", "LLAMA_ARG_HF_FILE"),
    Flag(("-hft", "--hf-token"), K.TEXT, to.field("hf_token"), "Hugging Face token (better given as HF_TOKEN)"),
    Flag(("--offline",), K.PRESENCE, to.field("offline"), "use cached files only", "LLAMA_ARG_OFFLINE"),
    Flag(("-mm", "--mmproj"), K.FILE, to.field("mmproj.path"), "multimodal projector file", "LLAMA_ARG_MMPROJ"),
    Flag(("--mmproj-auto",), K.SWITCH, to.inverted("no_mmproj"), "take the projector of the -hf repository",
         "LLAMA_ARG_MMPROJ_AUTO", ("--no-mmproj", "--no-mmproj-auto")),
    Flag(("--mmproj-offload",), K.SWITCH, to.field("mmproj_use_gpu"), "projector on the GPU", "LLAMA_ARG_MMPROJ_OFFLOAD",
         ("--no-mmproj-offload",)),
    Flag(("--image-min-tokens",), K.INT, to.field("image_min_tokens"), "least tokens an image takes", "LLAMA_ARG_IMAGE_MIN_TOKENS"),
    Flag(("--image-max-tokens",), K.INT, to.field("image_max_tokens"), "most tokens an image takes", "LLAMA_ARG_IMAGE_MAX_TOKENS"),
    Flag(("-a", "--alias"), K.TEXT, to.comma_set("model_alias"), "model names in the API, with commas", "LLAMA_ARG_ALIAS"),
    Flag(("--tags",), K.TEXT, to.comma_set("model_tags"), "model tags, with commas", "LLAMA_ARG_TAGS"),
    Flag(("--check-tensors",), K.PRESENCE, to.field("check_tensors"), "look for invalid values in the model"),
    # server
    Flag(("--host",), K.TEXT, to.comma_list("hostnames"), "addresses to listen on, with commas (127.0.0.1)", "LLAMA_ARG_HOST"),
    Flag(("--port",), K.INT, to.field("port"), "port to listen on (8080); 0 chooses a free one", "LLAMA_ARG_PORT", low=0, high=LAST_PORT),
    Flag(("--reuse-port",), K.PRESENCE, to.field("reuse_port"), "let several servers share the port", "LLAMA_ARG_REUSE_PORT"),
    Flag(("--api-key",), K.TEXT, to.add_api_keys, "API keys, with commas (better given as LLAMA_API_KEY)", "LLAMA_API_KEY"),
    Flag(("--api-key-file",), K.FILE, to.add_api_key_file, "file with one API key a line", "LLAMA_ARG_API_KEY_FILE"),
    Flag(("--api-prefix",), K.TEXT, to.field("api_prefix"), "path the server serves from, no slash at its end", "LLAMA_ARG_API_PREFIX"),
    Flag(("--path",), K.TEXT, to.field("public_path"), "folder of static files", "LLAMA_ARG_STATIC_PATH"),
    Flag(("--ssl-key-file",), K.FILE, to.field("ssl_file_key"), "TLS private key (PEM)", "LLAMA_ARG_SSL_KEY_FILE"),
    Flag(("--ssl-cert-file",), K.FILE, to.field("ssl_file_cert"), "TLS certificate (PEM)", "LLAMA_ARG_SSL_CERT_FILE"),
    Flag(("--cors-origins",), K.TEXT, to.field("cors_origins"), "origins allowed by CORS, with commas", "LLAMA_ARG_CORS_ORIGINS"),
    Flag(("--cors-methods",), K.TEXT, to.field("cors_methods"), "methods allowed by CORS", "LLAMA_ARG_CORS_METHODS"),
    Flag(("--cors-headers",), K.TEXT, to.field("cors_headers"), "headers allowed by CORS", "LLAMA_ARG_CORS_HEADERS"),
    Flag(("--cors-credentials",), K.SWITCH, to.field("cors_credentials"), "credentials allowed by CORS", "LLAMA_ARG_CORS_CREDENTIALS",
         ("--no-cors-credentials",)),
    Flag(("--ui", "--webui"), K.SWITCH, to.field("ui"), "web interface", "LLAMA_ARG_UI", ("--no-ui", "--no-webui")),
    Flag(("-to", "--timeout"), K.INT, to.field("timeout_read", "timeout_write"), "read and write timeout in seconds", "LLAMA_ARG_TIMEOUT",
         low=0),
    Flag(("--threads-http",), K.INT, to.field("n_threads_http"), "threads for HTTP requests", "LLAMA_ARG_THREADS_HTTP"),
    Flag(("--sse-ping-interval",), K.INT, to.field("sse_ping_interval"), "seconds between pings of a stream, -1 none",
         "LLAMA_ARG_SSE_PING_INTERVAL"),
    Flag(("--metrics",), K.PRESENCE, to.field("endpoint_metrics"), "serve /metrics", "LLAMA_ARG_ENDPOINT_METRICS"),
    Flag(("--props",), K.PRESENCE, to.field("endpoint_props"), "allow POST /props", "LLAMA_ARG_ENDPOINT_PROPS"),
    Flag(("--slots",), K.SWITCH, to.field("endpoint_slots"), "serve /slots", "LLAMA_ARG_ENDPOINT_SLOTS", ("--no-slots",)),
    Flag(("--slot-save-path",), K.TEXT, to.field("slot_save_path"), "folder for saved slots", "LLAMA_ARG_SLOT_SAVE_PATH"),
    Flag(("-sps", "--slot-prompt-similarity"), K.FLOAT, to.field("slot_prompt_similarity"), "how alike a prompt must be to reuse a slot"),
    Flag(("--sleep-idle-seconds",), K.INT, to.field("sleep_idle_seconds"), "seconds of rest before the model is unloaded, -1 never"),
    Flag(("--media-path",), K.TEXT, to.field("media_path"), "folder of media files for file:// addresses"),
    Flag(("--embedding", "--embeddings"), K.PRESENCE, to.field("embedding"), "serve embeddings only", "LLAMA_ARG_EMBEDDINGS"),
    Flag(("--embd-normalize",), K.INT, to.field("embd_normalize"), "norm of embeddings, -1 none, 2 euclidean"),
    Flag(("--rerank", "--reranking"), K.PRESENCE, to.set_reranking, "serve reranking", "LLAMA_ARG_RERANKING"),
    Flag(("--pooling",), K.CHOICE, to.enum("pooling_type", "llama_pooling_type", "LLAMA_POOLING_TYPE_"), "pooling of embeddings",
         "LLAMA_ARG_POOLING", choices=("none", "mean", "cls", "last", "rank")),
    # context and batches
    Flag(("-c", "--ctx-size"), K.INT, to.set_context_size, "context size in tokens, 0 the model's own", "LLAMA_ARG_CTX_SIZE", low=0),
    Flag(("-np", "--parallel"), K.INT, to.set_parallel, "slots, -1 chooses (-1)", "LLAMA_ARG_N_PARALLEL", low=-1),
    Flag(("-b", "--batch-size"), K.INT, to.field("n_batch"), "logical batch size in tokens", "LLAMA_ARG_BATCH", low=1),
    Flag(("-ub", "--ubatch-size"), K.INT, to.field("n_ubatch"), "physical batch size in tokens", "LLAMA_ARG_UBATCH", low=1),
    Flag(("-cb", "--cont-batching"), K.SWITCH, to.field("cont_batching"), "continuous batching", "LLAMA_ARG_CONT_BATCHING",
         ("-nocb", "--no-cont-batching")),
    Flag(("-n", "--predict", "--n-predict"), K.INT, to.field("n_predict"), "most tokens to generate, -1 no limit", "LLAMA_ARG_N_PREDICT"),
    Flag(("--keep",), K.INT, to.field("n_keep"), "tokens of the prompt to keep, -1 all"),
    Flag(("--context-shift",), K.SWITCH, to.field("ctx_shift"), "shift a full context", "LLAMA_ARG_CONTEXT_SHIFT", ("--no-context-shift",)),
    Flag(("--swa-full",), K.PRESENCE, to.field("swa_full"), "full cache for sliding-window attention", "LLAMA_ARG_SWA_FULL"),
    Flag(("-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"), K.INT, to.field("n_ctx_checkpoints"), "context checkpoints a slot",
         "LLAMA_ARG_CTX_CHECKPOINTS"),
    Flag(("-cms", "--checkpoint-min-step"), K.INT, to.field("checkpoint_min_step"), "tokens between context checkpoints",
         "LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT", low=0),
    Flag(("-cram", "--cache-ram"), K.INT, to.field("cache_ram_mib"), "prompt cache in MiB, -1 no limit, 0 none", "LLAMA_ARG_CACHE_RAM"),
    Flag(("--cache-prompt",), K.SWITCH, to.field("cache_prompt"), "prompt cache", "LLAMA_ARG_CACHE_PROMPT", ("--no-cache-prompt",)),
    Flag(("--cache-reuse",), K.INT, to.field("n_cache_reuse"), "least tokens of a reused piece of cache", "LLAMA_ARG_CACHE_REUSE"),
    Flag(("--cache-idle-slots",), K.SWITCH, to.field("cache_idle_slots"), "cache idle slots", "LLAMA_ARG_CACHE_IDLE_SLOTS",
         ("--no-cache-idle-slots",)),
    Flag(("-kvu", "--kv-unified"), K.SWITCH, to.field("kv_unified"), "one KV buffer for all slots", "LLAMA_ARG_KV_UNIFIED",
         ("-no-kvu", "--no-kv-unified")),
    Flag(("-kvo", "--kv-offload"), K.SWITCH, to.inverted("no_kv_offload"), "KV cache on the GPU", "LLAMA_ARG_KV_OFFLOAD",
         ("-nkvo", "--no-kv-offload")),
    Flag(("-ctk", "--cache-type-k"), K.CHOICE, to.enum("cache_type_k", "ggml_type", "GGML_TYPE_"), "KV cache type of K",
         "LLAMA_ARG_CACHE_TYPE_K", choices=CACHE_TYPES),
    Flag(("-ctv", "--cache-type-v"), K.CHOICE, to.enum("cache_type_v", "ggml_type", "GGML_TYPE_"), "KV cache type of V",
         "LLAMA_ARG_CACHE_TYPE_V", choices=CACHE_TYPES),
    Flag(("-fa", "--flash-attn"), K.ON_OFF_AUTO, to.set_flash_attention, "flash attention", "LLAMA_ARG_FLASH_ATTN"),
    Flag(("--rope-scaling",), K.CHOICE, to.enum("rope_scaling_type", "llama_rope_scaling_type", "LLAMA_ROPE_SCALING_TYPE_"),
         "RoPE scaling", "LLAMA_ARG_ROPE_SCALING_TYPE", choices=("none", "linear", "yarn")),
    Flag(("--rope-scale",), K.FLOAT, to.set_rope_scale, "RoPE context scale", "LLAMA_ARG_ROPE_SCALE"),
    Flag(("--rope-freq-base",), K.FLOAT, to.field("rope_freq_base"), "RoPE base frequency", "LLAMA_ARG_ROPE_FREQ_BASE"),
    Flag(("--rope-freq-scale",), K.FLOAT, to.field("rope_freq_scale"), "RoPE frequency scale", "LLAMA_ARG_ROPE_FREQ_SCALE"),
    Flag(("--yarn-orig-ctx",), K.INT, to.field("yarn_orig_ctx"), "YaRN: context the model was trained with", "LLAMA_ARG_YARN_ORIG_CTX"),
    Flag(("--yarn-ext-factor",), K.FLOAT, to.field("yarn_ext_factor"), "YaRN: extrapolation mix", "LLAMA_ARG_YARN_EXT_FACTOR"),
    Flag(("--yarn-attn-factor",), K.FLOAT, to.field("yarn_attn_factor"), "YaRN: attention scale", "LLAMA_ARG_YARN_ATTN_FACTOR"),
    Flag(("--yarn-beta-slow",), K.FLOAT, to.field("yarn_beta_slow"), "YaRN: high correction dimension", "LLAMA_ARG_YARN_BETA_SLOW"),
    Flag(("--yarn-beta-fast",), K.FLOAT, to.field("yarn_beta_fast"), "YaRN: low correction dimension", "LLAMA_ARG_YARN_BETA_FAST"),
    # processors and memory
    Flag(("-t", "--threads"), K.INT, to.field("cpuparams.n_threads"), "CPU threads, -1 chooses", "LLAMA_ARG_THREADS"),
    Flag(("-tb", "--threads-batch"), K.INT, to.field("cpuparams_batch.n_threads"), "CPU threads for prompts (as --threads)"),
    Flag(("--prio",), K.INT, to.field("cpuparams.priority"), "priority, -1 low to 3 realtime", low=-1, high=3),
    Flag(("--poll",), K.INT, to.field("cpuparams.poll"), "polling level of waiting threads", low=0, high=100),
    Flag(("--numa",), K.CHOICE, to.enum("numa", "ggml_numa_strategy", "GGML_NUMA_STRATEGY_"), "NUMA strategy", "LLAMA_ARG_NUMA",
         choices=("distribute", "isolate", "numactl")),
    Flag(("-ngl", "--n-gpu-layers", "--gpu-layers"), K.LAYERS, to.set_gpu_layers, "layers on the GPU", "LLAMA_ARG_N_GPU_LAYERS"),
    Flag(("-sm", "--split-mode"), K.CHOICE, to.enum("split_mode", "llama_split_mode", "LLAMA_SPLIT_MODE_"), "split over GPUs",
         "LLAMA_ARG_SPLIT_MODE", choices=("none", "layer", "row", "tensor")),
    Flag(("-ts", "--tensor-split"), K.NUMBERS, to.set_tensor_split, "share of each GPU, for example 3,1", "LLAMA_ARG_TENSOR_SPLIT"),
    Flag(("-mg", "--main-gpu"), K.INT, to.field("main_gpu"), "index of the main GPU", "LLAMA_ARG_MAIN_GPU"),
    Flag(("-fit", "--fit"), K.ON_OFF, to.field("fit_params"), "fit what is not said to the memory there is", "LLAMA_ARG_FIT"),
    Flag(("-fitc", "--fit-ctx"), K.INT, to.field("fit_params_min_ctx"), "least context --fit may choose", "LLAMA_ARG_FIT_CTX", low=0),
    Flag(("-fitt", "--fit-target"), K.NUMBERS, to.set_fit_target, "MiB --fit leaves free on each device", "LLAMA_ARG_FIT_TARGET"),
    Flag(("-lm", "--load-mode"), K.CHOICE, to.enum("load_mode", "llama_load_mode", "LLAMA_LOAD_MODE_", LOAD_MODES), "how the model is read",
         "LLAMA_ARG_LOAD_MODE", choices=("auto", "none", "mmap", "mlock", "mmap+mlock", "dio")),
    Flag(("--mmap",), K.SWITCH, to.set_mmap, "map the model file", "LLAMA_ARG_MMAP", ("--no-mmap",)),
    Flag(("--mlock",), K.PRESENCE, to.set_mlock, "keep the model in memory", "LLAMA_ARG_MLOCK"),
    Flag(("--repack",), K.SWITCH, to.inverted("no_extra_bufts"), "repack weights", "LLAMA_ARG_REPACK", ("-nr", "--no-repack")),
    Flag(("--no-host",), K.PRESENCE, to.field("no_host"), "bypass the host buffer", "LLAMA_ARG_NO_HOST"),
    Flag(("--op-offload",), K.SWITCH, to.inverted("no_op_offload"), "host operations on the device", "", ("--no-op-offload",)),
    Flag(("--warmup",), K.SWITCH, to.field("warmup"), "one empty run before serving", "", ("--no-warmup",)),
    Flag(("--perf",), K.SWITCH, to.inverted("no_perf"), "internal timings", "LLAMA_ARG_PERF", ("--no-perf",)),
    # chat
    Flag(("--jinja",), K.SWITCH, to.field("use_jinja"), "Jinja chat templates", "LLAMA_ARG_JINJA", ("--no-jinja",)),
    Flag(("--chat-template",), K.TEXT, to.field("chat_template"), "chat template: a known name or Jinja", "LLAMA_ARG_CHAT_TEMPLATE"),
    Flag(("--chat-template-file",), K.FILE, to.set_chat_template_file, "file of the chat template", "LLAMA_ARG_CHAT_TEMPLATE_FILE"),
    Flag(("--chat-template-kwargs",), K.TEXT, to.set_template_values, "JSON object for the chat template",
         "LLAMA_ARG_CHAT_TEMPLATE_KWARGS"),
    Flag(("--reasoning-format",), K.CHOICE, to.enum("reasoning_format", "common_reasoning_format", "COMMON_REASONING_FORMAT_"),
         "where thoughts go in an answer", "LLAMA_ARG_THINK", choices=("none", "auto", "deepseek", "deepseek-legacy")),
    Flag(("-rea", "--reasoning"), K.ON_OFF_AUTO, to.set_reasoning, "let the model think", "LLAMA_ARG_REASONING"),
    Flag(("--reasoning-budget",), K.INT, to.sampling("reasoning_budget_tokens"), "tokens for thoughts, -1 no limit",
         "LLAMA_ARG_THINK_BUDGET", low=-1),
    Flag(("--reasoning-budget-message",), K.TEXT, to.sampling("reasoning_budget_message"), "text that ends thoughts over budget",
         "LLAMA_ARG_THINK_BUDGET_MESSAGE"),
    Flag(("--prefill-assistant",), K.SWITCH, to.field("prefill_assistant"), "go on from a last assistant message",
         "LLAMA_ARG_PREFILL_ASSISTANT", ("--no-prefill-assistant",)),
    Flag(("-sp", "--special"), K.PRESENCE, to.field("special"), "special tokens in the output"),
    # sampling defaults
    Flag(("--temp", "--temperature"), K.FLOAT, to.sampling("temp", "TEMP"), "temperature", "LLAMA_ARG_TEMPERATURE", low=0),
    Flag(("--top-k",), K.INT, to.sampling("top_k", "TOP_K"), "top-k, 0 off", "LLAMA_ARG_TOP_K"),
    Flag(("--top-p",), K.FLOAT, to.sampling("top_p", "TOP_P"), "top-p, 1 off", "LLAMA_ARG_TOP_P"),
    Flag(("--min-p",), K.FLOAT, to.sampling("min_p", "MIN_P"), "min-p, 0 off", "LLAMA_ARG_MIN_P"),
    Flag(("--typical", "--typical-p"), K.FLOAT, to.sampling("typ_p"), "locally typical sampling, 1 off"),
    Flag(("--xtc-probability",), K.FLOAT, to.sampling("xtc_probability", "XTC_PROBABILITY"), "XTC probability, 0 off"),
    Flag(("--xtc-threshold",), K.FLOAT, to.sampling("xtc_threshold", "XTC_THRESHOLD"), "XTC threshold, 1 off"),
    Flag(("--presence-penalty",), K.FLOAT, to.sampling("penalty_present"), "presence penalty", "LLAMA_ARG_PRESENCE_PENALTY"),
    Flag(("--frequency-penalty",), K.FLOAT, to.sampling("penalty_freq"), "frequency penalty", "LLAMA_ARG_FREQUENCY_PENALTY"),
    Flag(("--repeat-penalty",), K.FLOAT, to.sampling("penalty_repeat", "PENALTY_REPEAT"), "repeat penalty, 1 off",
         "LLAMA_ARG_REPEAT_PENALTY"),
    Flag(("--repeat-last-n",), K.INT, to.sampling("penalty_last_n", "PENALTY_LAST_N"), "tokens the penalties look back on", low=-1),
    Flag(("-s", "--seed"), K.INT, to.set_seed, "random seed, -1 a random one", low=-1, high=LAST_SEED),
    # log
    Flag(("-v", "--verbose", "--log-verbose"), K.PRESENCE, to.when_given("verbosity", to.VERBOSITY_ALL), "log everything"),
    Flag(("-lv", "--verbosity", "--log-verbosity"), K.INT, to.field("verbosity"), "log up to this level, 3 is info",
         "LLAMA_ARG_LOG_VERBOSITY"),
)
# fmt: on

BY_NAME: dict[str, Flag] = {name: flag for flag in FLAGS for name in (*flag.names, *flag.off_names)}
