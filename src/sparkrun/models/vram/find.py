"""Where facts about a model are looked for: this machine's files first, then the hub, if it may be asked and more is wanted."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import RecipeError
from sparkrun.core.hub_reader import HubReader
from sparkrun.core.model_source import ModelSource, parse_model
from sparkrun.models.vram.details import ModelDetails
from sparkrun.models.vram.estimate import MemoryWish, estimate_memory
from sparkrun.models.vram.hub_details import ask_hub
from sparkrun.models.vram.local_files import local_details


class ModelQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A model whose memory is wanted, and who may be asked about it: without ``make_hub`` nobody but this machine.

    ``known`` is what hosts told already. ``thorough``: all that can be told is wanted, not only what the estimate needs.
    """

    model: ModelSource
    revision: str | None
    wish: MemoryWish
    config: SparkrunConfig
    make_hub: Callable[[], HubReader] | None = None
    known: ModelDetails = ModelDetails()
    known_draft: ModelDetails = ModelDetails()
    thorough: bool = False
    own_files: bool = True
    """Whether a path or a package of this machine is the model. On another host the same path may hold another one."""


class ModelAnswer(msgspec.Struct, frozen=True):
    """What is known of a model and of its draft model, and why the hub did not tell more, where it was asked."""

    details: ModelDetails = ModelDetails()
    draft: ModelDetails = ModelDetails()
    problem: str | None = None


def find_model(question: ModelQuestion) -> ModelAnswer:
    """What this machine, and the hub for what is missing, know. Never raises."""
    here = ModelDetails()
    if question.own_files or question.model.kind == "hub":
        here = local_details(question.model, question.revision, question.config, headers=question.thorough)
    known, hub, problem = question.known.completed_by(here), None, None
    if question.make_hub and question.model.kind == "hub" and _lacking(question, known):
        hub = question.make_hub()
        look = ask_hub(question.model, question.revision, hub)
        known, problem = known.completed_by(look.details), look.problem
    draft, draft_problem = _find_draft(question, hub)
    return ModelAnswer(known, draft, problem or draft_problem)


def _lacking(question: ModelQuestion, known: ModelDetails) -> bool:
    if question.thorough and not known.shape_known:
        return True
    estimate = estimate_memory(question.wish, known)
    return estimate.weights.size_bytes is None or (question.wish.context is not None and estimate.kv.token_bytes is None)


def _find_draft(question: ModelQuestion, hub: HubReader | None) -> tuple[ModelDetails, str | None]:
    source = _draft_source(question.wish)
    if source is None:
        return ModelDetails(), None
    revision = question.wish.draft.revision if question.wish.draft else None
    here = question.known_draft.completed_by(local_details(source, revision, question.config, headers=False))
    if question.make_hub is None or source.kind != "hub" or (here.sizes_known and here.shape_known):
        return here, None
    look = ask_hub(source, revision, hub or question.make_hub())
    return here.completed_by(look.details), look.problem


def _draft_source(wish: MemoryWish) -> ModelSource | None:
    try:
        return parse_model(wish.draft.name) if wish.draft else None
    except RecipeError:
        return None
