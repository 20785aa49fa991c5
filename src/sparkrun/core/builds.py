"""Which image each host of a launch runs, and what is built for it first: the builder's decisions, gathered."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sparkrun.builders.base import BuildWish, ImageDecision
from sparkrun.core.context import SparkrunContext
from sparkrun.core.facts import HostFacts, ImageFacts
from sparkrun.core.plan import Build, Gap, LaunchPlan
from sparkrun.core.request import Request


class Images(msgspec.Struct, frozen=True, kw_only=True):
    """The image of each host, and what comes before."""

    by_host: Mapping[str, str] = {}
    builds: tuple[Build, ...] = ()
    gaps: tuple[Gap, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def decide_images(request: Request, named: Mapping[str, str], facts: Mapping[str, HostFacts], sctx: SparkrunContext) -> Images:
    """The images of hosts, head first, for which recipe or platform name ``named``. Touches nothing.

    A build of this launch that is done (``request.built``) is not done again; the image stays the one that was decided for.
    """
    decisions: dict[str, ImageDecision] = {}
    for image in dict.fromkeys(named.values()):
        hosts = [facts[host] for host, wanted in named.items() if wanted == image]
        decisions[image] = request.builder.plan_build(build_wish(request, image, offline=sctx.offline), hosts)
    found = tuple(decisions.values())
    return Images(
        by_host={host: decisions[image].image for host, image in named.items()},
        builds=tuple(each.build for each in found if each.build and not results_of(each.build) <= request.built),
        gaps=tuple(each.gap for each in found if each.gap),
        notes=tuple(note for each in found for note in each.notes),
        warnings=tuple(warning for each in found for warning in each.warnings),
    )


def results_of(build: Build) -> frozenset[tuple[str, str]]:
    """Host and image of what a build leaves behind."""
    return frozenset((host, build.image) for host in build.hosts)


def build_wish(request: Request, image: str, *, offline: bool = False) -> BuildWish:
    """What the builder is asked for."""
    rebuild = request.options.rebuild
    return BuildWish(
        image=image,
        args=request.recipe.build_args,
        options=request.builder_options,
        rebuild=request.builder_options.get("rebuild") is True if rebuild is None else rebuild,
        offline=offline,
    )


def facts_after_builds(plan: LaunchPlan, facts: Mapping[str, HostFacts]) -> Mapping[str, HostFacts]:
    """The hosts as they are once everything is built and handed on; what stays a gap of the builder is told once, and counts as there.

    How a built image is handed on is planned when it is there.
    """
    settled = {build.image for build in plan.builds} | {gap.what for gap in plan.gaps if gap.kind == "image"}
    after = dict(facts)
    for rank in plan.ranks:
        if rank.image in settled:
            after[rank.host] = _with_image(facts[rank.host], rank.image)
    return after


def _with_image(seen: HostFacts, image: str) -> HostFacts:
    images = {**seen.docker.images, image: ImageFacts("")}
    return msgspec.structs.replace(seen, docker=msgspec.structs.replace(seen.docker, images=images))
