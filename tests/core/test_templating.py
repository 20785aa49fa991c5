"""Filling in command templates and environment values."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkrun.core.flags import FlagKind, FlagMap, flag
from sparkrun.core.templating import Doubling, PlaceholderCycle, UnknownEnvReference, env_references, render, render_env
from sparkrun.core.values import ConfigValue

FLAGS = FlagMap([flag("port"), flag("trust", kind=FlagKind.PRESENCE), flag("sizes", kind=FlagKind.LIST), flag("kwargs", "--chat-kwargs")])
TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0\r{}"), min_size=1, max_size=12)
BRACED = st.text(alphabet="ab{}", max_size=12)
NAMES = st.sampled_from(["a", "b", "c", "model"])
NASTY = st.text(alphabet="ab'\"\\$` \n#;&|(){}<>=*-", min_size=1, max_size=12).filter(lambda text: "{" not in text and "}" not in text)
SHOW = "show() { printf '%s\\0' \"$@\"; }\n"


def text_of(template: str, values: dict[str, ConfigValue], *, author: bool = False) -> str:
    return render(template, values, from_recipe=set(values) if author else (), flags=FLAGS).text


def shell_words(command: str) -> list[str]:
    """What a real shell hands to the program ``show``."""
    return subprocess.run(["bash", "-c", SHOW + command], capture_output=True, check=True, text=True).stdout.split("\0")[:-1]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("x {port}", "x 8000"),
        ("x --a={port}{port}", "x --a=80008000"),
        ("x {host}:{port}", "x ::1:8000"),
        ("x { port } {a.b} {port:04d} {port-x} {} {0} ${port} ${HOME}", "x { port } {a.b} {port:04d} {port-x} {} {0} ${port} ${HOME}"),
        ("x ${HOME} ${VAR:-x} ${PORT:-{port}}", "x ${HOME} ${VAR:-x} ${PORT:-8000}"),
        ("f() { echo {port}; }; f", "f() { echo 8000; }; f"),
        ("x {a,b} {1..3} \\{port}", "x {a,b} {1..3} \\{port}"),
        ("  x {port} \\\n", "x 8000"),
        ("x \\  \n  {port} \\", "x \\\n  8000"),
        ("x {port} # on {port}, {nothing}", "x 8000 # on {port}, {nothing}"),
    ],
)
def test_placeholders_and_what_is_none(template: str, expected: str) -> None:
    rendered = render(template, {"port": 8000, "host": "::1"})
    assert rendered.text == expected
    assert rendered.unknown == ()


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (0.90, "0.9"),
        ([1, 2], "[1,2]"),
        ({"method": "mtp", "n": 1, "on": True, "no": None}, '{"method":"mtp","n":1,"on":true,"no":null}'),
        ("my model's name", "my model's name"),
        ("1; reboot", "1; reboot"),
        ("$(reboot) `x` $X", "$(reboot) `x` $X"),
        ("--a 1 --b 2", "--a 1 --b 2"),
    ],
)
def test_every_value_is_one_word(value: ConfigValue, word: str) -> None:
    for template in ("x --f {v}", "x --f '{v}'", 'x --f "{v}"'):
        assert shlex.split(text_of(template, {"v": value})) == ["x", "--f", word]
        assert shell_words(text_of(template, {"v": value}).replace("x", "show", 1)) == ["--f", word]


def test_mapping_is_compact_json_quoted_once() -> None:
    values: dict[str, ConfigValue] = {"c": {"method": "mtp", "num_speculative_tokens": 1}}
    assert text_of("x --c {c}", values) == """x --c '{"method":"mtp","num_speculative_tokens":1}'"""
    assert text_of("x --c '{c}'", values) == """x --c '{"method":"mtp","num_speculative_tokens":1}'"""


@pytest.mark.parametrize(
    ("template", "argument"),
    [
        ("""x '{{"a":{{"n":{n}}}}}'""", {"a": {"n": 5}}),
        ("""x '{{"a":{"n":{n}}}}'""", {"a": {"n": 5}}),
        ("""x '{"a":{"n":{n}}}'""", {"a": {"n": 5}}),
        ("""x '{"a":{{"n":{n}}}}'""", {"a": {"n": 5}}),
        ("""x '{{ "n": {n} }}'""", {"n": 5}),
        ("""x '{{"n":{n}}'""", {"n": 5}),
        ("""x "{{\\"n\\": {n}}}" """, {"n": 5}),
        ("""x "{\\"n\\": \\"{s}\\"}" """, {"n": 'q"s'}),
        ("""x '{{"max": null}}'""", {"max": None}),
        ("""x '{{}}'""", {}),
        ("""x '{"s":"{s}"}'""", {"s": 'q"s'}),
        ("""x '{"s":{s}}'""", {"s": 'q"s'}),
        ("""x '{"s":{j}}'""", {"s": {"k": [1]}}),
        ("""x '{"s":{none},"e":"{none}","l":{empty}}'""", {"s": None, "e": "", "l": []}),
    ],
)
def test_json_in_the_command_whatever_its_braces(template: str, argument: object) -> None:
    values: dict[str, ConfigValue] = {"n": 5, "s": 'q"s', "j": '{"k": [1]}', "none": None, "empty": []}
    assert json.loads(shlex.split(text_of(template, values))[1]) == argument


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("x ${{HOME}} {port}", "x ${HOME} 8000"),
        ("x ${{VAR:-y}}", "x ${VAR:-y}"),
        ("""awk '{{print $1}}' {port}""", "awk '{print $1}' 8000"),
        ("""awk '{print $1}' f; x '{{"a":1}}'""", """awk '{print $1}' f; x '{"a":1}'"""),
        ("""x '{"a":1}' --fmt '{{.State}}'""", """x '{"a":1}' --fmt '{{.State}}'"""),
        ("x --fmt '{{.State}}'", "x --fmt '{{.State}}'"),
        ("x '{% if m %}{{ m.content }}{% endif %}'", "x '{% if m %}{{ m.content }}{% endif %}'"),
        ("x '{{port}}'", "x '{port}'"),
        ("x '{{{port}}}'", "x '{8000}'"),
        ("{{ x {port}; }}", "{ x 8000; }"),
    ],
)
def test_doubled_braces_follow_the_author_s_habit(template: str, expected: str) -> None:
    assert text_of(template, {"port": 8000}) == expected


def test_a_name_in_doubled_braces_is_told() -> None:
    assert render("x {{port}}", {"port": 1}).notes == ("{{port}} is taken literally; {port} stands for the value",)


def test_doubling_can_be_decided_by_the_caller() -> None:
    template = """x '{{"a":{port}}}' {{ y }}"""
    assert render(template, {"port": 1}, doubling=Doubling.NEVER_ESCAPE).text == """x '{{"a":1}}' {{ y }}"""
    assert render(template, {"port": 1}, doubling=Doubling.ALWAYS_ESCAPE).text == """x '{"a":1}' { y }"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"port": {port}}', '{"port": 8000}'),
        ('{{"port": {port}}}', '{"port": 8000}'),
        ("d = {'a': 1}\nprint(f'{{\"n\": {x!r}}}')", "d = {'a': 1}\nprint(f'{{\"n\": {x!r}}}')"),
        ("print(f'{unknown} {port}')", "print(f'{unknown} 8000')"),
    ],
)
def test_heredocs_have_a_habit_of_their_own(body: str, expected: str) -> None:
    rendered = render(f"cat > f <<'E'\n{body}\nE\nx '{{{{\"a\":1}}}}'", {"port": 8000})
    assert rendered.text == f"cat > f <<'E'\n{expected}\nE\nx '{{\"a\":1}}'"
    assert rendered.unknown == ()


def test_unknown_placeholders_are_told_with_place_and_nearest_key() -> None:
    template = "vllm serve {model} --port {port} --max-model-len {max_model_len} --quantization {quant}"
    rendered = render(template, {"model": "m", "port": 1, "max_modle_len": 2})
    assert [(found.name, found.nearest) for found in rendered.unknown] == [("max_model_len", "max_modle_len"), ("quant", None)]
    assert [template[found.start : found.end] for found in rendered.unknown] == ["{max_model_len}", "{quant}"]
    assert "{max_model_len}" in rendered.text
    assert rendered.used == {"model", "port"}


def test_unknown_placeholder_within_a_value_is_told_with_its_key() -> None:
    (found,) = render("x {a}", {"a": "pre-{b}"}).unknown
    assert (found.name, found.within, found.start, found.end) == ("b", "a", 2, 5)


def test_unknown_placeholder_within_a_quoted_script_has_its_place() -> None:
    template = "bash -c 'x {b}'"
    (found,) = render(template, {}).unknown
    assert template[found.start : found.end] == "{b}"


@pytest.mark.parametrize("template", ["awk '{print}' f", "x $(y '{z}')", "python3 -c 'f\"{z}\"'", "x ${A:-{z}}", "cat <<E\n{z}\nE"])
def test_braces_of_other_languages_are_not_unknown(template: str) -> None:
    rendered = render(template, {})
    assert rendered.text == template
    assert rendered.unknown == ()


@pytest.mark.parametrize("off", [None, "", []])
@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("x --port {off} --b", "x --b"),
        ("x \\\n  --port {off} \\\n  --b", "x \\\n  --b"),
        ("x --port '{off}'", "x"),
        ("x --port={off} --b", "x --b"),
        ('x --port="{off}" --b', "x --b"),
        ("x --port \\\n '{off}' --b", "x --b"),
        ("x --trust {off} --b", "x --trust --b"),
        ("x --unknown {off}", "x"),
        ("x --off \\\n {off}", "x"),
        ("x --unknown \\\n {off}", "x --unknown"),
        ("x --a 1 {off} --b", "x --a 1 --b"),
        ("x --a=1 {off}", "x --a=1"),
        ("x {off}:8000", "x :8000"),
        ("x '--port {off} y'", "x '--port  y'"),
        ("A={off} x", "A= x"),
    ],
)
def test_a_switched_off_value_takes_its_flag_away(template: str, expected: str, off: ConfigValue) -> None:
    assert text_of(template, {"off": off}) == expected


def test_switched_off_extra_arguments_leave_the_flag_before_them() -> None:
    assert text_of("x --unknown {extra_args}", {"extra_args": ""}) == "x --unknown"


def test_flags_text_of_the_recipe_is_several_words_and_told() -> None:
    rendered = render("x {extra} --b", {"extra": "--a '1 2' \\\n--c {y}\n--d", "y": "3 4"}, from_recipe={"extra"})
    assert shlex.split(rendered.text) == ["x", "--a", "1 2", "\n--c", "3 4", "--d", "--b"]
    assert shell_words(rendered.text.replace("x", "show", 1)) == ["--a", "1 2", "--c", "3 4", "--d", "--b"]
    assert rendered.notes == ("{extra} is put in as several words",)


def test_flags_text_of_the_user_is_one_word() -> None:
    assert shlex.split(text_of("x {extra}", {"extra": "--a 1"})) == ["x", "--a 1"]


def test_user_value_behind_a_recipe_alias_is_one_word() -> None:
    rendered = render("x {alias}", {"alias": "{extra}", "extra": "--a 1"}, from_recipe={"alias"})
    assert shlex.split(rendered.text) == ["x", "--a 1"]
    assert rendered.used == {"alias", "extra"}


def test_flags_text_within_quotes_or_words_is_one_word() -> None:
    assert shlex.split(text_of("x '{extra}' --y={extra}", {"extra": "--a 1"}, author=True)) == ["x", "--a 1", "--y=--a 1"]


def test_numbers_of_the_recipe_are_several_words() -> None:
    assert text_of("x --cuda-graph-bs {bs}", {"bs": "1 2 4"}, author=True) == "x --cuda-graph-bs 1 2 4"
    assert text_of("x --name {bs}", {"bs": "1 two"}, author=True) == "x --name '1 two'"


def test_list_of_a_list_flag_is_several_words() -> None:
    assert text_of("x --sizes {sizes} --y {other}", {"sizes": [1, "a b"], "other": [1]}) == "x --sizes 1 'a b' --y '[1]'"


def test_shell_variables_of_the_recipe_stay_alive() -> None:
    assert (
        text_of("x --h {h} \"{h}\" '{h}'", {"h": "${NODE_IP}/a b"}, author=True)
        == 'x --h "${NODE_IP}/a b" "${NODE_IP}/a b" \'${NODE_IP}/a b\''
    )
    assert text_of("x {h}", {"h": "$X $(y)"}, author=True) == "x '$X $(y)'"
    assert text_of("x {h}", {"h": "$X"}) == "x '$X'"


@pytest.mark.parametrize(
    "template",
    ["bash -c 'show --f {v} end'", 'bash -c "show --f {v} end"', """bash -c 'show --f "{v}" end'""", 'bash -c "show --f \\"x\\" {v} end"'],
)
@pytest.mark.parametrize("value", ["a b", "it's", 'q"q', "$X `y` \\z", "1; reboot"])
def test_values_within_a_quoted_script_are_words_of_that_script(template: str, value: str) -> None:
    command = SHOW + "export -f show\n" + text_of(template, {"v": value})
    shown = subprocess.run(["bash", "-c", command], capture_output=True, check=True, text=True).stdout.split("\0")[:-1]
    assert shown in (["--f", value, "end"], ["--f", "x", value, "end"])


def test_switched_off_value_within_a_quoted_script_takes_its_flag_away() -> None:
    assert text_of("bash -c 'x --port {off} --b'", {"off": None}) == "bash -c 'x --b'"


@pytest.mark.parametrize(
    "template", ["show $'{v}'", "show `printf %s {v}`", 'show "`printf %s {v}`"', 'show "$(printf %s {v})"', 'show "${N:-{v}}"']
)
@pytest.mark.parametrize("value", ["it's", "a$b", "q`q", "b\\s", "p}q"])
def test_values_in_rare_places_come_through(template: str, value: str) -> None:
    assert shell_words(text_of(template, {"v": value})) == [value]


def test_values_in_a_heredoc_come_through() -> None:
    value = 'it\'s $X `y` \\z "q"'
    assert shell_words(text_of('show "$(cat <<E\n{v}\nE\n)"', {"v": value})) == [value]
    assert text_of("cat <<'E'\n{v}\nE\n", {"v": value}) == f"cat <<'E'\n{value}\nE\n"


def test_values_refer_to_values() -> None:
    values: dict[str, ConfigValue] = {
        "a": "{b}-{c}",
        "b": "x{c}",
        "c": 1,
        "d": '{"x": {"y": {c}}}',
        "e": {"k": ["{c}", "n{c}"]},
        "f": "{e}",
    }
    assert shlex.split(text_of("x {a} {d} {e} {f}", values)) == ["x", "x1-1", '{"x": {"y": 1}}', '{"k":[1,"n1"]}', '{"k":[1,"n1"]}']
    assert render("x {a}", values).used == {"a", "b", "c"}


def test_value_that_is_another_switched_off_value_is_switched_off() -> None:
    assert text_of("x --a {a}", {"a": "{b}", "b": None}) == "x"


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"a": "{a}"}, "a → a"),
        ({"a": "x{b}", "b": ["{c}"], "c": "{b}"}, "b → c → b"),
        ({"a": "--x 1 {a}"}, "a → a"),
    ],
)
def test_cycle_is_named(values: dict[str, ConfigValue], names: str) -> None:
    with pytest.raises(PlaceholderCycle, match=names):
        render("x {a}", values, from_recipe=set(values))


def test_depth_and_size_are_bounded() -> None:
    deep: dict[str, ConfigValue] = {f"v{i}": f"{{v{i + 1}}}." for i in range(20)}
    with pytest.raises(PlaceholderCycle, match="more than 10 deep"):
        render("x {v0}", deep)
    wide: dict[str, ConfigValue] = {f"v{i}": f"{{v{i + 1}}}" * 30 for i in range(8)}
    wide["v8"] = "y" * 30
    with pytest.raises(PlaceholderCycle, match="grows past"):
        render("x {v0}", wide)


@given(st.dictionaries(NAMES, BRACED | st.just("{b}{c}"), min_size=4), st.text(alphabet="ab{} '\"\\$", max_size=30))
def test_rendering_any_braces_ends(values: dict[str, ConfigValue], template: str) -> None:
    with contextlib.suppress(PlaceholderCycle):
        assert render(template, values, from_recipe=set(values)).used <= set(values)


@given(TEXT | NASTY)
def test_shell_words_of_a_rendered_command_are_the_values(value: str) -> None:
    template = "x {v} --y={v} '{v}' \"{v}\" 'p {v}'{v} {host}:{v}"
    words = shlex.split(text_of(template, {"v": value, "host": "h"}))
    assert words == ["x", value, f"--y={value}", value, value, f"p {value}{value}", f"h:{value}"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=6
    )
)
def test_structured_values_come_back_from_json(value: ConfigValue) -> None:
    words = shlex.split(text_of("""x '{{"v":{v}}}' '{"v":{v}}'""", {"v": {"k": value}}))
    assert [json.loads(word) for word in words[1:]] == [{"v": {"k": value}}] * 2


@given(st.text(alphabet="ab \\\n'\"#", max_size=30))
@example("a\\  \n '")
@example("\\\\ #\\ \n")
def test_text_without_braces_changes_only_at_its_ends_and_in_blanks_that_break_a_continuation(template: str) -> None:
    def joined(text: str) -> str:
        return re.sub(r"\\ *(?=\n|\Z)", r"\\", text)

    assert joined(text_of(template, {})) in joined(template)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain ${HOME} {x} {a.b} $1", "plain ${HOME} {x} {a.b} $1"),
        ("{config.port}", "8000"),
        ("{config.on}/{launch.node_rank}", "true/0"),
        ("{config.name}", "org/m-x"),
        ("{config.none}", ""),
        ('{"a": {config.port}}', '{"a": 8000}'),
        ('{{"a": {config.port}}}', '{"a": 8000}'),
        ("{{config.port}} {{x}} {{ y }}", "{config.port} {x} { y }"),
    ],
)
def test_environment_values(value: str, expected: str) -> None:
    config: dict[str, ConfigValue] = {"port": 8000, "on": True, "name": "{model}-x", "model": "org/m", "none": None}
    assert render_env(value, config, {"node_rank": "0"}) == expected


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("{launch.bad}", "unknown launch field {launch.bad}", "known fields"),
        ("{launch.node_rnak}", "unknown launch field", "node_rank"),
        ("{launch.cluster_id}", "has no value here", "planned"),
        ("{config.prot}", "unknown configuration key {config.prot}", "port"),
        ("{config.name}", "unknown configuration key {nothing} in the value of name", "defaults"),
    ],
)
def test_environment_reference_without_a_value_is_refused(value: str, message: str, hint: str) -> None:
    with pytest.raises(UnknownEnvReference) as caught:
        render_env(value, {"port": 1, "name": "{nothing}"}, {"node_rank": "0"})
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_environment_references_are_listed_once() -> None:
    assert env_references("{config.a}{config.b}{config.a}{launch.node_host}") == (("a", "b"), ("node_host",))
