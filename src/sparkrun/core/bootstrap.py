"""Finding plugins: our own, those of installed packages, last those of ``plugins.paths``. The only user of the framework's registry."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import msgspec

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import ExecutorUnavailableError, PluginError
from sparkrun.core.external_plugins import load_external_plugins
from sparkrun.core.features import feature_enabled, feature_variable
from sparkrun.core.framework import Variables, get_extensions, init_framework_embedded, register_plugin
from sparkrun.core.plugin import SparkrunPlugin
from sparkrun.core.recipe.builders import BUILDERS
from sparkrun.core.scheduler import Scheduler
from sparkrun.orchestration.executor import Executor
from sparkrun.utils.text import did_you_mean

if TYPE_CHECKING:
    from sparkrun.builders.base import BuilderPlugin
    from sparkrun.runtimes.base import RuntimePlugin
    from sparkrun.transports.base import Transport

_NAMING = "plugin_name = "
"""How a plugin class of ours gives its name; a module without it defines none."""


class PluginKind(msgspec.Struct, frozen=True):
    """One kind of plugin: its extension point, the package scanned for it, and the entry-point group of installed packages."""

    extension_point: str
    package: str
    group: str


KINDS: dict[str, PluginKind] = {
    "runtime": PluginKind("sparkrun.runtime", "sparkrun.runtimes", "sparkrun.runtimes"),
    "builder": PluginKind("sparkrun.builder", "sparkrun.builders", "sparkrun.builders"),
    "benchmarking": PluginKind("sparkrun.benchmarking", "sparkrun.benchmarking", "sparkrun.benchmarking"),
    "executor": PluginKind("sparkrun.executor", "sparkrun.orchestration", "sparkrun.executors"),
    "scheduler": PluginKind("sparkrun.scheduler", "sparkrun.schedulers", "sparkrun.schedulers"),
    "transport": PluginKind("sparkrun.transport", "sparkrun.transports", "sparkrun.transports"),
    "telemetry": PluginKind("sparkrun.telemetry", "sparkrun.telemetry", "sparkrun.telemetry"),
}


class PluginFailure(msgspec.Struct, frozen=True):
    """A plugin that could not be loaded; the others work."""

    origin: str
    reason: str


class Plugins:
    """Plugins by kind and name. A kind is scanned when first asked for; installed packages only for a foreign name, or for a listing."""

    def __init__(self, config: SparkrunConfig) -> None:
        self._config = config
        self._variables: Variables = init_framework_embedded("sparkrun", v=Variables(), fixed_logger=logging.getLogger("sparkrun.plugins"))
        self._scanned: set[str] = set()
        self._taken: set[str] = set()
        """Modules of our own whose plugins are registered."""
        self._installed: set[str] = set()
        self.failures: list[PluginFailure] = []

    def runtime(self, name: str) -> RuntimePlugin:
        """The runtime of a recipe. Raises ``PluginError``."""
        return cast("RuntimePlugin", self._find("runtime", name, PluginError))

    def executor(self, name: str) -> Executor:
        """An executor by name. Raises ``ExecutorUnavailableError`` for one that is unknown or switched off."""
        return cast("Executor", self._find("executor", name, ExecutorUnavailableError))

    def scheduler(self, name: str) -> Scheduler:
        """A placement policy. Raises ``PluginError``."""
        return cast("Scheduler", self._find("scheduler", name, PluginError))

    def builder(self, name: str) -> BuilderPlugin:
        """The builder of a recipe. Raises ``PluginError`` for one that is unknown, switched off, or not part of this version."""
        known = BUILDERS.get(name)
        if known and known.unavailable:
            raise PluginError(known.unavailable, hint="write builder: docker-pull, and name an image that has the engine")
        return cast("BuilderPlugin", self._find("builder", name, PluginError))

    def transport(self, name: str) -> Transport:
        """How the hosts of a cluster are reached. Raises ``PluginError``."""
        return cast("Transport", self._find("transport", name, PluginError))

    def executors(self) -> tuple[Executor, ...]:
        """Every executor, switched on or not: what runs can always be seen, read and stopped."""
        return tuple(cast("Executor", plugin) for plugin in self._loaded("executor"))

    def names(self, kind: str) -> tuple[str, ...]:
        """Every plugin of a kind that can be had, sorted."""
        self._load_installed(kind)
        return tuple(sorted(plugin.plugin_name for plugin in self._loaded(kind)))

    def all(self, kind: str) -> tuple[SparkrunPlugin, ...]:
        """Every plugin of a kind whose feature is on."""
        self._load_installed(kind)
        return tuple(plugin for plugin in self._loaded(kind) if self._on(plugin))

    def _find(self, kind: str, name: str, error: type[PluginError]) -> SparkrunPlugin:
        self._take_modules(kind, f'{_NAMING}"{name}"')
        plugin = self._registered(kind, name)
        if plugin is None:
            self._load_installed(kind)
            plugin = self._registered(kind, name)
        if plugin is None:
            raise error(f"no {kind} named '{name}'{self._why_missing(name)}", hint=self._relief(kind, name))
        if not self._on(plugin):
            flag = str(plugin.feature)
            raise error(
                f"{kind} '{name}' is switched off by the feature flag {flag}",
                hint=f"sparkrun setup features enable {flag}   (or for one command: {feature_variable(flag)}=1)",
            )
        return plugin

    def _registered(self, kind: str, name: str) -> SparkrunPlugin | None:
        return next((plugin for plugin in self._plugins(kind) if plugin.plugin_name == name), None)

    def _plugins(self, kind: str) -> Iterator[SparkrunPlugin]:
        found = get_extensions(KINDS[kind].extension_point, self._variables)
        return (cast("SparkrunPlugin", plugin) for plugin in found.values())

    def _loaded(self, kind: str) -> Iterator[SparkrunPlugin]:
        self._scan(kind)
        return self._plugins(kind)

    def _on(self, plugin: SparkrunPlugin) -> bool:
        return plugin.feature is None or feature_enabled(plugin.feature, self._config)

    def _scan(self, kind: str) -> None:
        if kind in self._scanned:
            return
        self._scanned.add(kind)
        self._take_modules(kind, _NAMING)

    def _take_modules(self, kind: str, mention: str) -> None:
        """Register the plugins of our own modules whose text has ``mention``; importing the others would only cost time."""
        for name in _modules_with(KINDS[kind].package, mention):
            if name in self._taken:
                continue
            self._taken.add(name)
            try:
                module = import_module(name)
            except Exception as error:  # noqa: BLE001 - one broken plugin module must not take the others with it
                self._fail(name, error)
            else:
                self._register(kind, _plugin_types(module, KINDS[kind].extension_point), name)

    def _load_installed(self, kind: str) -> None:
        if kind in self._installed:
            return
        self._installed.add(kind)
        self._scan(kind)
        from importlib.metadata import entry_points  # slow, and needed only for names that are not ours

        for entry in entry_points(group=KINDS[kind].group):
            try:
                self._register(kind, [entry.load()], f"{entry.value} ({entry.dist.name if entry.dist else 'unknown package'})")
            except Exception as error:  # noqa: BLE001 - a plugin of somebody else's package
                self._fail(entry.value, error)
        if feature_enabled("core.external_plugins", self._config):
            for module in load_external_plugins(self._config, self._fail):
                self._register(kind, _plugin_types(module, KINDS[kind].extension_point), module.__name__)

    def _register(self, kind: str, types: Iterable[object], origin: str) -> None:
        point = KINDS[kind].extension_point
        for found in types:
            if not (isinstance(found, type) and issubclass(found, SparkrunPlugin) and found.extension_point == point and found.plugin_name):
                self.failures.append(PluginFailure(origin, f"is not a named {kind} plugin"))
            elif any(plugin.plugin_name == found.plugin_name for plugin in get_extensions(point, self._variables).values()):
                self.failures.append(PluginFailure(origin, f"a {kind} named '{found.plugin_name}' exists already"))
            else:
                register_plugin(found, self._variables)

    def _fail(self, origin: str, error: Exception) -> None:
        self.failures.append(PluginFailure(origin, f"{type(error).__name__}: {error}"))

    def _why_missing(self, name: str) -> str:
        broken = [failure for failure in self.failures if name.replace("-", "_") in failure.origin]
        return f" ({broken[0].origin} could not be loaded: {broken[0].reason})" if broken else ""

    def _relief(self, kind: str, name: str) -> str:
        names = self.names(kind)
        return did_you_mean(name, names) or f"available: {', '.join(names) or 'none'}"


def _modules_with(package: str, mention: str) -> Iterator[str]:
    """The modules of a package whose text has ``mention``. A package that does not exist has none."""
    try:
        parent = import_module(package)
    except ModuleNotFoundError as error:
        if error.name == package:
            return
        raise
    for folder in parent.__path__:
        for file in sorted(Path(folder).glob("[!_]*.py")):
            if mention in file.read_text(encoding="utf-8"):
                yield f"{package}.{file.stem}"


def _plugin_types(module: ModuleType, extension_point: str) -> list[type[SparkrunPlugin]]:
    """The named plugin classes that a module itself defines."""
    return [
        found
        for found in vars(module).values()
        if isinstance(found, type)
        and issubclass(found, SparkrunPlugin)
        and found.__module__ == module.__name__
        and getattr(found, "extension_point", None) == extension_point
        and found.plugin_name
    ]
