from __future__ import annotations

import pytest

from sparkrun.core.errors import RecipeError, UnknownPlaceholderError, UsageError
from tests.runtimes.serving import Serve


def recipe(command: str, defaults: str = "{}") -> str:
    lines = "\n".join(f"  {line}" for line in command.splitlines())
    return f"model: org/m\nruntime: vllm-distributed\ncontainer: v:1\ndefaults: {defaults}\ncommand: |\n{lines}\n"


def test_a_mapping_becomes_compact_json_in_one_word(serve: Serve) -> None:
    defaults = "{speculative_config: {method: mtp, num_speculative_tokens: 1}}"
    command = serve(recipe("vllm serve {model} --speculative-config {speculative_config}", defaults)).command
    assert command.text.startswith("""vllm serve org/m --speculative-config '{"method":"mtp","num_speculative_tokens":1}'""")


@pytest.mark.parametrize("off", ["null", "[]", '""'])
def test_a_default_that_is_switched_off_takes_its_flag_with_it(serve: Serve, off: str) -> None:
    command = serve(recipe("vllm serve {model} --attention-backend {attention_backend} --port 1", f"{{attention_backend: {off}}}")).command
    assert command.text == "vllm serve org/m --port 1 --served-model-name org/m"
    assert command.warnings == ()


@pytest.mark.parametrize("tail", ["\\", "# all", ">log 2>&1", "| tee log"])
def test_added_flags_land_on_the_engine_s_own_words(serve: Serve, tail: str) -> None:
    served = serve(recipe(f"vllm serve {{model}} -tp 2 {tail}", "{tensor_parallel: 2}"))
    words = "--served-model-name org/m --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 --master-port 25000"
    assert served.rank_commands(2)[0].text == f"vllm serve org/m -tp 2 {words} {tail if tail != chr(92) else ''}".rstrip()


def test_an_unknown_placeholder_is_told_with_the_nearest_key(serve: Serve) -> None:
    with pytest.raises(UnknownPlaceholderError, match=r"\{max_model_len\} \(did you mean 'max_modle_len'\?\), .* \{quant\}"):
        _ = serve(recipe("vllm serve {model} --max-model-len {max_model_len} -q {quant}", "{max_modle_len: 4096}")).command


def test_an_override_that_nothing_stands_for_is_refused(serve: Serve) -> None:
    with pytest.raises(UsageError, match="the override max_modle_len would have no effect") as caught:
        _ = serve(recipe("vllm serve {model}"), "max_modle_len=1").command
    assert caught.value.hint == "did you mean 'max_model_len'?"


def test_a_command_that_starts_no_engine_cannot_be_changed(serve: Serve) -> None:
    assert serve(recipe("./start.sh {model}")).command.text == "./start.sh org/m"
    with pytest.raises(RecipeError, match="cannot set block_size: the command does not start vllm serve"):
        _ = serve(recipe("./start.sh {model}"), "block_size=16").command


def test_a_command_that_starts_no_engine_is_taken_to_obey_the_configuration(serve: Serve) -> None:
    assert serve(recipe("./start.sh {model} {port}", "{port: 8123}")).command.port == 8123
    assert serve(recipe("vllm serve {model}", "{port: 8123}")).command.port == 8000


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_a_port_is_a_number_of_a_port(serve: Serve, port: str) -> None:
    with pytest.raises(RecipeError, match="port must be a number between 1 and 65535"):
        _ = serve(recipe(f"vllm serve {{model}} --port {port}")).command


def test_raw_words_come_last_and_stay_words(serve: Serve) -> None:
    served = serve(recipe("vllm serve {model}")).given(extra_args=("--x", "a b"))
    assert served.words[-2:] == ["--x", "a b"]


def test_a_program_around_the_engine_stays_as_it_is(serve: Serve) -> None:
    text = "export A='x y'\npip install q && exec taskset -c 0-3 vllm serve {model} --port {port}"
    command = serve(recipe(text, "{port: 1}"), "port=2").command
    assert command.text == "export A='x y'\npip install q && exec taskset -c 0-3 vllm serve org/m --port 2 --served-model-name org/m"


def test_a_model_of_another_path_is_told(serve: Serve) -> None:
    (warning,) = serve(recipe("vllm serve /models/else")).command.warnings
    assert warning.startswith("the command serves /models/else, not the files of org/m")
