from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import RecipeError, RecipeNotFoundError, RecipeSyntaxError
from sparkrun.core.events import Event, Warn
from sparkrun.core.registry import AmbiguousAssetError, DisabledRegistryError, RegistryManager, UnknownRegistryError, UnsafeRegistryError
from sparkrun.core.remote_recipe import HttpAnswer, RecipeUrlError
from sparkrun.core.resolve import ResolveContext, looks_like_recipe, resolve_recipe, search_folders
from tests.core.conftest import RECIPE, GitRecorder, Repo, manifest

OTHER = RECIPE + "description: another\n"


def publish(manager: RegistryManager, repo: Repo, files: dict[str, str | None]) -> None:
    repo.commit(files)
    assert manager.update("myreg").ok


def write(path: Path, text: str = RECIPE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("ref", ["./a.yaml", "a.yaml", "a", "./a", "sub/../a.yaml", "{abs}/a.yaml", "{abs}/a"])
def test_a_file_is_found_by_its_path_with_or_without_suffix(ctx: ResolveContext, ref: str, git: GitRecorder) -> None:
    (ctx.cwd / "sub").mkdir()
    path = write(ctx.cwd / "a.yaml")
    recipe = resolve_recipe(ref.format(abs=ctx.cwd), ctx)
    assert recipe.source.kind == "file"
    assert Path(recipe.source.path or "").resolve() == path
    assert (recipe.name, recipe.source.trusted, recipe.source.registry) == ("a", True, None)
    assert git.lines == []


def test_a_path_in_the_home_of_nobody_is_no_file(ctx: ResolveContext) -> None:
    with pytest.raises(RecipeNotFoundError, match=r"no recipe file ~nosuchuser/x\.yaml"):
        resolve_recipe("~nosuchuser/x.yaml", ctx)


def test_a_path_in_the_home_is_expanded(ctx: ResolveContext, env: dict[str, str]) -> None:
    write(Path(env["HOME"]) / "mine/a.yaml")
    assert resolve_recipe("~/mine/a.yaml", ctx).name == "a"


def test_yaml_beats_yml(ctx: ResolveContext) -> None:
    write(ctx.cwd / "a.yml", OTHER)
    write(ctx.cwd / "a.yaml")
    assert resolve_recipe("a", ctx).description == ""


def test_a_path_touches_neither_registries_nor_git(
    config: SparkrunConfig, ctx: ResolveContext, new_manager: Callable[..., RegistryManager], git: GitRecorder
) -> None:
    config.paths.registries_file.write_text("registries: [")
    lone = msgspec.structs.replace(ctx, manager=new_manager())
    write(ctx.cwd / "a.yaml")
    assert resolve_recipe("a.yaml", lone).name == "a"
    assert not config.paths.registries_file.with_name("registries.yaml.unreadable").exists()
    assert git.lines == []


def test_other_yaml_files_of_the_folder_are_not_taken_for_recipes(ctx: ResolveContext, reg: Repo) -> None:
    write(ctx.cwd / "good.yaml", "services:\n  web: {image: x}\n")
    write(ctx.cwd / "good", "#!/bin/sh\n")
    assert resolve_recipe("good", ctx).source.registry == "myreg"


def test_a_broken_recipe_of_the_folder_is_told_with_its_place(ctx: ResolveContext) -> None:
    write(ctx.cwd / "a.yaml", "model: org/m\nruntime: vllm\ndefaults: {a: [}\n")
    with pytest.raises(RecipeSyntaxError, match=r"a\.yaml:3:16: "):
        resolve_recipe("a", ctx)


def test_search_paths_come_in_their_order_flat_first(ctx: ResolveContext, config: SparkrunConfig, tmp_path: Path) -> None:
    config.set("recipe_paths", [str(tmp_path / "extra")])
    folders = search_folders(ctx)
    assert folders == (ctx.cwd / "recipes", config.paths.recipes_dir, tmp_path / "extra")
    write(folders[0] / "deep/a.yaml", RECIPE + "description: nested here\n")
    write(folders[2] / "a.yaml", RECIPE + "description: flat there\n")
    assert resolve_recipe("a", ctx).description == "flat there"
    write(folders[1] / "a.yml", RECIPE + "description: flat personal\n")
    assert resolve_recipe("a", ctx).description == "flat personal"
    for path in (folders[1] / "a.yml", folders[2] / "a.yaml"):
        path.unlink()
    assert resolve_recipe("a", ctx).description == "nested here"
    assert resolve_recipe("deep/a", ctx).description == "nested here"


def test_a_linked_file_of_the_personal_folder_is_found(ctx: ResolveContext, config: SparkrunConfig, tmp_path: Path) -> None:
    write(tmp_path / "dotfiles/a.yaml")
    config.paths.recipes_dir.mkdir(parents=True)
    (config.paths.recipes_dir / "b.yaml").symlink_to(tmp_path / "dotfiles/a.yaml")
    assert resolve_recipe("b", ctx).source.trusted


def test_a_local_recipe_beats_a_registrys(ctx: ResolveContext, reg: Repo) -> None:
    write(ctx.cwd / "recipes/good.yaml", OTHER)
    assert resolve_recipe("good", ctx).source.kind == "file"


def test_a_registrys_recipe_says_where_it_is_from(ctx: ResolveContext, reg: Repo) -> None:
    for ref in ("@myreg/good", "good"):
        source = resolve_recipe(ref, ctx).source
        assert (source.kind, source.name, source.registry, source.url, source.trusted) == ("registry", "good", "myreg", reg.url, False)
        assert source.ref == "@myreg/good"


def test_a_built_in_recipe_needs_no_registry_and_no_network(
    ctx: ResolveContext, new_manager: Callable[..., RegistryManager], config: SparkrunConfig, git: GitRecorder, no_network: None
) -> None:
    config.paths.registries_file.unlink()
    for ref in ("@builtin/smollm2-135m", "smollm2-135m"):
        source = resolve_recipe(ref, msgspec.structs.replace(ctx, manager=new_manager())).source
        assert (source.kind, source.registry, source.trusted) == ("builtin", "builtin", True)
    assert git.lines == []


def test_a_built_in_recipe_is_not_shadowed_by_a_registry(ctx: ResolveContext, manager: RegistryManager, reg: Repo) -> None:
    publish(manager, reg, {"recipes/smollm2-135m.yaml": RECIPE})
    assert resolve_recipe("smollm2-135m", ctx).source.kind == "builtin"
    assert resolve_recipe("@myreg/smollm2-135m", ctx).source.kind == "registry"


def test_after_the_first_fetch_a_look_up_starts_no_git_and_no_network(
    ctx: ResolveContext, reg: Repo, new_manager: Callable[..., RegistryManager], git: GitRecorder, no_network: None
) -> None:
    git.forget()
    later = msgspec.structs.replace(ctx, manager=new_manager())
    resolve_recipe("@myreg/good", later)
    resolve_recipe("good", later)
    with pytest.raises(RecipeNotFoundError):
        resolve_recipe("nothing-like-it", later)
    assert git.lines == []


def test_different_recipes_of_one_name_are_ambiguous(ctx: ResolveContext, manager: RegistryManager, reg: Repo) -> None:
    publish(manager, reg, {"recipes/x/twin.yaml": RECIPE, "recipes/y/twin.yaml": OTHER})
    with pytest.raises(AmbiguousAssetError) as caught:
        resolve_recipe("twin", ctx)
    assert caught.value.candidates == ("@myreg/x/twin", "@myreg/y/twin")
    assert resolve_recipe("@myreg/y/twin", ctx).description == "another"


def test_equal_recipes_of_one_name_are_not_ambiguous(ctx: ResolveContext, manager: RegistryManager, reg: Repo) -> None:
    publish(manager, reg, {"recipes/x/twin.yaml": RECIPE, "recipes/y/twin.yaml": RECIPE})
    assert resolve_recipe("twin", ctx).source.name == "x/twin"


@pytest.mark.parametrize(
    "ref", ["@myreg/../../secret", "@myreg//etc/passwd", "@myreg/a/../../../x", "a/../../x/..", "@myreg/.hidden", "a\0b"]
)
def test_names_that_leave_their_folder_are_refused(ctx: ResolveContext, reg: Repo, ref: str) -> None:
    with pytest.raises((UnsafeRegistryError, RecipeNotFoundError)):
        resolve_recipe(ref, ctx)


def test_a_typing_error_gets_the_nearest_name(ctx: ResolveContext, reg: Repo) -> None:
    for ref, wanted in (("goood", "good"), ("@myreg/goood", "@myreg/good")):
        with pytest.raises(RecipeNotFoundError) as caught:
            resolve_recipe(ref, ctx)
        assert caught.value.hint == f"did you mean '{wanted}'?"


def test_a_mistyped_file_gets_the_nearest_file_and_touches_no_registry(ctx: ResolveContext, git: GitRecorder) -> None:
    write(ctx.cwd / "alpha.yaml")
    with pytest.raises(RecipeNotFoundError, match=r"no recipe file \./alhpa\.yaml") as caught:
        resolve_recipe("./alhpa.yaml", ctx)
    assert caught.value.hint == "did you mean 'alpha.yaml'?"
    with pytest.raises(RecipeNotFoundError) as unlike:
        resolve_recipe("./zzz.yaml", ctx)
    assert unlike.value.hint == "a name without .yaml is looked up: zzz"
    with pytest.raises(RecipeNotFoundError, match="is a folder"):
        resolve_recipe(".", ctx)
    assert git.lines == []


def test_a_hidden_registry_that_has_it_is_named_but_not_used(ctx: ResolveContext, manager: RegistryManager, repo: Repo) -> None:
    repo.commit({".sparkrun/registry.yaml": manifest("secretive", visible="false")})
    manager.add(repo.url)
    with pytest.raises(RecipeNotFoundError) as caught:
        resolve_recipe("good", ctx)
    assert caught.value.hint == "a hidden registry has it: @secretive/good"
    assert resolve_recipe("@secretive/good", ctx).source.registry == "secretive"


def test_unknown_and_disabled_registries_say_so(ctx: ResolveContext, manager: RegistryManager, reg: Repo) -> None:
    with pytest.raises(UnknownRegistryError) as caught:
        resolve_recipe("@mireg/good", ctx)
    assert caught.value.hint == "did you mean 'myreg'?"
    with pytest.raises(RecipeNotFoundError, match="names no recipe"):
        resolve_recipe("@myreg", ctx)
    manager.disable("myreg")
    with pytest.raises(DisabledRegistryError):
        resolve_recipe("@myreg/good", ctx)


def test_a_registry_that_cannot_be_fetched_is_told_and_the_others_are_searched(
    ctx: ResolveContext, manager: RegistryManager, reg: Repo, new_repo: Callable[[str], Repo], events: list[Event]
) -> None:
    gone = new_repo("gone")
    gone.commit({".sparkrun/registry.yaml": manifest("gone")})
    manager.add(gone.url, fetch=False)
    gone.path.rename(gone.path.with_name("elsewhere"))
    assert resolve_recipe("good", ctx).name == "good"
    assert [event.text.partition(":")[0] for event in events if isinstance(event, Warn)] == ["gone"]
    with pytest.raises(RecipeNotFoundError, match=r"@gone/x not found: gone: .*not appear to be a git repository"):
        resolve_recipe("@gone/x", ctx)


def test_offline_an_unfetched_registry_is_told(
    ctx: ResolveContext, new_manager: Callable[..., RegistryManager], manager: RegistryManager, repo: Repo
) -> None:
    manager.add(repo.url, fetch=False)
    offline = msgspec.structs.replace(ctx, manager=new_manager(offline=True), offline=True)
    with pytest.raises(RecipeNotFoundError, match="not fetched yet"):
        resolve_recipe("@myreg/good", offline)


def test_a_file_of_the_clones_named_by_its_path_has_its_registrys_trust(ctx: ResolveContext, manager: RegistryManager, reg: Repo) -> None:
    path = resolve_recipe("@myreg/good", ctx).source.path
    source = resolve_recipe(path or "", ctx).source
    assert (source.kind, source.registry, source.trusted) == ("registry", "myreg", False)
    manager.trust("myreg")
    assert resolve_recipe(path or "", ctx).source.trusted
    manager.remove("myreg")
    tree = manager.trees.shared(reg.url).resolve()
    assert not resolve_recipe(str(tree / "recipes/good.yaml"), ctx).source.trusted


def test_a_kept_copy_of_an_address_named_by_its_path_is_not_trusted(ctx: ResolveContext, config: SparkrunConfig) -> None:
    path = write(config.paths.cache_dir / "remote-recipes/0123.yaml")
    assert not resolve_recipe(str(path), ctx).source.trusted


class TestInclude:
    def test_a_sibling_is_worked_in(self, ctx: ResolveContext) -> None:
        write(ctx.cwd / "base.yaml")
        write(ctx.cwd / "top.yaml", "include: base.yaml\ndefaults: {port: 9}\n")
        recipe = resolve_recipe("top", ctx)
        assert (recipe.model, recipe.defaults["port"], recipe.source.trusted) == ("org/m", 9, True)

    def test_a_registrys_base_takes_the_trust_of_the_whole_away(self, ctx: ResolveContext, manager: RegistryManager, reg: Repo) -> None:
        write(ctx.cwd / "top.yaml", "include: '@myreg/good'\n")
        assert not resolve_recipe("top", ctx).source.trusted
        manager.trust("myreg")
        assert resolve_recipe("top", ctx).source.trusted

    def test_a_registrys_recipe_includes_its_sibling(self, ctx: ResolveContext, manager: RegistryManager, reg: Repo) -> None:
        publish(manager, reg, {"recipes/sub/base.yaml": RECIPE, "recipes/sub/top.yaml": "include: base.yaml\n"})
        assert resolve_recipe("@myreg/top", ctx).model == "org/m"

    def test_a_sibling_that_is_a_link_out_of_the_repository_is_refused(
        self, ctx: ResolveContext, manager: RegistryManager, reg: Repo, tmp_path: Path
    ) -> None:
        write(tmp_path / "secret.yaml")
        (reg.path / "recipes/leak.yaml").symlink_to(tmp_path / "secret.yaml")
        publish(manager, reg, {"recipes/top.yaml": "include: leak.yaml\n"})
        with pytest.raises(RecipeError, match="leads out of the registry's repository"):
            resolve_recipe("@myreg/top", ctx)

    @pytest.mark.parametrize("include", ["../outside.yaml", "/etc/passwd", "@myreg/../x", "@spark-arena/1", "@nowhere/x"])
    def test_other_places_are_refused_where_the_include_stands(self, ctx: ResolveContext, reg: Repo, include: str) -> None:
        write(ctx.cwd / "top.yaml", f"include: '{include}'\n")
        with pytest.raises(RecipeError, match=r"top\.yaml:1:1: "):
            resolve_recipe("top", ctx)


class TestAddresses:
    def answer(self, ctx: ResolveContext, *answers: HttpAnswer) -> ResolveContext:
        waiting = list(answers)
        return msgspec.structs.replace(ctx, http=lambda *_: waiting.pop(0))

    def test_a_catalogue_recipe_is_read_and_never_trusted(self, ctx: ResolveContext) -> None:
        recipe = resolve_recipe("@spark-arena/0a1b-2c3d", self.answer(ctx, HttpAnswer(200, RECIPE.encode())))
        source = recipe.source
        assert (source.kind, source.name, source.trusted) == ("url", "0a1b-2c3d", False)
        assert source.url == "https://spark-arena.com/api/recipes/0a1b-2c3d/raw"

    def test_the_users_word_opens_other_hosts_but_does_not_make_the_recipe_trusted(self, ctx: ResolveContext) -> None:
        url = "https://example.org/a/mine.yaml"
        with pytest.raises(RecipeUrlError, match=r"'example\.org' is not in the list of allowed hosts"):
            resolve_recipe(url, self.answer(ctx))
        vouched = msgspec.structs.replace(self.answer(ctx, HttpAnswer(200, RECIPE.encode())), trust=True)
        source = resolve_recipe(url, vouched).source
        assert (source.name, source.trusted) == ("mine", False)

    def test_a_recipe_from_an_address_cannot_include_a_file(self, ctx: ResolveContext) -> None:
        with pytest.raises(RecipeError, match="has no folder"):
            resolve_recipe("@spark-arena/1", self.answer(ctx, HttpAnswer(200, b"include: base.yaml\n")))

    def test_registries_are_not_touched(self, ctx: ResolveContext, git: GitRecorder) -> None:
        resolve_recipe("@spark-arena/1", self.answer(ctx, HttpAnswer(200, RECIPE.encode())))
        assert git.lines == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (RECIPE, True),
        ("include: base.yaml\n", True),
        ("model: m\ncommand: |\n  x\n", True),
        ("model: m\nbad: [\nruntime: vllm\n", True),
        ("services:\n  model: x\n  runtime: y\n", False),
        ("model: resnet\nepochs: 3\n", False),
        ("", False),
    ],
)
def test_what_counts_as_meant_as_a_recipe(text: str, wanted: bool) -> None:
    assert looks_like_recipe(text) is wanted
