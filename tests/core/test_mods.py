from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.mods import ModNotFoundError, UnsafeModError, enclosing_repository, find_mods, untrusted_mods
from sparkrun.core.recipe.load import load_recipe_file
from sparkrun.core.recipe.schema import Recipe
from sparkrun.core.registry import RegistryManager, UnsafeRegistryError
from sparkrun.core.resolve import ResolveContext, resolve_recipe
from tests.core.conftest import RECIPE, GitRecorder, Repo, manifest, save_registries

EUGR = "https://github.com/spark-arena/eugr-recipes"


def with_mods(*mods: str) -> str:
    return RECIPE + f"mods: [{', '.join(repr(mod) for mod in mods)}]\n"


def make_mod(folder: Path, text: str = "true\n") -> Path:
    folder.mkdir(parents=True)
    (folder / "run.sh").write_text(text)
    return folder


@pytest.fixture
def local(tmp_path: Path) -> Callable[..., Recipe]:
    """Loads a recipe file of a folder outside any repository."""

    def load(*mods: str) -> Recipe:
        path = tmp_path / "own/recipes/r.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(with_mods(*mods))
        return load_recipe_file(path)

    return load


@pytest.fixture
def eugr(config: SparkrunConfig, new_repo: Callable[[str], Repo]) -> Repo:
    """The ``eugr`` registry, listed and never fetched."""
    save_registries(
        config, f"config_version: 1\nregistries:\n- {{name: eugr, url: '{EUGR}', subpath: recipes, mods_subpath: mods, trusted: true}}\n"
    )
    made = new_repo("spark-arena/eugr-recipes")
    made.commit({"recipes/e.yaml": RECIPE, "mods/far/run.sh": "true\n", "mods/near/run.sh": "true\n"})
    return made


@pytest.fixture
def fresh(new_manager: Callable[..., RegistryManager]) -> RegistryManager:
    return new_manager()


@pytest.mark.parametrize("place", ["x", "mods/x"])
@pytest.mark.parametrize("reference", ["x", "mods/x"])
def test_a_mod_beside_the_recipe_is_found_and_nothing_is_fetched(
    local: Callable[..., Recipe], eugr: Repo, fresh: RegistryManager, git: GitRecorder, place: str, reference: str
) -> None:
    recipe = local(reference)
    made = make_mod(Path(recipe.source.path or "").parent / place)
    (found,) = find_mods(recipe, fresh)
    assert (found.reference, found.name, found.path, found.registry) == (reference, "x", made, None)
    assert git.lines == []


def test_the_mods_at_the_top_of_the_recipes_repository_are_found(
    local: Callable[..., Recipe], fresh: RegistryManager, git: GitRecorder
) -> None:
    recipe = local("owner/deep", "plain")
    top = Path(recipe.source.path or "").parents[1]
    subprocess.run(["git", "init", "--quiet", str(top)], check=True)
    made = [make_mod(top / "mods/owner/deep"), make_mod(top / "mods/plain")]
    assert [found.path for found in find_mods(recipe, fresh)] == made
    assert enclosing_repository(top / "recipes") == top
    assert git.lines == []


def test_a_registrys_recipe_takes_its_registrys_mods(
    ctx: ResolveContext, manager: RegistryManager, new_repo: Callable[[str], Repo]
) -> None:
    made = new_repo("made")
    declared = manifest("made", mods="own-mods")
    made.commit(
        {".sparkrun/registry.yaml": declared, "recipes/sub/r.yaml": with_mods("m"), "own-mods/m/run.sh": "true", "mods/m/run.sh": "false"}
    )
    manager.add(made.url)
    (found,) = find_mods(resolve_recipe("@made/r", ctx), manager)
    assert (found.registry, found.path.relative_to(manager.trees.root / "made").as_posix()) == ("made", "own-mods/m")


def test_without_a_mods_folder_of_its_own_a_registry_uses_the_one_at_the_top(
    ctx: ResolveContext, manager: RegistryManager, repo: Repo
) -> None:
    repo.commit({"recipes/r.yaml": with_mods("m"), "mods/m/run.sh": "true"})
    manager.add(repo.url)
    (found,) = find_mods(resolve_recipe("@myreg/r", ctx), manager)
    assert (found.registry, found.path.parent.name) == ("myreg", "mods")


def test_the_eugr_registry_is_the_last_place_and_fetched_on_demand(
    local: Callable[..., Recipe], eugr: Repo, fresh: RegistryManager, git: GitRecorder
) -> None:
    (found,) = find_mods(local("mods/far"), fresh)
    assert (found.name, found.registry) == ("far", "eugr")
    assert (found.path / "run.sh").is_file()
    assert git.verbs.count("clone") == 1


def test_a_mod_of_an_untrusted_registry_is_to_be_asked_for(local: Callable[..., Recipe], eugr: Repo, fresh: RegistryManager) -> None:
    recipe = local("far", "own")
    make_mod(Path(recipe.source.path or "").parent / "own")
    mods = find_mods(recipe, fresh)
    assert untrusted_mods(mods, fresh) == ()
    fresh.untrust("eugr")
    assert [mod.name for mod in untrusted_mods(mods, fresh)] == ["far"]


def test_an_earlier_place_wins(local: Callable[..., Recipe], eugr: Repo, fresh: RegistryManager) -> None:
    recipe = local("near")
    make_mod(Path(recipe.source.path or "").parent / "near")
    assert find_mods(recipe, fresh)[0].registry is None


def test_a_named_registry_is_the_only_place(local: Callable[..., Recipe], eugr: Repo, fresh: RegistryManager) -> None:
    recipe = local("@eugr/near", "@eugr/mods/far")
    make_mod(Path(recipe.source.path or "").parent / "near")
    assert [(found.name, found.registry) for found in find_mods(recipe, fresh)] == [("near", "eugr"), ("far", "eugr")]
    with pytest.raises(ModNotFoundError) as caught:
        find_mods(local("@eugr/nothing"), fresh)
    assert caught.value.looked == ("@eugr",)


def test_a_mod_that_is_nowhere_lists_every_place_and_the_nearest_name(
    local: Callable[..., Recipe], eugr: Repo, fresh: RegistryManager
) -> None:
    recipe = local("faar")
    folder = Path(recipe.source.path or "").parent
    (folder / "faar").mkdir()
    with pytest.raises(ModNotFoundError, match=r"r\.yaml:6:8: mod 'faar' not found; looked in ") as caught:
        find_mods(recipe, fresh)
    assert caught.value.looked == (str(folder / "faar"), str(folder / "mods/faar"), "@eugr")
    assert caught.value.hint == "did you mean 'far'?"


def test_offline_the_registry_that_was_not_fetched_is_told(
    local: Callable[..., Recipe], eugr: Repo, new_manager: Callable[..., RegistryManager], git: GitRecorder
) -> None:
    with pytest.raises(ModNotFoundError) as caught:
        find_mods(local("far"), new_manager(offline=True))
    assert caught.value.looked[-1] == "@eugr (not fetched yet (offline))"
    assert git.lines == []


def test_without_the_eugr_registry_that_is_told(local: Callable[..., Recipe], manager: RegistryManager) -> None:
    with pytest.raises(ModNotFoundError) as caught:
        find_mods(local("far"), manager)
    assert caught.value.looked[-1] == "@eugr (no registry 'eugr')"


@pytest.mark.parametrize("reference", ["../x", "/etc", "mods/../../x", "@eugr/../x", "@eugr/", ""])
def test_names_that_leave_their_folder_are_refused(
    local: Callable[..., Recipe], eugr: Repo, fresh: RegistryManager, reference: str, git: GitRecorder
) -> None:
    with pytest.raises(UnsafeRegistryError):
        find_mods(local(reference), fresh)
    assert git.lines == []


@pytest.mark.parametrize("link", ["mods/m", "mods/m/secret", "recipes/m"])
def test_a_registrys_mod_that_leads_out_of_its_repository_is_not_taken(
    ctx: ResolveContext, manager: RegistryManager, repo: Repo, tmp_path: Path, link: str
) -> None:
    outside = make_mod(tmp_path / "outside")
    repo.commit({"recipes/r.yaml": with_mods("m"), **({"mods/m/run.sh": "true"} if link.endswith("secret") else {})})
    (repo.path / link).parent.mkdir(parents=True, exist_ok=True)
    (repo.path / link).symlink_to(outside)
    repo.commit_all()
    manager.add(repo.url)
    with pytest.raises((UnsafeModError, ModNotFoundError)):
        find_mods(resolve_recipe("@myreg/r", ctx), manager)


def test_a_link_inside_the_repository_is_taken(ctx: ResolveContext, manager: RegistryManager, repo: Repo) -> None:
    repo.commit({"recipes/r.yaml": with_mods("m"), "mods/m/run.sh": "true", "shared": "x"})
    (repo.path / "mods/m/also.sh").symlink_to("run.sh")
    repo.commit_all()
    manager.add(repo.url)
    assert find_mods(resolve_recipe("@myreg/r", ctx), manager)[0].name == "m"
