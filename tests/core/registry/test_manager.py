from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.events import Event, Warn
from sparkrun.core.registry import (
    BOOTSTRAP_REGISTRY_URLS,
    FALLBACK_DEFAULT_REGISTRIES,
    DisabledRegistryError,
    GitError,
    ManifestError,
    RegistryError,
    RegistryManager,
    UnknownRegistryError,
    UnsafeRegistryError,
)
from tests.core.conftest import RECIPE, GitRecorder, Repo, manifest, save_registries

NewRepo = Callable[[str], Repo]
NewManager = Callable[..., RegistryManager]

ARENA = "spark-arena/recipe-registry.git"
AUTHOR = "dbotwinick/sparkrun-recipe-registry.git"
COMMUNITY = "spark-arena/community-recipe-registry.git"


@pytest.fixture
def shipped(new_repo: NewRepo) -> dict[str, Repo]:
    """The repositories behind the shipped registries."""
    repos = {name: new_repo(name) for name in (ARENA, AUTHOR, COMMUNITY, "spark-arena/eugr-recipes", "Atlas-Inf/sparkrun-recipes.git")}
    official = (
        "registries:\n- {name: official, recipes: official-recipes, tuning: tuning}\n- {name: experimental, recipes: exp, visible: false}\n"
    )
    repos[ARENA].commit({".sparkrun/registry.yaml": official, "official-recipes/one.yaml": RECIPE, "exp/two.yaml": RECIPE})
    author = "registries:\n- {name: sparkrun-transitional, recipes: transitional/recipes}\n- {name: sparkrun-new, recipes: new}\n"
    repos[AUTHOR].commit({".sparkrun/registry.yaml": author, "transitional/recipes/old.yaml": RECIPE, "new/fresh.yaml": RECIPE})
    repos[COMMUNITY].commit({".sparkrun/registry.yaml": manifest("community", visible="false"), "recipes/c.yaml": RECIPE})
    repos["spark-arena/eugr-recipes"].commit({"recipes/e.yaml": RECIPE, "mods/m/run.sh": "true"})
    repos["Atlas-Inf/sparkrun-recipes.git"].commit({"recipes/a.yaml": RECIPE})
    return repos


def names(infos) -> list[str]:
    return [info.entry.name for info in infos]


def listed(manager: RegistryManager, *, hidden: bool = False) -> list[str]:
    return [folder.entry.name for folder in manager.open_all("recipes", hidden=hidden).folders]


class TestAdd:
    def test_what_the_manifest_declares_is_added_untrusted_and_fetched(self, manager: RegistryManager, repo: Repo) -> None:
        result = manager.add(repo.url)
        assert [(entry.name, entry.url, entry.trusted) for entry in result.added] == [("myreg", repo.url, False)]
        assert result.commit == manager.commit(manager.entry("myreg"))
        assert ((manager.root(manager.entry("myreg")) or Path()) / "recipes/good.yaml").exists()

    def test_a_registrys_name_leads_to_the_shared_clone(self, manager: RegistryManager, repo: Repo) -> None:
        repo.commit({".sparkrun/registry.yaml": manifest("one", "two")})
        manager.add(repo.url)
        root = manager.trees.root
        assert (root / "one").readlink() == (root / "two").readlink() == Path(manager.trees.shared(repo.url).name)

    def test_trust_is_given_only_when_the_user_says_so(self, manager: RegistryManager, repo: Repo) -> None:
        repo.commit({".sparkrun/registry.yaml": manifest("myreg", trusted="true")})
        assert not manager.add(repo.url).added[0].trusted
        manager.remove("myreg")
        assert manager.add(repo.url, trust=True).added[0].trusted

    def test_without_fetching_only_the_entry_is_made(self, manager: RegistryManager, repo: Repo) -> None:
        result = manager.add(repo.url, fetch=False)
        assert result.commit is None
        assert not manager.show("myreg").fetched
        assert not manager.trees.shared(repo.url).exists()

    def test_a_known_name_is_left_alone_and_said(self, manager: RegistryManager, repo: Repo, new_repo: Callable[[str], Repo]) -> None:
        manager.add(repo.url)
        other = new_repo("other")
        other.commit({".sparkrun/registry.yaml": manifest("myreg", "another")})
        result = manager.add(other.url)
        assert [entry.name for entry in result.added] == ["another"]
        assert "'myreg' exists already" in result.skipped[0]
        assert manager.entry("myreg").url == repo.url

    def test_adding_twice_adds_nothing(self, manager: RegistryManager, repo: Repo) -> None:
        manager.add(repo.url)
        again = manager.add(repo.url)
        assert again.added == ()
        assert len(again.skipped) == 1

    def test_one_bad_entry_and_nothing_is_added_or_kept(self, manager: RegistryManager, repo: Repo) -> None:
        repo.commit({".sparkrun/registry.yaml": manifest("good", "official-mine", "../x")})
        with pytest.raises(ManifestError) as caught:
            manager.add(repo.url)
        assert "official-mine" in caught.value.message
        assert "'../x'" in caught.value.message
        assert names(manager.list()) == ["builtin"]
        assert not any(path.is_dir() for path in manager.trees.root.iterdir())

    def test_a_broken_manifest_names_address_file_and_line(self, manager: RegistryManager, repo: Repo) -> None:
        repo.commit({".sparkrun/registry.yaml": "registries: [\n"})
        with pytest.raises(ManifestError, match=r"myrepo: \.sparkrun/registry\.yaml line 2: ") as caught:
            manager.add(repo.url)
        assert caught.value.message.startswith(repo.url)

    def test_a_manifest_that_is_a_link_out_of_the_repository_is_refused(self, manager: RegistryManager, repo: Repo, tmp_path: Path) -> None:
        (tmp_path / "outside.yaml").write_text(manifest("myreg"))
        (repo.path / ".sparkrun/registry.yaml").unlink()
        (repo.path / ".sparkrun/registry.yaml").symlink_to(tmp_path / "outside.yaml")
        repo.commit_all()
        with pytest.raises(ManifestError, match="leads out of the repository"):
            manager.add(repo.url)

    def test_a_repository_without_a_manifest_is_added_by_convention(
        self, manager: RegistryManager, new_repo: Callable[[str], Repo]
    ) -> None:
        plain = new_repo("plain")
        plain.commit({"recipes/a.yaml": RECIPE, "recipes/4x/b.yml": RECIPE, "mods/m/run.sh": "true", "compose.yaml": "services: {}"})
        result = manager.add(plain.url)
        (entry,) = result.added
        assert (entry.name, entry.subpath, entry.mods_subpath, entry.trusted) == ("plain", "recipes", "mods", False)
        assert result.convention == "no .sparkrun/registry.yaml: 2 YAML files found in recipes/, mods in mods/"
        assert ((manager.root(entry) or Path()) / "mods/m/run.sh").exists()

    def test_recipes_at_the_top_are_found_too(self, manager: RegistryManager, new_repo: Callable[[str], Repo]) -> None:
        plain = new_repo("plain")
        plain.commit({"deep/a.yaml": RECIPE, ".github/workflow.yml": "x"})
        result = manager.add(plain.url, name="mine")
        assert (result.added[0].name, result.added[0].subpath) == ("mine", "/")
        assert result.convention == "no .sparkrun/registry.yaml: 1 YAML files found in the top of the repository"
        assert ((manager.root(result.added[0]) or Path()) / "deep/a.yaml").exists()

    def test_a_repository_with_nothing_to_serve_is_refused(self, manager: RegistryManager, new_repo: Callable[[str], Repo]) -> None:
        plain = new_repo("plain")
        plain.commit({"README.md": "x", ".github/workflow.yml": "x"})
        with pytest.raises(ManifestError, match="and no recipes"):
            manager.add(plain.url)

    def test_a_reserved_repository_name_gives_way_to_its_owners(self, manager: RegistryManager, new_repo: NewRepo) -> None:
        for owner in ("someone", "another"):
            new_repo(f"{owner}/sparkrun-recipes").commit({"recipes/a.yaml": RECIPE})
        assert manager.add("https://github.com/someone/sparkrun-recipes").added[0].name == "someone"
        assert manager.add("https://github.com/another/sparkrun-recipes").added[0].name == "another"
        new_repo("another/sparkrun-too").commit({"recipes/a.yaml": RECIPE})
        assert manager.add("https://github.com/another/sparkrun-too").added[0].name == "another-sparkrun-too"

    def test_a_given_name_must_be_free_and_allowed(self, manager: RegistryManager, new_repo: Callable[[str], Repo]) -> None:
        plain = new_repo("plain")
        plain.commit({"recipes/a.yaml": RECIPE})
        for name in ("official-mine", "builtin", "../x"):
            with pytest.raises(UnsafeRegistryError):
                manager.add(plain.url, name=name)
        manager.add(plain.url, name="mine")
        with pytest.raises(UnsafeRegistryError, match="exists already"):
            manager.add(plain.url, name="mine")

    def test_a_manifest_names_its_registries_itself(self, manager: RegistryManager, repo: Repo) -> None:
        with pytest.raises(UnsafeRegistryError, match="names its registries itself"):
            manager.add(repo.url, name="mine")

    def test_a_missing_repository_gives_gits_reason(self, manager: RegistryManager, tmp_path: Path) -> None:
        with pytest.raises(GitError, match="does not appear to be a git repository"):
            manager.add(f"file://{tmp_path}/nothing")
        assert not any(path.is_dir() for path in manager.trees.root.iterdir())

    def test_a_bad_address_and_offline_start_no_git(self, new_manager: NewManager, repo: Repo, git: GitRecorder) -> None:
        with pytest.raises(UnsafeRegistryError):
            new_manager().add("--upload-pack=evil")
        with pytest.raises(RegistryError, match="offline"):
            new_manager(offline=True).add(repo.url)
        assert git.lines == []

    def test_unknown_manifest_keys_are_told(self, manager: RegistryManager, repo: Repo) -> None:
        repo.commit({".sparkrun/registry.yaml": manifest("myreg", recipies="x")})
        assert "did you mean 'recipes'" in manager.add(repo.url).notes[0]

    def test_adding_brings_a_removed_default_back(self, new_manager: NewManager, shipped: dict[str, Repo]) -> None:
        manager = new_manager()
        manager.remove("official")
        manager.add(f"https://github.com/{ARENA}")
        assert manager.entry("official").name == "official"
        assert "official" not in manager.state.suppressed


class TestChanges:
    def test_remove_forgets_the_entry_and_keeps_the_clone(self, manager: RegistryManager, reg: Repo) -> None:
        assert manager.remove("myreg").name == "myreg"
        assert names(manager.list()) == ["builtin"]
        assert manager.trees.shared(reg.url).exists()
        assert not (manager.trees.root / "myreg").exists()

    def test_disable_and_enable_last(self, manager: RegistryManager, new_manager: NewManager, reg: Repo) -> None:
        assert manager.disable("myreg").changed
        assert not manager.disable("myreg").changed
        assert not new_manager().entry("myreg").enabled
        assert names(new_manager().list(disabled=False)) == ["builtin"]
        with pytest.raises(DisabledRegistryError) as caught:
            new_manager().open_named("myreg", "recipes")
        assert caught.value.hint == "sparkrun registry enable myreg"
        assert manager.enable("myreg").changed
        assert new_manager().entry("myreg").enabled

    def test_trust_and_untrust_last(self, manager: RegistryManager, new_manager: NewManager, reg: Repo) -> None:
        assert manager.trust("myreg").changed
        assert new_manager().trusts("myreg", reg.url)
        assert manager.untrust("myreg").changed
        assert not new_manager().trusts("myreg", reg.url)

    @pytest.mark.parametrize("verb", ["enable", "disable", "trust", "untrust", "remove", "show", "update"])
    def test_an_unknown_name_is_told_with_the_nearest(self, manager: RegistryManager, reg: Repo, verb: str) -> None:
        with pytest.raises(UnknownRegistryError) as caught:
            getattr(manager, verb)("mireg")
        assert caught.value.hint == "did you mean 'myreg'?"
        assert caught.value.exit_code == 1

    @pytest.mark.parametrize("verb", ["disable", "untrust", "remove"])
    def test_the_built_in_registry_cannot_be_changed(self, manager: RegistryManager, verb: str) -> None:
        with pytest.raises(RegistryError, match="always there"):
            getattr(manager, verb)("builtin")

    def test_trust_ends_when_the_address_changes_or_the_file_cannot_be_read(
        self, manager: RegistryManager, config: SparkrunConfig, repo: Repo
    ) -> None:
        manager.add(repo.url, trust=True)
        assert manager.trusts("myreg", repo.url)
        assert not manager.trusts("myreg", "https://github.com/other/repo")
        save_registries(config, "registries: [")
        assert not manager.trusts("myreg", repo.url)

    def test_the_list_is_visible_ones_first_then_by_name(self, new_manager: NewManager) -> None:
        shown = names(new_manager().list())
        assert shown == ["builtin", "eugr", "official", "sparkrun-transitional", "atlas", "community", "experimental", "sparkrun-testing"]
        assert names(new_manager().list(hidden=False)) == shown[:4]

    def test_looking_at_the_list_fetches_nothing_and_writes_nothing(self, new_manager: NewManager, git: GitRecorder) -> None:
        manager = new_manager()
        assert not manager.show("official").fetched
        assert git.lines == []
        assert not manager.store.path.exists()

    def test_revert_forgets_the_file_and_the_clones(self, manager: RegistryManager, reg: Repo) -> None:
        assert manager.revert_to_defaults().forgotten == ("myreg",)
        assert not manager.store.path.exists()
        assert not manager.trees.root.exists()
        assert [entry.name for entry in manager.entries[1:]] == [entry.name for entry in FALLBACK_DEFAULT_REGISTRIES]

    def test_warnings_about_the_file_are_told_once(self, new_manager: NewManager, config: SparkrunConfig, events: list[Event]) -> None:
        save_registries(config, "config_version: 1\nregistries:\n- {name: ../x}\n")
        manager = new_manager()
        manager.list()
        manager.list()
        assert len([event for event in events if isinstance(event, Warn)]) == 1


class TestUpdate:
    def test_one_updated_one_failed_with_gits_reason(self, manager: RegistryManager, reg: Repo, new_repo: Callable[[str], Repo]) -> None:
        other = new_repo("gone")
        other.commit({".sparkrun/registry.yaml": manifest("gone"), "recipes/kept.yaml": RECIPE})
        manager.add(other.url)
        commit = reg.commit({"recipes/new.yaml": RECIPE})
        other.path.rename(other.path.with_name("elsewhere"))
        report = manager.update()
        by_name = {result.registry: result for result in report.results}
        assert (by_name["myreg"].status, by_name["myreg"].commit) == ("updated", commit)
        assert by_name["gone"].status == "failed"
        assert "does not appear to be a git repository" in (by_name["gone"].reason or "")
        assert not report.ok
        assert listed(manager) == ["builtin", "myreg", "gone"]

    def test_an_address_is_asked_once_for_all_its_registries(self, manager: RegistryManager, repo: Repo, git: GitRecorder) -> None:
        repo.commit({".sparkrun/registry.yaml": manifest("one", "two", "three")})
        manager.add(repo.url)
        git.forget()
        assert [result.status for result in manager.update().results if result.registry in ("one", "two", "three")] == ["unchanged"] * 3
        assert git.verbs == ["ls-remote"]

    def test_repositories_are_asked_at_the_same_time(
        self, manager: RegistryManager, repo: Repo, new_repo: Callable[[str], Repo], git: GitRecorder
    ) -> None:
        other = new_repo("other")
        other.commit({".sparkrun/registry.yaml": manifest("other"), "recipes/a.yaml": RECIPE})
        for found in (repo, other):
            manager.add(found.url)
        git.hang("ls-remote")
        thread = threading.Thread(target=manager.update)
        thread.start()
        for pid in git.wait_until_all_hang(2):
            os.kill(pid, signal.SIGKILL)
        thread.join()

    def test_a_clone_holds_the_folders_of_all_enabled_registries_of_its_repository(self, manager: RegistryManager, repo: Repo) -> None:
        two = "registries:\n- {name: one, recipes: recipes}\n- {name: two, recipes: other}\n"
        repo.commit({".sparkrun/registry.yaml": two})
        manager.add(repo.url)
        tree = manager.trees.shared(repo.url)
        assert (tree / "recipes").exists()
        assert (tree / "other").exists()
        manager.disable("two")
        repo.commit({"other/more": "x"})
        manager.update()
        assert (tree / "recipes").exists()
        assert not (tree / "other").exists()
        manager.enable("two")
        manager.open_named("two", "recipes")
        assert (tree / "other/more").exists()

    def test_a_disabled_registry_is_skipped(self, manager: RegistryManager, reg: Repo, git: GitRecorder) -> None:
        manager.disable("myreg")
        git.forget()
        assert [(result.registry, result.status) for result in manager.update("myreg").results] == [("myreg", "skipped")]
        assert git.lines == []

    def test_the_built_in_registry_is_skipped(self, manager: RegistryManager, git: GitRecorder) -> None:
        assert [result.status for result in manager.update("builtin").results] == ["skipped"]
        assert git.lines == []

    def test_a_removed_default_stays_removed(self, new_manager: NewManager, shipped: dict[str, Repo]) -> None:
        manager = new_manager()
        manager.update()
        manager.remove("official")
        report = new_manager().update()
        assert report.ok
        assert "official" not in report.added
        assert all(entry.name != "official" for entry in new_manager().entries)

    def test_a_default_that_is_missing_comes_back(self, new_manager: NewManager, config: SparkrunConfig, shipped: dict[str, Repo]) -> None:
        save_registries(config, "config_version: 1\nregistries: []\n")
        report = new_manager().update()
        assert set(report.added) == {entry.name for entry in FALLBACK_DEFAULT_REGISTRIES}
        assert report.ok

    def test_offline_is_refused_and_starts_no_git(self, new_manager: NewManager, git: GitRecorder) -> None:
        with pytest.raises(RegistryError, match="offline"):
            new_manager(offline=True).update()
        assert git.lines == []

    def test_a_file_of_a_newer_version_is_updated_from_and_not_written(
        self, new_manager: NewManager, config: SparkrunConfig, repo: Repo, shipped: dict[str, Repo]
    ) -> None:
        text = f"config_version: 9\nregistries:\n- {{name: mine, url: '{repo.url}', subpath: recipes, trusted: false}}\n"
        path = save_registries(config, text)
        assert new_manager().update("mine").ok
        new_manager().update()
        assert path.read_text() == text


class TestFirstUse:
    def test_the_first_list_reads_the_manifests_and_saves_them(
        self, new_manager: NewManager, shipped: dict[str, Repo], git: GitRecorder
    ) -> None:
        manager = new_manager()
        assert listed(manager) == ["builtin", "official", "eugr", "sparkrun-transitional", "sparkrun-new"]
        document = yaml.safe_load(manager.store.path.read_text())
        by_name = {entry["name"]: entry for entry in document["registries"]}
        assert "pending_bootstrap_urls" not in document
        assert by_name["experimental"]["subpath"] == "exp"
        assert by_name["sparkrun-new"]["trusted"] is False
        assert by_name["official"]["trusted"] is True
        assert git.verbs.count("clone") == 4

    def test_after_the_first_list_nothing_starts_git_or_the_network(
        self, new_manager: NewManager, shipped: dict[str, Repo], git: GitRecorder, no_network: None
    ) -> None:
        listed(new_manager())
        git.forget()
        again = new_manager()
        assert "official" in listed(again)
        again.list()
        again.show("official")
        again.open_named("official", "recipes")
        assert git.lines == []

    def test_a_named_registry_is_fetched_alone(self, new_manager: NewManager, shipped: dict[str, Repo], git: GitRecorder) -> None:
        manager = new_manager()
        assert [folder.entry.name for folder in manager.open_named("official", "recipes").folders] == ["official"]
        assert [line for line in git.lines if line.startswith("clone") and ARENA not in line] == []
        assert not manager.store.path.exists()

    def test_a_name_that_only_a_manifest_knows_is_found(self, new_manager: NewManager, shipped: dict[str, Repo]) -> None:
        manager = new_manager()
        assert [folder.entry.name for folder in manager.open_named("sparkrun-new", "recipes").folders] == ["sparkrun-new"]

    def test_without_a_network_each_repository_is_tried_once_and_each_registry_told(
        self, new_manager: NewManager, new_repo: NewRepo, git: GitRecorder
    ) -> None:
        manager = new_manager()
        opened = manager.open_all("recipes")
        manager.open_all("recipes")
        assert [folder.entry.name for folder in opened.folders] == ["builtin"]
        assert [failure.registry for failure in opened.failures] == ["official", "eugr", "sparkrun-transitional"]
        assert all("does not appear to be a git repository" in failure.line for failure in opened.failures)
        assert sorted(git.verbs) == ["clone"] * 4
        assert not manager.store.path.exists()

    def test_offline_nothing_is_tried(self, new_manager: NewManager, git: GitRecorder) -> None:
        manager = new_manager(offline=True)
        opened = manager.open_all("recipes")
        assert [folder.entry.name for folder in opened.folders] == ["builtin"]
        assert {failure.reason for failure in opened.failures} == {"not fetched yet (offline)"}
        assert git.lines == []

    def test_a_manifest_that_could_not_be_had_is_read_by_the_next_update(self, new_manager: NewManager, shipped: dict[str, Repo]) -> None:
        away = shipped[AUTHOR].path.rename(shipped[AUTHOR].path.with_name("away"))
        manager = new_manager()
        assert [failure.registry for failure in manager.open_all("recipes").failures] == ["sparkrun-transitional"]
        assert manager.state.pending_urls == (BOOTSTRAP_REGISTRY_URLS[0],)
        away.rename(shipped[AUTHOR].path)
        report = new_manager().update()
        assert report.added == ("sparkrun-new",)
        assert report.ok
        assert new_manager().state.pending_urls == ()

    def test_a_manifest_read_late_changes_no_entry_and_brings_nothing_back_that_was_removed(
        self, new_manager: NewManager, shipped: dict[str, Repo], config: SparkrunConfig
    ) -> None:
        own = f"{{name: official, url: 'https://github.com/{ARENA}', subpath: exp, visible: false, trusted: false}}"
        pending = "".join(f"- {url}\n" for url in BOOTSTRAP_REGISTRY_URLS)
        removed = "suppressed_plugin_registries: [sparkrun-new]\n"
        save_registries(config, f"config_version: 1\nregistries:\n- {own}\n{removed}pending_bootstrap_urls:\n{pending}")
        manager = new_manager()
        manager.update()
        official = manager.entry("official")
        assert (official.subpath, official.visible, official.trusted) == ("exp", False, False)
        assert "sparkrun-new" not in [entry.name for entry in manager.entries]
        assert manager.state.pending_urls == ()

    def test_a_manifest_cannot_speak_for_another_repository(self, new_manager: NewManager, shipped: dict[str, Repo]) -> None:
        takeover = "registries:\n- {name: official, recipes: evil}\n- {name: eugr, recipes: evil}\n"
        shipped[COMMUNITY].commit({".sparkrun/registry.yaml": takeover, "evil/x.yaml": RECIPE})
        manager = new_manager()
        listed(manager)
        assert manager.entry("official").url.endswith(ARENA)
        assert manager.entry("eugr").subpath == "recipes"

    def test_a_broken_bootstrap_manifest_is_told_and_the_others_are_read(
        self, new_manager: NewManager, shipped: dict[str, Repo], events: list[Event]
    ) -> None:
        shipped[ARENA].commit({".sparkrun/registry.yaml": "registries: [\n"})
        manager = new_manager()
        assert "official" in listed(manager)
        assert [event.text for event in events if isinstance(event, Warn) and ".sparkrun/registry.yaml line 2" in event.text]
        assert manager.state.pending_urls == (BOOTSTRAP_REGISTRY_URLS[1],)

    def test_what_was_changed_before_the_first_list_is_kept(self, new_manager: NewManager, shipped: dict[str, Repo]) -> None:
        new_manager().disable("eugr")
        manager = new_manager()
        assert listed(manager) == ["builtin", "official", "sparkrun-transitional"]
        manager.update()
        assert not new_manager().entry("eugr").enabled
        assert "sparkrun-new" in listed(new_manager())

    def test_an_entry_with_an_unknown_format_is_told_and_not_read(
        self, new_manager: NewManager, config: SparkrunConfig, git: GitRecorder
    ) -> None:
        entry = "{name: a, url: 'https://github.com/a/b', subpath: r, format: other, trusted: false}"
        save_registries(config, f"config_version: 1\nregistries:\n- {entry}\n")
        assert [failure.line for failure in new_manager().open_all("recipes").failures] == ["a: its format 'other' is not known"]
        assert git.lines == []
