"""Checking a recipe: one test a rule."""

from __future__ import annotations

import msgspec
import pytest

from sparkrun.core.flags import Flag, FlagKind, FlagMap
from sparkrun.core.recipe import RecipeSource, load_recipe_text
from sparkrun.core.recipe.builders import BUILDERS
from sparkrun.core.recipe.memory import fraction_problem, takes_gib
from sparkrun.core.recipe.report import SUMMARIES
from sparkrun.core.recipe.schema import Finding
from sparkrun.core.recipe.validate import Report, RuntimeKnowledge, Surroundings, validate, validate_text
from sparkrun.core.shell_text import EngineSyntax

SOURCE = RecipeSource("file", "r", path="/x/r.yaml", trusted=True)
FLAGS = FlagMap(
    (
        Flag("port", "--port"),
        Flag("host", "--host"),
        Flag("tensor_parallel", "-tp"),
        Flag("gpu_memory_utilization", "--gpu-memory-utilization"),
        Flag("max_model_len", "--max-model-len"),
        Flag("max_num_seqs", "--max-num-seqs"),
        Flag("served_model_name", "--served-model-name"),
        Flag("trust_remote_code", "--trust-remote-code", FlagKind.PRESENCE),
    )
)
VLLM = RuntimeKnowledge(
    name="vllm-distributed",
    flag_map=FLAGS,
    engine=EngineSyntax("vllm serve", (("vllm", "serve"),)),
    consumed=frozenset({"ray_port"}),
    takes_host_images=True,
    readiness_styles=frozenset({"openai-chat-stream-v1"}),
)


def report(text: str, around: Surroundings | None = None) -> Report:
    return validate_text(text, SOURCE, around or Surroundings(runtime=VLLM))


def found(text: str, code: str, around: Surroundings | None = None) -> list[Finding]:
    return [finding for finding in report(text, around).findings if finding.code == code]


def one(text: str, code: str, around: Surroundings | None = None) -> Finding:
    (finding,) = found(text, code, around)
    return finding


GOOD = """recipe_version: "2"
model: org/m
runtime: vllm
min_nodes: 2
container: img:1
defaults: {port: 8000, host: 0.0.0.0, tensor_parallel: 2, gpu_memory_utilization: 0.8}
command: |
  vllm serve {model} --port {port} --host {host} -tp {tensor_parallel} --gpu-memory-utilization {gpu_memory_utilization}
"""


def test_a_good_recipe_has_no_findings() -> None:
    assert report(GOOD).findings == ()


def test_each_finding_has_rule_place_and_fix() -> None:
    findings = report(
        GOOD.replace("port: 8000,", "port: 8000, max_num_sqs: 1, _x: 2,") + "name: x\nmode: auto\nmax_nodes: 1\nmin_nodes: 1\n"
    ).findings

    assert len(findings) > 4
    for finding in findings:
        assert finding.where is not None
        assert finding.where.startswith("/x/r.yaml:")
        assert finding.fix
        assert finding.code in SUMMARIES


class TestReport:
    def test_the_worst_comes_first(self) -> None:
        severities = [finding.severity for finding in report("model: o/m\nname: x\nzebra: 1\ndefaults:\n  a: 1\n  a: 2\n").findings]

        assert severities == sorted(severities, key=["error", "warning", "suggestion"].index)

    @pytest.mark.parametrize(
        ("severity", "failing"),
        [("error", {"error", "warning", "suggestion"}), ("warning", {"warning", "suggestion"}), ("suggestion", {"suggestion"})],
    )
    def test_what_fails(self, severity: str, failing: set[str]) -> None:
        outcome = Report.of("r", (Finding(severity, "x", "m"),))  # type: ignore[arg-type]

        assert {level for level in ("error", "warning", "suggestion", "none") if outcome.failed(level)} == failing

    def test_the_json_shape(self) -> None:
        assert report(GOOD + "name: x\n").as_json("warning") == {
            "recipe": "r.yaml",
            "valid": True,
            "failed": True,
            "fail_on": "warning",
            "errors": 0,
            "warnings": 1,
            "suggestions": 0,
            "issues": [
                {
                    "severity": "warning",
                    "code": "deprecated-recipe-name",
                    "message": "name is not used: the recipe is called r, after its file",
                    "summary": "a name that is not used",
                    "fix": "remove it",
                    "deprecation": True,
                    "where": "/x/r.yaml:9:1",
                }
            ],
        }

    def test_a_file_that_cannot_be_read_is_one_error_with_its_place(self) -> None:
        (finding,) = report("model: o/m\na: [\n").findings

        assert (finding.severity, finding.code, finding.where) == ("error", "recipe-syntax", "/x/r.yaml:3:1")
        assert finding.message.startswith("did not find expected node content")

    def test_a_registry_recipe_is_called_by_its_reference(self) -> None:
        recipe = load_recipe_text(GOOD, RecipeSource("registry", "a/b", path="/cache/a/b.yaml", registry="reg"))

        assert validate(recipe).recipe == "@reg/a/b"


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("defaults: {}\n", "recipe-field"),
            ("model: o/m\nmode: odd\n", "recipe-field"),
            ("model: 'o/m; touch /tmp/x'\n", "recipe-field"),
            ("model: o/m\npre_exec: [{}]\n", "invalid-hook-entry"),
            ("model: o/m\nruntime: nope\n", "unknown-runtime"),
            ("model: o/m\nbuilder: nope\n", "builder-unknown"),
            ("model: o/m\nbuilder: uv-venv\n", "builder-disabled"),
            ("model: o/m\nexecutor: local\n", "executor-unavailable"),
            ("model: o/m\nexecutor: nope\n", "executor-unavailable"),
            ("model: o/m\nscheduler: nope\n", "recipe-field"),
            ("model: o/m\nreadiness: {inference_style: anthropic-messages-stream-v1}\n", "readiness-incompatible"),
            ("model: o/m\nvolumes: [/a]\n", "misplaced-config-key"),
            ("model: o/m\ndefaults:\n  a: 1\n  a: 2\n", "duplicate-key"),
            ("model: o/m\nbuilder: eugr\ncontainers: [{host: a, image: b}]\n", "builder-field"),
        ],
    )
    def test_error(self, text: str, code: str) -> None:
        assert one(text, code).severity == "error"
        assert not report(text).valid

    def test_a_near_name_is_named(self) -> None:
        assert one("model: o/m\nruntime: vllm-rey\n", "unknown-runtime").fix == "did you mean 'vllm-ray'?"

    @pytest.mark.parametrize(
        "runtime", ["vllm", "vllm-ray", "eugr-vllm", "sglang", "llama.cpp", "trtllm", "atlas", "modular-max", "tokenary"]
    )
    def test_documented_runtimes_are_known(self, runtime: str) -> None:
        assert not found(f"model: o/m\nruntime: {runtime}\n", "unknown-runtime")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("runtime: vllm-ray\ndefaults: {data_parallel: 2}", "vllm-ray has no data parallelism"),
            ("runtime: llama-cpp\ndefaults: {tensor_parallel: 2, pipeline_parallel: 2}", "llama-cpp splits by rows or by layers, not both"),
            ("runtime: llama-cpp\ndefaults: {data_parallel: 2}", "llama-cpp has no data parallelism"),
            ("runtime: sglang\nmodel: o/m-GGUF", "SGLang needs tokenizer_path for a GGUF model"),
        ],
    )
    def test_what_a_runtime_cannot_do(self, text: str, message: str) -> None:
        recipe = text if "model:" in text else f"model: o/m\n{text}"

        assert one(recipe + "\n", "runtime-field").message == message

    def test_a_runtime_of_one_node_refuses_more(self) -> None:
        around = Surroundings(runtime=RuntimeKnowledge(name="x", flag_map=FLAGS, engine=VLLM.engine, max_nodes=1))

        assert one("model: o/m\nmin_nodes: 2\n", "runtime-field", around).message == "vllm-distributed runs on 1 node, the recipe wants 2"
        assert one("model: o/m\ncontainers: [{host: a, image: b}]\n", "runtime-field", around)


class TestMemory:
    def test_gib_where_a_share_is_meant(self) -> None:
        finding = one("model: o/m\ndefaults: {gpu_memory_utilization: 112}\n", "recipe-field")

        assert finding.message == "gpu_memory_utilization is a fraction; 112 looks like GiB: 112 of 121 GiB is 0.93"
        assert finding.where == "/x/r.yaml:2:12"

    @pytest.mark.parametrize("value", [0.05, 0.9, 1, "0.9", "{share}"])
    def test_shares(self, value: float | str) -> None:
        assert fraction_problem("k", value, 121) is None

    @pytest.mark.parametrize("value", [0, -0.5, 1.5, 200, "auto", True, [1]])
    def test_no_shares(self, value: object) -> None:
        assert "k is a fraction" in (fraction_problem("k", value, 121) or "")  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "flag", ["--gpu-memory-utilization-gb {gpu_memory_utilization}", "--gpu_memory_utilization_gb='{gpu_memory_utilization}'"]
    )
    def test_an_engine_that_wants_gib_gets_gib(self, flag: str) -> None:
        assert takes_gib(f"vllm serve x {flag}", "gpu_memory_utilization")
        assert not found(f"model: o/m\ndefaults: {{gpu_memory_utilization: 108}}\ncommand: vllm serve {{model}} {flag}\n", "recipe-field")

    def test_other_uses_are_shares(self) -> None:
        assert not takes_gib("vllm serve --gpu-memory-utilization {gpu_memory_utilization}", "gpu_memory_utilization")


class TestDefaults:
    def test_a_misspelt_default_names_the_known_key(self) -> None:
        finding = one("model: o/m\ndefaults: {gpu_memory_utilisation: 0.5}\n", "unmapped-config-key")

        assert (finding.severity, finding.fix) == ("warning", "did you mean 'gpu_memory_utilization'?")

    @pytest.mark.parametrize(
        "text",
        [
            "defaults: {max_num_seqs: 1}",
            "defaults: {ray_port: 1}",
            "defaults: {api_key: x}",
            "defaults: {own: 1}\ncommand: vllm serve {model} --x {own}",
            "defaults: {own: 1, other: 'a {own}'}\ncommand: vllm serve {model} --x {other}",
            "defaults: {own: 1}\nenv: {A: '{config.own}'}",
            "defaults: {own: 1}\npost_exec: ['echo {own}']",
            "defaults: {own: null}",
        ],
    )
    def test_defaults_that_something_reads(self, text: str) -> None:
        assert not found(f"model: o/m\n{text}\n", "unmapped-config-key")

    def test_a_default_that_nothing_reads(self) -> None:
        assert one("model: o/m\ndefaults: {zebra: 1}\n", "unmapped-config-key").message == "nothing reads defaults.zebra"

    def test_without_an_engine_only_misspelt_keys_are_told(self) -> None:
        findings = validate(load_recipe_text("model: o/m\ndefaults: {zebra: 1, prot: 2}\n", SOURCE)).findings
        assert [finding.message for finding in findings if finding.code == "unmapped-config-key"] == ["nothing reads defaults.prot"]

    def test_internal_keys(self) -> None:
        assert one("model: o/m\ndefaults: {_x: 1}\n", "internal-config-key").severity == "warning"

    def test_a_key_of_the_engine_at_the_top_is_misplaced_and_not_unknown(self) -> None:
        assert [finding.code for finding in report("model: o/m\nmax_num_seqs: 3\n").findings] == ["misplaced-config-key"]

    @pytest.mark.parametrize(
        ("text", "mismatch"),
        [
            ("max_nodes: 1\ndefaults: {tensor_parallel: 2}", True),
            ("min_nodes: 3\ndefaults: {tensor_parallel: 2}", True),
            ("min_nodes: 4\ndefaults: {tensor_parallel: 2, pipeline_parallel: 2}", False),
            ("min_nodes: 2\ndefaults: {port: 1}", False),
            (
                "runtime: sglang\nmin_nodes: 2\nmax_nodes: 2\ndefaults: {tensor_parallel: 2, data_parallel: 2, enable_dp_attention: true}",
                False,
            ),
            ("runtime: atlas\nmax_nodes: 2\ndefaults: {tensor_parallel: 2, data_parallel: 2}", False),
        ],
    )
    def test_parallelism_against_node_range(self, text: str, mismatch: bool) -> None:
        assert bool(found(f"model: o/m\n{text}\n", "node-count-mismatch")) is mismatch

    def test_both_numbers_are_named(self) -> None:
        finding = one("model: o/m\nmax_nodes: 1\ndefaults: {tensor_parallel: 2, pipeline_parallel: 2}\n", "node-count-mismatch")

        assert finding.message == "at most 1 node, but tensor_parallel 2 × pipeline_parallel 2 needs 4 with one accelerator each"


def command(text: str, more: str = "") -> str:
    indented = "\n".join(f"  {line}" for line in text.splitlines())
    return f"model: org/m\n{more}command: |\n{indented}\n"


class TestCommand:
    def test_unknown_placeholders_name_the_nearest_key(self) -> None:
        findings = found(
            command("vllm serve {model} --max-model-len {max_model_len} -q {quant}", "defaults: {max_modle_len: 1}\n"),
            "unknown-placeholder",
        )

        assert [finding.message for finding in findings] == [
            "unknown placeholder {max_model_len} in the command",
            "unknown placeholder {quant} in the command",
        ]
        assert findings[0].fix == "did you mean {max_modle_len}?"

    def test_placeholders_in_a_circle(self) -> None:
        assert one(command("vllm serve {model} {a}", "defaults: {a: '{b}', b: '{a}'}\n"), "unknown-placeholder").severity == "error"

    def test_a_placeholder_of_a_platform_default_is_known(self) -> None:
        assert report(command("vllm serve {model} --gpu-memory-utilization {gpu_memory_utilization}")).findings == ()

    def test_flags_of_single_ranks(self) -> None:
        finding = one(command("vllm serve {model} --nnodes 2 --node_rank=0 --headless"), "hardcoded-rendezvous-flag")

        assert finding.message == "the command holds --nnodes, --node-rank, --headless, which each rank gets at launch"

    def test_ray_mixed_with_flags_of_single_ranks(self) -> None:
        finding = one(command("vllm serve {model} --distributed-executor-backend ray --nnodes 2"), "runtime-field")

        assert (finding.severity, finding.message) == ("error", "the command mixes ray with flags of single ranks (--nnodes)")

    def test_flags_of_other_programs_do_not_count(self) -> None:
        assert not found(command("torchrun --nnodes 2 warmup.py && vllm serve {model}"), "hardcoded-rendezvous-flag")

    def test_a_literal_port(self) -> None:
        finding = one(command("vllm serve {model} --port 9001"), "hardcoded-serve-flag")

        assert (finding.severity, finding.message) == ("suggestion", "the command spells out port 9001")

    def test_a_literal_that_contradicts_the_default(self) -> None:
        finding = one(command("vllm serve {model} --port 9001", "defaults: {port: 8000}\n"), "hardcoded-serve-flag")

        assert (finding.severity, finding.message) == ("warning", "the command says port 9001, defaults say 8000")

    def test_a_literal_equal_to_the_default(self) -> None:
        text = command("vllm serve {model} --gpu-memory-utilization 0.90", "defaults: {gpu_memory_utilization: 0.9}\n")

        assert not found(text, "hardcoded-serve-flag")

    def test_a_flag_the_engine_lacks(self) -> None:
        around = Surroundings(runtime=msgspec.structs.replace(VLLM, known_flags=frozenset({"--port", "--max-model-len"})))
        finding = one(command("vllm serve {model} --port 1 --max-modle-len 5"), "unknown-engine-flag", around)

        assert finding.severity == "warning"
        assert finding.message == "--max-modle-len is not a flag of vllm serve, as far as known"
        assert finding.fix == "did you mean --max-model-len?"

    @pytest.mark.parametrize("flag", ["--enable-something-of-a-fork", "--max-model-len-of-a-fork"])
    def test_a_flag_of_another_version_is_only_a_suggestion(self, flag: str) -> None:
        around = Surroundings(
            runtime=msgspec.structs.replace(VLLM, known_flags=frozenset({"--port", "--max-model-len"}), flags_of="vLLM 9")
        )
        finding = one(command(f"vllm serve {{model}} {flag} 5"), "unknown-engine-flag", around)

        assert (finding.severity, finding.message) == ("suggestion", f"{flag} is not a flag of vLLM 9, as far as known")

    def test_a_flag_that_stands_in_the_defaults(self) -> None:
        around = Surroundings(runtime=msgspec.structs.replace(VLLM, known_flags=frozenset({"--port"})))
        text = command("vllm serve {model} {extra}", "defaults: {extra: '--prot 5'}\n")

        assert one(text, "unknown-engine-flag", around).fix == "did you mean --port?"

    def test_a_default_that_is_a_flag_of_the_engine_alone(self) -> None:
        around = Surroundings(runtime=msgspec.structs.replace(VLLM, known_flags=frozenset({"--enable-lora"}), flags_of="vLLM 9"))
        known = one("model: org/m\nruntime: vllm\ndefaults: {enable_lora: true}\n", "unmapped-config-key", around)
        mistyped = one("model: org/m\nruntime: vllm\ndefaults: {enable_lroa: true}\n", "unmapped-config-key", around)

        assert known.fix == "vLLM 9 has --enable-lora: write it in the command"
        assert mistyped.fix == "did you mean 'enable_lora'?"

    def test_the_model_spelt_out(self) -> None:
        assert one(command("vllm serve org/m"), "restated-model-arg").severity == "suggestion"

    def test_no_model_at_all(self) -> None:
        assert one(command("vllm serve other/n"), "model-not-in-command").severity == "warning"

    def test_the_model_through_another_default(self) -> None:
        assert not found(command("vllm serve {m}", "defaults: {m: '{model}'}\n"), "model-not-in-command")

    @pytest.mark.parametrize(
        ("text", "unpinned"),
        [
            ("vllm serve org/m", True),
            ("vllm serve {model}", False),
            ("vllm serve org/m --revision {model_revision}", False),
            ("vllm serve org/m --revision abc123", False),
        ],
    )
    def test_a_revision_that_does_not_reach_the_engine(self, text: str, unpinned: bool) -> None:
        assert bool(found(command(text, "model_revision: abc123\n"), "unpinned-model-revision")) is unpinned

    def test_managed_paths(self) -> None:
        assert one(command("vllm serve {model} --download-dir /cache/huggingface/hub"), "restated-managed-path")

    @pytest.mark.parametrize("text", ["cat > a.py <<EOF\nprint(1)\nEOF\nvllm serve {model}", "vllm serve {model} \\\n" + "--a 1 \\\n" * 70])
    def test_a_program_in_the_command(self, text: str) -> None:
        assert one(command(text), "inline-script")

    def test_a_dangling_backslash(self) -> None:
        assert one(command("vllm serve {model} \\"), "dangling-line-continuation")


class TestEnvironment:
    @pytest.mark.parametrize(
        ("name", "code"),
        [
            ("NCCL_IB_HCA", "managed-comm-env"),
            ("GLOO_SOCKET_IFNAME", "managed-comm-env"),
            ("HF_HOME", "overridden-cache-env"),
            ("TRITON_CACHE_DIR", "managed-cache-env"),
        ],
    )
    def test_managed_variables(self, name: str, code: str) -> None:
        assert one(f"model: o/m\nenv: {{{name}: x}}\n", code).where == "/x/r.yaml:2:7"

    def test_cache_variables_are_the_authors_own_without_the_cache(self) -> None:
        assert not found("model: o/m\nruntime_cache: false\nenv: {TRITON_CACHE_DIR: /x}\n", "managed-cache-env")

    def test_what_the_platform_sets_anyway(self) -> None:
        assert one("model: o/m\nenv: {CUTE_DSL_ARCH: sm_121a}\n", "restated-platform-env")
        assert not found("model: o/m\nenv: {CUTE_DSL_ARCH: sm_90}\n", "restated-platform-env")

    def test_a_reference_that_nothing_sets(self) -> None:
        finding = one("model: o/m\ndefaults: {port: 1}\nenv: {A: '{config.prot}', B: '{config.port}'}\n", "unresolved-env-value")

        assert (finding.severity, finding.message) == ("error", "env A uses {config.prot}, which nothing sets")
        assert finding.fix == "did you mean 'port'?"


class TestSettings:
    @pytest.mark.parametrize(
        "text",
        [
            "executor_config: {shm_sise: 1gb}",
            "distribution_config: {model: {}}",
            "distribution_config: {models: {entires: []}}",
            "distribution_config: {containers: {enable: true}}",
            "distribution_config: {models: {entries: [{name: org/x, targt: [0]}]}}",
            "distribution_config: {additional_models: [{name: org/x, allow_pattern: a}]}",
            "cluster_config: {remote_cache: x}",
            "runtime_config: {mmprj: x}",
        ],
    )
    def test_a_misspelt_option_is_a_warning(self, text: str) -> None:
        assert one(f"model: o/m\n{text}\n", "unknown-option").severity == "warning"

    def test_known_options(self) -> None:
        assert not found("model: o/m\nexecutor_config: {shm_size: 1gb, log_dir: x}\nruntime_cache: {enabled: true}\n", "unknown-option")

    @pytest.mark.parametrize(
        ("mount", "local"), [("/home/me/x:/x", True), ("~/x:/x", True), ("$HOME/x:/x", True), ("/mnt/nas", True), ("/opt/x:/x", False)]
    )
    def test_mounts_of_one_site(self, mount: str, local: bool) -> None:
        assert bool(found(f"model: o/m\nexecutor_config: {{volumes: ['{mount}']}}\n", "non-portable-mount")) is local

    @pytest.mark.parametrize(("params", "wrong"), [("7B", False), ("1.5T", False), ("1_000", False), ("big", True), ("[7]", True)])
    def test_model_params(self, params: str, wrong: bool) -> None:
        assert bool(found(f"model: o/m\nmetadata: {{model_params: {params}}}\n", "recipe-metadata")) is wrong

    @pytest.mark.parametrize("line", ["num_layers: many", "kv_vram_per_token: x", "quantization: magic"])
    def test_metadata_only_suggests(self, line: str) -> None:
        assert one(f"model: o/m\nmetadata: {{{line}}}\n", "recipe-metadata").severity == "suggestion"

    def test_an_implied_builder(self) -> None:
        assert one("model: o/m\nbuild_args: [--x]\n", "implicit-builder").message == "builder eugr is implied by build_args"

    def test_build_args_that_nothing_reads(self) -> None:
        assert one("model: o/m\nruntime: sglang\nbuild_args: [--x]\n", "builder-field").severity == "warning"

    def test_an_option_that_the_builder_does_not_read(self) -> None:
        finding = one("model: o/m\nbuilder: eugr\nbuilder_config: {save_build_log: true}\n", "builder-field")
        assert (finding.severity, finding.fix) == ("warning", "did you mean 'save_build_logs'?")
        assert one("model: o/m\nbuilder_config: {repo: x}\n", "builder-field").fix == "it reads rebuild"

    def test_arguments_of_a_build_that_are_not_for_recipes(self) -> None:
        finding = one("model: o/m\nbuild_args: [--tf5, --tag=x]\n", "builder-field")
        assert (finding.severity, finding.message) == ("error", "build_args cannot hold --tag=x: sparkrun names the image itself")

    def test_a_builder_that_is_not_part_of_this_version(self) -> None:
        assert one("model: o/m\nbuilder: uv-venv\n", "builder-disabled").message == BUILDERS["uv-venv"].unavailable


class TestDeprecations:
    @pytest.mark.parametrize(
        ("line", "code"),
        [
            ("recipe_version: 1", "deprecated-recipe-format"),
            ("runtime: eugr-vllm", "deprecated-runtime"),
            ("solo_only: true", "deprecated-topology"),
            ("cluster_only: true", "deprecated-topology"),
            ("mode: auto", "deprecated-topology"),
            ("command: 'vllm serve {model} --x {{\"a\": 1}}'", "deprecated-brace-escape"),
            ("name: x", "deprecated-recipe-name"),
            ("runtime_config: {build_args: [x]}", "deprecated-build-arg"),
        ],
    )
    def test_deprecation(self, line: str, code: str) -> None:
        finding = one(f"model: o/m\n{line}\n", code)

        assert (finding.severity, finding.deprecation, finding.where) == ("warning", True, finding.where)
        assert finding.where is not None
        assert finding.where.startswith("/x/r.yaml:2:")


def test_an_unknown_selector_never_holds() -> None:
    assert one("model: o/m\noverrides: [{when: {colour: red}}]\n", "override-unknown-selector").severity == "warning"
