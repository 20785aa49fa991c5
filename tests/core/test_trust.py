from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.recipe.load import load_recipe_text
from sparkrun.core.recipe.schema import Recipe, RecipeSource
from sparkrun.core.registry import RegistryManager
from sparkrun.core.resolve import ResolveContext, resolve_recipe
from sparkrun.core.trust import (
    DENIED_MOUNTS,
    DeniedMountError,
    TrustVerdict,
    UntrustedRecipeError,
    check_mounts,
    host_actions,
    mount_problem,
    recipe_trust,
    refuse_untrusted,
    refused_keys,
)
from tests.core.conftest import RECIPE, Repo

STRANGER = TrustVerdict(False, "registry 'x' is not trusted")
BASE = "model: org/m\nruntime: vllm\ncontainer: e/v:1\n"


def load(text: str, **source: str) -> Recipe:
    return load_recipe_text(
        BASE + text if not text.startswith("model:") else text, RecipeSource("registry", "r", path="r.yaml", registry="x", **source)
    )


def same(path: str) -> str:
    return path


class TestVerdict:
    def test_own_files_and_built_in_recipes_are_trusted_and_addresses_are_not(self, manager: RegistryManager) -> None:
        assert recipe_trust(RecipeSource("file", "a", path="/a", trusted=True), manager).trusted
        assert recipe_trust(RecipeSource("builtin", "a", registry="builtin", trusted=True), manager).trusted
        assert not recipe_trust(RecipeSource("url", "a", url="https://spark-arena.com/a", trusted=True), manager).trusted
        assert not recipe_trust(RecipeSource("file", "a", path="/a"), manager).trusted

    def test_a_registrys_recipe_follows_its_entry(self, manager: RegistryManager, ctx: ResolveContext, reg: Repo) -> None:
        before = resolve_recipe("@myreg/good", ctx).source
        assert recipe_trust(before, manager) == (False, "registry 'myreg' is not trusted")
        manager.trust("myreg")
        after = resolve_recipe("@myreg/good", ctx).source
        assert recipe_trust(after, manager).trusted
        assert not recipe_trust(before, manager).trusted
        manager.untrust("myreg")
        assert not recipe_trust(after, manager).trusted

    def test_a_registry_at_another_address_is_another_registry(self, manager: RegistryManager, ctx: ResolveContext, repo: Repo) -> None:
        manager.add(repo.url, trust=True)
        source = resolve_recipe("@myreg/good", ctx).source
        path = manager.store.path
        path.write_text(path.read_text().replace(repo.url, "https://github.com/other/repo"))
        assert not recipe_trust(source, manager).trusted

    def test_an_unreadable_list_of_registries_trusts_nothing(self, manager: RegistryManager, ctx: ResolveContext, repo: Repo) -> None:
        manager.add(repo.url, trust=True)
        source = resolve_recipe("@myreg/good", ctx).source
        manager.store.path.write_text("registries: [")
        assert not recipe_trust(source, manager).trusted


class TestRefusedKeys:
    @pytest.mark.parametrize(
        ("text", "key", "line"),
        [
            ("executor_config: {privileged: true}\n", "executor_config.privileged", 4),
            ("executor_config: {privileged: 'false'}\n", "executor_config.privileged", 4),
            ("executor_config: {cap_add: [NET_ADMIN]}\n", "executor_config.cap_add", 4),
            ("executor_config: {security_opt: [seccomp=unconfined]}\n", "executor_config.security_opt", 4),
            ("executor_config: {security_opt: []}\n", "executor_config.security_opt", 4),
            ("executor_config: {devices: [/dev/kmsg]}\n", "executor_config.devices", 4),
            ("executor_config: {user: root}\n", "executor_config.user", 4),
            ("executor_config: {user: null}\n", "executor_config.user", 4),
            ("executor_config: {volumes: [/srv/x]}\n", "executor_config.volumes", 4),
            ("executor_config: {ipc: host}\n", "executor_config.ipc", 4),
            ("executor_config:\n  shm_size: 1g\n  ipc: 'container:x'\n", "executor_config.ipc", 6),
            ("executor: local\n", "executor", 4),
            ("cluster_config: {x: 1}\n", "cluster_config", 4),
            ("runtime_cache: {dir: /srv/cache}\n", "runtime_cache.dir", 4),
            ("defaults: {executor: local}\n", "defaults.executor", 4),
            ("defaults: {model: /srv/model}\n", "defaults.model", 4),
            ("overrides:\n- when: {}\n  defaults: {model: /srv/model}\n", "overrides[1].defaults.model", 6),
            ("model: /srv/model\nruntime: vllm\ncontainer: e/v:1\n", "model", 1),
            ("model: file:///srv/model\nruntime: vllm\ncontainer: e/v:1\n", "model", 1),
        ],
    )
    def test_each_is_refused_with_key_and_place(self, text: str, key: str, line: int) -> None:
        (refused,) = refused_keys(load(text))
        assert refused.name == key
        assert refused.where.startswith(f"r.yaml:{line}:")
        with pytest.raises(UntrustedRecipeError, match=rf"^r\.yaml:{line}:\d+: ") as caught:
            refuse_untrusted(load(text), STRANGER)
        assert caught.value.keys == (key,)
        assert "--trust" in (caught.value.hint or "")
        assert "registry trust x" in (caught.value.hint or "")

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "executor: docker\n",
            "executor_config: {shm_size: 64gb, privileged: false, devices: [], volumes: [], cap_add: [], ipc: private}\n",
            "executor_config: {ipc: none, memory_limit: 32G, entrypoint: ''}\n",
            "runtime_cache: {enabled: true}\n",
            "runtime_cache: false\n",
            "model: org/m:Q4_K_M\nruntime: llama-cpp\n",
        ],
    )
    def test_what_stays_in_the_container_is_allowed(self, text: str) -> None:
        assert refused_keys(load(text)) == ()
        refuse_untrusted(load(text), STRANGER)

    def test_all_of_them_are_told_at_once(self) -> None:
        with pytest.raises(UntrustedRecipeError) as caught:
            refuse_untrusted(load("executor: local\nexecutor_config: {privileged: true, ipc: host}\n"), STRANGER)
        assert set(caught.value.keys) == {"executor", "executor_config.privileged", "executor_config.ipc"}

    def test_a_trusted_recipe_may(self) -> None:
        refuse_untrusted(load("executor_config: {privileged: true}\n"), TrustVerdict(True, "it is your own file"))


class TestMounts:
    @given(
        st.sampled_from(DENIED_MOUNTS),
        st.lists(st.sampled_from(["a", ".", "b.c", ""]), max_size=4),
        st.sampled_from(["", "/", "//", "/./", "/."]),
        st.sampled_from(["", "/", "/."]),
    )
    def test_a_denied_folder_is_denied_however_it_is_spelt(self, folder: str, below: list[str], before: str, after: str) -> None:
        assert mount_problem(before + folder + "".join(f"/{part}" for part in below) + after, same)

    @pytest.mark.parametrize(
        "source",
        ["/", "//", "/.", "relative", "~/x", "", "name", "/srv/../etc", "/home/me/.ssh", "/home/me/.ssh/id", "/srv/docker.sock", "$HOME/x"],
    )
    def test_other_dangerous_sources_are_denied(self, source: str) -> None:
        assert mount_problem(source, same)

    @pytest.mark.parametrize(
        "source", ["/home/me/models", "/srv/etc", "/etcetera", "/mnt/run", "/data/.sshx", "/var/lib/other", "/tmp/dev"]
    )
    def test_other_folders_are_allowed(self, source: str) -> None:
        assert mount_problem(source, same) is None

    def test_a_link_to_a_denied_folder_is_denied(self, tmp_path: Path) -> None:
        (tmp_path / "innocent").symlink_to("/etc")
        assert "leads to /etc" in (mount_problem(str(tmp_path / "innocent/ssl")) or "")
        assert mount_problem(str(tmp_path)) is None

    @pytest.mark.parametrize(
        ("text", "key"),
        [
            ("executor_config:\n  volumes: [/srv/a, '/etc:/x:ro']\n", r"executor_config\.volumes\[2\]"),
            ("executor_config:\n  volumes: /proc\n", r"executor_config\.volumes"),
            ("executor_config:\n  volumes: {/dev: /x}\n", r"executor_config\.volumes\./dev"),
            ("runtime_cache:\n  dir: /root/x\n", r"runtime_cache\.dir"),
        ],
    )
    def test_a_recipe_is_refused_with_key_and_place_trusted_or_not(self, text: str, key: str) -> None:
        recipe = load_recipe_text(BASE + text, RecipeSource("file", "r", path="r.yaml", trusted=True))
        with pytest.raises(DeniedMountError, match=rf"^r\.yaml:5:\d+: {key}: "):
            check_mounts(recipe, same)

    def test_good_mounts_pass(self) -> None:
        check_mounts(load("executor_config: {volumes: [/srv/a, '/srv/b:/b:ro']}\n"), same)


def test_actions_are_listed_in_the_order_in_which_they_run() -> None:
    text = "mods: [fix]\npre_exec: [a, {copy: /x, dest: /y}]\npost_exec: [b]\npost_commands: [{command: c, timeout: 3}]\n"
    assert [(action.key, action.text, action.place) for action in host_actions(load(text))] == [
        ("mods[1]", "fix", "every container"),
        ("pre_exec[1]", "a", "every container"),
        ("pre_exec[2]", "copy /x to /y", "every container"),
        ("post_exec[1]", "b", "the head container"),
        ("post_commands[1]", "c", "this machine"),
    ]
    assert host_actions(load_recipe_text(RECIPE, RecipeSource("text", "r"))) == ()
