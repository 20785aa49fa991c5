"""How a flag's value reaches `xllamacpp.CommonParams`.

A binding is called with the target and the value. It raises ValueError for a value that llama-server refuses, AttributeError when
the installed xllamacpp lacks the parameter. What each one sets follows llama.cpp's `common/arg.cpp`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

# llama.cpp: "log everything" is the largest verbosity.
VERBOSITY_ALL = 2**31 - 1

MIB_BYTES = 1024 * 1024
# llama.cpp keeps 1 GiB free on a device for which no margin is given.
DEFAULT_MARGIN_BYTES = 1024 * MIB_BYTES
# llama.cpp says "never shrink the context" by the largest minimum; xllamacpp keeps it in 32 signed bits.
NEVER_SHRINK_CONTEXT = 2**31 - 1

T = TypeVar("T")


class Target(NamedTuple):
    """The parameters to set, and the module they come from for its enumerations. xllamacpp ships no types, hence `Any`."""

    engine: Any
    params: Any


Binding = Callable[[Target, Any], None]


def field(*paths: str) -> Binding:
    """Sets each dotted attribute path to the value."""

    def bind(target: Target, value: Any) -> None:
        for path in paths:
            _set(target.params, path, value)

    return bind


def inverted(path: str) -> Binding:
    """Sets a `no_…` attribute from a switch that says yes."""
    return lambda target, value: _set(target.params, path, not value)


def when_given(path: str, value: int) -> Binding:
    """Sets the attribute to one value when the flag is there."""
    return lambda target, _: _set(target.params, path, value)


def sampling(name: str, config: str = "") -> Binding:
    """Sets a sampling default; `config` marks it as the user's, so that the model's own metadata does not win."""

    def bind(target: Target, value: Any) -> None:
        options = target.params.sampling
        setattr(options, name, value)
        if config:
            mark = getattr(target.engine.common_params_sampling_config, f"COMMON_PARAMS_SAMPLING_CONFIG_{config}")
            options.user_sampling_config |= int(mark)

    return bind


def enum(path: str, type_name: str, prefix: str, names: Mapping[str, str] | None = None) -> Binding:
    """Sets an enumeration from its word on the command line; `names` holds the words that are not the member's own name."""

    def bind(target: Target, value: str) -> None:
        member = (names or {}).get(value, value.upper().replace("-", "_"))
        _set(target.params, path, getattr(getattr(target.engine, type_name), prefix + member))

    return bind


def comma_list(path: str) -> Binding:
    return lambda target, value: _set(target.params, path, split_commas(value))


def comma_set(path: str) -> Binding:
    return lambda target, value: _set(target.params, path, set(split_commas(value)))


def split_commas(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def add_api_keys(target: Target, value: str) -> None:
    target.params.api_keys = [*target.params.api_keys, *split_commas(value)]


def add_api_key_file(target: Target, value: str) -> None:
    """One key a line; blank lines and lines that begin with # count for nothing."""
    lines = Path(value).read_text(encoding="utf-8").splitlines()
    keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not keys:
        raise ValueError(f"{value} holds no key, and a server without a key is open to all")
    target.params.api_keys = [*target.params.api_keys, *keys]


def set_chat_template_file(target: Target, value: str) -> None:
    target.params.chat_template = Path(value).read_text(encoding="utf-8")


def set_context_size(target: Target, value: int) -> None:
    target.params.n_ctx = value
    if value == 0:
        target.params.fit_params_min_ctx = NEVER_SHRINK_CONTEXT


def set_parallel(target: Target, value: int) -> None:
    if value == 0:
        raise ValueError("a server needs at least one slot")
    target.params.n_parallel = value


def set_seed(target: Target, value: int) -> None:
    """-1 (a random seed) is the largest 32-bit number in llama.cpp."""
    target.params.sampling.seed = value % 2**32


def set_flash_attention(target: Target, value: str) -> None:
    member = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}[value]
    target.params.flash_attn_type = getattr(target.engine.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{member}")


def set_gpu_layers(target: Target, value: str | int) -> None:
    words = {"auto": -1, "all": -2}
    target.params.n_gpu_layers = words[value] if isinstance(value, str) else value


def set_tensor_split(target: Target, value: tuple[float, ...]) -> None:
    target.params.tensor_split = _padded(value, len(target.params.tensor_split), 0.0)


def set_fit_target(target: Target, value: tuple[float, ...]) -> None:
    """MiB per device; one number counts for every device."""
    sizes_bytes = [int(size_mib * MIB_BYTES) for size_mib in value]
    filler = sizes_bytes[0] if len(sizes_bytes) == 1 else DEFAULT_MARGIN_BYTES
    target.params.fit_params_target = _padded(sizes_bytes, len(target.params.fit_params_target), filler)


def set_rope_scale(target: Target, value: float) -> None:
    if value == 0:
        raise ValueError("a scale of 0 has no inverse")
    target.params.rope_freq_scale = 1.0 / value


def set_reranking(target: Target, value: bool) -> None:
    target.params.embedding = value
    target.params.pooling_type = target.engine.llama_pooling_type.LLAMA_POOLING_TYPE_RANK


def set_mmap(target: Target, value: bool) -> None:
    modes = target.engine.llama_load_mode
    locked = target.params.load_mode in (modes.LLAMA_LOAD_MODE_MLOCK, modes.LLAMA_LOAD_MODE_MMAP_MLOCK)
    _set_load_mode(target, mapped=value, locked=locked)


def set_mlock(target: Target, value: bool) -> None:
    modes = target.engine.llama_load_mode
    mapped = target.params.load_mode not in (modes.LLAMA_LOAD_MODE_NONE, modes.LLAMA_LOAD_MODE_MLOCK)
    _set_load_mode(target, mapped=mapped, locked=value)


def set_reasoning(target: Target, value: str) -> None:
    target.params.enable_reasoning = {"on": 1, "off": 0, "auto": -1}[value]
    if value != "auto":
        _add_template_values(target, {"enable_thinking": value == "on"})


def set_template_values(target: Target, value: str) -> None:
    try:
        values = json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at character {error.pos})") from None
    if not isinstance(values, dict):
        raise ValueError("a JSON object is needed")
    _add_template_values(target, values)


def _add_template_values(target: Target, values: Mapping[str, object]) -> None:
    texts = {key: json.dumps(value) for key, value in values.items()}
    target.params.default_template_kwargs = dict(target.params.default_template_kwargs) | texts


def _set_load_mode(target: Target, *, mapped: bool, locked: bool) -> None:
    member = {(False, False): "NONE", (True, False): "MMAP", (False, True): "MLOCK", (True, True): "MMAP_MLOCK"}[mapped, locked]
    target.params.load_mode = getattr(target.engine.llama_load_mode, f"LLAMA_LOAD_MODE_{member}")


def _padded(values: Sequence[T], count: int, filler: T) -> list[T]:
    if len(values) > count:
        raise ValueError(f"{len(values)} devices are named, llama.cpp knows {count} at most")
    return [*values, *[filler] * (count - len(values))]


def _set(params: Any, path: str, value: Any) -> None:
    *owners, name = path.split(".")
    for owner in owners:
        params = getattr(params, owner)
    setattr(params, name, value)
