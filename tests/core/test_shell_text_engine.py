"""Finding and editing the command that starts the engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.shell_text import (
    Arity,
    EngineCall,
    EngineSyntax,
    FlagForm,
    QuotedEngineError,
    find_engine,
    flag_uses,
    flag_value,
    insert_flags,
    model_word,
    quote_word,
    remove_flag,
    replace_engine_words,
    replace_flag,
    swap_flag,
    unquote,
)

VLLM = EngineSyntax("vllm serve", (("vllm", "serve"), ("python", "-m", "vllm.entrypoints.openai.api_server")), ("--model",))
LLAMA = EngineSyntax("llama-server", (("llama-server",),), ("-hf", "-m", "--model"), model_is_positional=False)
TRTLLM = EngineSyntax("trtllm-serve", (("trtllm-serve",), ("trtllm-serve", "serve")))
PORT = FlagForm(("--port",))
TENSOR = FlagForm(("-tp", "--tensor-parallel-size"))
EAGER = FlagForm(("--enforce-eager",), Arity.NONE)
NAMES = FlagForm(("--served-model-name",), Arity.MANY)

VALUES = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=12).filter(
    lambda text: text[0] != "-"
)
TAILS = st.sampled_from(
    ["", "\n", " \\\n", " \\", " # note -- port 1", " 2>&1 | tee log", " &", " > log # x", "; echo --port 1", "\necho --port 1\n"]
)
HEADS = st.sampled_from(
    ["", "exec ", "export A='b c';\n", "pip install x && ", "cat <<E\nvllm serve --port 1\nE\n", "# vllm serve --port 1\n"]
)
SEPARATORS = st.sampled_from([" ", "  ", " \\\n  ", "\t"])
FLAG_WORDS = st.sampled_from(
    ["--port 8000", "--port=8000", "--enforce-eager", "-tp 2", "--max_model_len 4096", "--x '{\"a\": 1}'", "--seed -1"]
)


@st.composite
def command_texts(draw: st.DrawFn) -> str:
    parts = draw(st.lists(FLAG_WORDS, max_size=5))
    return draw(HEADS) + "vllm serve m" + "".join(draw(SEPARATORS) + part for part in parts) + draw(TAILS)


def engine_call(text: str, engine: EngineSyntax = VLLM) -> EngineCall:
    call = find_engine(text, engine)
    assert call is not None
    return call


def arguments(text: str) -> list[str]:
    return [word.text for word in engine_call(text).arguments]


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m",
        "  \n vllm serve m",
        "/usr/local/bin/vllm serve m",
        "exec vllm serve m",
        "export A=b; export C=d;\nexec env X=1 taskset -c 0-3 vllm serve m",
        "pip install -U 'vllm serve x'; vllm serve m",
        "curl -o /f http://h/f && vllm serve m",
        "{ vllm serve m; }",
        "( cd /x; vllm serve m )",
        "if true; then vllm serve m; fi",
        "python3 -u -X dev -m vllm.entrypoints.openai.api_server m",
        "python -m vllm.entrypoints.openai.api_server m",
        "/opt/venv/bin/python3.12 -m vllm.entrypoints.openai.api_server m",
        "vllm serve other --port 1 && vllm serve m",
        "vllm serve m | tee log",
        "vllm serve m 2>&1",
        "mpirun -n 2 -H a,b -x KEY vllm serve m",
    ],
)
def test_engine_is_found(text: str) -> None:
    call = engine_call(text)
    assert [word.text for word in call.arguments] == ["m"]
    assert text[call.arguments[0].start : call.insertion_point] == "m"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "echo vllm serve m",
        "pip install vllm",
        "vllm bench m",
        "# vllm serve m",
        "cat <<E\nvllm serve m\nE",
        "X=$(vllm serve m)",
        "echo 'vllm serve m'",
        "python -c 'import vllm' -m vllm.entrypoints.openai.api_server",
        "python server.py",
        "vllm",
    ],
)
def test_what_starts_no_engine(text: str) -> None:
    assert find_engine(text, VLLM) is None


def test_longer_start_wins() -> None:
    assert [word.text for word in engine_call("trtllm-llmapi-launch trtllm-serve serve m", TRTLLM).head] == ["trtllm-serve", "serve"]


@pytest.mark.parametrize("text", ["bash -c 'vllm serve m --port 8000'", 'exec bash -lc "vllm serve m --port=8000"'])
def test_engine_within_quotes_is_read_but_not_edited(text: str) -> None:
    call = engine_call(text)
    assert not call.editable
    assert flag_value(call, PORT) == "8000"
    with pytest.raises(QuotedEngineError, match="inside quotes"):
        insert_flags(call, ["--x"])
    with pytest.raises(QuotedEngineError):
        replace_flag(call, PORT, ["9000"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vllm serve m", "vllm serve m --new 1"),
        ("vllm serve m # note", "vllm serve m --new 1 # note"),
        ("vllm serve m \\", "vllm serve m --new 1"),
        ("vllm serve m \\\n", "vllm serve m --new 1\n"),
        ("vllm serve m \\  \n\n", "vllm serve m --new 1\n\n"),
        ("vllm serve m \\\n# note \\\n", "vllm serve m --new 1 \\\n# note \\\n"),
        ("vllm serve m \\\n  --port 1 \\\n  # off: --x \\\n", "vllm serve m \\\n  --port 1 --new 1 \\\n  # off: --x \\\n"),
        ("vllm serve m 2>&1 | tee log", "vllm serve m --new 1 2>&1 | tee log"),
        ("vllm serve m > log --port 1 2> err", "vllm serve m > log --port 1 --new 1 2> err"),
        ("{ vllm serve m; }", "{ vllm serve m --new 1; }"),
        ("vllm serve m &\nwait", "vllm serve m --new 1 &\nwait"),
        ("vllm serve m <<E\nx\nE\n", "vllm serve m --new 1 <<E\nx\nE\n"),
    ],
)
def test_insertion_stays_on_the_last_real_word(text: str, expected: str) -> None:
    assert insert_flags(engine_call(text), ["--new", "1"]) == expected


def test_inserting_nothing_changes_nothing() -> None:
    assert insert_flags(engine_call("vllm serve m \\"), []) == "vllm serve m \\"


@pytest.mark.parametrize(
    ("text", "form", "value"),
    [
        ("vllm serve m --port 8000", PORT, "8000"),
        ("vllm serve m --port=8000", PORT, "8000"),
        ("vllm serve m --port '80 00'", PORT, "80 00"),
        ("vllm serve m --port 1 --port 2", PORT, "2"),
        ("vllm serve m -tp 2", TENSOR, "2"),
        ("vllm serve m -tp=2", TENSOR, "2"),
        ("vllm serve m --tensor_parallel_size 2", TENSOR, "2"),
        ("vllm serve m --enforce-eager n", EAGER, True),
        ("vllm serve m --port", PORT, True),
        ("vllm serve m --port --x", PORT, True),
        ("vllm serve m --seed -1", FlagForm(("--seed",)), "-1"),
        ("vllm serve m --served-model-name a 'b c' --x", NAMES, "a b c"),
        ("vllm serve m --x; echo --port 1", PORT, None),
        ("vllm serve m --ports 1", PORT, None),
        ("vllm serve m --port.x=1", PORT, None),
        ("vllm serve m -TP 1", TENSOR, None),
    ],
)
def test_flag_value(text: str, form: FlagForm, value: str | bool | None) -> None:
    assert flag_value(engine_call(text), form) == value


def test_value_that_only_the_shell_knows_is_dynamic() -> None:
    uses = flag_uses(engine_call("vllm serve m --port $PORT --port '$PORT'"), PORT)
    assert [use.dynamic for use in uses] == [True, False]


@pytest.mark.parametrize(
    ("text", "form", "values", "expected"),
    [
        ("vllm serve m --port 1  --x", PORT, ["9"], "vllm serve m --port 9  --x"),
        ("vllm serve m --port=1 --port 2 # --port 3", PORT, ["9"], "vllm serve m --port=9 --port 9 # --port 3"),
        ("vllm serve m --port \\\n  1 \\\n", PORT, ["9"], "vllm serve m --port \\\n  9 \\\n"),
        ('vllm serve m --port="1 2"', PORT, ["'9 9'"], "vllm serve m --port='9 9'"),
        ("vllm serve m '--port=1'", PORT, ["9"], "vllm serve m --port=9"),
        ("vllm serve m --port --x", PORT, ["9"], "vllm serve m --port 9 --x"),
        ("vllm serve m --served-model-name a \\\n b --x", NAMES, ["c"], "vllm serve m --served-model-name c --x"),
        ("vllm serve m --served-model-name=a --x", NAMES, ["c", "d"], "vllm serve m --served-model-name c d --x"),
        ("vllm serve m --x", PORT, ["9"], "vllm serve m --x"),
    ],
)
def test_replacing_a_flag(text: str, form: FlagForm, values: list[str], expected: str) -> None:
    assert replace_flag(engine_call(text), form, values) == expected


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("vllm serve m --port 1 --x", PORT, "vllm serve m --x"),
        ("vllm serve m \\\n  --port 1 \\\n  --x", PORT, "vllm serve m \\\n  --x"),
        ("vllm serve m --x --port=1\n", PORT, "vllm serve m --x\n"),
        ("vllm serve m --enforce-eager n --x", EAGER, "vllm serve m n --x"),
        ("vllm serve m --port 2>log 1 --x", PORT, "vllm serve m 2>log --x"),
    ],
)
def test_removing_a_flag(text: str, form: FlagForm, expected: str) -> None:
    assert remove_flag(engine_call(text), form) == expected


def test_swapping_a_flag_keeps_its_place() -> None:
    call = engine_call("llama-server -hf org/m \\\n  -c 1 -hf other", LLAMA)
    assert swap_flag(call, FlagForm(("-hf",)), ["-m", "/x.gguf"]) == "llama-server -m /x.gguf \\\n  -c 1"


def test_swapping_an_absent_flag_changes_nothing() -> None:
    assert swap_flag(engine_call("vllm serve m"), PORT, ["--x"]) == "vllm serve m"


def test_engine_words_are_replaced() -> None:
    assert replace_engine_words(engine_call("exec /x/vllm  serve m # vllm"), ["python", "-m", "v"]) == "exec python -m v m # vllm"


@pytest.mark.parametrize(
    ("text", "engine", "model"),
    [
        ("vllm serve org/m --port 1", VLLM, "org/m"),
        ("vllm serve --port 1 --model org/m", VLLM, "org/m"),
        ("vllm serve --port 1", VLLM, None),
        ("llama-server -hf org/m:Q4", LLAMA, "org/m:Q4"),
        ("llama-server x", LLAMA, None),
        ("vllm serve", VLLM, None),
    ],
)
def test_model_word(text: str, engine: EngineSyntax, model: str | None) -> None:
    word = model_word(engine_call(text, engine), engine)
    assert (word.text if word else None) == model


@given(command_texts(), VALUES)
def test_inserted_words_are_read_back_and_nothing_else_changes(text: str, value: str) -> None:
    call = engine_call(text)
    before, at = arguments(text), call.insertion_point
    result = insert_flags(call, ["--new", quote_word(value)])
    assert arguments(result) == [*before, "--new", value]
    assert result.startswith(text[:at])
    tail = text[at:].removeprefix(" \\")
    assert result == f"{text[:at]} --new {quote_word(value)}{tail}"


@given(command_texts(), VALUES)
def test_replaced_value_is_read_back_and_replacing_is_idempotent(text: str, value: str) -> None:
    call = engine_call(text)
    result = replace_flag(call, PORT, [quote_word(value)])
    assert flag_value(engine_call(result), PORT) == (value if flag_uses(call, PORT) else None)
    assert replace_flag(engine_call(result), PORT, [quote_word(value)]) == result
    uses = [use.values[0] if use.values else use.word for use in flag_uses(call, PORT)]
    if uses:
        assert result.startswith(text[: uses[0].start])
        assert result.endswith(text[uses[-1].end :])
    else:
        assert result == text


@given(command_texts())
def test_removed_flag_is_gone_and_removing_is_idempotent(text: str) -> None:
    result = remove_flag(engine_call(text), PORT)
    assert flag_value(engine_call(result), PORT) is None
    assert remove_flag(engine_call(result), PORT) == result
    assert [word for word in arguments(text) if word not in ("--port", "8000", "--port=8000")] == arguments(result)


@given(st.text(alphabet="vllm serve-p\\\n'\"$({#<", max_size=60))
def test_finding_an_engine_never_fails(text: str) -> None:
    call = find_engine(f"vllm serve m {text}", VLLM)
    assert call is None or call.insertion_point <= len(call.text)


def test_unquoted_words_of_the_head_are_what_was_written() -> None:
    call = engine_call("'vllm' ser\"ve\" m")
    assert [unquote(word.raw) for word in call.head] == ["vllm", "serve"]
