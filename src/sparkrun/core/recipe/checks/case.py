"""What every rule looks at: the recipe, its surroundings, and what reading the command once has told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from sparkrun.core.recipe.keys import CONSUMED
from sparkrun.core.recipe.knowledge import RuntimeKnowledge, Surroundings
from sparkrun.core.recipe.schema import Finding, Recipe, Values
from sparkrun.core.shell_text import EngineCall, Lexed, Word, find_engine, lex, simple_commands
from sparkrun.core.templating import PlaceholderCycle, Rendered, render


class Case:
    """One recipe under examination."""

    def __init__(self, recipe: Recipe, around: Surroundings) -> None:
        self.recipe = recipe
        self.around = around
        self.where = recipe.where

    @property
    def runtime(self) -> RuntimeKnowledge | None:
        """What is known of the runtime, where that is not unknown."""
        return self.around.runtime

    @cached_property
    def values(self) -> Values:
        """The configuration of a plain launch, with what each conditional override could add."""
        recipe = self.recipe
        conditional = {key: value for entry in recipe.overrides for key, value in entry.defaults.items()}
        runtime = self.runtime.defaults if self.runtime else {}
        return {**runtime, **self.around.platform_defaults, **conditional, **recipe.defaults, **recipe.model_values()}

    @cached_property
    def known_keys(self) -> tuple[str, ...]:
        """Every key that something reads, whatever the command says."""
        runtime = self.runtime
        return (*sorted(CONSUMED), *((*runtime.flag_map.keys, *sorted(runtime.consumed)) if runtime else ()))

    @cached_property
    def rendered(self) -> Rendered | PlaceholderCycle | None:
        """The command with its placeholders filled in, or why that has no end."""
        if self.recipe.command is None:
            return None
        flags = self.runtime.flag_map if self.runtime else None
        try:
            return render(self.recipe.command, self.values, from_recipe=self.recipe.defaults, flags=flags)
        except PlaceholderCycle as cycle:
            return cycle

    @cached_property
    def lexed(self) -> Lexed:
        """The command template in tokens."""
        return lex(self.recipe.command or "")

    @cached_property
    def call(self) -> EngineCall | None:
        """The part of the command template that starts the engine."""
        return find_engine(self.recipe.command, self.runtime.engine) if self.recipe.command and self.runtime else None

    @cached_property
    def rendered_call(self) -> EngineCall | None:
        """The same with its placeholders filled in, so that flags which stand in ``defaults`` are there too."""
        rendered = self.rendered
        return find_engine(rendered.text, self.runtime.engine) if isinstance(rendered, Rendered) and self.runtime else None

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """The words of the engine's command, or of every command where the engine is not known."""
        if self.call:
            return self.call.arguments
        return tuple(word for words in simple_commands(self.lexed) for word in words)


Rule = Callable[[Case], Iterator[Finding]]
