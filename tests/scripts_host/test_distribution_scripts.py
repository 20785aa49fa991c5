"""Images and models on their way to a host."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sparkrun.models.hub import receive_action
from sparkrun.scripts import compose_script
from tests.scripts_host.scratch_host import Ran, ScratchHost, eventually

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FULL = "write /var/lib/docker/tmp/x: no space left on device"
DENIED = "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"


@pytest.fixture
def hub(host: ScratchHost) -> Path:
    for tool in ("tar", "du", "gzip"):
        if not (host.tools / tool).exists():
            (host.tools / tool).symlink_to(shutil.which(tool) or "/nowhere")
    return host.home / "hub"


def put_model(hub: Path, weights: str = "weights", commit: str = COMMIT) -> Path:
    repo = hub / "models--org--m"
    for name, text in ((f"blobs/{weights}", weights), ("refs/main", commit)):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    snapshot = repo / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").symlink_to(f"../../blobs/{weights}")
    return repo


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def send(host: ScratchHost, text: str, data: bytes) -> Ran:
    """A script with what comes after it on the same stream."""
    done = subprocess.run(
        [host.tools / "bash", "-s"], input=text.encode() + data, capture_output=True, env=host.env, timeout=60, check=False
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def receive(host: ScratchHost, hub: Path, source: Path, *, cut: int | None = None, size: str = "") -> Ran:
    call = receive_action("h", str(hub), str(source), "org/m", None).call
    archive = subprocess.run(call.feed, capture_output=True, check=True).stdout
    return send(host, compose_script(call.name, {**call.params, "SIZE_BYTES": size}), archive[:cut])


def keep(host: ScratchHost, hub: Path) -> Ran:
    return host.run("hub_keep", HUB=str(hub), REPO="org/m")


def looks_whole(host: ScratchHost, hub: Path) -> bool:
    host.env["HF_HUB_CACHE"] = str(hub)
    return bool(host.run("observe", MODEL="org/m").section("MODEL").text("MODEL_PATH"))


# --- a copy of a model ----------------------------------------------------------------------------------------------------------------


def test_a_model_counts_only_when_all_of_it_has_arrived(host: ScratchHost, hub: Path, tmp_path: Path) -> None:
    source = tmp_path / "here"
    (put_model(source) / "blobs/other.incomplete").write_text("half")

    ran = receive(host, hub, source)
    assert (ran.returncode, looks_whole(host, hub)) == (0, False), ran
    ran = keep(host, hub)
    assert (ran.returncode, ran.section("KEEP").text("FOLDER")) == (0, str(hub / "models--org--m")), ran

    assert looks_whole(host, hub)
    link = hub / "models--org--m/snapshots" / COMMIT / "model.safetensors"
    assert (link.is_symlink(), link.read_text()) == (True, "weights")
    assert names(hub / "models--org--m/blobs") == ["weights"]
    assert names(hub / ".sparkrun-incoming") == ["models--org--m.lock"]


def test_a_copy_that_is_cut_off_leaves_nothing(host: ScratchHost, hub: Path, tmp_path: Path) -> None:
    source = tmp_path / "here"
    (put_model(source) / "blobs/weights").write_text("w" * 100_000)

    ran = receive(host, hub, source, cut=50_000)

    assert (ran.returncode, ran.answers.text("REASON")) == (1, "failed")
    assert "tar: " in (ran.answers.text("MESSAGE") or "")
    assert names(hub) == [".sparkrun-incoming"]
    assert keep(host, hub).answers.text("MESSAGE") == f"nothing of org/m has arrived in {hub}/.sparkrun-incoming"


def test_a_model_joins_what_the_cache_has_of_it_already(host: ScratchHost, hub: Path, tmp_path: Path) -> None:
    old = put_model(hub, "old", commit="f" * 40)
    (old / "snapshots" / COMMIT).mkdir()
    (old / "snapshots" / COMMIT / "other.gguf").write_text("kept")
    put_model(tmp_path / "here", "new")

    assert receive(host, hub, tmp_path / "here").returncode == 0
    assert keep(host, hub).returncode == 0

    assert names(old / "blobs") == ["new", "old"]
    assert names(old / "snapshots" / COMMIT) == ["model.safetensors", "other.gguf"]
    assert (old / "refs/main").read_text() == COMMIT


def test_a_model_that_cannot_fit_is_refused_before_anything_is_written(host: ScratchHost, hub: Path, tmp_path: Path) -> None:
    put_model(tmp_path / "here")

    ran = receive(host, hub, tmp_path / "here", size=str(10**18))

    assert (ran.returncode, ran.answers.text("REASON")) == (17, "disk_full")
    assert "is full: 1000000000000 MB are needed, " in (ran.answers.text("MESSAGE") or "")


def test_a_full_disk_is_told_as_such(host: ScratchHost, hub: Path, tmp_path: Path) -> None:
    put_model(tmp_path / "here")
    host.program("tar", "cat >/dev/null; echo 'tar: x: Cannot write: No space left on device' >&2; exit 2")

    ran = receive(host, hub, tmp_path / "here")

    assert (ran.returncode, ran.answers.text("REASON")) == (17, "disk_full")
    assert (ran.answers.text("MESSAGE") or "").endswith(f"with {hub} is full: tar: x: Cannot write: No space left on device")


def test_a_second_transfer_of_a_model_is_told_of_the_first(host: ScratchHost, hub: Path, tmp_path: Path) -> None:
    put_model(tmp_path / "here")
    host.program("tar", "exec sleep 600")
    first = host.begin("hub_receive", HUB=str(hub), REPO="org/m")
    eventually((hub / ".sparkrun-incoming/models--org--m.lock").exists)
    first.wait_for("SPARKRUN_RECEIVE_START")

    def refused() -> bool:
        return receive(host, hub, tmp_path / "here").answers.text("REASON") == "busy"

    eventually(refused, "the refusal of a second transfer")


@pytest.mark.parametrize("repo", ["../x", "a/b/c", "", "-x"])
def test_a_name_that_leads_out_of_the_cache_is_refused(host: ScratchHost, hub: Path, repo: str) -> None:
    ran = host.run("hub_keep", HUB=str(hub), REPO=repo)

    assert (ran.returncode, ran.answers.text("REASON"), hub.exists()) == (2, "bad_parameter", False)


# --- a model from the hub -------------------------------------------------------------------------------------------------------------

HF = """
[[ "$1 $2" == 'download org/m' ]] || { echo "unexpected: $*" >&2; exit 2; }
echo "$HF_TOKEN $HF_HUB_OFFLINE $*" >"$HOME/asked"
repo=$HF_HUB_CACHE/models--org--m
mkdir -p "$repo/blobs" "$repo/refs" "$repo/snapshots/abc"
echo w >"$repo/blobs/w"; echo abc >"$repo/refs/main"; ln -sf ../../blobs/w "$repo/snapshots/abc/m.safetensors"
"""


def download(host: ScratchHost, hub: Path, **params: str | tuple[str, ...]) -> Ran:
    return host.run("hub_download", HUB=str(hub), REPO="org/m", **params)


def test_a_host_fetches_with_its_own_hf(host: ScratchHost, hub: Path) -> None:
    host.program("hf", HF)

    ran = download(host, hub, TOKEN="hf_x", REVISION="v1", PATTERNS=("*Q4*", "*.json"))

    assert (ran.returncode, ran.section("DOWNLOAD").text("PROGRAM")) == (0, "hf"), ran
    assert (host.home / "asked").read_text() == "hf_x 0 download org/m --revision v1 --include *Q4* --include *.json\n"
    assert looks_whole(host, hub)
    assert "hf_x" not in ran.stdout


def test_a_host_without_hf_fetches_through_the_image(host: ScratchHost, hub: Path) -> None:
    words_of_run = '[[ $1 == run ]] || exit 1; printf "%s\\n" "$@" >"$HOME/words"'
    host.program("docker", f"{words_of_run}\nHF_HUB_CACHE={hub}/.sparkrun-incoming\nset -- download org/m\n{HF}")

    ran = download(host, hub, IMAGE="img:1", TOKEN="hf_x")

    assert (ran.returncode, looks_whole(host, hub)) == (0, True), ran
    words = (host.home / "words").read_text().split("\n")
    assert words[:2] == ["run", "--rm"]
    assert words[words.index("img:1") + 1] == "-c"
    assert f"{hub}/.sparkrun-incoming:/incoming" in words
    assert "hf_x" not in " ".join(words)


@pytest.mark.parametrize(
    ("says", "reason", "told"),
    [
        ("OSError: [Errno 28] No space left on device", "disk_full", "is full: OSError: [Errno 28] No space left on device"),
        ("403 Client Error: access to org/m is restricted", "denied", "the hub does not give org/m to"),
        ("ConnectionError: Name or service not known", "failed", "ConnectionError: Name or service not known"),
    ],
)
def test_a_failed_download_says_why_and_leaves_no_model(host: ScratchHost, hub: Path, says: str, reason: str, told: str) -> None:
    host.program("hf", f"{HF}\necho 'Traceback' >&2; echo '{says}' >&2; exit 1")

    ran = download(host, hub)

    assert (ran.answers.text("REASON"), told in (ran.answers.text("MESSAGE") or "")) == (reason, True), ran
    assert not looks_whole(host, hub)
    assert (hub / ".sparkrun-incoming/models--org--m/blobs/w").exists(), "the next attempt goes on from there"


def test_without_a_program_the_way_out_is_told(host: ScratchHost, hub: Path) -> None:
    ran = download(host, hub)

    assert (ran.returncode, ran.answers.text("REASON")) == (3, "no_program")
    assert "hf download org/m" in (ran.answers.text("HINT") or "")


def test_a_download_ends_with_the_session_that_asked_for_it(host: ScratchHost, hub: Path) -> None:
    host.program("hf", "echo $$ >$HOME/pid; exec sleep 600")
    running = host.begin("hub_download", HUB=str(hub), REPO="org/m", LIFELINE="1")
    eventually((host.home / "pid").exists)
    assert running.process.stdin is not None
    running.process.stdin.close()

    assert running.result().answers.text("REASON") == "cancelled"
    eventually(lambda: not Path(f"/proc/{(host.home / 'pid').read_text().strip()}").exists(), "the end of hf")


# --- images ---------------------------------------------------------------------------------------------------------------------------

PULLED = """
case $1 in
  pull) for what in 'Pulling fs layer' 'Pull complete'; do echo "a: $what"; echo "b: $what"; done; echo 'Status: Downloaded' ;;
  image) echo sha256:abc ;;
esac
"""


def test_an_image_is_fetched_layer_by_layer(host: ScratchHost) -> None:
    host.program("docker", PULLED)

    ran = host.run("docker_pull", IMAGE="ghcr.io/x:1")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert (ran.section("PULL").all("LAYERS"), ran.section("PULL").text("IMAGE_ID")) == (("1/2", "2/2"), "sha256:abc")


@pytest.mark.parametrize(
    ("says", "code", "reason"),
    [
        (f"failed to register layer: {FULL}", 17, "disk_full"),
        ("Error response from daemon: pull access denied for x, repository does not exist", 1, "failed"),
        ("Error response from daemon: Get https://ghcr.io/v2/: dial tcp: lookup ghcr.io: no such host", 1, "failed"),
        (DENIED, 4, "docker_denied"),
    ],
)
def test_a_pull_that_fails_says_why_in_dockers_words(host: ScratchHost, says: str, code: int, reason: str) -> None:
    host.program("docker", f"echo 'a: Pulling fs layer'; echo '{says}' >&2; exit 1")

    ran = host.run("docker_pull", IMAGE="x:1")

    assert (ran.returncode, ran.answers.text("REASON"), bool(ran.answers.text("HINT"))) == (code, reason, True)
    assert code == 4 or says in (ran.answers.text("MESSAGE") or "")


def test_an_image_is_taken_from_what_follows_the_script(host: ScratchHost) -> None:
    host.program("docker", 'case $1 in load) cat >"$HOME/taken" ;; image) echo sha256:abc ;; esac')
    data = os.urandom(300_000)

    ran = send(host, compose_script("docker_load", {"IMAGE": "x:1"}), data)

    assert (ran.returncode, ran.section("LOAD").text("IMAGE_ID")) == (0, "sha256:abc"), ran
    assert (host.home / "taken").read_bytes() == data


@pytest.mark.parametrize(("says", "code"), [(FULL, 17), ("unexpected EOF", 1), (DENIED, 4)])
def test_a_load_that_fails_says_why(host: ScratchHost, says: str, code: int) -> None:
    host.program("docker", f"cat >/dev/null; echo '{says}' >&2; exit 1")

    ran = send(host, compose_script("docker_load", {"IMAGE": "x:1"}), b"data")

    assert ran.returncode == code
    assert code == 4 or says in (ran.answers.text("MESSAGE") or "")


def test_a_look_tells_which_images_are_here(host: ScratchHost) -> None:
    images = """
case $*:$1 in
  *here:1:image) echo 'sha256:abc arm64 1234' ;;
  *gone:1:image) echo 'Error response from daemon: No such image: gone:1' >&2; exit 1 ;;
  *odd:1:image) echo 'something odd' >&2; exit 1 ;;
  *:version) echo 28 ;;
esac
"""
    host.program("docker", images)

    section = host.run("observe", IMAGES=("here:1", "gone:1", "odd:1")).section("DOCKER")

    assert section.all("IMAGE_HERE") == ("here:1 sha256:abc arm64 1234",)
    assert section.all("IMAGE_MISSING") == ("gone:1",)
