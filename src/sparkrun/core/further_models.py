"""Models that a recipe needs beside its own: one that drafts for it, and those that ``distribution_config`` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from sparkrun.core.errors import RecipeError
from sparkrun.core.model_source import ModelSource, parse_model
from sparkrun.core.request import Request
from sparkrun.core.values import ConfigValue
from sparkrun.runtimes.memory_wish import draft_of

OWN = "{model}"
"""How the recipe's own model stands among the entries."""


class FurtherModel(msgspec.Struct, frozen=True):
    """A model of a hub. ``ranks`` are those that need it, empty for all."""

    model: ModelSource
    revision: str = ""
    ranks: tuple[int, ...] = ()
    allow: tuple[str, ...] = ()
    """Patterns of the files that are wanted, empty for all."""
    ignore: tuple[str, ...] = ()
    """Patterns of files that are not wanted."""


def further_models(request: Request) -> tuple[FurtherModel, ...]:
    """Those of a hub, each once. Raises ``RecipeError`` for an entry that names no model."""
    found = {each.model.text: each for each in (*_named(request), *_drafts(request)) if each.model.kind == "hub"}
    return tuple(each for text, each in found.items() if text != request.model.text)


def _named(request: Request) -> Iterator[FurtherModel]:
    said = request.recipe.distribution_config
    models = said.get("models")
    entries = models.get("entries") if isinstance(models, dict) else None
    for listed in (entries, said.get("additional_models")):
        for entry in listed if isinstance(listed, list) else []:
            if entry != OWN and not (isinstance(entry, dict) and entry.get("name") == OWN):
                yield _entry(entry, request)


def _entry(entry: ConfigValue, request: Request) -> FurtherModel:
    named: Mapping[str, ConfigValue] = entry if isinstance(entry, dict) else {"name": entry}
    name, revision, target = named.get("name"), named.get("revision"), named.get("target")
    if not isinstance(name, str):
        raise RecipeError(f"{request.recipe.where('distribution_config')}: {entry!r} names no model", hint="org/name, or {name: org/name}")
    ranks = tuple(rank for rank in target if isinstance(rank, int)) if isinstance(target, list) else ()
    return FurtherModel(
        parse_model(name),
        revision if isinstance(revision, str) else "",
        () if -1 in ranks else ranks,
        _patterns(named.get("allow_patterns")),
        _patterns(named.get("ignore_patterns")),
    )


def _patterns(said: ConfigValue) -> tuple[str, ...]:
    """A list of patterns, or one."""
    return tuple(str(each) for each in (said if isinstance(said, list) else [said] if said else []))


def _drafts(request: Request) -> Iterator[FurtherModel]:
    if draft := draft_of(request.runtime, request.recipe, request.configuration()):
        name, revision = draft
        yield FurtherModel(parse_model(name), revision)
