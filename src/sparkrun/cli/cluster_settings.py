"""The options that set what a cluster file holds, and the edit they ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from sparkrun.core.cluster_manager import ClusterEdit
    from sparkrun.core.config import SparkrunConfig
    from sparkrun.core.values import ConfigValue

F = TypeVar("F", bound=Callable[..., Any])

_BUILT_IN: Mapping[str, tuple[str, ...]] = {
    "scheduler": ("greedy", "occupancy-sparse", "occupancy-dense"),
    "executor": ("docker", "local", "k8s"),
}
"""Names that need no plugin to be loaded to be known."""


def _choice(*words: str) -> click.Choice:  # type: ignore[type-arg]  # generic only in newer Click
    """One of a few words, or an empty text to clear the setting."""
    return click.Choice([*words, ""])


# The name of each option is the key of the file that it sets.
_OPTIONS = (
    click.option("-d", "--description", help="What the cluster is."),
    click.option("-u", "--user", help="The user to log in as."),
    click.option("--cache-dir", metavar="DIR", help="Folder of Hugging Face models on the hosts."),
    click.option("--sparkrun-cache-dir", metavar="DIR", help="Folder of sparkrun's own cache on the hosts."),
    click.option(
        "--transfer-mode",
        type=_choice("auto", "local", "push", "delegated", "pull"),
        metavar="MODE",
        help="auto, local, push, delegated or pull.",
    ),
    click.option(
        "--transfer-interface",
        type=_choice("auto", "cx7", "mgmt"),
        metavar="NET",
        help="The network that transfers use: auto, cx7 or mgmt.",
    ),
    click.option(
        "--topology", type=_choice("none", "direct", "switch", "ring"), metavar="KIND", help="The fabric: none, direct, switch or ring."
    ),
    click.option("--mgmt-interface", metavar="NAME", help="The interface of the management network on the hosts."),
    click.option(
        "--fabric-interface", "fabric_interfaces", multiple=True, metavar="GLOB", help="Interfaces of the fabric; may be repeated."
    ),
    click.option(
        "-e", "--env", multiple=True, metavar="NAME=VALUE", help="A variable for engines; ${X} comes from the env file. Repeatable."
    ),
    click.option("--env-file", metavar="FILE", help="Where ${X} in the variables comes from."),
    click.option("--executor", metavar="NAME", help="docker, local or k8s."),
    click.option("-o", "executor_config", multiple=True, metavar="KEY=VALUE", help="A setting of the executor; may be repeated."),
    click.option("--scheduler", metavar="NAME", help="greedy, occupancy-sparse or occupancy-dense."),
    click.option("--max-gpu-mem-util", "max_gpu_memory_utilization", metavar="SHARE", help="The share of GPU memory launches may use."),
    click.option("--accelerator-limit", "accelerator_memory_limits", multiple=True, metavar="MODEL=SHARE", help="The same for one model."),
    click.option("--offline/--online", default=None, help="Whether launches keep off the network."),
)
_APART = frozenset("env executor_config accelerator_memory_limits hosts hosts_file add_hosts remove_hosts clear_executor_config".split())
"""Options that are more than the new value of a key."""


def setting_options(command: F) -> F:
    """Every option that sets a key of a cluster file. An empty text clears the key."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_edit(given: Mapping[str, Any], config: SparkrunConfig) -> ClusterEdit:
    """The edit that the options given ask for, those of hosts among them.

    Raises ``UsageError`` for a bad host and for ``-e`` without ``=``, ``NoValueError`` for such a ``-o``, ``ClusterError`` for a plugin
    that does not exist.
    """
    from sparkrun.core.cluster_manager import ClusterEdit, parse_hosts
    from sparkrun.core.hosts import HostOptions, named_hosts

    values: dict[str, ConfigValue] = {key: _value(value) for key, value in given.items() if key not in _APART and value is not None}
    if values.get("topology") == "none":
        values["topology"] = None
    if share := given.get("max_gpu_memory_utilization"):
        values["max_gpu_memory_utilization"] = _share(share)
    if given.get("clear_executor_config"):
        values["executor_config"] = None
    if named := named_hosts(HostOptions(given.get("hosts", ()), given.get("hosts_file")), config):
        values["hosts"] = list(named[0])
    for kind, known in _BUILT_IN.items():
        _check_plugin(kind, values.get(kind), known, config)
    merge = {
        "env": _pairs("-e", given.get("env", ()), str),
        "executor_config": _executor_config(given.get("executor_config", ())),
        "accelerator_memory_limits": _pairs("--accelerator-limit", given.get("accelerator_memory_limits", ()), _share),
    }
    return ClusterEdit(
        values=values,
        merge={key: entries for key, entries in merge.items() if entries},
        add_hosts=parse_hosts(given.get("add_hosts", ())),
        remove_hosts=parse_hosts(given.get("remove_hosts", ())),
    )


def _value(value: Any) -> ConfigValue:
    """An option's value as the file has it; a single empty text among several clears them."""
    if not isinstance(value, tuple):
        return value  # type: ignore[no-any-return]
    return None if value == ("",) else list(value)


def _executor_config(texts: Iterable[str]) -> dict[str, ConfigValue]:
    if not texts:
        return {}
    from sparkrun.core.effective import coerce

    return _pairs("-o", texts, coerce)


def _pairs(option: str, texts: Iterable[str], convert: Callable[[str], ConfigValue]) -> dict[str, ConfigValue]:
    """``KEY=VALUE`` texts; one without a value takes its key out."""
    from sparkrun.core.errors import NoValueError, UsageError

    pairs: dict[str, ConfigValue] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            kind = NoValueError if option == "-o" and not equals else UsageError
            raise kind(f"{option} {text}: not of the form KEY=VALUE", hint=f"write {option} KEY=VALUE, or {option} KEY= to take it out")
        pairs[key.strip()] = convert(value) if value else None
    return pairs


def _share(text: str) -> ConfigValue:
    try:
        return float(text)
    except ValueError:
        return text


def _check_plugin(kind: str, name: ConfigValue, built_in: tuple[str, ...], config: SparkrunConfig) -> None:
    if not isinstance(name, str) or not name or name in built_in:
        return
    from sparkrun.core.bootstrap import Plugins  # only a name that is not our own needs a look at installed packages
    from sparkrun.core.cluster_manager import ClusterError
    from sparkrun.utils.text import did_you_mean

    known = (*built_in, *Plugins(config).names(kind))
    if name not in known:
        raise ClusterError(f"no {kind} named '{name}'", hint=did_you_mean(name, known) or f"{kind}s: {', '.join(dict.fromkeys(known))}")
