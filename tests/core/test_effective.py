"""The configuration in force: tiers, overrides and where values come from."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.effective import EffectiveConfig, Override, Tiers, build_effective, coerce, parse_override, parse_overrides
from sparkrun.core.errors import NoValueError, RecipeError, UsageError
from sparkrun.core.recipe import ConditionalOverride, Recipe, RecipeSource, load_recipe_text
from sparkrun.core.recipe.schema import Values


def recipe(text: str = "") -> Recipe:
    return load_recipe_text(f"model: org/m\n{text}", RecipeSource("text", "r"))


def effective(text: str = "", **tiers: Values) -> EffectiveConfig:
    return build_effective(recipe(text), Tiers(**tiers))  # type: ignore[arg-type]


class TestChain:
    def test_the_highest_tier_wins(self) -> None:
        tiers = Tiers(
            overrides={"a": "cli"},
            user={"a": "user", "b": "user"},
            conditional=(
                ConditionalOverride({}, defaults={"a": "x", "b": "x", "c": "first"}),
                ConditionalOverride({}, defaults={"c": "later"}),
            ),
            platform={"a": "p", "d": "p", "e": "p"},
            runtime={"a": "r", "e": "r", "f": "r"},
        )
        config = build_effective(recipe("defaults: {a: 1, b: 1, c: 1, d: 1}"), tiers)

        assert [config.get(key) for key in "abcdef"] == ["cli", "user", "later", 1, "p", "r"]
        assert [config.origin(key) for key in "abcdef"] == ["override", "user", "conditional", "recipe", "platform", "runtime"]

    def test_a_switched_off_value_hides_the_tiers_below(self) -> None:
        config = effective("defaults: {a: null}", platform={"a": 0.8})

        assert ("a" in config, config.get("a", 5), config.is_off("a"), config.origin("a")) == (True, None, True, "recipe")

    def test_an_absent_value_is_the_default(self) -> None:
        config = effective()

        assert ("a" in config, config.get("a", 5), config.is_off("a"), config.origin("a")) == (False, 5, False, None)

    @pytest.mark.parametrize(("value", "off"), [("", True), ([], True), (0, False), (False, False), ({}, False), ("x", False)])
    def test_what_counts_as_off(self, value: object, off: bool) -> None:
        assert effective(overrides={"a": value}).is_off("a") is off  # type: ignore[dict-item]

    def test_a_slash_in_a_key_is_part_of_it(self) -> None:
        config = effective("defaults: {a/b: 1, a: {b: 2}}")

        assert (config.get("a/b"), config.get("a")) == (1, {"b": 2})

    def test_empty_tiers_are_passed_over(self) -> None:
        assert effective("defaults: {}", runtime={"a": 1}).get("a") == 1

    def test_model_values_are_always_there(self) -> None:
        config = build_effective(recipe("model_revision: abc\ncluster_config: {resolved_model_path: /m}"))

        assert config.values() == {"model": "org/m", "model_revision": "abc", "resolved_model_path": "/m"}

    def test_the_recipes_own_keys_come_first(self) -> None:
        assert effective("defaults: {z: 1, b: 2}", overrides={"b": 3, "c": 4}).keys() == ["z", "b", "c", "model"]

    def test_what_the_launch_finds_out_stands_on_top(self) -> None:
        config = effective("defaults: {port: 1}", overrides={"port": 2}).with_values({"port": 3})

        assert (config.get("port"), config.origin("port"), config.get("model")) == (3, "launch", "org/m")
        assert config.with_values({"host": "x"}).get("port") == 3

    def test_environment_and_image_follow_matching_overrides(self) -> None:
        entries = (
            ConditionalOverride({}, env={"A": "2", "B": "2"}, container="x"),
            ConditionalOverride({}, env={"B": "3"}),
        )
        tiers = Tiers(conditional=entries, overrides={"env.C": "4"})
        container = build_effective(recipe("container: img\nenv: {A: 1, Z: 1}"), tiers).container

        assert (container.env, container.env_overrides, container.image) == ({"A": "2", "Z": "1", "B": "3"}, {"C": "4"}, "x")


class TestTyped:
    def test_numbers_also_from_text(self) -> None:
        config = effective("defaults: {a: 8000, b: '8001', c: 0.9, d: null, e: ''}")

        assert [config.whole(key, 7) for key in "abdef"] == [8000, 8001, 7, 7, 7]
        assert config.number("c", 1) == 0.9

    @pytest.mark.parametrize("value", ["auto", "1; reboot", True, [1], 1.5])
    def test_what_is_no_whole_number_is_refused_with_its_origin(self, value: object) -> None:
        with pytest.raises(RecipeError, match=r"a must be .*number, not .* \(from the command line\)"):
            effective(overrides={"a": value}).whole("a", 1)  # type: ignore[dict-item]

    def test_text(self) -> None:
        config = effective("defaults: {a: 1, b: true, c: {x: [1]}, d: null}")

        assert [config.text(key) for key in "abcde"] == ["1", "true", '{"x":[1]}', None, None]


class TestParseOverride:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("true", True),
            ("Yes", True),
            ("FALSE", False),
            ("no", False),
            ("12", 12),
            ("-3", -3),
            ("1.50", 1.5),
            ("1e3", 1000.0),
            ("0x10", "0x10"),
            ("007", "007"),
            ("1_000", "1_000"),
            ("inf", "inf"),
            ("nan", "nan"),
            ("1e999", "1e999"),
            ("", ""),
            ("a=b", "a=b"),
            ("on", "on"),
            ('{"a": 1}', '{"a": 1}'),
        ],
    )
    def test_values_are_what_they_look_like(self, text: str, value: object) -> None:
        parsed = parse_override(f"key={text}")

        assert parsed == Override(("key",), value)  # type: ignore[arg-type]
        assert type(parsed.value) is type(value)

    @pytest.mark.parametrize("key", ["model_revision", "served_model_name", "api_key"])
    def test_names_and_keys_stay_text(self, key: str) -> None:
        assert parse_override(f"{key}=123e4").value == "123e4"

    def test_a_dotted_value_may_be_json(self) -> None:
        assert parse_override('a.b={"c": [1]}') == Override(("a", "b"), {"c": [1]})

    def test_an_environment_variable_stays_text(self) -> None:
        parsed = parse_override("env.FLAG=true")

        assert (parsed.env_name, parsed.value) == ("FLAG", "true")

    @pytest.mark.parametrize("text", ["=5", "a..b=1", ".a=1", "a b=1", "env=1", "env.A.B=1", "a.b={bad", "a.b=" + "[" * 99_999])
    def test_bad_forms_are_usage_errors(self, text: str) -> None:
        with pytest.raises(UsageError) as caught:
            parse_override(text)

        assert caught.value.exit_code == 2

    def test_a_key_without_a_value_is_a_failure(self) -> None:
        with pytest.raises(NoValueError, match="-o port: no '=' in it") as caught:
            parse_override("port")

        assert caught.value.exit_code == 1

    def test_later_options_win(self) -> None:
        assert parse_overrides(["a=1", "a=2", "b.c=3"]) == {"a": 2, "b.c": 3}

    @given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans()))
    def test_a_number_or_switch_survives_its_text(self, value: float) -> None:
        assert coerce(str(value)) == value

    @given(st.text())
    def test_any_text_is_some_value(self, text: str) -> None:
        assert coerce(text) is not None


class TestDotted:
    def test_it_edits_a_copy_of_the_mapping(self) -> None:
        original = recipe("defaults: {spec: {method: mtp, deep: {a: 1}}}")
        config = build_effective(original, Tiers(overrides={"spec.n": 3, "spec.deep.b": 2, "spec.new.x": 1}))

        assert config.get("spec") == {"method": "mtp", "deep": {"a": 1, "b": 2}, "n": 3, "new": {"x": 1}}
        assert original.defaults["spec"] == {"method": "mtp", "deep": {"a": 1}}
        assert config.origin("spec") == "override"

    def test_json_text_is_edited_and_stays_text(self) -> None:
        config = effective("""defaults: {spec: '{"method": "mtp"}'}""", overrides={"spec.n": 3})

        assert config.get("spec") == '{"method":"mtp","n":3}'

    def test_the_root_may_come_from_the_same_command_line(self) -> None:
        options = parse_overrides(["spec.n=3", 'spec={"method": "mtp"}'])

        assert json.loads(str(effective(overrides=options).get("spec"))) == {"method": "mtp", "n": 3}

    def test_shallow_keys_apply_before_deep_ones(self) -> None:
        config = effective("defaults: {a: {}}", overrides={"a.b.c": 1, "a.b": {"d": 2}})

        assert config.get("a") == {"b": {"d": 2, "c": 1}}

    @pytest.mark.parametrize(
        ("key", "message"),
        [
            ("nosuch.a", "-o nosuch.a: no nosuch to edit"),
            ("port.a", "-o port.a: port is 8000, not a mapping"),
            ("off.a", "-o off.a: no off to edit"),
            ("spec.method.x", "-o spec.method.x: spec.method is 'mtp', not a mapping"),
            ("word.x", "-o word.x: word is 'abc', not a mapping"),
        ],
    )
    def test_what_is_no_mapping_is_refused(self, key: str, message: str) -> None:
        with pytest.raises(UsageError) as caught:
            effective("defaults: {port: 8000, off: null, word: abc, spec: {method: mtp}}", overrides={key: 1})

        assert str(caught.value) == message

    def test_the_callers_mapping_is_left_alone(self) -> None:
        options: Values = {"a": {"b": 1}, "a.c": 2}
        effective(overrides=options)

        assert options == {"a": {"b": 1}, "a.c": 2}
