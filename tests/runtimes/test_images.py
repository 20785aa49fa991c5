from __future__ import annotations

import pytest

from sparkrun.core.errors import RecipeError
from sparkrun.core.recipe import Recipe, RecipeSource, load_recipe_text
from sparkrun.runtimes.images import ImageChoice, check_host_images, choose_image

HOSTS = "containers: [{host: spark-1, image: own:1}, {host: spark-2, image: own:2}]\n"
ALL = ImageChoice(option="option:1", conditional="conditional:1", platform="platform:1")


def recipe(more: str) -> Recipe:
    return load_recipe_text(f"model: org/m\nruntime: sglang\n{more}", RecipeSource("text", "r"))


@pytest.mark.parametrize(
    ("more", "choice", "image"),
    [
        (HOSTS, ALL, "option:1"),
        (HOSTS, ImageChoice(conditional="conditional:1", platform="platform:1"), "conditional:1"),
        (HOSTS, ImageChoice(platform="platform:1"), "own:2"),
        ("container: recipe:1\n", ImageChoice(platform="platform:1"), "recipe:1"),
        ("", ImageChoice(platform="platform:1"), "platform:1"),
    ],
)
def test_who_names_the_image_of_a_host(more: str, choice: ImageChoice, image: str) -> None:
    assert choose_image(recipe(more), "ann@spark-2", choice) == image


def test_nobody_names_an_image() -> None:
    with pytest.raises(RecipeError, match="no image for sglang on spark-1"):
        choose_image(recipe(""), "spark-1", ImageChoice())


def test_a_host_that_is_left_out_is_told() -> None:
    with pytest.raises(RecipeError, match=r"no image for spark-3 \(there are images for spark-1, spark-2\)"):
        choose_image(recipe(HOSTS), "spark-3", ImageChoice(platform="platform:1"))


def test_images_of_single_hosts_are_checked() -> None:
    check_host_images(recipe(HOSTS), ("spark-1", "spark-2"), allowed=True)
    with pytest.raises(RecipeError, match="spark-2 is none of the hosts") as caught:
        check_host_images(recipe(HOSTS), ("spark-1", "spark-22"), allowed=True)
    assert caught.value.hint == "did you mean 'spark-22'?"
    with pytest.raises(RecipeError, match="runs one image on all hosts"):
        check_host_images(recipe(HOSTS), ("spark-1",), allowed=False)
    check_host_images(recipe(""), (), allowed=False)
