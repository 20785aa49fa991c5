"""The flag maps of the engines, checked against the option lists of real engines where a machine has them."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from sparkrun.core.flags import FlagKind, FlagMap, render_flags
from sparkrun.core.shell_text import EngineSyntax, find_engine
from sparkrun.core.values import ConfigValue
from sparkrun.runtimes.flag_tables import atlas, llama_cpp, modular_max, sglang, tokenary, trtllm, vllm

TABLES = {
    "vllm": (vllm.ENGINE, vllm.FLAGS),
    "sglang": (sglang.ENGINE, sglang.FLAGS),
    "llama-cpp": (llama_cpp.ENGINE, llama_cpp.FLAGS),
    "trtllm": (trtllm.ENGINE, trtllm.FLAGS),
    "atlas": (atlas.ENGINE, atlas.FLAGS),
    "modular-max": (modular_max.ENGINE, modular_max.FLAGS),
    "tokenary": (tokenary.ENGINE, tokenary.FLAGS),
}
ALL = pytest.mark.parametrize(("engine", "flags"), TABLES.values(), ids=TABLES.keys())
WELL_KNOWN = [
    "port", "host", "gpu_memory_utilization", "max_model_len", "max_num_batched_tokens", "max_num_seqs", "served_model_name", "dtype",
    "quantization", "enforce_eager", "enable_prefix_caching", "trust_remote_code", "distributed_executor_backend", "kv_cache_dtype",
    "api_key", "attention_backend", "load_format", "reasoning_parser", "tool_call_parser", "chat_template", "speculative_config",
    "tokenizer_mode", "block_size", "seed", "enable_auto_tool_choice", "enable_chunked_prefill", "async_scheduling", "generation_config",
    "hf_overrides", "compilation_config", "default_chat_template_kwargs", "limit_mm_per_prompt", "moe_backend",
]  # fmt: skip


def option_list(file_name: str) -> set[str]:
    """The option names that a real engine printed."""
    beside = Path(__file__).resolve().parents[3] / "shared"
    path = Path(os.environ.get("SPARKRUN_SHARED", beside)) / "spec" / "engine-flags" / file_name
    if not path.is_file():
        pytest.skip("no option lists of engines on this machine")
    return set(path.read_text().split())


@ALL
def test_flags_are_spelt_like_flags_and_once(engine: EngineSyntax, flags: FlagMap) -> None:
    rows = flags.flags
    assert all(re.fullmatch(r"--[a-z][a-z0-9_-]*|-[a-z]{1,3}", name) for row in rows for name in row.form.spellings)
    assert len({row.flag for row in rows}) == len(rows)
    keys = [key for row in rows for key in (row.key, *row.aliases)]
    assert len(set(keys)) == len(keys)


@ALL
def test_each_map_sets_port_and_length(engine: EngineSyntax, flags: FlagMap) -> None:
    assert flags.by_key("port") is not None
    assert flags.by_key("max_model_len") is not None


@ALL
def test_rendered_flags_are_read_back_by_the_same_map(engine: EngineSyntax, flags: FlagMap) -> None:
    config: dict[str, ConfigValue] = {row.key: True if flags.takes_value(row.flag) is False else "v" for row in flags.flags}
    words = render_flags(flags, config)
    call = find_engine(" ".join([*engine.starts[0], *words]), engine)
    assert call is not None
    spelt = [flags.by_spelling(word.text) for word in call.arguments if word.text.startswith("-")]
    assert spelt == [row for row in flags.flags if row.kind is not FlagKind.ONLY_OFF]


def rendered(flags: FlagMap, **config: ConfigValue) -> list[str]:
    return shlex.split(" ".join(render_flags(flags, config)))


def test_vllm_begins_with_tensor_parallel() -> None:
    words = rendered(
        vllm.FLAGS, port=8000, tensor_parallel=2, pipeline_parallel=1, enable_prefix_caching=False, disable_custom_all_reduce=True
    )
    assert words == ["-tp", "2", "--port", "8000", "--no-enable-prefix-caching", "-pp", "1", "--disable-custom-all-reduce"]


def test_sglang_names() -> None:
    words = rendered(sglang.FLAGS, tensor_parallel=2, gpu_memory_utilization=0.8, max_model_len=4096, cuda_graph_bs=[1, 2], port=1)
    expected = "--port 1 --tp-size 2 --mem-fraction-static 0.8 --context-length 4096 --cuda-graph-bs 1 2"
    assert words == expected.split()
    assert rendered(sglang.FLAGS, speculative_draft_model="org/d") == ["--speculative-draft-model-path", "org/d"]


def test_llama_cpp_names() -> None:
    words = rendered(llama_cpp.FLAGS, max_model_len=4096, mmap=False, webui=False, flash_attn=True, temperature=0.5, served_model_name="n")
    assert words == ["--ctx-size", "4096", "--temp", "0.5", "--alias", "n", "--flash-attn", "on", "--no-webui", "--no-mmap"]


def test_trtllm_names_keep_underscores() -> None:
    words = rendered(trtllm.FLAGS, tensor_parallel=2, max_model_len=4096, trust_remote_code=True)
    assert words == ["--tp_size", "2", "--max_seq_len", "4096", "--trust_remote_code"]
    assert not set(trtllm.EXTRA_CONFIG) & {row.key for row in trtllm.FLAGS.flags}


def test_atlas_names() -> None:
    words = rendered(atlas.FLAGS, auth_token="k", exact_verify=False, speculative=True, max_prefill_tokens=1, served_model_name="n")
    assert words == ["--max-prefill-tokens", "1", "--model-name", "n", "--auth-token", "k", "--speculative", "--exact-verify", "false"]


def test_modular_max_and_tokenary_names() -> None:
    assert rendered(modular_max.FLAGS, max_model_len=1, quantization="q", devices="gpu:0,1") == [
        "--max-length", "1", "--quantization-encoding", "q", "--devices", "gpu:0,1",
    ]  # fmt: skip
    assert rendered(tokenary.FLAGS, kv_cache_dtype="fp8", ner=True) == ["--kvcache-dtype", "fp8", "--ner"]


def test_well_known_vllm_flags_are_in_the_engine_s_list() -> None:
    options = option_list("vllm-0.32.txt")
    assert [key for key in WELL_KNOWN if (row := vllm.FLAGS.by_key(key)) is None or row.flag not in options] == []


def test_negatable_vllm_flags_are_negatable_in_the_engine_s_list() -> None:
    options = option_list("vllm-0.32.txt")
    negatable = [row for row in vllm.FLAGS.flags if row.kind is FlagKind.NEGATABLE]
    assert len(negatable) == 5
    assert [row.flag for row in negatable if not {row.flag, row.negated} <= options] == []


def test_llama_cpp_flags_are_in_the_engine_s_list() -> None:
    options = option_list("llama-server.txt")
    spelt = [row.negated if row.kind is FlagKind.ONLY_OFF else row.flag for row in llama_cpp.FLAGS.flags]
    assert [name for name in spelt if name not in options] == []
    shorts = [name for row in llama_cpp.FLAGS.flags for name in row.spellings]
    assert [name for name in shorts if name not in options] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vllm", "python3 -m vllm.entrypoints.openai.api_server --model m"),
        ("sglang", "python3 -m sglang.launch_server --model-path m"),
        ("sglang", "sglang serve --model-path m"),
        ("llama-cpp", "/app/llama-server -hf m"),
        ("trtllm", "mpirun -n 2 --allow-run-as-root trtllm-llmapi-launch trtllm-serve m"),
        ("atlas", "spark serve m"),
        ("modular-max", "max serve --model m"),
        ("tokenary", "tokenary serve m"),
    ],
)
def test_engine_starts(name: str, text: str) -> None:
    assert find_engine(text, TABLES[name][0]) is not None


@pytest.mark.parametrize(("name", "file_name"), [("vllm", "vllm-0.32.txt"), ("llama-cpp", "llama-server.txt")])
def test_flags_that_a_list_lacks_are_reported_and_few(name: str, file_name: str) -> None:
    """Such flags belong to another version of the engine, so they are no fault by themselves."""
    options, rows = option_list(file_name), TABLES[name][1].flags
    missing = [row.flag for row in rows if not {*row.form.spellings, row.negated} & options]
    print(f"{name}: not in {file_name}: {', '.join(missing) or 'none'}")
    assert len(missing) < len(rows) / 8
