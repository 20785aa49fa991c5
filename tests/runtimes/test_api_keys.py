from __future__ import annotations

import pytest

from tests.runtimes.serving import Serve

KEY = "sk-1234"


def recipe(runtime: str, command: str | None = None, more: str = "") -> str:
    return f"model: org/m\nruntime: {runtime}\ncontainer: x:1\n{more}" + (f"command: |\n  {command}\n" if command else "")


@pytest.mark.parametrize(
    ("runtime", "command", "variable"),
    [
        ("vllm-distributed", None, "VLLM_API_KEY"),
        ("vllm-distributed", "vllm serve {model} --served-model-name org/m --api-key {api_key}", "VLLM_API_KEY"),
        ("vllm-distributed", "vllm serve {model} --served-model-name org/m --api-key=other", "VLLM_API_KEY"),
        ("llama-cpp", None, "LLAMA_API_KEY"),
        ("llama-cpp", "llama-server -hf {model} --api-key {api_key}", "LLAMA_API_KEY"),
    ],
)
def test_an_engine_that_reads_a_variable_has_no_flag(serve: Serve, runtime: str, command: str | None, variable: str) -> None:
    found = serve(recipe(runtime, command, f"defaults: {{api_key: {KEY}}}\n")).command
    assert "api-key" not in found.text
    assert (found.api_key, found.secret_env) == (KEY, {variable: KEY})


@pytest.mark.parametrize(
    ("runtime", "command", "tail"),
    [
        ("sglang", None, '--api-key "$SGLANG_API_KEY"'),
        ("sglang", "sglang serve --model-path {model} --api-key {api_key} # end", '--api-key "$SGLANG_API_KEY" # end'),
        ("atlas", "spark serve {model}", '--auth-token "$ATLAS_AUTH_TOKEN"'),
        ("atlas", None, '--auth-token "$ATLAS_AUTH_TOKEN"'),
    ],
)
def test_any_other_engine_finds_a_variable_in_its_command(serve: Serve, runtime: str, command: str | None, tail: str) -> None:
    found = serve(recipe(runtime, command, f"defaults: {{api_key: {KEY}}}\n")).command
    assert found.text.endswith(tail)
    assert KEY not in found.text
    assert (found.api_key, list(found.secret_env.values())) == (KEY, [KEY])


def test_a_key_that_the_author_spelt_is_taken_out(serve: Serve) -> None:
    found = serve(recipe("vllm-distributed", f"vllm serve {{model}} --api-key {KEY} --served-model-name n")).command
    assert (found.text, found.api_key) == ("vllm serve org/m --served-model-name n", KEY)


def test_several_keys_are_variables_in_the_command(serve: Serve) -> None:
    found = serve(recipe("vllm-distributed", "vllm serve {model} --served-model-name n --api-key k1 k2")).command
    assert found.text.endswith('--api-key "$VLLM_API_KEY" "$VLLM_API_KEY_2"')
    assert (found.api_key, found.secret_env) == ("k1", {"VLLM_API_KEY": "k1", "VLLM_API_KEY_2": "k2"})


def test_the_order_of_sources(serve: Serve) -> None:
    command = "vllm serve {model} --served-model-name n --api-key flag"
    env = "env: {VLLM_API_KEY: env}\n"
    assert serve(recipe("vllm-distributed", command)).command.api_key == "flag"
    assert serve(recipe("vllm-distributed", command, env)).command.api_key == "env"
    assert serve(recipe("vllm-distributed", command, env + "defaults: {api_key: default}\n")).command.api_key == "default"
    assert serve(recipe("vllm-distributed", command, env), "api_key=override").command.api_key == "override"
    assert serve(recipe("vllm-distributed", None, env), "env.VLLM_API_KEY=set").command.api_key == "set"


def test_a_variable_that_the_author_wrote_stays(serve: Serve) -> None:
    command = "sglang serve --model-path {model} --api-key $MY_KEY"
    found = serve(recipe("sglang", command, "env: {MY_KEY: x}\n")).command
    assert found.text.endswith("--api-key $MY_KEY")
    assert (found.api_key, found.secret_env) == ("x", {})
    assert serve(recipe("sglang", command)).command.api_key is None


def test_a_key_for_an_engine_without_one_is_told(serve: Serve) -> None:
    found = serve(recipe("trtllm", None, f"defaults: {{api_key: {KEY}}}\n")).command
    assert found.warnings == ("trtllm has no API key; api_key has no effect",)
    assert KEY not in found.text


def test_a_raw_flag_of_the_command_line_is_hidden_too(serve: Serve) -> None:
    found = serve(recipe("vllm-distributed")).given(extra_args=("--api-key", KEY)).command
    assert (KEY in found.text, found.secret_env) == (False, {"VLLM_API_KEY": KEY})
