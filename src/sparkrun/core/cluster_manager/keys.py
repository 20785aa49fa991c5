"""The keys of a cluster file: what each may hold. Reading is tolerant with these rules, editing is strict with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from sparkrun.core.values import ConfigValue

TRANSFER_MODES = ("auto", "local", "push", "delegated", "pull")
TRANSFER_INTERFACES = ("auto", "cx7", "mgmt")
TOPOLOGIES = ("direct", "switch", "ring")

Check = Callable[[ConfigValue], ConfigValue]
"""Gives the value in its one form. Raises ``ValueError`` whose text ends the sentence "KEY must be …"."""


class Key(NamedTuple):
    """One key of a cluster file. A value equal to ``default`` is not written."""

    check: Check
    default: ConfigValue = None


def text(value: ConfigValue) -> ConfigValue:
    """Any text; a number is taken as it is written."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("text")
    return str(value)


def switch(value: ConfigValue) -> ConfigValue:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def texts(value: ConfigValue) -> ConfigValue:
    """A list of texts; one text is a list of one."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("a list of texts")
    return value


def mapping(value: ConfigValue) -> ConfigValue:
    """A mapping of whatever its readers know."""
    if not isinstance(value, dict):
        raise ValueError("a mapping")
    return value


def variables(value: ConfigValue) -> ConfigValue:
    """Environment variables: names to texts. A number or switch becomes the text that YAML has for it."""
    if not isinstance(value, dict) or any(isinstance(item, dict | list) for item in value.values()):
        raise ValueError("a mapping of variables to texts")
    return {str(name): _variable_text(item) for name, item in value.items()}


def fraction(value: ConfigValue) -> ConfigValue:
    """A share of memory, above 0 and at most 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise ValueError("above 0 and at most 1, such as 0.9")
    return value


def fractions(value: ConfigValue) -> ConfigValue:
    """Shares of memory by accelerator model."""
    if not isinstance(value, dict):
        raise ValueError("a mapping of accelerator models to shares of memory")
    for model, share in value.items():
        try:
            fraction(share)
        except ValueError as error:
            raise ValueError(f"a mapping whose every share is {error}; {model} has {share!r}") from None
    return value


def switch_or_mapping(value: ConfigValue) -> ConfigValue:
    """``true``, ``false``, or a mapping with ``enabled`` in it."""
    if not isinstance(value, bool | dict):
        raise ValueError("true, false or a mapping")
    return value


def anything(value: ConfigValue) -> ConfigValue:
    """Kept for its owner."""
    return value


def one_of(choices: Collection[str]) -> Check:
    """One of a few words."""

    def check(value: ConfigValue) -> ConfigValue:
        if value not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return value

    return check


KEYS: Mapping[str, Key] = {
    "hosts": Key(texts, []),
    "description": Key(text, ""),
    "user": Key(text),
    "cache_dir": Key(text),
    "sparkrun_cache_dir": Key(text),
    "transfer_mode": Key(one_of(TRANSFER_MODES), "auto"),
    "transfer_interface": Key(one_of(TRANSFER_INTERFACES), "auto"),
    "topology": Key(one_of(TOPOLOGIES)),
    "fabric_interfaces": Key(texts, []),
    "mgmt_interface": Key(text),
    "env": Key(variables, {}),
    "env_file": Key(text),
    "scheduler": Key(text),
    "executor": Key(text),
    "executor_config": Key(mapping, {}),
    "runtime_cache": Key(switch_or_mapping),
    "offline": Key(switch, False),
    "max_gpu_memory_utilization": Key(fraction),
    "accelerator_memory_limits": Key(fractions, {}),
    "distribution": Key(mapping, {}),
    "hosts_hardware": Key(mapping, {}),
    "sync_source": Key(text),
    "transport": Key(text, "ssh"),
    "provider_ref": Key(anything),
    "plugins": Key(mapping, {}),
}
"""In the order of a file that sparkrun writes."""


def _variable_text(value: ConfigValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
