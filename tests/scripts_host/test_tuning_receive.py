"""Tuning configs that arrive on a host, and what a look at it says of them."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from sparkrun.scripts import compose_script
from tests.scripts_host.scratch_host import Ran, ScratchHost


@pytest.fixture(autouse=True)
def _tools(host: ScratchHost) -> None:
    for tool in ("tar", "sha256sum"):
        if not (host.tools / tool).exists():
            (host.tools / tool).symlink_to(shutil.which(tool) or "/nowhere")


def archive(**files: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
    return made.getvalue()


def send(host: ScratchHost, data: bytes, *drop: str, runtime: str = "vllm") -> Ran:
    text = compose_script("tuning_receive", {"RUNTIME": runtime, "DROP": drop})
    done = subprocess.run(
        ["bash", "-s"], input=text.encode() + data, capture_output=True, env=host.env, timeout=60, check=False, cwd=host.root
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def held(host: ScratchHost) -> dict[str, str]:
    folder = host.cache / "tuning/vllm"
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_configs_lie_in_the_hosts_own_cache_and_replace_older_ones(host: ScratchHost) -> None:
    send(host, archive(**{"E=8,N=1.json": "old", "triton_3/a b.json": "{}"}))

    ran = send(host, archive(**{"E=8,N=1.json": "new"}))

    assert (ran.returncode, ran.section("TUNING").text("RECEIVED")) == (0, "1"), ran
    assert ran.section("TUNING").text("FOLDER") == str(host.cache / "tuning/vllm")
    assert held(host) == {"E=8,N=1.json": "new", "triton_3/a b.json": "{}"}


def test_what_is_outdated_goes_and_the_rest_stays(host: ScratchHost) -> None:
    send(host, archive(**{"a.json": "1", "b.json": "2"}))

    ran = send(host, archive(), "a.json", "never-there.json")

    assert (ran.returncode, ran.section("TUNING").text("DROPPED")) == (0, "1")
    assert held(host) == {"b.json": "2"}


@pytest.mark.parametrize("name", ["../../jobs/x.json", "/etc/passwd"])
def test_nothing_outside_of_the_folder_is_taken_away(host: ScratchHost, name: str) -> None:
    assert send(host, archive(), name).returncode == 2


def test_half_an_archive_leaves_nothing_half(host: ScratchHost) -> None:
    whole = archive(**{"a.json": "x" * 20_000})

    ran = send(host, whole[:5_000])

    assert ran.returncode == 1
    assert held(host) == {}


def test_a_folder_of_somebody_else_is_told_with_the_way_out(host: ScratchHost) -> None:
    host.cache.mkdir()
    (host.cache / "tuning").write_text("no folder")

    said = send(host, archive(**{"a.json": "1"})).section("TUNING")

    assert said.text("REASON") == "cache_not_writable"
    assert "chown" in str(said.text("HINT"))


def test_a_look_at_the_host_tells_the_hash_of_each_config(host: ScratchHost) -> None:
    send(host, archive(**{"E=8,N=1.json": "{}", "triton_3/a b.json": "{1}", "notes.txt": "x"}))
    (host.cache / "tuning/vllm/.incoming.1").mkdir()
    Path(host.cache / "tuning/vllm/.incoming.1/half.json").write_text("half")

    told = host.run("observe", TUNING="vllm").section("TUNING").all("FILE")

    assert sorted(told) == sorted(
        f"{hashlib.sha256(text).hexdigest()} {name}" for name, text in (("E=8,N=1.json", b"{}"), ("triton_3/a b.json", b"{1}"))
    )
    assert host.run("observe").answers.sections("TUNING") == ()
    assert host.run("observe", TUNING="sglang").section("TUNING").all("FILE") == ()
