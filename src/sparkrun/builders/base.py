"""The seam behind which images come to be: a builder decides, purely, and names the scripts that do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from sparkrun.core.facts import HostFacts
from sparkrun.core.plan import Build, Gap
from sparkrun.core.plugin import SparkrunPlugin
from sparkrun.core.recipe.builders import BuilderKnowledge
from sparkrun.core.recipe.schema import Values

EXT_BUILDER = "sparkrun.builder"


class BuildWish(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of a builder: an image as recipe or platform name it, and how it is to be made."""

    image: str
    args: tuple[str, ...] = ()
    """The recipe's ``build_args``."""
    options: Values = {}
    """The builder's own options in force, unknown ones left out: command line, ``config.yaml``, recipe."""
    rebuild: bool = False
    """Make it anew, or fetch it anew, whatever is there."""
    offline: bool = False


class ImageDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The image that hosts run, and what has to be done for it first. With a gap nothing can be done, and the launch is refused."""

    image: str
    build: Build | None = None
    gap: Gap | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class BuilderPlugin(SparkrunPlugin):
    """One way in which images come to be. ``plugin_name`` is what a recipe's ``builder:`` says."""

    extension_point = EXT_BUILDER
    knowledge: ClassVar[BuilderKnowledge] = BuilderKnowledge()
    """What it reads of a recipe; recipes are checked against it."""
    stages: ClassVar[tuple[str, ...]] = ()
    """What a build goes through, in order, as its script and ``stage_of`` name it."""

    def candidates(self, wish: BuildWish) -> tuple[str, ...]:
        """Every image whose presence on a host decides something; hosts are asked for them."""
        return (wish.image,)

    def plan_build(self, wish: BuildWish, hosts: Sequence[HostFacts]) -> ImageDecision:
        """What ``hosts`` (head first) run for ``wish``, and what makes it. Touches nothing.

        An image is built on the head; it comes to the other hosts like any other image. Of a host that is ``assumed`` nothing is known.
        Raises ``RecipeError`` or ``ConfigError`` for options that cannot be.
        """
        del hosts
        return ImageDecision(image=wish.image)

    def asks(self, wish: BuildWish) -> str | None:
        """What a build of it would run on the head of a recipe that is not trusted, for the user to allow; ``None``: nothing."""
        del wish
        return None

    def stage_of(self, line: str) -> str | None:
        """The stage that begins with a line of a build's own output; ``None``: it goes on as before."""
        del line
        return None

    def way_out(self, stage: str, said: str) -> str | None:
        """What to do about a build that failed in ``stage``, of which ``said`` are the last lines."""
        del stage, said
        return None
