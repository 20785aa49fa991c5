"""Which image a host runs."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sparkrun.core.errors import RecipeError
from sparkrun.core.hosts import parse_host
from sparkrun.core.recipe import Recipe
from sparkrun.utils.text import did_you_mean


class ImageChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What else may name the image: ``--image``, a conditional override that holds, the platform's default for the runtime."""

    option: str | None = None
    conditional: str | None = None
    platform: str | None = None


def choose_image(recipe: Recipe, host: str, choice: ImageChoice) -> str:
    """The image of one host: ``--image``, conditional override, the host's own in ``containers``, ``container``, platform default.

    Raises ``RecipeError`` when nobody names one.
    """
    own = next((entry.image for entry in recipe.containers if _is(entry.host, host)), None)
    image = choice.option or choice.conditional or own or recipe.container
    if image:
        return image
    if recipe.containers:
        named = ", ".join(entry.host for entry in recipe.containers)
        raise RecipeError(
            f"{recipe.where('containers')}: no image for {host} (there are images for {named})", hint="add it, or a container:"
        )
    if choice.platform:
        return choice.platform
    raise RecipeError(f"no image for {recipe.runtime} on {host}", hint="name one with --image, or container: in the recipe")


def check_host_images(recipe: Recipe, hosts: Iterable[str], *, allowed: bool) -> None:
    """Refuse ``containers`` where the runtime runs one image everywhere, and a host in it that is none of the given ones."""
    if not recipe.containers:
        return
    where, given = recipe.where("containers"), tuple(hosts)
    if not allowed:
        raise RecipeError(f"{where}: {recipe.runtime} runs one image on all hosts", hint="write container instead of containers")
    for entry in recipe.containers:
        if not any(_is(entry.host, host) for host in given):
            raise RecipeError(
                f"{where}: {entry.host} is none of the hosts", hint=did_you_mean(entry.host, given) or f"hosts: {', '.join(given)}"
            )


def _is(named: str, host: str) -> bool:
    return named == host or parse_host(named).name == parse_host(host).name
