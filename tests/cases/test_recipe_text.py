"""R: recipe text and rendering. M1, P9 and F4 as far as they are about text."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.conftest import Said

Cli = Callable[..., Said]
HEAD = "recipe_version: '2'\nmodel: org/m\nruntime: vllm\ncontainer: e/v:1\n"
MTP = "{method: mtp, num_speculative_tokens: 1}"


def test_r2_a_mapping_through_a_placeholder_is_compact_json(plan: Cli) -> None:
    said = plan(
        HEAD
        + f"defaults: {{port: 8000, speculative_config: {MTP}}}\n"
        + "command: |\n  vllm serve {model} --speculative-config {speculative_config}\n"
    )
    assert """--speculative-config '{"method":"mtp","num_speculative_tokens":1}'""" in said.command()


@pytest.mark.parametrize(("value", "text"), [("true", "true"), ("[1, 2]", "[1,2]")])
def test_r2_booleans_and_lists_likewise(plan: Cli, value: str, text: str) -> None:
    said = plan(HEAD + f"defaults: {{x: {value}}}\ncommand: vllm serve {{model}} --x {{x}}\n")
    assert said.words()[said.words().index("--x") + 1] == text


def test_r2_inside_the_authors_quotes_there_is_no_second_pair(plan: Cli) -> None:
    said = plan(HEAD + f"defaults: {{c: {MTP}}}\ncommand: |\n  vllm serve {{model}} --speculative-config '{{c}}'\n")
    assert """--speculative-config '{"method":"mtp","num_speculative_tokens":1}'""" in said.command()


def test_r3_a_name_with_blanks_and_a_quote_stays_one_word(plan: Cli) -> None:
    said = plan(HEAD + 'defaults: {served_model_name: "my model\'s name"}\n')
    words = said.words()
    assert words[words.index("--served-model-name") + 1] == "my model's name"


def test_r3_an_override_is_one_word_or_refused(plan: Cli) -> None:
    said = plan(HEAD, "-o", "max_model_len=1; reboot")
    assert said.code != 0 or "1; reboot" in said.words()


def test_r3_a_model_that_is_no_id_is_refused(plan: Cli) -> None:
    said = plan('model: "o/m; touch /tmp/x"\nruntime: vllm\ncontainer: e/v:1\n')
    assert said.code != 0
    assert "not a model id" in said.err


def test_r4_unknown_placeholders_and_misspelt_keys_are_told_before_anything_is_contacted(plan: Cli) -> None:
    said = plan(
        HEAD
        + "defaults: {port: 8000, tensor_parallel: 1, gpu_memory_utilisation: 0.5, max_modle_len: 4096}\n"
        + "command: vllm serve {model} --port {port} --max-model-len {max_model_len} --quantization {quant}\n"
    )
    assert said.code == 1
    assert "{max_model_len}" in said.err
    assert "max_modle_len" in said.err
    assert "{quant}" in said.err


def test_r4_all_of_it_in_one_command(plan: Cli, sparkrun: Cli, tmp_path: Path) -> None:
    said = plan(
        HEAD
        + "defaults: {port: 8000, tensor_parallel: 1, gpu_memory_utilisation: 0.5, max_modle_len: 4096}\n"
        + "command: vllm serve {model} --port {port} --max-model-len {max_model_len} --quantization {quant}\n"
    )
    validated = sparkrun("recipe", "validate", str(tmp_path / "case.yaml"))
    assert said.code == validated.code == 1
    for told in (said.err, validated.out):
        assert "{max_model_len}" in told
        assert "{quant}" in told
        assert "gpu_memory_utilisation" in told
    assert "did you mean {max_modle_len}?" in validated.out
    assert "nothing reads defaults.gpu_memory_utilisation" in validated.out
    assert "did you mean 'gpu_memory_utilization'?" in validated.out


def test_r4_a_misspelt_flag_gets_its_name(plan: Cli, sparkrun: Cli, tmp_path: Path) -> None:
    said = plan(HEAD + "command: vllm serve {model} --max-modle-len 4096\n")
    assert said.code == 0
    assert "--max-modle-len is not a flag of vLLM 0.32, as far as known (did you mean --max-model-len?)" in said.err
    llama = plan("model: /m/x.gguf\ncontainer: e/v:1\ncommand: llama-server -m {model} --ctx-sise 4096\n")
    assert "did you mean --ctx-size?" in llama.err


def test_r4_a_misspelt_default_gets_its_name(plan: Cli) -> None:
    said = plan(HEAD + "defaults: {gpu_memory_utilisation: 0.5}\n")
    assert "gpu_memory_utilization" in said.err


def test_r6_top_level_volumes_are_refused_with_their_place(plan: Cli) -> None:
    said = plan(HEAD + 'volumes: ["/home/nvidia/cache/inductor:/cache/inductor"]\n')
    assert said.code != 0
    assert "executor_config.volumes" in said.err


def test_r9_a_duplicate_key_is_refused_by_validate_and_warned_on_run(plan: Cli, sparkrun: Cli, tmp_path: Path) -> None:
    text = HEAD + "defaults:\n  port: 8000\n  tensor_parallel: 1\n  port: 9000\n"
    said = plan(text)
    assert said.code == 0
    assert "case.yaml:8:3" in said.err
    assert "line 6" in said.err
    validated = sparkrun("recipe", "validate", str(tmp_path / "case.yaml"))
    assert validated.code == 1
    assert "case.yaml:8:3" in validated.out


def test_r11_a_syntax_error_names_file_line_and_column(plan: Cli) -> None:
    said = plan("model: org/m\nruntime: vllm\ncontainer: [a\n")
    assert said.code == 2
    assert "case.yaml:4:1: " in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("value", ["null", "[]", '""'])
@pytest.mark.parametrize("command", ["", "command: vllm serve {model} --attention-backend {attention_backend} --port {port}\n"])
def test_r13_a_switched_off_default_leaves_no_trace(plan: Cli, value: str, command: str) -> None:
    said = plan(HEAD + f"defaults: {{port: 8000, attention_backend: {value}}}\n" + command)
    assert said.code == 0
    assert "attention" not in said.command()
    assert "None" not in said.command()
    assert "attention_backend" not in said.err


def test_r14_flags_land_before_a_trailing_comment(plan: Cli) -> None:
    said = plan(HEAD + "command: |\n  vllm serve {model} --port 8000  # the end\n", "-o", "kv_cache_dtype=fp8")
    line = said.command().splitlines()[0]
    assert line.index("--kv-cache-dtype fp8") < line.index("# the end")


def test_r14_flags_land_on_the_last_real_line(plan: Cli) -> None:
    said = plan(HEAD + "command: |\n  vllm serve {model} \\\n    --port 8000 \\\n", "-o", "kv_cache_dtype=fp8")
    assert "--kv-cache-dtype" in said.words()
    assert not said.command().rstrip().endswith("\\")


def test_r15_an_override_the_template_does_not_use_is_added(plan: Cli) -> None:
    words = plan(HEAD + "command: vllm serve {model}\n", "-o", "kv_cache_dtype=fp8").words()
    assert words[words.index("--kv-cache-dtype") + 1] == "fp8"


def test_r15_it_replaces_a_literal_flag(plan: Cli) -> None:
    words = plan(HEAD + "command: vllm serve {model} --kv-cache-dtype auto\n", "-o", "kv_cache_dtype=fp8").words()
    assert words.count("--kv-cache-dtype") == 1
    assert "auto" not in words


def test_r15_an_override_nobody_knows_is_refused_by_name(plan: Cli) -> None:
    said = plan(HEAD + "command: vllm serve {model}\n", "-o", "no_such_thing=1")
    assert said.code == 2
    assert "no_such_thing" in said.err


def test_r15_port_tp_pp_and_name_always_take_effect(plan: Cli) -> None:
    text = HEAD + "command: vllm serve {model} --port 8000 -tp 1\n"
    said = plan(text, "--port", "9100", "--tp", "2", "--pp", "2", "--served-model-name", "x", hosts="a,b,c,d")
    words = said.words()
    assert words[words.index("--port") + 1] == "9100"
    assert words[words.index("-tp") + 1] == "2"
    assert "2" in (words[words.index(flag) + 1] for flag in ("-pp", "--pipeline-parallel-size") if flag in words)
    assert words[words.index("--served-model-name") + 1] == "x"
    assert said.plan["hosts"] == ["a", "b", "c", "d"]


def test_r16_mods_at_the_root_of_the_repository_are_found(sparkrun: Cli, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "mods/fix").mkdir(parents=True)
    (tmp_path / "mods/fix/run.sh").write_text("true\n")
    (tmp_path / "recipes").mkdir()
    recipe = tmp_path / "recipes/x.yaml"
    recipe.write_text(HEAD + "mods: [mods/fix]\n")
    said = sparkrun("run", str(recipe), "-H", "h1", "--dry-run", "--json")
    assert said.code == 0, said.err
    assert "run mod fix" in [stage["title"] for stage in said.plan["stages"]]


def test_a_mod_with_a_quote_in_its_name_is_run_in_its_own_folder(sparkrun: Cli, tmp_path: Path) -> None:
    (tmp_path / "mods/bob's").mkdir(parents=True)
    (tmp_path / "mods/bob's/run.sh").write_text("true\n")
    recipe = tmp_path / "x.yaml"
    recipe.write_text(HEAD + 'mods: ["mods/bob\'s"]\n')

    said = sparkrun("run", str(recipe), "-H", "h1", "--dry-run", "--json")

    assert said.code == 0, said.err
    (stage,) = (stage for stage in said.plan["stages"] if stage["title"] == "run mod bob's")
    assert shlex.quote("/workspace/mods/bob's") in stage["actions"][0]["call"]["params"]["COMMAND"]


def test_p9_a_literal_port_is_replaced_and_said(plan: Cli) -> None:
    said = plan(HEAD + "command: vllm serve {model} --port 9001\n", "--port", "8123")
    assert said.words()[said.words().index("--port") + 1] == "8123"
    assert said.plan["port"] == 8123
    assert any("9001" in note and "replaced" in note for note in said.plan["notes"])


@pytest.mark.parametrize(
    ("runtime", "command"),
    [
        ("vllm", "vllm serve {model} --port=9001"),
        ("vllm", "export A=1; exec vllm serve {model} --port 9001"),
        ("sglang", "python3 -m sglang.launch_server --model-path {model} --port 9001"),
        ("llama-cpp", "llama-server -hf {model} --port 9001"),
        ("trtllm", "trtllm-serve {model} --port 9001"),
        ("atlas", "spark serve {model} --port 9001"),
    ],
)
def test_p9_whatever_the_engine(plan: Cli, runtime: str, command: str) -> None:
    said = plan(f"model: org/m\nruntime: {runtime}\ncontainer: e/v:1\ncommand: '{command}'\n", "--port", "8123")
    assert said.code == 0, said.err
    assert "9001" not in said.command()
    assert "8123" in said.command()
    assert said.plan["port"] == 8123
    assert sum("9001" in note and "replaced" in note for note in said.plan["notes"]) == 1


def test_p9_without_an_override_the_literal_port_is_served_probed_and_recorded(plan: Cli) -> None:
    said = plan(HEAD + "command: vllm serve {model} --port 9001\n")
    assert said.plan["port"] == 9001
    assert said.plan["endpoint"].endswith(":9001/v1")


def test_m1_gpu_memory_in_gib_is_refused(plan: Cli) -> None:
    said = plan(HEAD + "defaults: {gpu_memory_utilization: 112}\n")
    assert said.code != 0
    assert "is a fraction; 112 looks like GiB: 112 of 121 GiB is 0.93" in said.err


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "command: vllm serve {model} --gpu-memory-utilization 112\n",
        HEAD + "defaults: {g: 112}\ncommand: vllm serve {model} --gpu-memory-utilization {g}\n",
        "model: org/m\nruntime: sglang\ncontainer: e/v:1\ndefaults: {gpu_memory_utilization: 112}\n",
        "model: org/m\nruntime: sglang\ncontainer: e/v:1\ncommand: sglang serve --model-path {model} --mem-fraction-static 112\n",
        "model: org/m\nruntime: trtllm\ncontainer: e/v:1\ndefaults: {free_gpu_memory_fraction: 112}\n",
        "model: org/m\nruntime: atlas\ncontainer: e/v:1\ndefaults: {gpu_memory_utilization: 112}\n",
        HEAD + "overrides: [{when: {tp: 1}, defaults: {gpu_memory_utilization: 112}}]\n",
    ],
)
def test_m1_wherever_it_is_written(plan: Cli, text: str) -> None:
    said = plan(text)
    assert said.code != 0
    assert "is a fraction; 112 looks like GiB: 112 of 121 GiB is 0.93" in said.err


def test_m1_on_the_command_line_too(plan: Cli) -> None:
    said = plan(HEAD, "--gpu-mem", "112")
    assert said.code != 0
    assert "is a fraction" in said.err


def test_f4_an_export_says_the_public_runtime_and_renders_the_same_launch(plan: Cli, sparkrun: Cli, tmp_path: Path) -> None:
    text = "model: org/m\ncontainer: e/v:1\ndefaults: {port: 8000}\ncommand: vllm serve {model} --port {port}\n"
    text += "benchmark: {args: {pp: [2048]}}\n"
    before = plan(text)
    exported = sparkrun("export", "recipe", str(tmp_path / "case.yaml")).out
    assert "runtime: vllm\n" in exported
    assert "benchmark:" in exported
    after = plan(exported)
    assert shlex.split(after.command()) == shlex.split(before.command())
    assert after.plan["ranks"][0]["env"] == before.plan["ranks"][0]["env"]
