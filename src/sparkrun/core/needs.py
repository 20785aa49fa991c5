"""What hosts lack of what they are to serve. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from sparkrun.containers.images import is_mutable
from sparkrun.core.facts import HostFacts, ModelFacts
from sparkrun.core.further_models import WantedModel, further_models, own_model
from sparkrun.core.model_source import ModelSource
from sparkrun.core.plan import LaunchPlan
from sparkrun.core.planner import needs_files
from sparkrun.core.request import Request
from sparkrun.runtimes.model_files import snapshot_revision

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


def _image_needs(plan: LaunchPlan, request: Request, facts: Mapping[str, HostFacts]) -> Iterator[Need]:
    if not is_enabled(request, "containers"):
        return
    head = facts[plan.head.host]
    head_id = _image_id(head, plan.head.image)
    pulled = (head.host, plan.head.image) in request.built
    if head_id and plan.head.image and is_mutable(plan.head.image) and not pulled:
        yield Need(host=head.host, item=Item("image", plan.head.image), required=False, refresh=True)
    wanted = [*((rank.host, rank.image) for rank in plan.ranks), *((host, plan.head.image) for host in plan.staged_hosts)]
    for host, image in wanted:
        seen = facts[host]
        if not image or seen.assumed:
            continue
        other = image == plan.head.image and head_id and _image_id(seen, image) not in (None, head_id)
        if _lacks_image(seen, image) or other:
            yield Need(host=host, item=Item("image", image), required=not other)


def _model_needs(plan: LaunchPlan, request: Request, facts: Mapping[str, HostFacts]) -> Iterator[Need]:
    if request.model.kind != "hub" or not is_enabled(request, "models"):
        return
    head = facts[plan.head.host].model
    entry = own_model(request)
    item = _pinned(_item(entry), head)
    lacking = lacking_hosts({host: seen.model for host, seen in facts.items() if not seen.assumed}, head)
    if request.options.everywhere:
        yield from (Need(host=host, item=item) for host in lacking)
        return
    for rank in plan.ranks:
        if rank.needs_model and entry.is_for(rank.rank) and rank.host in lacking:
            yield Need(host=rank.host, item=item, required=needs_files(rank, request))


def _further_needs(plan: LaunchPlan, request: Request, facts: Mapping[str, HostFacts]) -> Iterator[Need]:
    """Engines are kept from the hub, so what drafts for a model has to be there as well."""
    if not is_enabled(request, "models"):
        return
    for further in further_models(request):
        hosts = dict.fromkeys(rank.host for rank in plan.ranks if further.is_for(rank.rank))
        seen = {host: found for host in (*hosts, *plan.staged_hosts) if (found := facts[host].further.get(further.model.text))}
        first = next((found for found in seen.values() if found.path), ModelFacts())
        item = _pinned(_item(further), first)
        yield from (Need(host=host, item=item) for host in lacking_hosts(seen, first))


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


def lacking_hosts(models: Mapping[str, ModelFacts], first: ModelFacts) -> tuple[str, ...]:
    """Hosts with no files of a model, those of another commit than the first host has, or less of the same weights than others."""
    wanted = snapshot_revision(first.path)
    commits = {host: snapshot_revision(found.path) for host, found in models.items()}
    whole = max((found.weight_bytes or 0 for host, found in models.items() if wanted and commits[host] == wanted), default=0)
    return tuple(
        host
        for host, found in models.items()
        if found.path is None
        or (wanted and commits[host] and (commits[host] != wanted or (found.weight_bytes is not None and found.weight_bytes < whole)))
    )


def _item(model: WantedModel) -> Item:
    return Item("model", model.model.text, model.model, model.revision, model.allow, model.ignore)


def _pinned(item: Item, first: ModelFacts) -> Item:
    """The item as the first host has it: a branch may mean something else by now, and all ranks load the same."""
    commit = snapshot_revision(first.path)
    return msgspec.structs.replace(item, revision=commit) if commit else item
