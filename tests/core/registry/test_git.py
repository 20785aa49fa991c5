from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkrun.core.registry.errors import GitError
from sparkrun.core.registry.git import Deadline, Git, git_reason
from tests.core.conftest import GitRecorder, Repo


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_failure_gives_gits_own_reason(env: dict[str, str], git: GitRecorder, tmp_path: Path) -> None:
    with pytest.raises(GitError, match="does not appear to be a git repository") as caught:
        Git(env).remote_head(f"file://{tmp_path}/nothing", Deadline(30))
    assert "fatal" not in caught.value.reason


def test_an_empty_repository_says_so(env: dict[str, str], git: GitRecorder, new_repo: Callable[[str], Repo]) -> None:
    with pytest.raises(GitError, match="empty"):
        Git(env).remote_head(new_repo("empty").url, Deadline(30))


def test_without_git_the_reason_is_that_git_is_missing(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="git is not installed"):
        Git({"PATH": str(tmp_path)}).remote_head("file:///x", Deadline(30))


def test_a_git_that_hangs_ends_at_the_deadline(env: dict[str, str], git: GitRecorder, repo: Repo) -> None:
    git.hang("ls-remote")
    pids: list[int] = []
    times = iter((0.0, 59.99))

    def clock() -> float:
        """The second look is after git has started."""
        now = next(times)
        pids.extend([git.wait_until_hanging()] if now else [])
        return now

    with pytest.raises(GitError, match="no end after 60 s"):
        Git(env).remote_head(repo.url, Deadline(60, clock))
    assert not is_alive(pids[0])


def test_cancel_ends_a_running_git_and_starts_no_more(env: dict[str, str], git: GitRecorder, repo: Repo) -> None:
    git.hang("ls-remote")
    runner, errors = Git(env), []

    def look() -> None:
        with pytest.raises(GitError) as caught:
            runner.remote_head(repo.url, Deadline(60))
        errors.append(caught.value)

    thread = threading.Thread(target=look)
    thread.start()
    pid = git.wait_until_hanging()
    runner.cancel()
    thread.join()
    assert len(errors) == 1
    assert not is_alive(pid)
    with pytest.raises(GitError, match="cancelled"):
        runner.remote_head(repo.url, Deadline(60))


def test_git_is_not_led_astray_by_the_repository_it_was_called_from(
    env: dict[str, str], git: GitRecorder, repo: Repo, tmp_path: Path
) -> None:
    commit = repo.commit({"new": "x"})
    astray = {**env, "GIT_DIR": str(tmp_path / "elsewhere"), "GIT_INDEX_FILE": str(tmp_path / "index")}
    target = tmp_path / "clone"
    target.mkdir()
    Git(astray).clone(repo.url, target, Deadline(60))
    assert Git(astray).files(target, Deadline(60)) == (".sparkrun/registry.yaml", "README.md", "new", "other/big.bin", "recipes/good.yaml")
    assert Git(astray).remote_head(repo.url, Deadline(60)) == commit


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("Cloning into 'x'...\nfatal: repository 'u' not found\n", "repository 'u' not found"),
        ("warning: x\nremote: Repository not found.\nfatal: repository 'u' not found", "Repository not found."),
        (
            "git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.\n\nPlease make sure you",
            "git@h: Permission denied (publickey).",
        ),
        ("fatal: unable to access 'https://me:pw@h/': no", "unable to access 'https://me:***@h/': no"),
        ("fatal: \x1b[31mred", "?[31mred"),
        ("", ""),
    ],
)
def test_the_reason_is_the_first_line_that_says_something(stderr: str, reason: str) -> None:
    assert git_reason(stderr) == reason
