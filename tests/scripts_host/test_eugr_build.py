"""Building an image with a repository's build-and-copy.sh."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.scripts_host.scratch_host import Ran, ScratchHost, eventually, is_alive

IMAGE = "vllm-node:sparkrun-0123456789ab"
BUILDS = """#!/bin/bash
set -e
printf '%s\\n' "$@" >"$OUT/words"
ls -A >"$OUT/files"
touch leftover
echo "#1 [base 1/2] FROM scratch"
docker tag img:1 "$2"
"""

DOCKER = """
last=${@: -1}
case $1 in
  image) [[ -e $IMAGES/$last ]] && echo "sha256:$last" || { echo "Error: No such image: $last" >&2; exit 1; } ;;
  tag) cp "$IMAGES/$2" "$IMAGES/$3" ;;
  rmi) rm "$IMAGES/$last" ;;
  rm) ;;
  run)
    while [[ $1 != --entrypoint ]]; do shift; done
    "$2" "${@:5}" ;;
  *) exit 9 ;;
esac
"""
"""Images are files of a folder, and a container is a process of this machine."""


class Source:
    """A repository with a build-and-copy.sh that a test writes, and what it left."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.out = root.with_name("out")
        self.out.mkdir()
        root.mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit(BUILDS)

    @property
    def address(self) -> str:
        return f"file://{self.root}"

    def commit(self, text: str | None) -> str:
        """Make this the script (``None``: none at all); the commit."""
        script = self.root / "build-and-copy.sh"
        script.unlink(missing_ok=True)
        (self.root / "README").write_text(str(text))
        if text is not None:
            script.write_text(text)
            script.chmod(0o755)
        self.git("add", "-A")
        self.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "x")
        return self.git("rev-parse", "HEAD").strip()

    def git(self, *words: str) -> str:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.root), "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(["git", "-C", self.root, *words], check=True, capture_output=True, text=True, env=env).stdout

    def left(self, name: str) -> list[str]:
        return (self.out / name).read_text().split("\n")[:-1]


@pytest.fixture
def source(host: ScratchHost, tmp_path: Path) -> Source:
    for tool in ("git", "sh", "cp"):
        (host.tools / tool).symlink_to(shutil.which(tool) or "/nowhere")
    images = tmp_path / "images"
    images.mkdir()
    (images / "img:1").touch()
    host.program("docker", DOCKER)
    made = Source(tmp_path / "source")
    host.env |= {"OUT": str(made.out), "IMAGES": str(images)}
    return made


def images(host: ScratchHost) -> list[str]:
    return sorted(path.name for path in Path(host.env["IMAGES"]).iterdir())


def params(source: Source, **changes: str | tuple[str, ...]) -> dict[str, str | tuple[str, ...]]:
    smoke = ("sh", "-c", "echo sparkrun-smoke-ok")
    return {"IMAGE": IMAGE, "REPO": source.address, "REF": "main", "ARGS": ("--apply-vllm-pr", "4 1"), "SMOKE": smoke, **changes}


def build(host: ScratchHost, source: Source, **changes: str | tuple[str, ...]) -> Ran:
    return host.run("eugr_build", **params(source, **changes))


def folder(host: ScratchHost) -> list[str]:
    return sorted(path.name for path in (host.cache / "eugr-builds").iterdir())


def test_a_build_has_a_fresh_checkout_its_own_tag_and_leaves_only_the_image(host: ScratchHost, source: Source) -> None:
    ran = build(host, source)

    assert ran.returncode == 0, ran
    said = ran.section("BUILD")
    assert said.all("STAGE") == ("clone", "docker build", "smoke test")
    assert source.left("words") == ["-t", f"{IMAGE}-building", "--apply-vllm-pr", "4 1"]
    assert said.text("COMMIT") == source.git("rev-parse", "HEAD").strip()
    assert (said.text("BUILT"), said.text("IMAGE_ID") != "") == ("1", True)
    assert said.all("LINE") == ("#1 [base 1/2] FROM scratch", "sparkrun-smoke-ok")
    assert images(host) == ["img:1", IMAGE]
    assert folder(host) == ["lock"]
    assert build(host, source, REBUILD="1").returncode == 0
    assert "leftover" not in source.left("files")


def test_what_is_there_by_now_is_not_built_again(host: ScratchHost, source: Source) -> None:
    (Path(host.env["IMAGES"]) / IMAGE).touch()

    ran = build(host, source)

    assert (ran.returncode, ran.section("BUILD").text("BUILT")) == (0, "0")
    assert not (source.out / "words").exists()


def test_a_commit_and_a_tag_are_refs_too(host: ScratchHost, source: Source) -> None:
    old = source.git("rev-parse", "HEAD").strip()
    source.git("tag", "v1")
    source.commit(BUILDS + "echo newer\n")

    for ref in (old, "v1"):
        ran = build(host, source, REF=ref, REBUILD="1")
        assert (ran.returncode, ran.section("BUILD").text("COMMIT")) == (0, old), ran


@pytest.mark.parametrize(
    ("script", "changes", "stage", "message"),
    [
        (BUILDS, {"REF": "nope"}, "clone", "cannot fetch nope of file://"),
        (BUILDS, {"REPO": "file:///nowhere/at/all"}, "clone", "cannot fetch main of file:///nowhere/at/all: "),
        (None, {}, "clone", "has no build-and-copy.sh at main"),
        ("#!/bin/bash\necho bad flag >&2\nexit 7\n", {}, "docker build", "build-and-copy.sh ended with exit code 7: bad flag"),
        ("#!/bin/bash\nexit 0\n", {}, "export", "build-and-copy.sh ended well, and left no image"),
        (BUILDS, {"SMOKE": ("sh", "-c", "echo no module; exit 1")}, "smoke test", "the image does not run sh as it should: no module"),
        (BUILDS, {"SMOKE": ("sh", "-c", "echo fine")}, "smoke test", "the image does not run sh as it should: fine"),
    ],
)
def test_a_failure_tells_its_stage_and_leaves_no_image(
    host: ScratchHost, source: Source, script: str | None, changes: dict[str, str], stage: str, message: str
) -> None:
    source.commit(script)

    ran = build(host, source, **changes)

    said = ran.section("BUILD")
    assert (ran.returncode, said.all("STAGE")[-1]) == (1, stage), ran
    assert message in str(said.text("MESSAGE"))
    assert images(host) == ["img:1"]
    assert folder(host) == ["lock"]


def test_a_program_that_waits_for_an_answer_gets_none(host: ScratchHost, source: Source) -> None:
    source.commit("#!/bin/bash\nread -r answer || echo nobody\nexit 3\n")

    assert "nobody" in build(host, source).section("BUILD").all("LINE")


def test_builds_take_turns_and_the_second_finds_what_the_first_has_built(host: ScratchHost, source: Source) -> None:
    source.commit(BUILDS + 'until [[ -e $OUT/go ]]; do sleep 0.05; done\necho x >>"$OUT/times"\n')
    first = host.begin("eugr_build", **params(source))
    first.wait_for("LINE=#1 [base 1/2] FROM scratch")
    second = host.begin("eugr_build", **params(source))
    second.wait_for("WAITING=1")

    (source.out / "go").touch()

    assert (first.result().returncode, second.result().returncode) == (0, 0)
    assert (source.out / "times").read_text() == "x\n"


def test_a_build_that_nobody_waits_for_ends_with_all_its_processes(host: ScratchHost, source: Source) -> None:
    source.commit(BUILDS + 'sleep 600 & echo $! >"$OUT/part"; mv "$OUT/part" "$OUT/child"; wait\n')
    process = host.process("eugr_build", **params(source, LIFELINE="1"))
    eventually((source.out / "child").exists, "start of the build")
    child = int((source.out / "child").read_text())
    assert process.stdin is not None

    process.stdin.close()

    assert process.wait(15) == 10
    eventually(lambda: not is_alive(child), "end of its child")
    assert folder(host) == ["lock"]
    assert images(host) == ["img:1"]


def test_without_git_it_says_so(host: ScratchHost, source: Source) -> None:
    (host.tools / "git").unlink()

    ran = build(host, source)

    assert (ran.returncode, ran.section("BUILD").text("REASON")) == (20, "git_missing")


def test_a_cache_that_cannot_be_written_is_told(host: ScratchHost, source: Source) -> None:
    host.cache.write_text("a file")

    assert build(host, source).section("BUILD").text("REASON") == "cache_not_writable"


@pytest.mark.parametrize("changes", [{"IMAGE": "-x"}, {"REPO": "--upload-pack=x"}, {"REF": "-x"}, {"REPO": ""}])
def test_what_looks_like_an_option_is_refused(host: ScratchHost, source: Source, changes: dict[str, str]) -> None:
    assert build(host, source, **changes).returncode == 2
