"""The default: images come from where docker pulls from, and nothing is built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from sparkrun.builders.base import BuilderPlugin, BuildWish, ImageDecision
from sparkrun.containers.images import is_pullable, pull_action
from sparkrun.core.facts import HostFacts
from sparkrun.core.plan import Build
from sparkrun.core.recipe.builders import DOCKER_PULL, BuilderKnowledge


class DockerPullBuilder(BuilderPlugin):
    """Builds nothing; ``--rebuild`` pulls an image that is there already once more."""

    plugin_name = "docker-pull"
    knowledge: ClassVar[BuilderKnowledge] = DOCKER_PULL
    stages: ClassVar[tuple[str, ...]] = ("pull",)

    def plan_build(self, wish: BuildWish, hosts: Sequence[HostFacts]) -> ImageDecision:
        """The image as it is named."""
        return plan_pull(wish, hosts, self.plugin_name)


def plan_pull(wish: BuildWish, hosts: Sequence[HostFacts], builder: str) -> ImageDecision:
    """A forced pull on every host where the image is to be had anew, else the image as it is."""
    warnings = tuple(_cannot_pull(wish)) if wish.rebuild else ()
    if not wish.rebuild or warnings:
        return ImageDecision(image=wish.image, warnings=warnings)
    names = ", ".join(seen.host for seen in hosts)
    return ImageDecision(
        image=wish.image,
        build=Build(
            title=f"pull {wish.image} anew on {names}",
            actions=tuple(pull_action(seen.host, wish.image) for seen in hosts),
            image=wish.image,
            builder=builder,
            why="--rebuild",
        ),
    )


def _cannot_pull(wish: BuildWish) -> Iterator[str]:
    if wish.offline:
        yield f"offline: {wish.image} is used as it is, it is not pulled anew"
    elif not is_pullable(wish.image):
        yield f"{wish.image} is a local build (its name has no '/'): there is no registry to pull it from anew"
