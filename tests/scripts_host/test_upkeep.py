"""What a launch notes of the caches it uses, and what it clears away beside."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sparkrun.core.plan import Upkeep
from tests.scripts_host.docker_host import DockerHost, dock, rank_of
from tests.scripts_host.hub_trees import use_tools
from tests.scripts_host.scratch_host import Ran, ScratchHost, eventually

__all__ = ["dock"]
MARK = ".sparkrun-last-used"
DAY_S = 86400


@pytest.fixture
def caches(host: ScratchHost) -> Path:
    use_tools(host)
    folder = host.cache / "runtime-cache"
    folder.mkdir(parents=True)
    return folder


def entry(caches: Path, name: str, days: float, *, size: int = 20_000) -> Path:
    """One that was last used so many days ago."""
    folder = caches / name
    folder.mkdir(parents=True)
    (folder / "kernel.bin").write_bytes(b"k" * size)
    mark = folder / MARK
    mark.touch()
    then = time.time() - days * DAY_S
    os.utime(mark, (then, then))
    return folder


def prune(host: ScratchHost, *, apply: bool = True, days: int = 30) -> Ran:
    return host.run("runtime_cache", PRUNE_MINUTES=str(days * 24 * 60), APPLY="1" if apply else "")


def left(caches: Path) -> list[str]:
    return sorted(mark.parent.name for mark in caches.rglob(MARK))


def test_what_no_launch_has_used_for_long_goes(host: ScratchHost, caches: Path) -> None:
    entry(caches, "vllm/old-00000000", 31)
    entry(caches, "vllm/new-00000000", 29)
    entry(caches, "trtllm/image-1/old2-00000000", 90)

    dry = prune(host, apply=False).section("RUNTIME_CACHE")
    assert left(caches) == ["new-00000000", "old-00000000", "old2-00000000"]
    assert sorted(dry.all("STALE")) == ["trtllm/image-1/old2-00000000", "vllm/old-00000000"]

    done = prune(host).section("RUNTIME_CACHE")

    assert sorted(done.all("REMOVED")) == sorted(dry.all("STALE"))
    assert left(caches) == ["new-00000000"]
    assert not list(caches.glob(".removing*"))


def test_what_has_no_mark_stays(host: ScratchHost, caches: Path) -> None:
    (caches / "vllm/unmarked").mkdir(parents=True)

    assert prune(host).section("RUNTIME_CACHE").all("STALE") == ()


def test_an_old_entry_with_a_new_one_in_it_stays(host: ScratchHost, caches: Path) -> None:
    entry(caches, "vllm/all", 90)
    entry(caches, "vllm/all/one", 1)

    assert prune(host).section("RUNTIME_CACHE").all("STALE") == ()


def test_what_a_running_container_has_mounted_stays(host: ScratchHost, caches: Path) -> None:
    served, idle = entry(caches, "vllm/served", 90), entry(caches, "vllm/idle", 90)
    host.program("docker", f'case $1 in ps) echo c1 ;; inspect) echo "{served}"; echo /elsewhere ;; esac')

    assert prune(host).section("RUNTIME_CACHE").all("REMOVED") == ("vllm/idle",)
    assert (served.exists(), idle.exists()) == (True, False)


def test_nothing_goes_while_nobody_knows_what_runs(host: ScratchHost, caches: Path) -> None:
    entry(caches, "vllm/old", 90)
    host.program("docker", "exit 1")

    assert prune(host).section("RUNTIME_CACHE").all("STALE") == ()


def test_a_launch_notes_what_it_uses_and_clears_away_what_is_old(dock: DockerHost, caches: Path) -> None:
    host = dock.host
    hub = host.home / "hub"
    (hub / "models--org--m").mkdir(parents=True)
    mine, old = entry(caches, "vllm/mine", 90), entry(caches, "vllm/old", 90)
    upkeep = Upkeep(hub=str(hub), model_folder="models--org--m", runtime_cache=str(mine), runtime_caches=str(caches), max_age_days=30)

    told = dock.started(rank_of(upkeep=upkeep))

    eventually(lambda: not old.exists(), "the old entry's end")
    assert mine.exists()
    assert time.time() - (mine / MARK).stat().st_mtime < 60
    assert (hub / ".sparkrun/used/models--org--m").exists()
    assert (host.cache / "images/used" / (told.text("IMAGE_ID") or "").removeprefix("sha256:")).exists()


def test_a_launch_waits_for_none_of_it(dock: DockerHost, caches: Path) -> None:
    dock.host.program("find", "exec sleep 600")
    mine = entry(caches, "vllm/mine", 90)

    dock.started(rank_of(upkeep=Upkeep(runtime_cache=str(mine), runtime_caches=str(caches), max_age_days=30)))

    eventually(lambda: time.time() - (mine / MARK).stat().st_mtime < 60, "the mark")


def test_an_age_of_zero_clears_nothing_away(dock: DockerHost, caches: Path) -> None:
    mine, old = entry(caches, "vllm/mine", 90), entry(caches, "vllm/old", 900)

    dock.started(rank_of(upkeep=Upkeep(runtime_cache=str(mine), runtime_caches=str(caches), max_age_days=0)))

    eventually(lambda: time.time() - (mine / MARK).stat().st_mtime < 60, "the mark")
    assert old.exists()


def test_a_plain_process_notes_the_model_too(host: ScratchHost) -> None:
    use_tools(host)
    (host.home / "hub/models--org--m").mkdir(parents=True)

    host.start("x", "sleep 60", HUB="~/hub", MODEL_FOLDER="models--org--m")

    eventually((host.home / "hub/.sparkrun/used/models--org--m").exists, "the note")


def test_a_cache_that_cannot_be_noted_is_no_reason_not_to_launch(dock: DockerHost, caches: Path) -> None:
    upkeep = Upkeep(hub="/nowhere", model_folder="models--org--m", runtime_cache="/nowhere/x", runtime_caches="/nowhere", max_age_days=30)

    assert dock.started(rank_of(upkeep=upkeep)).text("GATE") == "open"


def test_a_host_whose_accelerator_shares_its_memory_lets_go_of_files_before_a_launch(host: ScratchHost, dock: DockerHost) -> None:
    switch = host.root / "drop_caches"
    switch.touch()
    host.program("sync", f"echo synced >{host.root}/synced")

    dock.started(rank_of(upkeep=Upkeep(drop_caches=str(switch))))

    eventually(lambda: switch.read_text() == "3\n", "the word to the kernel")
    assert (host.root / "synced").exists()


def test_a_user_who_may_not_do_that_asks_sudo_and_is_not_stopped_by_a_no(host: ScratchHost, dock: DockerHost) -> None:
    host.program("sync", ":")
    host.program("sudo", f'echo "$*" >{host.root}/asked; exit 1')

    dock.started(rank_of(upkeep=Upkeep(drop_caches="/nowhere/drop_caches")))

    eventually(lambda: (host.root / "asked").exists() and (host.root / "asked").read_text() == "-n tee /nowhere/drop_caches\n", "sudo")
