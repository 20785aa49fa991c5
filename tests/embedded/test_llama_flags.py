"""The flag table: reading command lines and environments, and what each row sets on xllamacpp's parameters."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkrun.embedded.errors import LauncherError
from sparkrun.embedded.gguf_hub import HubModel, HubRequest
from sparkrun.embedded.llama_args import ParsedArgs, help_text, parse_args, parse_value
from sparkrun.embedded.llama_bindings import Target
from sparkrun.embedded.llama_flags import BY_NAME, FLAGS, Flag, Kind
from sparkrun.embedded.llama_server import apply_setting, build_params, plan_serving
from sparkrun.embedded.llama_unsupported import UNSUPPORTED

REQUIRED = """
    -m --model -a --alias --host --port -c --ctx-size -t --threads -tb --threads-batch -np --parallel -b --batch-size -ub --ubatch-size
    --api-key --api-key-file -ngl --n-gpu-layers --gpu-layers -fa --flash-attn --jinja --no-jinja --chat-template --chat-template-file
    --reasoning-format --no-webui --webui --no-mmap --mmap --mlock --mmproj -sm --split-mode -ts --tensor-split -mg --main-gpu --temp
    --top-k --top-p --min-p --presence-penalty --frequency-penalty --repeat-penalty -s --seed -n --n-predict -cb --cont-batching
    --no-cont-batching --metrics --slots --no-slots --props --embeddings --embedding --pooling --reranking -ctk --cache-type-k -ctv
    --cache-type-v --no-warmup -v --verbose --timeout --threads-http --api-prefix --rope-scaling --rope-freq-base --version -h --help
    -hf --hf-repo
"""

# Values that differ from xllamacpp's defaults where the kind alone does not tell one.
SAMPLES = {
    "--pooling": "mean",
    "--cache-type-k": "q8_0",
    "--cache-type-v": "q8_0",
    "--rope-scaling": "yarn",
    "--split-mode": "row",
    "--load-mode": "mmap+mlock",
    "--numa": "isolate",
    "--reasoning-format": "deepseek-legacy",
    "--chat-template-kwargs": '{"x": 1}',
    "--fit": "off",
    "--prio": "2",
    "--hf-repo": "me/tiny",
}


def by_name(flag: Flag) -> str:
    return flag.name


def sample(flag: Flag, folder: Path) -> str:
    """A text that the flag takes and that is not the default."""
    if flag.kind is Kind.FILE:
        file = folder / "file"
        file.write_text("GGUF sample\n", encoding="utf-8")
        return str(file)
    kinds = {Kind.INT: "77", Kind.FLOAT: "0.25", Kind.NUMBERS: "3,1", Kind.LAYERS: "12", Kind.ON_OFF_AUTO: "on", Kind.TEXT: "sample"}
    return SAMPLES.get(flag.name) or kinds[flag.kind]


def command_line(flag: Flag, name: str, folder: Path) -> list[str]:
    return [name, sample(flag, folder)] if flag.takes_value else [name]


def refusal(*argv: str, **env: str) -> LauncherError:
    with pytest.raises(LauncherError) as caught:
        parse_args(argv, env)
    return caught.value


def test_every_flag_that_recipes_use_is_in_the_table() -> None:
    assert set(REQUIRED.split()) <= set(BY_NAME)


def test_no_spelling_is_there_twice() -> None:
    spellings = [name for flag in FLAGS for name in (*flag.names, *flag.off_names)]

    assert len(spellings) == len(set(spellings))
    assert not set(spellings) & UNSUPPORTED


@pytest.mark.parametrize("flag", FLAGS, ids=by_name)
def test_every_spelling_sets_its_flag(flag: Flag, tmp_path: Path) -> None:
    for name in flag.names:
        (setting,) = parse_args(command_line(flag, name, tmp_path), {}).settings
        assert (setting.flag.name, setting.source) == (flag.name, name)
        assert setting.value is True or flag.takes_value
    for name in flag.off_names:
        assert parse_args([name], {}).value(flag.name) is False


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.takes_value], ids=by_name)
def test_a_value_may_stand_behind_an_equals_sign(flag: Flag, tmp_path: Path) -> None:
    text = sample(flag, tmp_path)

    apart, joined = parse_args([flag.name, text], {}), parse_args([f"{flag.name}={text}"], {})

    assert apart.settings == joined.settings


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.env], ids=by_name)
def test_the_environment_gives_what_the_command_line_gives(flag: Flag, tmp_path: Path) -> None:
    text = sample(flag, tmp_path) if flag.takes_value else "on"

    from_env = parse_args([], {flag.env: text})

    assert from_env.value(flag.name) == parse_args(command_line(flag, flag.name, tmp_path), {}).value(flag.name)
    assert from_env.warnings == ()


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.env and flag.kind is Kind.SWITCH], ids=by_name)
def test_the_environment_can_say_no_in_two_ways(flag: Flag) -> None:
    assert parse_args([], {flag.env: "off"}).value(flag.name) is False
    assert parse_args([], {flag.env.replace("LLAMA_ARG_", "LLAMA_ARG_NO_"): "1"}).value(flag.name) is False


def test_the_command_line_beats_the_environment_and_says_so() -> None:
    parsed = parse_args(["--port", "9000"], {"LLAMA_ARG_PORT": "8000"})

    assert parsed.value("--port") == 9000
    assert parsed.warnings == ("LLAMA_ARG_PORT does not count, the command line says otherwise",)


def test_the_last_of_two_spellings_counts_and_is_told() -> None:
    parsed = parse_args(["--jinja", "--no-jinja"], {})

    assert parsed.value("--jinja") is False
    assert parsed.warnings == ("--jinja is given more than once, the last one counts",)


def test_a_variable_the_engine_does_not_know_is_told() -> None:
    assert "LLAMA_ARG_DEVICE is not supported" in parse_args([], {"LLAMA_ARG_DEVICE": "CUDA0", "PATH": "/bin"}).warnings[0]


def test_underscores_in_a_long_flag_read_as_dashes_and_in_a_value_stay() -> None:
    parsed = parse_args(["--ctx_size", "64", "--alias=my_model"], {})

    assert (parsed.value("--ctx-size"), parsed.value("--alias")) == (64, "my_model")


def test_negative_numbers_are_values() -> None:
    parsed = parse_args(["-np", "-1", "-n", "-1", "--seed", "-1"], {})

    assert [setting.value for setting in parsed.settings] == [-1, -1, -1]


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [("--prot", "--port"), ("--ctx-sise", "--ctx-size"), ("--tensor_splt", "--tensor-split"), ("--hep", "--help")],
)
def test_an_unknown_flag_gets_its_nearest_known_name(wrong: str, nearest: str) -> None:
    error = refusal(wrong, "1")

    assert str(error) == f"unknown flag {wrong.replace('_', '-')}"
    assert (error.hint, error.exit_code) == (f"did you mean {nearest}?", 2)


def test_a_misspelt_secret_flag_does_not_show_the_secret() -> None:
    error = refusal("--api-kye=hush")

    assert "hush" not in f"{error} {error.hint}"


def test_a_flag_of_llama_server_alone_is_refused_as_such() -> None:
    assert {"--rpc", "-dev", "--spec-type"} <= UNSUPPORTED
    for name in UNSUPPORTED:
        error = refusal(name)
        assert (str(error), error.exit_code) == (f"{name} is not supported by the embedded engine", 2)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--port"], "--port takes a whole number, got nothing"),
        (["--port", "--host", "::1"], "--port takes a whole number, but --host follows"),
        (["-a", "--port=1"], "-a takes a text, but --port follows"),
        (["--port", "http"], "--port takes a whole number, got 'http'"),
        (["--port", "70000"], "--port takes a whole number from 0 to 65535, got 70000"),
        (["-c", "-5"], "-c takes a whole number of at least 0, got -5"),
        (["--temp", "hot"], "--temp takes a number, got 'hot'"),
        (["--temp", "nan"], "--temp takes a number, got 'nan'"),
        (["-fa", "yes"], "-fa takes on, off or auto, got 'yes'"),
        (["-ngl", "many"], "-ngl takes a whole number, auto or all, got 'many'"),
        (["-sm", "rows"], "-sm takes none, layer, row or tensor, got 'rows'"),
        (["-ts", "3;1"], "-ts takes numbers with commas between, got '3;1'"),
        (["--alias", ""], "--alias takes a text, got ''"),
        (["--metrics=1"], "--metrics takes no value"),
        (["model.gguf"], "unexpected argument 'model.gguf'"),
    ],
)
def test_a_wrong_command_line_is_refused_with_what_is_wanted(argv: list[str], message: str) -> None:
    error = refusal(*argv)

    assert str(error) == message
    assert error.exit_code == 2


def test_a_wrong_variable_is_named() -> None:
    assert str(refusal(LLAMA_ARG_CTX_SIZE="big")) == "LLAMA_ARG_CTX_SIZE takes a whole number, got 'big'"
    assert str(refusal(LLAMA_ARG_MMAP="maybe")) == "LLAMA_ARG_MMAP takes on or off, got 'maybe'"


def test_help_names_every_spelling_and_variable() -> None:
    words = help_text().replace(",", " ").replace(")", " ").split()

    assert set(BY_NAME) <= set(words)
    assert {flag.env for flag in FLAGS if flag.env} <= set(words)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "no model is given"),
        (["-m", "a.gguf", "-hf", "me/tiny"], "two models are given, by -m and by -hf"),
        (["-m", "a.gguf", "-hff", "b.gguf"], "-hff needs a repository"),
        (["-hf", "tiny"], "-hf takes user/repo[:quant], got 'tiny'"),
    ],
)
def test_a_plan_needs_exactly_one_model(argv: list[str], message: str) -> None:
    with pytest.raises(LauncherError) as caught:
        plan_serving(parse_args(argv, {}))

    assert str(caught.value) == message


@pytest.fixture
def engine() -> Any:
    return pytest.importorskip("xllamacpp", reason="xllamacpp is not installed")


def parameters_of(owner: Any, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every readable parameter, by dotted path."""
    for name in dir(owner):
        if name.startswith("_"):
            continue
        value = getattr(owner, name)
        if type(value).__module__.startswith("xllamacpp") and not hasattr(type(value), "__members__"):
            yield from parameters_of(value, f"{prefix}{name}.")
        elif not callable(value):
            yield prefix + name, value


def applied(engine: Any, parsed: ParsedArgs) -> Any:
    params = engine.CommonParams()
    for setting in parsed.settings:
        apply_setting(Target(engine, params), setting)
    return params


def changed(engine: Any, params: Any) -> dict[str, object]:
    before = dict(parameters_of(engine.CommonParams()))
    return {path: value for path, value in parameters_of(params) if value != before[path]}


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.bind], ids=by_name)
def test_every_row_changes_the_engine_parameters(engine: Any, flag: Flag, tmp_path: Path) -> None:
    spellings = [flag.name, *flag.off_names] if flag.kind is Kind.SWITCH else [flag.name]
    changes = [changed(engine, applied(engine, parse_args(command_line(flag, name, tmp_path), {}))) for name in spellings]

    # One side of a switch may be what xllamacpp does anyway.
    assert any(changes), f"{flag.name} sets nothing"


@pytest.mark.parametrize(
    ("argv", "path", "value"),
    [
        (["-m", "x.gguf"], "model.path", "x.gguf"),
        (["-a", "one, two"], "model_alias", {"one", "two"}),
        (["--host", "127.0.0.1,::1"], "hostnames", ["127.0.0.1", "::1"]),
        (["-t", "3"], "cpuparams.n_threads", 3),
        (["-tb", "4"], "cpuparams_batch.n_threads", 4),
        (["-c", "0"], "fit_params_min_ctx", 2**31 - 1),
        (["-ngl", "all"], "n_gpu_layers", -2),
        (["-ngl", "99"], "n_gpu_layers", 99),
        (["-fa", "on"], "flash_attn_type", 1),
        (["-fa", "0"], "flash_attn_type", 0),
        (["--no-jinja"], "use_jinja", False),
        (["--no-webui"], "ui", False),
        (["--no-mmap"], "load_mode", 0),
        (["--mlock"], "load_mode", 3),
        (["--mlock", "--no-mmap"], "load_mode", 2),
        (["--no-mmap", "--mlock"], "load_mode", 2),
        (["-sm", "row"], "split_mode", 2),
        (["-ctk", "q8_0"], "cache_type_k", 8),
        (["--reranking"], "pooling_type", 4),
        (["--seed", "-1"], "sampling.seed", 2**32 - 1),
        (["--timeout", "5"], "timeout_write", 5),
        (["--no-kv-offload"], "no_kv_offload", True),
        (["--rope-scale", "4"], "rope_freq_scale", 0.25),
        (["--reasoning-format", "none"], "reasoning_format", 0),
        (["--reasoning", "off"], "default_template_kwargs", {"enable_thinking": "false"}),
        (["--chat-template-kwargs", '{"a": "b"}', "--reasoning", "on"], "default_template_kwargs", {"a": '"b"', "enable_thinking": "true"}),
        (["-v"], "verbosity", 2**31 - 1),
    ],
)
def test_a_flag_means_to_the_engine_what_it_means_to_llama_server(engine: Any, argv: list[str], path: str, value: object) -> None:
    assert dict(parameters_of(applied(engine, parse_args(argv, {}))))[path] == value


def test_tensor_split_fills_up_to_the_devices_there_can_be(engine: Any) -> None:
    split = applied(engine, parse_args(["-ts", "3/1"], {})).tensor_split

    assert split[:3] == [3.0, 1.0, 0.0]


def test_a_sampling_default_is_marked_as_the_users(engine: Any) -> None:
    mark = int(engine.common_params_sampling_config.COMMON_PARAMS_SAMPLING_CONFIG_TEMP)

    assert applied(engine, parse_args(["--temp", "0"], {})).sampling.user_sampling_config & mark


def test_keys_of_flag_and_file_add_up(engine: Any, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# ours\nc\n\nd\n", encoding="utf-8")

    assert applied(engine, parse_args(["--api-key", "a,b", "--api-key-file", str(keys)], {})).api_keys == ["a", "b", "c", "d"]


def test_a_template_file_is_read(engine: Any, tmp_path: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text("{{ messages }}", encoding="utf-8")

    assert applied(engine, parse_args(["--chat-template-file", str(template)], {})).chat_template == "{{ messages }}"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-np", "0"], "-np: a server needs at least one slot"),
        (["-c", "99999999999"], "-c: the number is out of range"),
        (["--rope-scale", "0"], "--rope-scale: a scale of 0 has no inverse"),
        (["--chat-template-kwargs", "{"], "--chat-template-kwargs: not JSON"),
        (["--chat-template-kwargs", "[]"], "--chat-template-kwargs: a JSON object is needed"),
        (["-ts", ",".join(["1"] * 999)], "-ts: 999 devices are named"),
    ],
)
def test_a_value_the_engine_cannot_take_is_refused(engine: Any, argv: list[str], message: str) -> None:
    with pytest.raises(LauncherError) as caught:
        applied(engine, parse_args(argv, {}))

    assert str(caught.value).startswith(message)
    assert caught.value.exit_code == 2


def test_an_empty_key_file_does_not_open_the_server(engine: Any, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# none yet\n", encoding="utf-8")

    with pytest.raises(LauncherError, match="holds no key"):
        applied(engine, parse_args(["--api-key-file", str(keys)], {}))


def test_a_parameter_this_engine_lacks_is_told(engine: Any) -> None:
    flag = BY_NAME["--port"]._replace(bind=lambda target, value: setattr(target.params, "no_such_parameter", value))

    with pytest.raises(LauncherError, match="--port is not supported by the embedded engine"):
        apply_setting(Target(engine, engine.CommonParams()), parse_args(["--port", "1"], {}).settings[0]._replace(flag=flag))


def test_defaults_are_those_of_llama_server(engine: Any) -> None:
    params = build_params(engine, plan_serving(parse_args(["-m", "x.gguf"], {})))

    assert (params.port, params.hostnames, params.n_parallel) == (8080, ["127.0.0.1"], -1)


def test_a_model_of_the_hub_is_called_by_its_spec(engine: Any) -> None:
    plan = plan_serving(parse_args(["-hf", "me/tiny:Q8_0"], {}))

    params = build_params(engine, plan, HubModel("/cache/tiny.gguf", "/cache/mmproj.gguf"))

    assert (params.model.path, params.mmproj.path) == ("/cache/tiny.gguf", "/cache/mmproj.gguf")
    assert params.model_alias == {"me/tiny:Q8_0"}


def test_an_alias_wins_over_the_spec(engine: Any) -> None:
    plan = plan_serving(parse_args(["-hf", "me/tiny", "--alias", "mine"], {}))

    assert build_params(engine, plan, HubModel("/cache/tiny.gguf", "")).model_alias == {"mine"}


@pytest.mark.parametrize("declined", [["--no-mmproj"], ["--mmproj", "/m.gguf"]])
def test_no_projector_is_fetched_when_there_is_one_or_none_is_wanted(declined: list[str]) -> None:
    request = plan_serving(parse_args(["-hf", "me/tiny", *declined], {})).hub

    assert request == HubRequest("me/tiny", projector=False)


def test_a_bool_word_reads_as_llama_server_reads_it() -> None:
    words = ("on", "enabled", "true", "1", "off", "disabled", "false", "0")

    assert [parse_value(BY_NAME["--fit"], word, "--fit") for word in words] == [True] * 4 + [False] * 4
