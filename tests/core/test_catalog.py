from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from sparkrun.core.catalog import CatalogItem, CatalogQuery, CatalogResult, search_recipes
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import UsageError
from sparkrun.core.events import Event, Note
from sparkrun.core.registry import RegistryManager
from sparkrun.core.resolve import ResolveContext
from tests.core.conftest import RECIPE, GitRecorder, Repo, manifest, save_registries

Later = Callable[[], ResolveContext]


def recipe(model: str = "org/m", **keys: object) -> str:
    lines = {"model": model, "runtime": "vllm", "container": "e/v:1", **keys}
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


@pytest.fixture
def later(ctx: ResolveContext, new_manager: Callable[..., RegistryManager]) -> Later:
    """The same look-up in another command."""
    return lambda: msgspec.structs.replace(ctx, manager=new_manager())


def search(ctx: ResolveContext, text: str = "", **options: object) -> CatalogResult:
    return search_recipes(CatalogQuery(text, **options), ctx)  # type: ignore[arg-type]


def names(result: CatalogResult) -> list[str]:
    """Without the recipes that come with sparkrun."""
    return [item.name for item in result.items if item.registry != "builtin"]


def publish(manager: RegistryManager, repo: Repo, files: dict[str, str | None]) -> None:
    repo.commit(files)
    assert manager.update("myreg").ok


def test_an_item_has_the_documented_shape(ctx: ResolveContext, manager: RegistryManager, reg: Repo) -> None:
    text = recipe("Qwen/Qwen3", description="'two  words'", builder="eugr", defaults="{tensor_parallel: 2, gpu_memory_utilization: 0.8}")
    publish(manager, reg, {"recipes/good.yaml": None, "recipes/qwen/q.yaml": text})
    (item,) = search(ctx, "@myreg").items
    assert msgspec.json.decode(msgspec.json.encode(item)) == {
        "name": "@myreg/q",
        "file": "q",
        "path": str(manager.trees.root / "myreg/recipes/qwen/q.yaml"),
        "model": "Qwen/Qwen3",
        "description": "two words",
        "runtime": "vllm-distributed",
        "min_nodes": 1,
        "tp": 2,
        "gpu_mem": 0.8,
        "builder": "eugr",
        "registry": "myreg",
    }
    assert Path(item.path).is_file()


def test_what_is_not_set_is_null(ctx: ResolveContext) -> None:
    (ctx.cwd / "a.yaml").write_text(recipe())
    item = search(ctx).items[0]
    assert (item.description, item.tp, item.gpu_mem, item.builder, item.registry) == (None, None, None, None, None)


def test_local_recipes_come_first_then_the_built_in_then_registries_by_path(
    ctx: ResolveContext, manager: RegistryManager, reg: Repo, config: SparkrunConfig
) -> None:
    publish(manager, reg, {"recipes/b/x.yaml": RECIPE, "recipes/a.yaml": RECIPE + "# a\n"})
    for path in (ctx.cwd / "here.yaml", ctx.cwd / "recipes/sub/mine.yaml", config.paths.recipes_dir / "personal.yml"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(RECIPE)
    assert names(search(ctx)) == ["here", "mine", "personal", "@myreg/a", "@myreg/x", "@myreg/good"]
    assert [item.registry for item in search(ctx).items][2:5] == [None, "builtin", "myreg"]


def test_a_stem_that_stands_twice_is_shown_with_its_folder(ctx: ResolveContext, manager: RegistryManager, reg: Repo) -> None:
    publish(
        manager,
        reg,
        {"recipes/x/twin.yaml": RECIPE, "recipes/y/twin.yaml": RECIPE, "recipes/good.yaml": None, "recipes/z/lone.yaml": RECIPE},
    )
    assert names(search(ctx)) == ["@myreg/x/twin", "@myreg/y/twin", "@myreg/lone"]


def test_list_keeps_one_of_a_name_and_search_all(ctx: ResolveContext, reg: Repo) -> None:
    (ctx.cwd / "good.yaml").write_text(recipe())
    assert names(search(ctx)) == ["good", "@myreg/good"]
    assert names(search(ctx, unique_names=True)) == ["good"]


@pytest.mark.parametrize("text", ["good", "GOOD", "Org/M", "m", "myreg"])
def test_the_text_is_looked_for_in_name_model_and_description_without_case(ctx: ResolveContext, reg: Repo, text: str) -> None:
    assert names(search(ctx, text)) == ["@myreg/good"]


def test_a_text_that_is_nowhere_finds_nothing(ctx: ResolveContext, reg: Repo) -> None:
    assert search(ctx, "nowhere").items == ()


def test_a_registry_can_be_named_either_way(ctx: ResolveContext, reg: Repo) -> None:
    (ctx.cwd / "good.yaml").write_text(RECIPE)
    for result in (
        search(ctx, "@myreg"),
        search(ctx, "@myreg/goo"),
        search(ctx, registry="myreg"),
        search(ctx, "@myreg", registry="myreg"),
    ):
        assert names(result) == ["@myreg/good"]
    assert search(ctx, "@myreg/nothing").items == ()


def test_wrong_registries_are_usage_errors(ctx: ResolveContext, manager: RegistryManager, reg: Repo) -> None:
    with pytest.raises(UsageError, match="two registries"):
        search(ctx, "@myreg", registry="builtin")
    with pytest.raises(UsageError, match="no registry 'mireg'") as caught:
        search(ctx, "@mireg")
    assert caught.value.hint == "did you mean 'myreg'?"
    manager.disable("myreg")
    with pytest.raises(UsageError, match="disabled") as caught:
        search(ctx, registry="myreg")
    assert caught.value.hint == "sparkrun registry enable myreg"
    assert caught.value.exit_code == 2


def test_hidden_registries_are_listed_when_asked_for(ctx: ResolveContext, manager: RegistryManager, repo: Repo) -> None:
    repo.commit({".sparkrun/registry.yaml": manifest("secretive", visible="false")})
    manager.add(repo.url)
    assert names(search(ctx)) == []
    assert names(search(ctx, hidden=True)) == names(search(ctx, "@secretive")) == ["@secretive/good"]


@pytest.mark.parametrize(
    ("runtime", "wanted"),
    [("vllm", ["a", "b"]), ("VLLM-Ray", ["b"]), ("vllm-distributed", ["a"]), ("sglang", ["c"]), ("llama.cpp", ["d"]), ("trtllm", [])],
)
def test_a_runtime_is_matched_by_name_or_family(ctx: ResolveContext, runtime: str, wanted: list[str]) -> None:
    for name, declared in {"a": "vllm", "b": "vllm-ray", "c": "sglang", "d": "llama-cpp"}.items():
        (ctx.cwd / f"{name}.yaml").write_text(f"model: o/m\nruntime: {declared}\ncontainer: x/y\n")
    assert names(search(ctx, runtime=runtime)) == wanted


def test_an_unknown_runtime_is_a_usage_error(ctx: ResolveContext) -> None:
    with pytest.raises(UsageError, match="unknown runtime 'vlm'") as caught:
        search(ctx, runtime="vlm")
    assert "vllm" in (caught.value.hint or "")


def test_broken_recipes_are_named_in_one_line_each_and_the_others_listed(ctx: ResolveContext, manager: RegistryManager, reg: Repo) -> None:
    publish(
        manager, reg, {"recipes/dict.yaml": "model: {id: org/x}\n", "recipes/str.yaml": "just text\n", "recipes/bad.yaml": "model: [\n"}
    )
    for result in (search(ctx), search(ctx)):
        assert names(result) == ["@myreg/good"]
        lines = sorted(broken.line for broken in result.broken)
        assert len(lines) == 3
        assert lines[0].startswith("myreg: recipes/bad.yaml: ")
        assert lines[1].startswith("myreg: recipes/dict.yaml: model must be text")
        assert lines[2].startswith("myreg: recipes/str.yaml: ")
        assert all("\n" not in line and str(manager.trees.root) not in line for line in lines)


def test_other_yaml_files_of_a_folder_are_neither_recipes_nor_broken(ctx: ResolveContext) -> None:
    (ctx.cwd / "compose.yaml").write_text("services: {}\n")
    (ctx.cwd / "values.yml").write_text("{{ template }}\n")
    (ctx.cwd / "mine.yaml").write_text("model: {id: x}\nruntime: vllm\n")
    result = search(ctx)
    assert names(result) == []
    assert [broken.line.partition(": ")[0] for broken in result.broken] == [str(ctx.cwd / "mine.yaml")]


def test_a_registry_at_the_top_of_its_repository_holds_other_files_too(
    ctx: ResolveContext, manager: RegistryManager, new_repo: Callable[[str], Repo]
) -> None:
    plain = new_repo("plain")
    plain.commit({"deep/a.yaml": RECIPE, "compose.yaml": "services: {}\n", "broken.yaml": "model: [\nruntime: x\n"})
    manager.add(plain.url)
    result = search(ctx)
    assert names(result) == ["@plain/a"]
    assert [broken.place for broken in result.broken] == ["broken.yaml"]


def test_a_second_list_reads_no_recipe_and_starts_neither_git_nor_network(
    ctx: ResolveContext, later: Later, manager: RegistryManager, reg: Repo, git: GitRecorder, no_network: None
) -> None:
    (ctx.cwd / "here.yaml").write_text(RECIPE)
    first = search(ctx)
    git.forget()
    tree = manager.trees.shared(reg.url)
    (tree / "recipes/good.yaml").write_text("not: [yaml")
    assert search(later()) == first
    assert git.lines == []


def test_a_new_commit_is_seen_and_only_its_new_files_are_read(
    ctx: ResolveContext, later: Later, manager: RegistryManager, reg: Repo, events: list[Event]
) -> None:
    publish(manager, reg, {f"recipes/r{number}.yaml": RECIPE + f"# {number}\n" for number in range(120)})
    search(ctx)
    assert "reading 121 recipes for the first time" in [event.text for event in events if isinstance(event, Note)]
    publish(manager, reg, {"recipes/good.yaml": None, "recipes/r1.yaml": recipe("org/changed"), "recipes/new.yaml": RECIPE})
    shown = {item.name: item.model for item in search(later()).items if item.registry == "myreg"}
    assert len(shown) == 121
    assert shown["@myreg/r1"] == "org/changed"
    assert "@myreg/new" in shown
    assert "@myreg/good" not in shown


def test_a_changed_local_file_is_seen(ctx: ResolveContext, later: Later) -> None:
    path = ctx.cwd / "a.yaml"
    path.write_text(recipe("org/one"))
    assert search(ctx).items[0].model == "org/one"
    path.write_text(recipe("org/second"))
    assert search(later()).items[0].model == "org/second"
    path.unlink()
    assert names(search(later())) == []


def test_a_recipe_that_stands_on_another_follows_it(ctx: ResolveContext, later: Later) -> None:
    (ctx.cwd / "base.yaml").write_text(recipe("org/one"))
    (ctx.cwd / "top.yaml").write_text("include: base.yaml\n")
    assert [item.model for item in search(ctx).items][:2] == ["org/one", "org/one"]
    (ctx.cwd / "base.yaml").write_text(recipe("org/second"))
    assert [item.model for item in search(later()).items][:2] == ["org/second", "org/second"]


def test_a_list_fetches_no_registry_for_an_include_but_heals_when_it_is_there(
    ctx: ResolveContext, later: Later, manager: RegistryManager, reg: Repo, new_repo: Callable[[str], Repo]
) -> None:
    base = new_repo("base")
    base.commit({".sparkrun/registry.yaml": manifest("base", visible="false"), "recipes/b.yaml": recipe("org/base")})
    manager.add(base.url, fetch=False)
    publish(manager, reg, {"recipes/top.yaml": "include: '@base/b'\n"})
    first = search(ctx)
    assert [broken.place for broken in first.broken] == ["recipes/top.yaml"]
    assert manager.root(manager.entry("base")) is None
    manager.update("base")
    assert "@myreg/top" in names(search(later()))


def test_a_damaged_index_is_made_anew(ctx: ResolveContext, later: Later, reg: Repo, config: SparkrunConfig) -> None:
    first = search(ctx)
    for path in (config.paths.cache_dir / "catalog").iterdir():
        path.write_text("{")
    assert search(later()) == first


def test_a_cache_that_cannot_be_written_costs_only_time(ctx: ResolveContext, reg: Repo, config: SparkrunConfig) -> None:
    (config.paths.cache_dir / "catalog").write_text("a file where a folder should be")
    assert names(search(ctx)) == ["@myreg/good"]


def test_a_registry_that_cannot_be_fetched_is_told_and_the_rest_listed(
    ctx: ResolveContext, manager: RegistryManager, reg: Repo, config: SparkrunConfig, later: Later
) -> None:
    manager.disable("myreg")
    text = f"config_version: 1\nregistries:\n- {{name: myreg, url: '{reg.url}', subpath: recipes, trusted: false}}\n"
    save_registries(config, text + "- {name: gone, url: 'https://github.com/no/body', subpath: recipes, trusted: false}\n")
    result = search(later())
    assert names(result) == ["@myreg/good"]
    assert [failure.registry for failure in result.failures] == ["gone"]


def test_offline_and_fresh_the_built_in_recipes_are_listed(
    ctx: ResolveContext, config: SparkrunConfig, new_manager: Callable[..., RegistryManager], git: GitRecorder, no_network: None
) -> None:
    config.paths.registries_file.unlink()
    offline = msgspec.structs.replace(ctx, manager=new_manager(offline=True), offline=True)
    result = search(offline)
    assert {item.registry for item in result.items} == {"builtin"}
    assert [failure.registry for failure in result.failures] == ["official", "eugr", "sparkrun-transitional"]
    assert git.lines == []


def test_every_item_is_found_again_by_its_name(ctx: ResolveContext, manager: RegistryManager, reg: Repo) -> None:
    from sparkrun.core.resolve import resolve_recipe

    publish(
        manager,
        reg,
        {"recipes/x/twin.yaml": RECIPE, "recipes/y/twin.yaml": recipe(), "recipes/q3.6.yaml": RECIPE, "recipes/z/w.yml": RECIPE},
    )
    (ctx.cwd / "here.yaml").write_text(RECIPE)

    def path(item: CatalogItem) -> Path:
        return Path(resolve_recipe(item.name, ctx).source.path or "")

    items = search(ctx).items
    assert len(items) >= 6
    assert all(path(item) == Path(item.path) for item in items)
