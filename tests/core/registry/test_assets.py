from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun.core.registry import (
    AmbiguousAssetError,
    AssetFolder,
    RegistryEntry,
    UnsafeRegistryError,
    find_asset_in_registries,
    iter_asset_files,
    the_asset,
)
from sparkrun.core.registry.assets import asset_folder
from sparkrun.core.registry.model import AssetKind


class Fake:
    """A registry's files, in a folder of the test."""

    def __init__(self, root: Path, name: str = "reg", **keys: str) -> None:
        self.root = root / name
        self.entry = RegistryEntry(name=name, url=f"file:///{name}", **keys)
        self.root.mkdir(parents=True)

    def write(self, *names: str, text: str | None = None) -> Fake:
        for name in names:
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text if text is not None else f"{self.root.name}/{name}")
        return self

    def folder(self, kind: AssetKind = "recipes") -> AssetFolder:
        folder = asset_folder(self.entry, kind, self.root)
        assert folder is not None
        return folder


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def names(fake: Fake, name: str) -> list[str]:
    return [asset.qualified_name for asset in find_asset_in_registries(name, [fake.folder()])]


def test_flat_beats_nested(fake: Fake) -> None:
    assert names(fake.write("recipes/a.yaml", "recipes/sub/a.yaml"), "a") == ["@reg/a"]


def test_yaml_beats_yml_in_one_folder(fake: Fake) -> None:
    fake.write("recipes/a.yaml", "recipes/a.yml", "recipes/sub/b.yml", "recipes/sub/b.yaml")
    (flat,), (nested,) = (find_asset_in_registries(name, [fake.folder()]) for name in ("a", "b"))
    assert (flat.path.name, nested.path.name) == ("a.yaml", "b.yaml")


def test_yml_alone_is_found(fake: Fake) -> None:
    assert names(fake.write("recipes/a.yml"), "a") == ["@reg/a"]


def test_a_name_with_a_folder_is_exact(fake: Fake) -> None:
    fake.write("recipes/a.yaml", "recipes/sub/a.yaml", "recipes/deep/sub/b.yaml")
    assert names(fake, "sub/a") == ["@reg/sub/a"]
    assert names(fake, "sub/b") == []


def test_a_name_may_carry_its_suffix(fake: Fake) -> None:
    assert names(fake.write("recipes/a.yml"), "a.yml") == ["@reg/a"]


def test_a_name_with_a_dot_is_not_cut(fake: Fake) -> None:
    assert names(fake.write("recipes/qwen3.6.yaml", "recipes/sub/llama3.1.yaml"), "qwen3.6") == ["@reg/qwen3.6"]
    assert names(fake, "llama3.1") == ["@reg/sub/llama3.1"]


def test_hidden_folders_and_files_are_passed_over(fake: Fake) -> None:
    assert names(fake.write("recipes/.git/a.yaml", "recipes/x/.b.yaml"), "a") == []
    assert list(iter_asset_files(fake.folder())) == []


def test_different_recipes_of_one_name_are_ambiguous_and_all_named(tmp_path: Path) -> None:
    one, two = Fake(tmp_path, "one").write("recipes/x/a.yaml", "recipes/y/a.yaml"), Fake(tmp_path, "two").write("recipes/a.yaml")
    found = find_asset_in_registries("a", [one.folder(), two.folder()])
    with pytest.raises(AmbiguousAssetError) as caught:
        the_asset("recipe", "a", found)
    assert caught.value.candidates == ("@one/x/a", "@one/y/a", "@two/a")
    assert caught.value.exit_code == 1


def test_files_of_the_same_content_are_one_recipe(tmp_path: Path) -> None:
    one, two = Fake(tmp_path, "one").write("recipes/x/a.yaml", text="same"), Fake(tmp_path, "two").write("recipes/a.yaml", text="same")
    assert [asset.qualified_name for asset in find_asset_in_registries("a", [one.folder(), two.folder()])] == ["@one/x/a"]


def test_a_file_reached_through_two_registries_is_one_recipe(tmp_path: Path) -> None:
    fake = Fake(tmp_path).write("recipes/4x/a.yaml")
    narrow = asset_folder(RegistryEntry(name="narrow", url="file:///x", subpath="recipes/4x"), "recipes", fake.root)
    assert narrow is not None
    assert [asset.qualified_name for asset in find_asset_in_registries("a", [fake.folder(), narrow])] == ["@reg/4x/a"]


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "x/../../a", "a/./b", ".hidden", "", "a//b", "a\\b", "a\0b"])
def test_a_name_that_leaves_the_folder_is_refused(fake: Fake, name: str) -> None:
    fake.write("a.yaml")
    with pytest.raises(UnsafeRegistryError):
        find_asset_in_registries(name, [fake.folder()])


def test_links_out_of_the_repository_are_never_followed(fake: Fake, tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("secret")
    fake.write("recipes/good.yaml", ".git/config.yaml")
    (fake.root / "recipes/leak.yaml").symlink_to(secret)
    (fake.root / "recipes/folder").symlink_to(tmp_path)
    (fake.root / "recipes/inner.yaml").symlink_to(fake.root / ".git/config.yaml")
    assert [asset.name for asset in iter_asset_files(fake.folder())] == ["good"]
    assert [names(fake, name) for name in ("leak", "folder/secret", "inner")] == [[], [], []]


def test_a_recipe_folder_that_is_a_link_out_of_the_repository_is_none(fake: Fake, tmp_path: Path) -> None:
    (fake.root / "recipes").symlink_to(tmp_path)
    assert asset_folder(fake.entry, "recipes", fake.root) is None


def test_a_link_inside_the_repository_is_the_same_recipe(fake: Fake) -> None:
    fake.write("recipes/a/x.yaml")
    (fake.root / "recipes/b").mkdir()
    (fake.root / "recipes/b/x.yaml").symlink_to("../a/x.yaml")
    assert names(fake, "x") == ["@reg/a/x"]


def test_the_top_of_a_repository_can_be_the_recipe_folder(tmp_path: Path) -> None:
    fake = Fake(tmp_path, subpath="/").write("deep/a.yaml", ".sparkrun/registry.yaml")
    assert [asset.name for asset in iter_asset_files(fake.folder())] == ["deep/a"]
    assert fake.folder().whole_repository


def test_tuning_configs_are_json_files_with_their_folders(tmp_path: Path) -> None:
    fake = Fake(tmp_path, tuning_subpath="tuning").write("tuning/vllm/E=8,N=64.json", "tuning/sglang/t/x.json", "tuning/readme.md")
    assert [asset.name for asset in iter_asset_files(fake.folder("tuning"))] == ["sglang/t/x", "vllm/E=8,N=64"]


def test_a_registry_without_a_folder_of_a_kind_has_none(fake: Fake) -> None:
    assert asset_folder(fake.entry, "tuning", fake.root) is None
    assert asset_folder(fake.entry, "benchmarks", fake.root) is None


def test_mods_are_folders_with_a_script_also_below_other_folders(tmp_path: Path) -> None:
    fake = Fake(tmp_path).write("mods/plain/run.sh", "mods/owner/deep/run.sh", "mods/owner/deep/sub/run.sh", "mods/none/readme")
    assert [asset.name for asset in iter_asset_files(fake.folder("mods"))] == ["owner/deep", "plain"]
    assert [asset.path for asset in find_asset_in_registries("owner/deep", [fake.folder("mods")])] == [fake.root / "mods/owner/deep"]
    assert find_asset_in_registries("none", [fake.folder("mods")]) == ()
