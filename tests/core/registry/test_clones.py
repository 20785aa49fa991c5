from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.registry import RegistryEntry, RegistryManager
from sparkrun.core.registry.clones import Clones
from sparkrun.core.registry.errors import GitError
from sparkrun.core.registry.fetching import UPDATE_S
from sparkrun.core.registry.git import Deadline, Git
from sparkrun.core.registry.trees import Trees, clone_url, head_commit, held_paths
from tests.core.conftest import RECIPE, GitRecorder, Repo, save_registries

UPDATE = """
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.registry import RegistryManager
import os
print(RegistryManager(SparkrunConfig.load(os.environ)).update("myreg").ok)
"""


@pytest.fixture
def clones(config: SparkrunConfig, env: dict[str, str], git: GitRecorder) -> Clones:
    return Clones(Trees(config.paths.cache_dir / "registries"), Git(env))


def child_env(env: dict[str, str]) -> dict[str, str]:
    """The environment of another sparkrun of the same user."""
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def soon() -> Deadline:
    return Deadline(60)


def leftovers(clones: Clones) -> list[str]:
    """Every folder of the cache that no link leads to."""
    used = {path.resolve() for path in clones.trees.root.iterdir() if path.is_symlink()}
    return [path.name for path in clones.trees.root.iterdir() if path.is_dir() and path.resolve() not in used]


def test_a_clone_holds_only_what_it_was_told_to(clones: Clones, repo: Repo) -> None:
    fetched = clones.ensure(repo.url, ("recipes",), soon())
    tree = clones.trees.shared(repo.url)
    assert fetched.previous is None
    assert fetched.commit == head_commit(tree)
    assert clone_url(tree) == repo.url
    assert (tree / "recipes/good.yaml").read_text() == RECIPE
    assert not (tree / "other").exists()


def test_a_clone_is_shallow_and_without_the_contents_of_other_files(clones: Clones, repo: Repo) -> None:
    repo.commit({"other/late.bin": "never fetched"})
    clones.ensure(repo.url, ("recipes",), soon())
    tree = clones.trees.shared(repo.url)
    missing = subprocess.run(
        ["git", "rev-list", "--objects", "--all", "--missing=print"], cwd=tree, capture_output=True, text=True, check=True
    ).stdout
    assert (tree / ".git/shallow").exists()
    assert missing.count("\n?") >= 1


def test_the_whole_repository_can_be_held(clones: Clones, repo: Repo) -> None:
    clones.ensure(repo.url, ("/",), soon())
    assert (clones.trees.shared(repo.url) / "other/big.bin").exists()


def test_ensure_of_what_is_there_runs_no_git(clones: Clones, repo: Repo, git: GitRecorder) -> None:
    clones.ensure(repo.url, ("recipes", "mods"), soon())
    git.forget()
    clones.ensure(repo.url, ("recipes",), soon())
    assert git.verbs == []


def test_ensure_widens_a_clone_and_does_not_renew_it(clones: Clones, repo: Repo) -> None:
    before = clones.ensure(repo.url, ("recipes",), soon()).commit
    repo.commit({"other/new": "x"})
    clones.ensure(repo.url, ("other",), soon())
    tree = clones.trees.shared(repo.url)
    assert head_commit(tree) == before
    assert held_paths(tree) == ("recipes", "other")
    assert (tree / "recipes/good.yaml").exists()
    assert sorted(path.name for path in (tree / "other").iterdir()) == ["big.bin"]


def test_update_brings_the_newest_commit(clones: Clones, repo: Repo) -> None:
    first = clones.ensure(repo.url, ("recipes",), soon()).commit
    second = repo.commit({"recipes/new.yaml": RECIPE, "recipes/good.yaml": None})
    assert clones.update(repo.url, ("recipes",), soon()) == (second, first)
    assert [path.name for path in (clones.trees.shared(repo.url) / "recipes").iterdir()] == ["new.yaml"]


def test_update_follows_a_rewritten_history(clones: Clones, new_repo: Callable[[str], Repo]) -> None:
    repo = new_repo("rewritten")
    repo.commit({"recipes/a.yaml": RECIPE})
    clones.ensure(repo.url, ("recipes",), soon())
    subprocess.run(["git", "update-ref", "-d", "HEAD"], cwd=repo.path, check=True)
    commit = repo.commit({"recipes/a.yaml": None, "recipes/b.yaml": RECIPE})
    assert clones.update(repo.url, ("recipes",), soon()).commit == commit
    assert [path.name for path in (clones.trees.shared(repo.url) / "recipes").iterdir()] == ["b.yaml"]


@pytest.mark.parametrize("damage", ["HEAD", "objects"])
def test_a_damaged_clone_inside_somebody_elses_repository_is_replaced_and_that_repository_is_left_alone(
    clones: Clones, repo: Repo, new_repo: Callable[[str], Repo], damage: str
) -> None:
    clones.ensure(repo.url, ("recipes",), soon())
    around = new_repo("me/dotfiles")
    around.commit({"kept": "committed"})
    outer = clones.trees.root.parent
    shutil.copytree(around.path / ".git", outer / ".git")
    subprocess.run(["git", "-C", outer, "remote", "add", "origin", around.path], check=True)
    (outer / "kept").write_text("not committed yet")
    hurt = clones.trees.shared(repo.url) / ".git" / damage
    shutil.rmtree(hurt) if hurt.is_dir() else hurt.unlink()
    repo.commit({"recipes/new.yaml": "new"})

    clones.update(repo.url, ("recipes",), soon())

    assert (outer / "kept").read_text() == "not committed yet"
    assert (clones.trees.shared(repo.url) / "recipes/new.yaml").read_text() == "new"


def test_update_without_news_only_asks(clones: Clones, repo: Repo, git: GitRecorder) -> None:
    clones.ensure(repo.url, ("recipes",), soon())
    git.forget()
    fetched = clones.update(repo.url, ("recipes",), soon())
    assert fetched.commit == fetched.previous
    assert git.verbs == ["ls-remote"]


@pytest.mark.parametrize("verb", ["ls-remote", "fetch", "reset"])
def test_a_failed_step_of_an_update_leaves_the_old_recipes_or_recovers(clones: Clones, repo: Repo, git: GitRecorder, verb: str) -> None:
    old = clones.ensure(repo.url, ("recipes",), soon()).commit
    new = repo.commit({"recipes/new.yaml": RECIPE})
    git.fail(verb)
    if verb == "ls-remote":
        with pytest.raises(GitError, match="disk is on fire"):
            clones.update(repo.url, ("recipes",), soon())
        assert head_commit(clones.trees.shared(repo.url)) == old
    else:
        assert clones.update(repo.url, ("recipes",), soon()) == (new, old)


def test_an_update_that_cannot_finish_leaves_the_old_recipes_and_nothing_else(clones: Clones, repo: Repo, git: GitRecorder) -> None:
    old = clones.ensure(repo.url, ("recipes",), soon()).commit
    repo.commit({"recipes/new.yaml": RECIPE})
    git.fail("sparse-checkout")
    with pytest.raises(GitError, match="disk is on fire"):
        clones.update(repo.url, ("recipes",), soon())
    tree = clones.trees.shared(repo.url)
    assert head_commit(tree) == old
    assert [path.name for path in (tree / "recipes").iterdir()] == ["good.yaml"]
    assert leftovers(clones) == []


def test_a_failed_first_fetch_leaves_nothing(clones: Clones, repo: Repo, git: GitRecorder) -> None:
    git.fail("sparse-checkout")
    with pytest.raises(GitError):
        clones.ensure(repo.url, ("recipes",), soon())
    assert not clones.trees.shared(repo.url).exists()
    assert leftovers(clones) == []


def test_a_killed_update_leaves_the_old_recipes_and_the_next_one_cleans_up(
    manager: RegistryManager, env: dict[str, str], reg: Repo, git: GitRecorder
) -> None:
    old = manager.show("myreg").commit
    new = reg.commit({"recipes/new.yaml": RECIPE})
    git.hang("fetch")
    child = subprocess.Popen([sys.executable, "-c", UPDATE], env=child_env(env), stdout=subprocess.DEVNULL)
    pid = git.wait_until_hanging()
    child.kill()
    child.wait()
    os.kill(pid, signal.SIGKILL)
    git.heal()
    entry = manager.entry("myreg")
    clones = Clones(manager.trees, Git(env))
    assert manager.commit(entry) == old
    assert [path.name for path in ((manager.root(entry) or Path()) / "recipes").iterdir()] == ["good.yaml"]
    assert len(leftovers(clones)) == 1
    assert manager.update("myreg").ok
    assert manager.commit(entry) == new
    used = clones.trees.shared(reg.url).resolve()
    assert len([path for path in clones.trees.root.glob("_url_*.*") if path.is_dir()]) == 2
    assert (used / "recipes/new.yaml").exists()


def test_the_tree_before_an_update_stays_for_those_who_read_it(clones: Clones, repo: Repo) -> None:
    clones.ensure(repo.url, ("recipes",), soon())
    reading = clones.trees.shared(repo.url).resolve()
    for number in range(2):
        assert (reading / "recipes/good.yaml").exists()
        repo.commit({"recipes/good.yaml": RECIPE + f"# {number}\n"})
        clones.update(repo.url, ("recipes",), soon())
    assert not reading.exists()


def test_many_updates_do_not_pile_up_packs(clones: Clones, repo: Repo) -> None:
    clones.ensure(repo.url, ("recipes",), soon())
    pack = clones.trees.shared(repo.url).resolve() / ".git/objects/pack"
    for number in range(30):
        (pack / f"pack-{number:040d}.pack").write_text("not a pack")
    commit = repo.commit({"recipes/new.yaml": RECIPE})
    assert clones.update(repo.url, ("recipes",), soon()).commit == commit
    assert len(list((clones.trees.shared(repo.url) / ".git/objects/pack").glob("*.pack"))) < 10


def test_a_clone_of_an_earlier_sparkrun_is_read_and_replaced_by_the_next_update(
    manager: RegistryManager, config: SparkrunConfig, env: dict[str, str], repo: Repo
) -> None:
    old = manager.trees.root / "mine"
    subprocess.run(["git", "clone", "--quiet", repo.url, str(old)], env=env, check=True)
    save_registries(config, f"config_version: 1\nregistries:\n- {{name: mine, url: '{repo.url}', subpath: recipes, trusted: false}}\n")
    entry = manager.entry("mine")
    assert manager.root(entry) == old
    assert [folder.base for folder in manager.open_named("mine", "recipes").folders] == [old / "recipes"]
    repo.commit({"recipes/new.yaml": RECIPE})
    assert manager.update("mine").ok
    assert old.is_symlink()
    assert (old / "recipes/new.yaml").exists()


def test_a_shared_clone_of_an_earlier_sparkrun_is_widened_and_updated(clones: Clones, env: dict[str, str], repo: Repo) -> None:
    shared = clones.trees.shared(repo.url)
    shared.parent.mkdir(parents=True)
    subprocess.run(["git", "clone", "--quiet", repo.url, str(shared)], env=env, check=True)
    clones.ensure(repo.url, ("recipes",), soon())
    assert shared.is_symlink()
    commit = repo.commit({"recipes/new.yaml": RECIPE})
    assert clones.update(repo.url, ("recipes",), soon()).commit == commit
    assert (shared / "recipes/new.yaml").exists()


def test_two_commands_that_need_one_repository_fetch_it_once(clones: Clones, env: dict[str, str], repo: Repo, git: GitRecorder) -> None:
    others = [Clones(clones.trees, Git(env)) for _ in range(2)]
    threads = [threading.Thread(target=other.ensure, args=(repo.url, ("recipes",), soon())) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert git.verbs.count("clone") == 1


def test_an_interrupted_update_ends_git_and_leaves_the_old_recipes(
    manager: RegistryManager, env: dict[str, str], reg: Repo, git: GitRecorder
) -> None:
    old = manager.show("myreg").commit
    reg.commit({"recipes/new.yaml": RECIPE})
    git.hang("fetch")
    child = subprocess.Popen(
        [sys.executable, "-c", UPDATE], env=child_env(env), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    pid = git.wait_until_hanging()
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=20)
    assert "KeyboardInterrupt" in stderr
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert manager.commit(manager.entry("myreg")) == old
    assert len([path for path in manager.trees.root.glob("_url_*.*") if path.is_dir()]) == 1


def test_an_interrupt_while_fetches_are_still_being_begun_ends_git(
    manager: RegistryManager, reg: Repo, git: GitRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.show("myreg")
    reg.commit({"recipes/new.yaml": RECIPE})
    begin = ThreadPoolExecutor.submit
    hanging = []

    def interrupted(pool: ThreadPoolExecutor, *words: Any) -> None:
        begin(pool, *words)
        hanging.append(git.wait_until_hanging())
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    git.hang("fetch")
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        manager.update("myreg")
    assert time.monotonic() - began < UPDATE_S / 2
    with pytest.raises(ProcessLookupError):
        os.kill(hanging[0], 0)


def test_a_clone_under_the_name_but_from_elsewhere_is_not_read(manager: RegistryManager, env: dict[str, str], repo: Repo) -> None:
    subprocess.run(["git", "clone", "--quiet", repo.url, str(manager.trees.root / "mine")], env=env, check=True)
    entry = RegistryEntry(name="mine", url="https://github.com/other/repo")
    assert manager.root(entry) is None


def test_the_commit_is_read_from_packed_references_too(clones: Clones, repo: Repo) -> None:
    commit = clones.ensure(repo.url, ("recipes",), soon()).commit
    tree = clones.trees.shared(repo.url)
    subprocess.run(["git", "pack-refs", "--all"], cwd=tree, check=True)
    assert head_commit(tree) == commit
    subprocess.run(["git", "checkout", "--quiet", "--detach"], cwd=tree, check=True)
    assert head_commit(tree) == commit
