"""How to ask a server whether it can work: a chat, an embedding, or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from sparkrun.core.recipe import Recipe
from sparkrun.core.shell_text import EngineCall, FlagForm, flag_value

Inference = Literal["chat", "completions", "embeddings", "none"]

EMBED_WORDS = frozenset({"embed", "embedding", "embeddings", "feature-extraction", "sentence-similarity", "sentence-transformers"})
RANK_WORDS = frozenset({"rerank", "reranker", "reranking", "text-ranking", "score", "scoring", "rank", "classify", "classifier", "reward"})

_RANK_NAME = re.compile(r"(?:^|[-_/.])rerank(?:er|ing)?(?:$|[-_.:])", re.IGNORECASE)
_EMBED_NAME = re.compile(r"(?:^|[-_/.])embed(?:ding)?s?(?:$|[-_.:])", re.IGNORECASE)


class PoolingFlag(NamedTuple):
    """A flag that turns an engine into something else than a chat server; ``values`` by what it says, ``""`` for a bare switch."""

    form: FlagForm
    values: Mapping[str, Inference]


def inference_of(call: EngineCall | None, flags: Iterable[PoolingFlag], recipe: Recipe) -> Inference:
    """What the server answers, from the flags of its command, the recipe's tags, and the model's name.

    A reranker answers neither a chat nor an embedding, so only its endpoint can be checked.
    """
    said = _by_flags(call, flags) if call else None
    hinted = _by_tags(recipe)
    if said is None:
        return hinted or "chat"
    return "none" if "none" in (said, hinted) else said


def _by_flags(call: EngineCall, flags: Iterable[PoolingFlag]) -> Inference | None:
    found: list[Inference] = []
    for flag in flags:
        value = flag_value(call, flag.form)
        style = flag.values.get("" if value is True else value.lower()) if value is not None else None
        if style:
            found.append(style)
    return "none" if "none" in found else next(iter(found), None)


def _by_tags(recipe: Recipe) -> Inference | None:
    words = {word.lower() for word in _tags(recipe)}
    if words & RANK_WORDS or _RANK_NAME.search(recipe.model):
        return "none"
    return "embeddings" if words & EMBED_WORDS or _EMBED_NAME.search(recipe.model) else None


def _tags(recipe: Recipe) -> Iterable[str]:
    for key in ("tags", "category", "task", "pipeline_tag"):
        value = recipe.metadata.get(key)
        yield from (str(item) for item in value) if isinstance(value, list) else ([str(value)] if value else [])
    yield from recipe.capabilities
