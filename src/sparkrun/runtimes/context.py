"""What a command is made of, what comes out of it, and what writing it needs to know of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

import msgspec

from sparkrun.core.effective import EffectiveConfig
from sparkrun.core.facts import HostFacts
from sparkrun.core.flags import FlagMap
from sparkrun.core.model_source import ModelSource
from sparkrun.core.recipe import Recipe
from sparkrun.core.recipe.schema import Values
from sparkrun.core.shell_text import EngineSyntax, FlagForm
from sparkrun.runtimes.model_files import snapshot_revision
from sparkrun.runtimes.ranks import RankContext


class CommandContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a command is made of. ``facts`` are those of the host that will run it.

    Before the model's files are known ``facts.model.path`` is ``None`` and ``{model}`` is the model's id. Where the executor uses
    images, the paths in ``facts.model`` are those inside the container (``model_files.container_facts``).
    """

    recipe: Recipe
    config: EffectiveConfig
    model: ModelSource
    facts: HostFacts
    extra_args: tuple[str, ...] = ()
    revision: str | None = None
    """The commit of the model, where the planner knows it; else it is read from the path of the snapshot."""
    draft_revisions: Mapping[str, str] = {}
    """The commit of each draft model, by id."""
    env: Mapping[str, str] = {}
    """What the user sets for the engine, all tiers merged; without it the recipe's own environment counts."""
    rank: RankContext = RankContext()
    in_container: bool = False
    """Whether the executor uses images, so that programs on the host do not matter."""

    @property
    def commit(self) -> str | None:
        """The commit of the model's snapshot, once it is known."""
        return self.revision or snapshot_revision(self.facts.model.path)

    @property
    def bound(self) -> bool:
        """Whether the model's files are known."""
        return self.facts.model.path is not None

    @property
    def user_env(self) -> Mapping[str, str]:
        """What the user sets in the engine's environment, as far as it is known here."""
        return self.env or {**self.config.container.env, **self.config.container.env_overrides}


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's command as shell text, and what it really says, learnt from the text itself."""

    text: str
    port: int
    host: str | None = None
    served_model_name: str | None = None
    """The first name under which clients may ask for the model."""
    served_model_names: tuple[str, ...] = ()
    api_key: str | None = None
    secret_env: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class RankCommand(msgspec.Struct, frozen=True):
    """What one rank runs, and what is to be told about it."""

    text: str
    notes: tuple[str, ...] = ()


class Draft(msgspec.Struct, frozen=True):
    """A command on its way, and what is to be told about it."""

    text: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def became(self, text: str, *notes: str) -> Draft:
        """The same draft with another text and more notes."""
        return Draft(text, self.notes + notes, self.warnings)

    def warned(self, *warnings: str) -> Draft:
        """The same draft with more warnings."""
        return Draft(self.text, self.notes, self.warnings + warnings)


class EngineTraits(Protocol):
    """What a command needs to know of a runtime; ``RuntimePlugin`` says what each is."""

    plugin_name: ClassVar[str]
    flag_map: ClassVar[FlagMap]
    engine: ClassVar[EngineSyntax]
    default_port: ClassVar[int]
    api_key_env: ClassVar[str | None]
    api_key_variable: ClassVar[str]
    always_named: ClassVar[bool]
    consumes: ClassVar[frozenset[str]]
    rank_flags: ClassVar[tuple[FlagForm, ...]]

    def check(self, ctx: CommandContext) -> None: ...

    def model_word(self, ctx: CommandContext) -> str: ...

    def bound_values(self, ctx: CommandContext) -> Values: ...

    def launcher_words(self, ctx: CommandContext) -> tuple[str, ...]: ...

    def finish(self, draft: Draft, ctx: CommandContext) -> Draft: ...
