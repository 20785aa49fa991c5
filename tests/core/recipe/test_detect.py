"""Which runtime a recipe means."""

from __future__ import annotations

import pytest

from sparkrun.core.recipe import (
    RUNTIME_NAMES,
    RecipeSource,
    canonical_runtime,
    load_recipe_text,
    matches_runtime,
    runtime_family,
    runtime_in_force,
)
from sparkrun.core.recipe.detect import concrete_runtime, detect_engine


@pytest.mark.parametrize(
    ("command", "family"),
    [
        ("vllm serve {model}", "vllm"),
        ("  exec vllm serve {model}", "vllm"),
        ("export A=1; exec /opt/venv/bin/vllm serve x", "vllm"),
        ("env A=1 B=2 vllm \\\n  serve x", "vllm"),
        ("bash -c 'vllm serve x'", "vllm"),
        ("python3.12 -u -m vllm.entrypoints.openai.api_server --model x", "vllm"),
        ("sglang serve --model-path x", "sglang"),
        ("python3 -m sglang.launch_server --x", "sglang"),
        ("curl -f http://x && \\\n taskset -c 0-3 ./llama-server -m x", "llama-cpp"),
        ("trtllm-serve x", "trtllm"),
        ("mpirun -n 2 \\\n  trtllm-llmapi-launch trtllm-serve x", "trtllm"),
        ("spark serve x", "atlas"),
        ("max serve --model x", "modular-max"),
        ("# vllm serve is slower\nllama-server -m x", "llama-cpp"),
        ("llama-server -m x # better than vllm serve", "llama-cpp"),
        ("cat > x <<EOF\nllama-server\nEOF\nvllm serve x", "vllm"),
        ("pip install vllm", None),
        ("llama-server-wrapper x", None),
        ("myserver --port 1", None),
    ],
)
def test_the_engine_is_found_wherever_the_command_starts_it(command: str, family: str | None) -> None:
    assert detect_engine(command) == family


@pytest.mark.parametrize(
    ("declared", "command", "backend", "runtime"),
    [
        (None, None, None, "vllm-distributed"),
        ("vllm", None, None, "vllm-distributed"),
        ("vllm", None, "ray", "vllm-ray"),
        ("vllm", None, "mp", "vllm-distributed"),
        (None, "vllm serve --distributed-executor-backend ray", None, "vllm-ray"),
        (None, "vllm serve --distributed-executor-backend=ray", None, "vllm-ray"),
        (None, "vllm serve --distributed-executor-backend \\\n  ray", None, "vllm-ray"),
        (None, "vllm serve --distributed-executor-backend=rays", None, "vllm-distributed"),
        (None, "vllm serve\n# --distributed-executor-backend ray", None, "vllm-distributed"),
        ("vllm-distributed", "vllm serve --distributed-executor-backend ray", None, "vllm-distributed"),
        ("eugr-vllm", "vllm serve", "mp", "eugr-vllm"),
        ("SGLang", None, "ray", "sglang"),
        ("llama.cpp", None, None, "llama-cpp"),
        ("my_plugin", "vllm serve", None, "my_plugin"),
    ],
)
def test_the_variant_of_vllm_follows_the_backend(declared: str | None, command: str | None, backend: str | None, runtime: str) -> None:
    assert concrete_runtime(declared, command, backend) == runtime


@pytest.mark.parametrize(("override", "runtime"), [("ray", "vllm-ray"), ("mp", "vllm-distributed"), (None, "vllm-ray")])
def test_an_override_of_the_backend_decides_alone(override: str | None, runtime: str) -> None:
    recipe = load_recipe_text("model: o/m\ncommand: vllm serve --distributed-executor-backend ray\n", RecipeSource("text", "r"))

    assert runtime_in_force(recipe, {"distributed_executor_backend": override} if override else {}) == runtime


@pytest.mark.parametrize("name", RUNTIME_NAMES)
def test_documented_names_are_their_own_canonical_form(name: str) -> None:
    assert canonical_runtime(name.upper().replace("-", "_")) == name


def test_a_filter_takes_the_exact_name_and_the_family() -> None:
    assert [matches_runtime(wanted, "vllm-ray") for wanted in ("vllm", "VLLM-Ray", "vllm-distributed")] == [True, True, False]
    assert {runtime_family(name) for name in RUNTIME_NAMES[:4]} == {"vllm"}
