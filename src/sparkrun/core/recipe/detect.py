"""Which runtime a recipe means: names, families, and the engine that its command starts."""

from __future__ import annotations

import re
from functools import cache

from sparkrun.core.recipe.schema import Recipe, Values
from sparkrun.core.values import ConfigValue

CONCRETE_RUNTIMES = ("vllm-distributed", "vllm-ray", "eugr-vllm", "sglang", "llama-cpp", "trtllm", "atlas", "modular-max", "tokenary")
RUNTIME_NAMES = ("vllm", *CONCRETE_RUNTIMES)
"""What ``runtime:`` may say; ``vllm`` picks a variant."""

EUGR_IMAGE = "ghcr.io/spark-arena/dgx-vllm-eugr-nightly"

_FAMILIES = {"vllm": "vllm", "vllm-distributed": "vllm", "vllm-ray": "vllm", "eugr-vllm": "vllm"}
_ALIASES = {
    "llamacpp": "llama-cpp",
    "llama.cpp": "llama-cpp",
    "llama-server": "llama-cpp",
    "trt-llm": "trtllm",
    "tensorrt-llm": "trtllm",
    "max": "modular-max",
}

_STARTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "vllm": (("vllm", "serve"), ("python", "-m", "vllm.entrypoints.openai.api_server")),
    "sglang": (("sglang", "serve"), ("python", "-m", "sglang.launch_server")),
    "llama-cpp": (("llama-server",),),
    "trtllm": (("trtllm-serve",),),
    "atlas": (("spark", "serve"),),
    "modular-max": (("max", "serve"),),
    "tokenary": (("tokenary",),),
}
"""The words that start each engine."""

# An engine stands at the start of a line, after `;`, `&`, `|`, `(` or a blank (`exec`, `env A=b`, `taskset -c 0`), perhaps with its folder.
_BEFORE = r"(?:^|[\s;&|('\"])(?:[\w./~${}-]*/)?"
_AFTER = r"(?![\w.-])"
_PYTHON = r"python(?:\d(?:\.\d+)?)?(?:\s+-u)?"

_CONTINUATION = re.compile(r"\\[ \t]*\n\s*")
_RAY = re.compile(r"--distributed-executor-backend(?:=|\s+)(['\"]?)ray\1(?![\w-])")


def canonical_runtime(name: str) -> str:
    """The documented spelling of a runtime's name; an unknown one as it is, for plugins."""
    lower = name.strip().lower().replace("_", "-")
    return lower if lower in RUNTIME_NAMES else _ALIASES.get(lower, name.strip())


def runtime_family(name: str) -> str:
    """The engine behind a runtime's name: ``vllm`` for each vLLM variant, else the name itself."""
    canonical = canonical_runtime(name)
    return _FAMILIES.get(canonical, canonical)


def matches_runtime(wanted: str, runtime: str) -> bool:
    """Whether a filter (``--runtime vllm``) takes a recipe: by exact name, or by the family's name."""
    canonical = canonical_runtime(wanted)
    return canonical.lower() in (runtime.lower(), runtime_family(runtime).lower())


def detect_engine(command: str) -> str | None:
    """The family of the engine that a command starts, wherever in the command it stands; ``None`` when none is known."""
    code = _code(command)
    families = [family for family, pattern in _patterns().items() if pattern.search(code)]
    return _started_last(families, command) if len(families) > 1 else next(iter(families), None)


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """How each engine's start looks. Compiled once, when the first recipe without ``runtime`` is read."""
    patterns = {family: _pattern(starts) for family, starts in _STARTS.items()}
    return patterns | {"trtllm": re.compile(r"trtllm-serve\b|\bmpirun\b.*\btrtllm")}


def _pattern(starts: tuple[tuple[str, ...], ...]) -> re.Pattern[str]:
    texts = (r"\s+".join(_PYTHON if word == "python" else re.escape(word) for word in words) for words in starts)
    return re.compile(f"{_BEFORE}(?:{'|'.join(texts)}){_AFTER}", re.MULTILINE)


def _started_last(families: list[str], command: str) -> str:
    """The engine that really is started, where others are only spoken of (in a comment, a message, a here-document)."""
    from sparkrun.core.shell_text import EngineSyntax, find_engine  # a whole lexer, which one recipe in a hundred needs

    calls = {family: call for family in families if (call := find_engine(command, EngineSyntax(family, _STARTS[family])))}
    return max(calls, key=lambda family: calls[family].insertion_point) if calls else families[0]


def concrete_runtime(declared: str | None, command: str | None, backend: ConfigValue = None, *, override: ConfigValue = None) -> str:
    """The runtime in force. ``backend`` is ``defaults.distributed_executor_backend``, ``override`` the one of the command line.

    A named variant stays. ``vllm``, or nothing, becomes ``vllm-ray`` where ray is asked for, in either spelling of the flag;
    an override decides alone.
    """
    name = declared_family(declared, command) or "vllm"
    if name != "vllm":
        return name
    if override:
        return _variant(_says_ray(override))
    return _variant(_says_ray(backend) or bool(command and _RAY.search(_code(command))))


def runtime_in_force(recipe: Recipe, overrides: Values) -> str:
    """The runtime of a launch: ``-o distributed_executor_backend=…`` picks the variant of a recipe that names none."""
    backend = recipe.defaults.get("distributed_executor_backend")
    return concrete_runtime(recipe.declared_runtime, recipe.command, backend, override=overrides.get("distributed_executor_backend"))


def declared_family(declared: str | None, command: str | None) -> str | None:
    """What ``runtime:`` says, else what the command starts, else ``None``."""
    if declared and declared.strip():
        return canonical_runtime(declared)
    return detect_engine(command) if command else None


def _variant(ray: bool) -> str:
    return "vllm-ray" if ray else "vllm-distributed"


def _says_ray(backend: ConfigValue) -> bool:
    return str(backend).strip().lower() == "ray"


def _code(command: str) -> str:
    """The command on logical lines, without the lines that are comments."""
    joined = _CONTINUATION.sub(" ", command)
    return "\n".join(line for line in joined.splitlines() if not line.lstrip().startswith("#"))
