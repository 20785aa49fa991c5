"""What a recipe is, after reading: frozen, typed, with source, trust and line numbers kept."""

from __future__ import annotations

from typing import Literal

import msgspec

from sparkrun.core.recipe.places import KeyPath, Position, place
from sparkrun.core.values import ConfigValue

Mode = Literal["auto", "solo", "cluster"]
Severity = Literal["error", "warning", "suggestion"]
SourceKind = Literal["file", "registry", "builtin", "url", "text"]
Values = dict[str, ConfigValue]


OWN_MODEL = "{model}"
"""How the recipe's own model stands among the entries of ``distribution_config``."""


class RecipeSource(msgspec.Struct, frozen=True):
    """Where a recipe came from, and whether its hooks and host settings may run unasked."""

    kind: SourceKind
    name: str
    """The stem of the file, or the path inside a registry; what users call the recipe."""
    path: str | None = None
    registry: str | None = None
    url: str | None = None
    trusted: bool = False

    @property
    def ref(self) -> str:
        """What to type to get this recipe again."""
        if self.registry:
            return f"@{self.registry}/{self.name}"
        return self.url or self.path or self.name


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something worth telling about a recipe: how bad, which rule, where, and what to do."""

    severity: Severity
    code: str
    message: str
    fix: str | None = None
    where: str | None = None
    deprecation: bool = False


class Hook(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command, or a copy into each container, around serving. ``timeout_s`` 0 means none, ``None`` the configured default."""

    command: str | None = None
    copy: str | None = None
    dest: str | None = None
    source_host: str | None = None
    timeout_s: float | None = None


class HostImage(msgspec.Struct, frozen=True):
    """The image of one host (``containers:``)."""

    host: str
    image: str


class ConditionalOverride(msgspec.Struct, frozen=True, omit_defaults=True):
    """Defaults, env or image that hold when every condition of ``when`` does."""

    when: Values
    defaults: Values = {}
    env: dict[str, str] = {}
    container: str | None = None


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """A recipe as its author wrote it, checked for shape. Durations are seconds."""

    source: RecipeSource
    model: str
    version: str = "2"
    author_version: str | None = None
    """The author's own revision number, where ``recipe_version`` held one."""
    min_sparkrun_version: str | None = None
    description: str = ""
    model_revision: str | None = None
    runtime: str = ""
    """The concrete runtime after detection; never empty after loading."""
    declared_runtime: str | None = None
    runtime_version: str | None = None
    mode: Mode = "auto"
    min_nodes: int = 1
    max_nodes: int | None = None
    solo_only: bool = False
    cluster_only: bool = False
    container: str | None = None
    containers: tuple[HostImage, ...] = ()
    builder: str | None = None
    builder_config: Values = {}
    build_args: tuple[str, ...] = ()
    mods: tuple[str, ...] = ()
    defaults: Values = {}
    overrides: tuple[ConditionalOverride, ...] = ()
    env: dict[str, str] = {}
    command: str | None = None
    runtime_config: Values = {}
    metadata: Values = {}
    pre_exec: tuple[Hook, ...] = ()
    post_exec: tuple[Hook, ...] = ()
    post_commands: tuple[Hook, ...] = ()
    stop_after_post: bool = False
    benchmark: Values = {}
    layout: Values | None = None
    executor: str | None = None
    executor_config: Values = {}
    scheduler: str | None = None
    distribution_config: Values = {}
    cluster_config: Values = {}
    runtime_cache: bool | Values | None = None
    readiness: Values = {}
    capabilities: tuple[str, ...] = ()
    unsupported_capabilities: tuple[str, ...] = ()
    include: str | None = None
    positions: dict[KeyPath, Position] = {}
    findings: tuple[Finding, ...] = ()
    """What reading the text found (unknown keys, duplicates, deprecations); ``validate`` adds the rest."""

    @property
    def name(self) -> str:
        """What users call the recipe."""
        return self.source.name

    @property
    def own_entry(self) -> Values:
        """What ``distribution_config`` says of the recipe's own model, empty where it says nothing."""
        models = self.distribution_config.get("models")
        entries = models.get("entries") if isinstance(models, dict) else None
        found = (each for each in (entries if isinstance(entries, list) else []) if isinstance(each, dict))
        return next((each for each in found if each.get("name") in (OWN_MODEL, self.model)), {})

    @property
    def revision(self) -> str:
        """Commit, branch or tag of the model, empty for the main branch."""
        of_entry = self.own_entry.get("revision")
        return self.model_revision or (of_entry if isinstance(of_entry, str) else "")

    def model_values(self) -> Values:
        """What every configuration holds of the model itself: ``model``, and where known ``model_revision`` and ``resolved_model_path``."""
        values: Values = {"model": self.model}
        if self.revision:
            values["model_revision"] = self.revision
        if resolved := self.cluster_config.get("resolved_model_path"):
            values["resolved_model_path"] = resolved
        return values

    def where(self, *path: str | int) -> str:
        """``file:line:col`` of a key of this recipe, or just the file."""
        return place(self.source.path or self.source.ref, self.positions, path)
