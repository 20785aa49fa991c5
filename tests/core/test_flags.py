"""Flag maps: rendering, reading and changing an engine's flags."""

from __future__ import annotations

import argparse
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.flags import (
    Edit,
    FlagKind,
    FlagMap,
    Unmapped,
    apply_override,
    flag,
    literal_values,
    render_flags,
    unknown_flags,
)
from sparkrun.core.shell_text import EngineCall, EngineSyntax, QuotedEngineError, find_engine
from sparkrun.core.values import ConfigValue, value_text

ENGINE = EngineSyntax("serve", (("serve",),))
MAP = FlagMap(
    [
        flag("port"),
        flag("tensor_parallel", "-tp", also="--tensor-parallel-size"),
        flag("max_model_len", "--ctx-size", also="-c", keys="ctx_size"),
        flag("names", kind=FlagKind.LIST),
        flag("config", kind=FlagKind.JSON),
        flag("eager", "--enforce-eager", FlagKind.PRESENCE),
        flag("prefix", "--enable-prefix", FlagKind.NEGATABLE),
        flag("mmap", kind=FlagKind.ONLY_OFF),
        flag("flash", kind=FlagKind.ONOFF),
        flag("exact", kind=FlagKind.BOOL_VALUE),
    ],
    leading=("tensor_parallel",),
)
VALUES = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)


def call_of(text: str) -> EngineCall:
    call = find_engine(text, ENGINE)
    assert call is not None
    return call


def override(text: str, key: str, value: ConfigValue) -> Edit:
    edit = apply_override(call_of(text), MAP, key, value)
    assert isinstance(edit, Edit)
    again = apply_override(call_of(edit.text), MAP, key, value)
    assert isinstance(again, Edit)
    assert (again.action, again.text) == ("unchanged", edit.text)
    return edit


def rendered(**config: ConfigValue) -> list[str]:
    return shlex.split(" ".join(render_flags(MAP, config)))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, []),
        ({"port": 8000, "tensor_parallel": 2}, ["-tp", "2", "--port", "8000"]),
        ({"port": None, "names": [], "config": ""}, []),
        ({"ctx_size": 1}, ["--ctx-size", "1"]),
        ({"ctx_size": 1, "max_model_len": 2}, ["--ctx-size", "2"]),
        ({"ctx_size": 1, "max_model_len": None}, ["--ctx-size", "1"]),
        ({"names": ["a b", 1]}, ["--names", "a b", "1"]),
        ({"names": "a b"}, ["--names", "a b"]),
        ({"names": "1 2 4"}, ["--names", "1", "2", "4"]),
        ({"config": {"a": [1, None], "b": True}}, ["--config", '{"a":[1,null],"b":true}']),
        ({"config": '{"a": 1}'}, ["--config", '{"a": 1}']),
        ({"port": True}, ["--port", "true"]),
        ({"eager": True}, ["--enforce-eager"]),
        ({"eager": False}, []),
        ({"eager": "false"}, []),
        ({"prefix": True}, ["--enable-prefix"]),
        ({"prefix": False}, ["--no-enable-prefix"]),
        ({"prefix": None}, []),
        ({"mmap": True}, []),
        ({"mmap": False}, ["--no-mmap"]),
        ({"flash": True}, ["--flash", "on"]),
        ({"flash": "False"}, ["--flash", "off"]),
        ({"flash": "auto"}, ["--flash", "auto"]),
        ({"exact": False}, ["--exact", "false"]),
        ({"exact": 1}, ["--exact", "true"]),
        ({"other": 1}, []),
    ],
)
def test_rendered_flags(config: dict[str, ConfigValue], words: list[str]) -> None:
    assert rendered(**config) == words


def test_skipped_keys_are_not_rendered() -> None:
    assert render_flags(MAP, {"port": 1, "tensor_parallel": 2}, skip={"tensor_parallel"}) == ("--port", "1")


@given(VALUES)
def test_rendered_text_is_what_a_parser_of_options_reads(value: str) -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False, prefix_chars="-")
    parser.add_argument("--port")
    assert parser.parse_args(rendered(port=value)).port == value


@pytest.mark.parametrize("value", ["-x", "--flag", "-:"])
def test_a_value_that_looks_like_an_option_is_joined_to_its_flag(value: str) -> None:
    assert rendered(port=value) == [f"--port={value}"]


@pytest.mark.parametrize("value", ["-", "-1", "-0.5", "a-b"])
def test_other_values_stay_words_of_their_own(value: str) -> None:
    assert rendered(port=value) == ["--port", value]


def test_flags_are_found_by_key_alias_and_spelling() -> None:
    assert MAP.by_key("ctx_size") is MAP.by_key("max_model_len") is not None
    assert MAP.by_spelling("--tensor_parallel_size") == MAP.by_key("tensor_parallel")
    assert MAP.by_spelling("--no-enable-prefix") == MAP.by_key("prefix")
    assert MAP.by_spelling("--other") is None
    assert [MAP.takes_value(name) for name in ("--port", "--enforce-eager", "--no-mmap", "--other")] == [True, False, False, None]


@pytest.mark.parametrize(
    ("text", "key", "value", "expected", "action", "before"),
    [
        ("serve m --port 9001", "port", 8123, "serve m --port 8123", "replaced", "9001"),
        ("serve m --port=1 --port 2 # --port 3", "port", 9, "serve m --port=9 --port 9 # --port 3", "replaced", "2"),
        ("serve m -tp 1 --tensor_parallel_size 2", "tensor_parallel", 4, "serve m -tp 4 --tensor_parallel_size 4", "replaced", "2"),
        ("serve m -c 1", "ctx_size", 2, "serve m -c 2", "replaced", "1"),
        ("serve m # note", "port", 8123, "serve m --port 8123 # note", "added", None),
        ("serve m \\\n", "config", {"a": 1}, "serve m --config '{\"a\":1}'\n", "added", None),
        ("serve m --port 1 --x", "port", None, "serve m --x", "removed", "1"),
        ("serve m --port '1'", "port", 1, "serve m --port '1'", "unchanged", None),
        ("serve m --port $PORT", "port", "$PORT", "serve m --port '$PORT'", "replaced", "$PORT"),
        ("serve m --names a b --x", "names", ["c", "d e"], "serve m --names c 'd e' --x", "replaced", "a b"),
        ("serve m", "eager", True, "serve m --enforce-eager", "added", None),
        ("serve m --enforce-eager n", "eager", False, "serve m n", "removed", "--enforce-eager"),
        ("serve m --no-enforce-eager", "eager", True, "serve m --enforce-eager", "replaced", "--no-enforce-eager"),
        ("serve m --no-enforce-eager", "eager", False, "serve m --no-enforce-eager", "unchanged", None),
        ("serve m --enable-prefix n", "prefix", False, "serve m --no-enable-prefix n", "replaced", "--enable-prefix"),
        ("serve m", "prefix", False, "serve m --no-enable-prefix", "added", None),
        ("serve m --enable-prefix --no-enable-prefix", "prefix", True, "serve m --enable-prefix", "replaced", "--no-enable-prefix"),
        ("serve m --enable-prefix --no-enable-prefix", "prefix", None, "serve m", "removed", "--no-enable-prefix"),
        ("serve m --no-mmap", "mmap", True, "serve m", "removed", "--no-mmap"),
        ("serve m --mmap", "mmap", True, "serve m --mmap", "unchanged", None),
        ("serve m --mmap", "mmap", False, "serve m --no-mmap", "replaced", "--mmap"),
        ("serve m --flash --x", "flash", False, "serve m --flash off --x", "replaced", "--flash"),
    ],
)
def test_override(text: str, key: str, value: ConfigValue, expected: str, action: str, before: str | None) -> None:
    edit = override(text, key, value)
    assert (edit.text, edit.action, edit.before) == (expected, action, before)


def test_override_without_a_flag_names_the_nearest_key() -> None:
    assert apply_override(call_of("serve m"), MAP, "max_modle_len", 1) == Unmapped("max_modle_len", "max_model_len")
    assert apply_override(call_of("serve m"), MAP, "zzz", 1) == Unmapped("zzz", None)


def test_override_of_a_quoted_engine_is_refused_only_where_it_would_change_something() -> None:
    call = call_of("bash -c 'serve m --port 1'")
    with pytest.raises(QuotedEngineError):
        apply_override(call, MAP, "port", 2)
    edit = apply_override(call, MAP, "port", 1)
    assert isinstance(edit, Edit)
    assert edit.action == "unchanged"


@given(st.sampled_from(["serve m", "serve m --port 1 \\\n  --x", "serve m --port=1 | tee l", "A=1 exec serve m # --port 2"]), VALUES)
def test_overridden_value_is_what_the_command_says(text: str, value: str) -> None:
    said = literal_values(call_of(override(text, "port", value).text), MAP)
    assert said == {} if "{" in value and "port" not in said else {"port": value_text(value)}


def test_literal_values_are_what_the_command_says() -> None:
    text = "serve m --port=9001 -tp {tp} --ctx_size 1 -c 2 --names a 'b c' --enforce-eager --no-enable-prefix --no-mmap --flash $F --exact"
    expected = {"port": "9001", "max_model_len": "2", "names": "a b c", "eager": True, "prefix": False, "mmap": False}
    assert literal_values(call_of(text), MAP) == expected


def test_last_of_two_contrary_switches_counts() -> None:
    assert literal_values(call_of("serve m --no-enable-prefix --enable_prefix"), MAP) == {"prefix": True}


def test_unknown_flags_name_the_nearest_known_one() -> None:
    call = call_of("serve m --max_model_len 1 --port.x=1 --max-modle-len=2 --zzz -q --port -1")
    found = unknown_flags(call, ["--max-model-len", "--port"])
    assert found == (("--max-modle-len", "--max-model-len"), ("--zzz", None))
