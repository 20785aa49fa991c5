"""What hosts lack of what they are to serve. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from sparkrun.containers.images import is_mutable
from sparkrun.core.facts import HostFacts
from sparkrun.core.further_models import further_models
from sparkrun.core.model_source import ModelSource
from sparkrun.core.plan import LaunchPlan
from sparkrun.core.planner import needs_files
from sparkrun.core.request import Request

Kind = Literal["image", "model"]


class Item(msgspec.Struct, frozen=True):
    """An image or a model that hosts may lack."""

    kind: Kind
    what: str
    """Reference of the image, or the model as the recipe names it."""
    model: ModelSource | None = None
    revision: str = ""
    allow: tuple[str, ...] = ()
    """Patterns of the files of a model that are wanted, empty for all."""
    ignore: tuple[str, ...] = ()


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a host lacks. What is not ``required`` is brought where somebody near has it, and else left to the engine."""

    host: str
    item: Item
    required: bool = True
    refresh: bool = False
    """It is there, under a name that may mean a newer one by now."""


def find_needs(plan: LaunchPlan, request: Request, facts: Mapping[str, HostFacts]) -> tuple[Need, ...]:
    """What each host lacks of what its ranks use, images first. Of a host that nobody looked at nothing is known to be missing."""
    return tuple(
        dict.fromkeys((*_image_needs(plan, request, facts), *_model_needs(plan, request, facts), *_further_needs(plan, request, facts)))
    )


def model_item(request: Request) -> Item:
    """The model of a request."""
    return Item("model", request.model.text, request.model, request.recipe.model_revision or "")


def _image_needs(plan: LaunchPlan, request: Request, facts: Mapping[str, HostFacts]) -> Iterator[Need]:
    if not is_enabled(request, "containers"):
        return
    head = facts[plan.head.host]
    head_id = _image_id(head, plan.head.image)
    pulled = (head.host, plan.head.image) in request.built
    if head_id and plan.head.image and is_mutable(plan.head.image) and not pulled:
        yield Need(host=head.host, item=Item("image", plan.head.image), required=False, refresh=True)
    for rank in plan.ranks:
        seen = facts[rank.host]
        if not rank.image or seen.assumed:
            continue
        other = rank.image == plan.head.image and head_id and _image_id(seen, rank.image) not in (None, head_id)
        if _lacks_image(seen, rank.image) or other:
            yield Need(host=rank.host, item=Item("image", rank.image), required=not other)
    for host in plan.staged_hosts:
        if plan.head.image and _lacks_image(facts[host], plan.head.image):
            yield Need(host=host, item=Item("image", plan.head.image))


def _model_needs(plan: LaunchPlan, request: Request, facts: Mapping[str, HostFacts]) -> Iterator[Need]:
    if request.model.kind != "hub" or not is_enabled(request, "models"):
        return
    if request.options.everywhere:
        yield from (Need(host=host, item=model_item(request)) for host, seen in facts.items() if _lacks_model(seen))
        return
    for rank in plan.ranks:
        if rank.needs_model and _lacks_model(facts[rank.host]):
            yield Need(host=rank.host, item=model_item(request), required=needs_files(rank, request))


def _further_needs(plan: LaunchPlan, request: Request, facts: Mapping[str, HostFacts]) -> Iterator[Need]:
    """Engines are kept from the hub, so what drafts for a model has to be there as well."""
    if not is_enabled(request, "models"):
        return
    for further in further_models(request):
        item = Item("model", further.model.text, further.model, further.revision, further.allow, further.ignore)
        hosts = dict.fromkeys(rank.host for rank in plan.ranks if not further.ranks or rank.rank in further.ranks)
        for host in (*hosts, *plan.staged_hosts):
            seen = facts[host].further.get(further.model.text)
            if seen is not None and seen.path is None:
                yield Need(host=host, item=item)


def is_enabled(request: Request, part: str) -> bool:
    """Whether the recipe (``distribution_config``) and, for models, the cluster (``distribution.model``) let them be brought."""
    of_recipe = request.recipe.distribution_config.get(part)
    if isinstance(of_recipe, dict) and of_recipe.get("enabled") is False:
        return False
    of_cluster = request.cluster.distribution.get("model") if request.cluster and part == "models" else None
    return not (isinstance(of_cluster, dict) and of_cluster.get("enabled") is False)


def _lacks_image(seen: HostFacts, image: str) -> bool:
    images = seen.docker.images
    return not seen.assumed and image in images and images[image] is None


def _image_id(seen: HostFacts, image: str | None) -> str | None:
    found = seen.docker.images.get(image) if image else None
    return found.id if found else None


def _lacks_model(seen: HostFacts) -> bool:
    return not seen.assumed and seen.model.path is None
