"""Changing a cluster, as a function of what its file holds. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from sparkrun.core.cluster_manager.addresses import machine_key, parse_hosts, split_hosts
from sparkrun.core.cluster_manager.env_file import is_reference
from sparkrun.core.cluster_manager.errors import ClusterError
from sparkrun.core.cluster_manager.keys import KEYS
from sparkrun.core.config import Settings
from sparkrun.core.secret_names import is_secret_name
from sparkrun.core.values import ConfigValue
from sparkrun.utils.text import did_you_mean

NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]*")


class ClusterEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What is to change in a cluster."""

    values: dict[str, ConfigValue] = {}
    """New values by key of the file; ``None`` and an empty text take the key out."""
    merge: dict[str, dict[str, ConfigValue]] = {}
    """Entries to put into the mapping that a key holds (``executor_config``, ``env``); ``None`` takes an entry out."""
    add_hosts: tuple[str, ...] = ()
    remove_hosts: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing is asked for."""
        return not (self.values or self.merge or self.add_hosts or self.remove_hosts)


class Edited(NamedTuple):
    """The new content of a cluster's file, and what the user should know about it."""

    settings: Settings
    warnings: tuple[str, ...] = ()


def apply_edit(settings: Settings, edit: ClusterEdit, name: str) -> Edited:
    """The file after the change: unknown keys kept, keys that say nothing left out.

    Raises ``ClusterError`` for a key or value that cannot be, ``UsageError`` for a bad host.
    """
    warnings: list[str] = []
    changed = dict(settings)
    for key, value in edit.values.items():
        _put(changed, key, value)
    for key, entries in edit.merge.items():
        _put(changed, key, _merged(changed.get(key), entries))
    hosts = _edit_hosts(_hosts_in(changed), edit, warnings)
    if not hosts:
        raise ClusterError(f"cluster '{name}' would have no host", hint="name its hosts with -H host1,host2")
    changed["hosts"] = list(parse_hosts(hosts))
    _forget_hardware(changed, hosts)
    warnings += _bare_secrets(edit.merge.get("env", {}))
    return Edited(_in_order({**changed, "name": name}, settings), tuple(warnings))


def check_name(name: str) -> None:
    """Raises ``ClusterError`` for what cannot be the name of a cluster file."""
    if not NAME.fullmatch(name):
        raise ClusterError(f"'{name}' cannot be the name of a cluster", hint="use letters, digits, - and _, a letter or digit first")


def _put(settings: Settings, key: str, value: ConfigValue) -> None:
    rule = KEYS.get(key)
    if rule is None:
        raise ClusterError(f"a cluster has no key '{key}'", hint=did_you_mean(key, KEYS) or f"keys: {', '.join(KEYS)}")
    if value is None or value == "":
        settings.pop(key, None)
        return
    try:
        checked = rule.check(value)
    except ValueError as error:
        raise ClusterError(f"{key} must be {error}, not {value!r}", hint=_fraction_hint(key, value)) from None
    if checked == rule.default:
        settings.pop(key, None)
    else:
        settings[key] = checked


def _fraction_hint(key: str, value: ConfigValue) -> str | None:
    """A share of memory is often given in percent."""
    if key != "max_gpu_memory_utilization" or not isinstance(value, int | float):
        return None
    return f"{value:g} % is {value / 100:g}" if 1 < value <= 100 else None


def _merged(current: ConfigValue, entries: Mapping[str, ConfigValue]) -> ConfigValue:
    before = current if isinstance(current, dict) else {}
    return {key: value for key, value in {**before, **entries}.items() if value is not None}


def _hosts_in(settings: Settings) -> list[str]:
    hosts = settings.get("hosts") or []
    return list(split_hosts([hosts] if isinstance(hosts, str) else [str(host) for host in hosts])) if isinstance(hosts, str | list) else []


def _edit_hosts(hosts: list[str], edit: ClusterEdit, warnings: list[str]) -> list[str]:
    gone = {machine_key(host) for host in edit.remove_hosts}
    here = {machine_key(host) for host in hosts}
    warnings += [f"{host} is no host of this cluster, so it is not removed" for host in edit.remove_hosts if machine_key(host) not in here]
    return [*(host for host in hosts if machine_key(host) not in gone), *edit.add_hosts]


def _forget_hardware(settings: Settings, hosts: Iterable[str]) -> None:
    """What was probed of hosts that are not in the cluster any more."""
    known = settings.get("hosts_hardware")
    if isinstance(known, dict):
        kept = set(hosts)
        _put(settings, "hosts_hardware", {host: value for host, value in known.items() if host in kept})


def _bare_secrets(env: Mapping[str, ConfigValue]) -> Iterator[str]:
    for name, value in env.items():
        if value is not None and is_secret_name(name) and not is_reference(str(value)):
            yield f"{name} is kept as it is in the cluster's file; better keep it in an env_file, and write {name}=${{{name}}}"


def _in_order(settings: Settings, before: Settings) -> Settings:
    """Keys as they stood in the file; new ones after them, in the order of ``KEYS``."""
    order = [*before, *(key for key in ("name", *KEYS) if key not in before)]
    return {key: settings[key] for key in order if key in settings}
