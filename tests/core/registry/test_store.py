from __future__ import annotations

import msgspec
import pytest
import yaml

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import ConfigError
from sparkrun.core.registry.defaults import BOOTSTRAP_REGISTRY_URLS, FALLBACK_DEFAULT_REGISTRIES
from sparkrun.core.registry.store import RegistryState, RegistryStore
from tests.core.conftest import save_registries

ENTRY = "registries:\n- name: {name}\n  url: {url}\n  subpath: recipes\n"


@pytest.fixture
def store(config: SparkrunConfig) -> RegistryStore:
    return RegistryStore(config.paths.registries_file, config.paths.cache_dir)


def untouched(state: RegistryState) -> RegistryState:
    return state


def disabled(name: str):
    def change(state: RegistryState) -> RegistryState:
        entries = tuple(msgspec.structs.replace(entry, enabled=entry.enabled and entry.name != name) for entry in state.entries)
        return msgspec.structs.replace(state, entries=entries)

    return change


def test_without_a_file_the_shipped_registries_are_there_and_nothing_is_written(store: RegistryStore) -> None:
    state = store.load()
    assert state.entries == FALLBACK_DEFAULT_REGISTRIES
    assert state.pending_urls == BOOTSTRAP_REGISTRY_URLS
    assert not state.saved
    assert not store.path.exists()


def test_a_saved_file_reads_back_as_it_was(store: RegistryStore) -> None:
    written = store.edit(disabled("eugr"))
    assert store.load() == written


def test_a_written_entry_follows_the_documented_rules(store: RegistryStore) -> None:
    store.edit(disabled("eugr"))
    document = yaml.safe_load(store.path.read_text())
    by_name = {entry["name"]: entry for entry in document["registries"]}
    assert document["config_version"] == 1
    assert by_name["eugr"]["enabled"] is False
    assert "visible" not in by_name["eugr"]
    assert by_name["experimental"]["visible"] is False
    assert "benchmark_subpath" not in by_name["eugr"]
    assert "format" not in by_name["official"]
    assert all("trusted" in entry for entry in by_name.values())


def test_the_first_file_is_readable_by_others_and_a_later_mode_is_kept(store: RegistryStore) -> None:
    store.edit(disabled("eugr"))
    assert store.path.stat().st_mode & 0o777 == 0o644
    store.path.chmod(0o600)
    store.edit(disabled("official"))
    assert store.path.stat().st_mode & 0o777 == 0o600


def test_unknown_keys_survive_a_change(config: SparkrunConfig, store: RegistryStore) -> None:
    save_registries(
        config, "config_version: 1\ncolour: red\n" + ENTRY.format(name="a", url="https://h/a") + "  mood: good\n  trusted: false\n"
    )
    store.edit(disabled("a"))
    document = yaml.safe_load(store.path.read_text())
    assert document["colour"] == "red"
    assert document["registries"][0]["mood"] == "good"
    assert document["registries"][0]["enabled"] is False


@pytest.mark.parametrize(
    "bad",
    [
        "{name: ../x, url: 'https://h/a', subpath: r}",
        "{name: x, url: 'http://h/a', subpath: r}",
        "{name: x, url: 'https://h/a', subpath: ../r}",
        "{name: x, url: 'https://h/a'}",
        "{name: x, url: 'https://h/a', subpath: r, mods_subpath: /etc}",
        "{name: x, url: 'https://h/a', subpath: r, tuning_subpath: [a]}",
        "{name: builtin, url: 'https://h/a', subpath: r}",
        "{name: x, url: 'https://h/a', subpath: r, format: '../x'}",
        "just text",
    ],
)
def test_an_unsafe_entry_is_skipped_with_a_warning_and_the_others_load(config: SparkrunConfig, store: RegistryStore, bad: str) -> None:
    save_registries(config, f"config_version: 1\nregistries:\n- {bad}\n- {{name: good, url: 'https://h/b', subpath: r}}\n")
    state = store.load()
    assert [entry.name for entry in state.entries] == ["good"]
    assert len(state.warnings) == 1
    assert "registry 1 is skipped" in state.warnings[0]


def test_a_skipped_entry_is_not_lost_by_a_change(config: SparkrunConfig, store: RegistryStore) -> None:
    save_registries(config, "config_version: 1\nregistries:\n- {name: ../x, url: u}\n- {name: good, url: 'https://h/b', subpath: r}\n")
    store.edit(disabled("good"))
    assert {"name": "../x", "url": "u"} in yaml.safe_load(store.path.read_text())["registries"]


def test_of_two_entries_with_one_name_the_first_counts(config: SparkrunConfig, store: RegistryStore) -> None:
    entry = "- {{name: a, url: 'https://h/{0}', subpath: r}}\n"
    save_registries(config, "config_version: 1\nregistries:\n" + entry.format("one") + entry.format("two"))
    state = store.load()
    assert [found.url for found in state.entries] == ["https://h/one"]
    assert "stands twice" in state.warnings[0]


@pytest.mark.parametrize(
    ("word", "wanted"), [("yes", True), ("'1'", True), ("'on'", True), ("off", False), ("'0'", False), ("maybe", True)]
)
def test_switches_take_words_and_an_unknown_word_gives_the_default(
    config: SparkrunConfig, store: RegistryStore, word: str, wanted: bool
) -> None:
    save_registries(config, f"config_version: 1\nregistries:\n- {{name: a, url: 'https://h/a', subpath: r, visible: {word}}}\n")
    state = store.load()
    assert state.entries[0].visible is wanted
    assert bool(state.warnings) is (word == "maybe")


def test_an_old_file_without_trust_trusts_the_shipped_addresses(config: SparkrunConfig, store: RegistryStore) -> None:
    text = "registries:\n- {name: mine, url: 'https://h/a', subpath: r}\n"
    text += "- {name: official, url: 'git@github.com:spark-arena/recipe-registry.git', subpath: official-recipes}\n"
    save_registries(config, text)
    assert [(entry.name, entry.trusted) for entry in store.load().entries] == [("mine", False), ("official", True)]


def test_a_file_that_knows_trust_is_taken_at_its_word(config: SparkrunConfig, store: RegistryStore) -> None:
    official = "{name: official, url: 'https://github.com/spark-arena/recipe-registry', subpath: r}"
    save_registries(config, f"registries:\n- {official}\n- {{name: mine, url: 'https://h/a', subpath: r, trusted: true}}\n")
    assert [(entry.name, entry.trusted) for entry in store.load().entries] == [("official", False), ("mine", True)]


def test_moved_repositories_are_followed(config: SparkrunConfig, store: RegistryStore) -> None:
    avarok = "https://github.com/Avarok-Cybersecurity/atlas-recipes"
    text = "config_version: 1\nregistries:\n"
    text += "- {name: eugr, url: 'https://github.com/eugr/spark-vllm-docker', subpath: recipes, trusted: false}\n"
    text += f"- {{name: atlas, url: '{avarok}.git', subpath: recipes, trusted: false}}\n"
    text += f"- {{name: mine, url: '{avarok}', subpath: x, trusted: false}}\n"
    save_registries(config, text)
    eugr, atlas, mine = store.load().entries
    assert (eugr.url, eugr.trusted, eugr.mods_subpath) == ("https://github.com/spark-arena/eugr-recipes", False, "mods")
    assert (atlas.url, atlas.trusted) == ("https://github.com/Atlas-Inf/sparkrun-recipes.git", True)
    assert (mine.url, mine.trusted) == (atlas.url, False)


def test_missing_folders_of_a_shipped_registry_are_filled_in(config: SparkrunConfig, store: RegistryStore) -> None:
    url = "https://github.com/spark-arena/recipe-registry.git"
    text = f"config_version: 1\nregistries:\n- {{name: mine, url: {url}, subpath: official-recipes, tuning_subpath: own}}\n"
    save_registries(config, text + f"- {{name: other, url: {url}, subpath: elsewhere}}\n")
    mine, other = store.load().entries
    assert (mine.tuning_subpath, mine.benchmark_subpath) == ("own", "benchmarking")
    assert other.benchmark_subpath is None


def test_a_given_up_repository_is_dropped_and_the_next_change_writes_it_out(config: SparkrunConfig, store: RegistryStore) -> None:
    save_registries(config, "config_version: 1\n" + ENTRY.format(name="old", url="https://github.com/scitrera/oss-spark-run"))
    assert store.load().entries == ()
    store.edit(untouched)
    assert "oss-spark-run" not in store.path.read_text()


def test_a_file_of_a_newer_version_is_read_and_never_written(config: SparkrunConfig, store: RegistryStore) -> None:
    text = "config_version: 2\n" + ENTRY.format(name="a", url="https://h/a")
    save_registries(config, text)
    assert [entry.name for entry in store.load().entries] == ["a"]
    with pytest.raises(ConfigError, match="config_version 2"):
        store.edit(disabled("a"))
    assert store.path.read_text() == text


def test_a_file_that_cannot_even_be_read_leaves_an_earlier_copy_as_it_is(store: RegistryStore) -> None:
    store.path.mkdir(parents=True)
    copy = store.path.with_name("registries.yaml.unreadable")
    copy.write_text("what it said before")

    assert "a copy is" not in store.load().warnings[0]
    assert copy.read_text() == "what it said before"


@pytest.mark.parametrize("text", ["registries: [", "- a\n", "registries: 5\n", "\tx: 1\n"])
def test_an_unreadable_file_is_copied_aside_and_left_alone(config: SparkrunConfig, store: RegistryStore, text: str) -> None:
    save_registries(config, text)
    state = store.load()
    copy = store.path.with_name("registries.yaml.unreadable")
    assert [entry.name for entry in state.entries] == [entry.name for entry in FALLBACK_DEFAULT_REGISTRIES]
    assert not any(entry.trusted for entry in state.entries)
    assert copy.read_text() == text
    assert copy.stat().st_mode & 0o777 == 0o600
    assert str(store.path) in state.warnings[0]
    with pytest.raises(ConfigError):
        store.edit(disabled("official"))
    assert store.path.read_text() == text


def test_a_folder_that_cannot_be_written_says_so(config: SparkrunConfig) -> None:
    blocker = config.paths.config_dir
    blocker.parent.mkdir(parents=True, exist_ok=True)
    blocker.write_text("a file where a folder should be")
    with pytest.raises(ConfigError, match="cannot write"):
        RegistryStore(blocker / "registries.yaml", config.paths.cache_dir).edit(disabled("official"))
