"""Rules on what a recipe picks by name: runtime, builder, executor, scheduler, readiness check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkrun.core.recipe.checks.case import Case, Rule
from sparkrun.core.recipe.detect import runtime_family
from sparkrun.core.recipe.schema import Finding
from sparkrun.utils.text import did_you_mean


def runtime_name(case: Case) -> Iterator[Finding]:
    """A runtime that exists."""
    runtime, known = case.recipe.runtime, case.around.runtimes
    if runtime not in known and runtime not in {runtime_family(name) for name in known}:
        fix = did_you_mean(runtime, known) or f"runtimes: {', '.join(known)}"
        yield Finding("error", "unknown-runtime", f"unknown runtime {runtime!r}", fix=fix, where=case.where("runtime"))


def runtime_limits(case: Case) -> Iterator[Finding]:
    """Parallelism and other choices that an engine does not have."""
    family = runtime_family(case.recipe.runtime)
    tensor, pipeline, data = (_size(case, f"{kind}_parallel") for kind in ("tensor", "pipeline", "data"))
    if case.recipe.runtime in ("vllm-ray", "eugr-vllm") and data > 1:
        yield _limit(case, "data_parallel", f"{case.recipe.runtime} has no data parallelism", "use runtime: vllm-distributed")
    if family == "llama-cpp" and tensor > 1 and pipeline > 1:
        yield _limit(
            case, "pipeline_parallel", "llama-cpp splits by rows or by layers, not both", "set tensor_parallel or pipeline_parallel"
        )
    if family == "llama-cpp" and data > 1:
        yield _limit(case, "data_parallel", "llama-cpp has no data parallelism", "remove data_parallel")
    if family == "sglang" and _is_gguf(case.recipe.model) and not case.recipe.defaults.get("tokenizer_path"):
        yield _limit(case, "tokenizer_path", "SGLang needs tokenizer_path for a GGUF model", "add tokenizer_path to defaults")
    limit = case.runtime.max_nodes if case.runtime else None
    if limit is not None and case.recipe.min_nodes > limit:
        message = f"{case.recipe.runtime} runs on {limit} node{'s' * (limit != 1)}, the recipe wants {case.recipe.min_nodes}"
        yield Finding("error", "runtime-field", message, fix=f"min_nodes: {limit}", where=case.where("min_nodes"))


def host_images(case: Case) -> Iterator[Finding]:
    """Images of single hosts, where runtime and builder leave the image alone."""
    if not case.recipe.containers:
        return
    where = case.where("containers")
    if case.runtime and not case.runtime.takes_host_images:
        message = f"{case.recipe.runtime} runs one image on all hosts"
        yield Finding("error", "runtime-field", message, fix="write container instead of containers", where=where)
    known = case.around.builders.get(case.recipe.builder or "")
    if known and known.makes_images:
        message = f"builder {case.recipe.builder} makes the image, so containers cannot name others"
        yield Finding("error", "builder-field", message, fix="remove builder or containers", where=where)


def builder(case: Case) -> Iterator[Finding]:
    """A builder that exists, can be used, and is named."""
    name, known = case.recipe.builder, case.around.builders
    if name is None:
        return
    if name not in known:
        fix = did_you_mean(name, known) or f"builders: {', '.join(known)}"
        yield Finding("error", "builder-unknown", f"unknown builder {name!r}", fix=fix, where=case.where("builder"))
    elif known[name].unavailable:
        fix = "write builder: docker-pull, and name an image that has the engine"
        yield Finding("error", "builder-disabled", known[name].unavailable, fix=fix, where=case.where("builder"))
    elif ("builder",) not in case.recipe.positions:
        message = f"builder {name} is implied by {_implied_by(case)}"
        yield Finding("suggestion", "implicit-builder", message, fix=f"write builder: {name}", where=case.where("builder"))


def builder_fields(case: Case) -> Iterator[Finding]:
    """Options and arguments that the builder reads."""
    recipe, known = case.recipe, case.around.builders.get(case.recipe.builder or "docker-pull")
    if known is None or known.unavailable:
        return
    if recipe.build_args and not known.reads_args:
        message = "build_args are read by the eugr builder, which this recipe does not use"
        yield Finding("warning", "builder-field", message, fix="add builder: eugr, or remove them", where=case.where("build_args"))
    for number, word in enumerate(recipe.build_args):
        if why := known.refused_args.get(word.partition("=")[0]):
            where = case.where("build_args", number)
            yield Finding("error", "builder-field", f"build_args cannot hold {word}: {why}", fix="remove it", where=where)
    for key in recipe.builder_config:
        if key not in known.options:
            where = case.where("builder_config", key)
            fix = did_you_mean(key, sorted(known.options)) or f"it reads {', '.join(sorted(known.options)) or 'none'}"
            message = f"the builder {recipe.builder or 'docker-pull'} does not read {key}"
            yield Finding("warning", "builder-field", message, fix=fix, where=where)


def executor(case: Case) -> Iterator[Finding]:
    """An executor that exists and is switched on; no other is tried in its place."""
    name = case.recipe.executor
    if name and (problem := _availability("executor", name, case.around.executors)):
        yield Finding("error", "executor-unavailable", *problem, where=case.where("executor"))


def scheduler(case: Case) -> Iterator[Finding]:
    """A scheduler that exists."""
    name, known = case.recipe.scheduler, case.around.schedulers
    if name and name not in known:
        fix = did_you_mean(name, known) or f"schedulers: {', '.join(known)}"
        yield Finding("error", "recipe-field", f"unknown scheduler {name!r}", fix=fix, where=case.where("scheduler"))


def readiness(case: Case) -> Iterator[Finding]:
    """A check that the engine can answer."""
    style = case.recipe.readiness.get("inference_style")
    styles = case.runtime.readiness_styles if case.runtime else None
    if styles is not None and isinstance(style, str) and style not in (*styles, "auto"):
        message = f"{case.recipe.runtime} cannot be asked in the style {style}"
        fix = f"styles: auto, {', '.join(sorted(styles))}"
        yield Finding("error", "readiness-incompatible", message, fix=fix, where=case.where("readiness", "inference_style"))


def _availability(kind: str, name: str, known: Mapping[str, bool]) -> tuple[str, str] | None:
    if name not in known:
        return f"unknown {kind} {name!r}", did_you_mean(name, known) or f"{kind}s: {', '.join(known)}"
    if not known[name]:
        return f"{kind} {name} is switched off", f"sparkrun setup features enable {kind}.{name}"
    return None


def _implied_by(case: Case) -> str:
    if case.recipe.version == "1":
        return 'recipe_version "1"'
    return "build_args" if case.recipe.build_args else f"the image {case.recipe.container}"


def _limit(case: Case, key: str, message: str, fix: str) -> Finding:
    return Finding("error", "runtime-field", message, fix=fix, where=case.where("defaults", key))


def _size(case: Case, key: str) -> int:
    value = case.recipe.defaults.get(key)
    return value if isinstance(value, int) else 1


def _is_gguf(model: str) -> bool:
    return "gguf" in model.lower() or (":" in model and "://" not in model)


PLUGIN_RULES: tuple[Rule, ...] = (runtime_name, runtime_limits, host_images, builder, builder_fields, executor, scheduler, readiness)
