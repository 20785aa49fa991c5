"""Models that a recipe needs beside its own: one that drafts for it, and those that ``distribution_config`` names."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sparkrun.core.errors import RecipeError
from sparkrun.core.model_source import ModelSource, parse_model
from sparkrun.core.recipe.schema import OWN_MODEL, Values
from sparkrun.core.request import Request
from sparkrun.core.values import ConfigValue
from sparkrun.runtimes.memory_wish import draft_of


class WantedModel(msgspec.Struct, frozen=True):
    """A model that ranks need. ``ranks`` are those, empty for all."""

    model: ModelSource
    revision: str = ""
    ranks: tuple[int, ...] = ()
    allow: tuple[str, ...] = ()
    """Patterns of the files that are wanted, empty for all."""
    ignore: tuple[str, ...] = ()
    """Patterns of files that are not wanted."""

    def is_for(self, rank: int) -> bool:
        """Whether a rank needs it."""
        return not self.ranks or rank in self.ranks


def own_model(request: Request) -> WantedModel:
    """The recipe's own one, with what ``distribution_config`` says of it."""
    said = _wanted(request.model, request.recipe.own_entry)
    return msgspec.structs.replace(said, revision=request.recipe.revision)


def further_models(request: Request) -> tuple[WantedModel, ...]:
    """Those of a hub, each once; of what is named twice, what ``distribution_config`` says holds. Raises ``RecipeError`` for an entry
    that names no model.
    """
    found: dict[str, WantedModel] = {}
    for each in (*_drafts(request), *_named(request)):
        if each.model.kind == "hub" and each.model.text != request.model.text:
            before = found.get(each.model.text, each)
            found[each.model.text] = msgspec.structs.replace(each, revision=each.revision or before.revision)
    return tuple(found.values())


def _named(request: Request) -> Iterator[WantedModel]:
    said = request.recipe.distribution_config
    models = said.get("models")
    entries = models.get("entries") if isinstance(models, dict) else None
    for listed in (entries, said.get("additional_models")):
        for entry in listed if isinstance(listed, list) else []:
            if entry != OWN_MODEL and not (isinstance(entry, dict) and entry.get("name") == OWN_MODEL):
                yield _entry(entry, request)


def _entry(entry: ConfigValue, request: Request) -> WantedModel:
    named: Values = entry if isinstance(entry, dict) else {"name": entry}
    name = named.get("name")
    if not isinstance(name, str):
        raise RecipeError(f"{request.recipe.where('distribution_config')}: {entry!r} names no model", hint="org/name, or {name: org/name}")
    return _wanted(parse_model(name), named)


def _wanted(model: ModelSource, named: Values) -> WantedModel:
    revision, target = named.get("revision"), named.get("target")
    ranks = tuple(rank for rank in target if isinstance(rank, int)) if isinstance(target, list) else ()
    return WantedModel(
        model,
        revision if isinstance(revision, str) else "",
        () if -1 in ranks else ranks,
        _patterns(named.get("allow_patterns")),
        _patterns(named.get("ignore_patterns")),
    )


def _patterns(said: ConfigValue) -> tuple[str, ...]:
    """A list of patterns, or one."""
    return tuple(str(each) for each in (said if isinstance(said, list) else [said] if said else []))


def _drafts(request: Request) -> Iterator[WantedModel]:
    if draft := draft_of(request.runtime, request.recipe, request.configuration()):
        yield WantedModel(parse_model(draft.name), draft.revision or "")
