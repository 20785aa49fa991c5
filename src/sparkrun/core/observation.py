"""Facts of the hosts of a request: as they are, or as far as they can be told without a network."""

from __future__ import annotations

import msgspec

from sparkrun.core.builds import build_wish
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import HostUnreachableError
from sparkrun.core.facts import HostFacts, Unreachable
from sparkrun.core.further_models import further_models
from sparkrun.core.request import Request, refuse_shares_in, tuning_runtime
from sparkrun.orchestration.claims import Claims
from sparkrun.orchestration.observe import Question, Wanted, observe_hosts
from sparkrun.platforms import platforms

PORTS_TO_TRY = 24
"""How many ports after the first are looked at for the nodes to meet on."""


def observe_request(request: Request, sctx: SparkrunContext, claims: Claims | None = None) -> dict[str, HostFacts]:
    """Facts of every host of a request, which ``claims`` then holds. ``HostUnreachableError`` names every host that is silent."""
    found = observe_hosts(request.selection.hosts, question_for(request), sctx.runner, claims)
    if silent := [host for host in found if isinstance(host, Unreachable)]:
        lines = "\n  ".join(f"{host.host}: {host.reason}" for host in silent)
        raise HostUnreachableError(f"no answer from\n  {lines}", hint=silent[0].hint)
    return {facts.host: facts for facts in found if isinstance(facts, HostFacts)}


def assume_request(request: Request, sctx: SparkrunContext) -> dict[str, HostFacts]:
    """Facts without a network: this machine is looked at, any other host is assumed.

    A machine without accelerators is assumed to have some where images are run: people plan on their laptops.
    """
    local = [host for host in request.selection.hosts if sctx.runner.is_local(host)]
    found = observe_hosts(local, question_for(request), sctx.runner)
    seen = {facts.host: _planned(facts, request) for facts in found if isinstance(facts, HostFacts)}
    return {host: seen.get(host) or HostFacts(host=host, assumed=True) for host in request.selection.hosts}


def _planned(facts: HostFacts, request: Request) -> HostFacts:
    bare = request.executor.uses_images and not facts.hardware.accelerators and not request.runtime.runs_on_cpu
    return msgspec.structs.replace(facts, assumed=True) if bare else facts


def question_for(request: Request) -> Question:
    """What to look for. The serve port is that of the command for a host nobody has seen; what is wrong with it is raised now."""
    config, draft = request.draft_config, request.draft
    refuse_shares_in(request, draft.text)
    first = request.runtime.first_port(config)
    home = request.cluster.cache_dir if request.cluster else None
    meeting = range(first, first + PORTS_TO_TRY) if len(request.selection.hosts) > 1 else ()
    return Question(
        model=request.recipe.model,
        revision=request.recipe.revision,
        further=tuple(Wanted(each.model.text, each.revision) for each in further_models(request)),
        engine=request.runtime.program,
        ports=tuple(dict.fromkeys((draft.port, *meeting))),
        images=wanted_images(request),
        tuning=tuning_runtime(request),
        hf_home=home or "",
    )


def wanted_images(request: Request) -> tuple[str, ...]:
    """Every image that a host of this request may be asked to run: which one is told once its hardware is known."""
    if not request.executor.uses_images:
        return ()
    if request.options.image:
        return (request.options.image,)
    wishes = (build_wish(request, named) for named in _named_images(request))
    return tuple(dict.fromkeys(image for wish in wishes for image in request.builder.candidates(wish)))


def _named_images(request: Request) -> tuple[str, ...]:
    """Every image that recipe or platform may mean."""
    recipe = request.recipe
    named = (recipe.container, *(entry.image for entry in recipe.containers), *(entry.container for entry in recipe.overrides))
    found = [image for image in named if image]
    defaults = (platform.default_image(request.runtime.plugin_name) for platform in platforms())
    return tuple(dict.fromkeys(found if recipe.container or recipe.containers else (*found, *filter(None, defaults))))
