"""Images and models on their way to a host."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from sparkrun.containers.layers import StockedImage, parse_image_stock
from sparkrun.core.remote import RemoteResult, ScriptCall
from sparkrun.core.routes import Link
from sparkrun.models.files import HubFile, parse_hub_stock
from sparkrun.orchestration.apply import failure_text
from sparkrun.orchestration.relay import listen_to, relay_call, relay_results
from sparkrun.scripts import compose_script
from tests.scripts_host.scratch_host import Ran, ScratchHost, eventually

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FULL = "write /var/lib/docker/tmp/x: no space left on device"
DENIED = "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"


SHA256 = hashlib.sha256(b"weights" * 1000).hexdigest()
GIT_SHA1 = hashlib.sha1(b'blob 7\0{"a":1}').hexdigest()
BLOBS = {SHA256: b"weights" * 1000, GIT_SHA1: b'{"a":1}', "sparkrun-x": b"plain"}
PATHS = {"model.safetensors": SHA256, "sub/deep/config.json": GIT_SHA1, "README.md": "sparkrun-x"}


@pytest.fixture(params=["python", "no python"])
def python(host: ScratchHost, request: pytest.FixtureRequest) -> None:
    """A host that has a python3, and one that has none."""
    if request.param == "python":
        host.python()


@pytest.fixture
def hub(host: ScratchHost, python: None) -> Path:
    return host.home / "hub"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def send(host: ScratchHost, text: str, data: bytes) -> Ran:
    """A script with what comes after it on the same stream, in a session of its own as ever."""
    words, stream = [host.tools / "bash", "-s"], text.encode() + data
    done = subprocess.run(words, input=stream, capture_output=True, env=host.env, timeout=60, check=False, start_new_session=True)
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def receive(
    host: ScratchHost, hub: Path, blobs: Mapping[str, bytes] = BLOBS, *, start: int = 0, cut: int | None = None, take: str = "1"
) -> Ran:
    """The blobs in one stream, the first of them from a byte on."""
    starts = [start, *[0] * (len(blobs) - 1)]
    entries = tuple(f"{name} {len(data)} {begin} {take}" for (name, data), begin in zip(blobs.items(), starts, strict=True))
    stream = b"".join(data[begin:] for data, begin in zip(blobs.values(), starts, strict=True))
    return send(host, compose_script("hub_receive", {"HUB": str(hub), "REPO": "org/m", "ENTRIES": entries}), stream[:cut])


def keep(host: ScratchHost, hub: Path, paths: Mapping[str, str] = PATHS) -> Ran:
    links = tuple(f"{len(BLOBS[blob])}\t{blob}\t{path}" for path, blob in paths.items())
    return host.run("hub_keep", HUB=str(hub), REPO="org/m", SNAPSHOT=COMMIT, LINKS=links, REFS=("main",))


def looks_whole(host: ScratchHost, hub: Path) -> bool:
    host.env["HF_HUB_CACHE"] = str(hub)
    return bool(host.run("observe", MODEL="org/m").section("MODEL").text("MODEL_PATH"))


# --- a copy of a model ----------------------------------------------------------------------------------------------------------------


def test_a_model_counts_only_when_all_of_it_has_arrived(host: ScratchHost, hub: Path) -> None:
    ran = receive(host, hub)
    assert (ran.returncode, ran.section("RECEIVE").text("FILES"), looks_whole(host, hub)) == (0, "3", False), ran
    ran = keep(host, hub)
    assert (ran.returncode, ran.section("KEEP").text("FOLDER")) == (0, str(hub / "models--org--m")), ran

    assert looks_whole(host, hub)
    snapshot = hub / "models--org--m/snapshots" / COMMIT
    for path, blob in PATHS.items():
        assert ((snapshot / path).is_symlink(), (snapshot / path).read_bytes()) == (True, BLOBS[blob])
    assert (hub / "models--org--m/refs/main").read_text() == COMMIT
    assert names(hub / ".sparkrun-incoming") == []
    assert names(snapshot.parent) == [COMMIT]


@pytest.mark.parametrize("cut", [0, 1, 3000, 7003])
def test_what_came_before_a_cut_is_used_by_the_next_attempt(host: ScratchHost, hub: Path, cut: int) -> None:
    ran = receive(host, hub, cut=cut)

    assert (ran.returncode, ran.answers.text("REASON")) == (21, "cut_off"), ran
    assert not (hub / "models--org--m").exists()
    stock = parse_hub_stock(host.run("hub_stock", HUB=str(hub), REPO="org/m").section("STOCK"))
    assert stock.parts.get(SHA256, stock.blobs.get(SHA256)) == min(cut, 7000)
    if cut < 7000:
        ran = receive(host, hub, start=cut)
        assert (ran.returncode, keep(host, hub).returncode) == (0, 0), ran
        assert looks_whole(host, hub)


def test_a_host_further_on_than_the_others_goes_back_to_where_the_stream_begins(host: ScratchHost, hub: Path) -> None:
    receive(host, hub, cut=5000)

    assert receive(host, hub, start=2000).returncode == 0
    assert (hub / ".sparkrun-incoming/models--org--m/blobs" / SHA256).read_bytes() == BLOBS[SHA256]


def opened_by_others(path: Path) -> bool:
    """Whether some process has the file open."""
    found = subprocess.run(["find", *Path("/proc").glob("[0-9]*/fd"), "-lname", str(path)], capture_output=True, text=True, check=False)
    return bool(found.stdout)


def test_a_receiver_that_was_cut_off_writes_nothing_more_once_another_has_taken_over(host: ScratchHost, hub: Path) -> None:
    entries = (f"{SHA256} 7000 0 1",)
    old = host.process("hub_receive", HUB=str(hub), REPO="org/m", ENTRIES=entries)
    part = hub / f".sparkrun-incoming/models--org--m/blobs/{SHA256}.part"
    assert old.stdin is not None
    old.stdin.write("weights" * 100)
    old.stdin.flush()
    eventually(lambda: opened_by_others(part), "the first receiver")

    assert receive(host, hub, {SHA256: BLOBS[SHA256]}).returncode == 0
    with contextlib.suppress(BrokenPipeError):
        old.stdin.write("garbage" * 100)
        old.stdin.close()
    old.wait(15)

    assert (hub / f".sparkrun-incoming/models--org--m/blobs/{SHA256}").read_bytes() == BLOBS[SHA256]


@pytest.mark.parametrize("name", [SHA256, GIT_SHA1])
def test_a_damaged_file_is_told_and_does_not_stay(host: ScratchHost, hub: Path, name: str) -> None:
    ran = receive(host, hub, {**BLOBS, name: BLOBS[name][:-1] + b"?"})

    assert (ran.returncode, ran.answers.text("REASON")) == (16, "damaged")
    assert (ran.answers.text("MESSAGE") or "").startswith("a file of org/m came damaged: ")
    assert names(hub / ".sparkrun-incoming/models--org--m/blobs") == sorted({*BLOBS} - {name})
    assert keep(host, hub).answers.text("REASON") == "failed"
    assert not looks_whole(host, hub)


def test_a_host_that_has_the_files_lets_the_stream_pass(host: ScratchHost, hub: Path) -> None:
    ran = receive(host, hub, take="0")

    assert (ran.returncode, ran.section("RECEIVE").text("FILES")) == (0, "0")
    assert names(hub / ".sparkrun-incoming/models--org--m/blobs") == []


def test_a_model_joins_what_the_cache_has_of_it_already(host: ScratchHost, hub: Path) -> None:
    old = hub / "models--org--m"
    (old / "blobs").mkdir(parents=True)
    (old / "blobs/sparkrun-x").write_bytes(BLOBS["sparkrun-x"])
    (old / "snapshots" / COMMIT).mkdir(parents=True)
    (old / "snapshots" / COMMIT / "other.gguf").write_text("kept")

    assert receive(host, hub, {name: data for name, data in BLOBS.items() if name != "sparkrun-x"}).returncode == 0
    assert keep(host, hub).returncode == 0

    assert names(old / "blobs") == sorted(BLOBS)
    assert names(old / "snapshots" / COMMIT) == ["README.md", "model.safetensors", "other.gguf", "sub"]


def test_a_disk_that_fills_up_is_told_as_such(host: ScratchHost, hub: Path) -> None:
    host.program("df", "echo 'Filesystem 1024-blocks Used Available Capacity Mounted'; echo 'd 1 1 0 100% /'")

    ran = receive(host, hub, cut=100)

    assert (ran.returncode, ran.answers.text("REASON")) == (17, "disk_full")


@pytest.mark.parametrize("repo", ["../x", "a/b/c", "", "-x"])
def test_a_name_that_leads_out_of_the_cache_is_refused(host: ScratchHost, hub: Path, repo: str) -> None:
    ran = host.run("hub_keep", HUB=str(hub), REPO=repo, SNAPSHOT=COMMIT)

    assert (ran.returncode, ran.answers.text("REASON"), hub.exists()) == (2, "bad_parameter", False)


@pytest.mark.parametrize("link", ["5\tsparkrun-x\t../../../out", "5\t../x\tREADME.md", "5\tsparkrun-x\t/etc/x"])
def test_a_file_that_leads_out_of_the_cache_is_refused(host: ScratchHost, hub: Path, link: str) -> None:
    receive(host, hub)

    ran = host.run("hub_keep", HUB=str(hub), REPO="org/m", SNAPSHOT=COMMIT, LINKS=(link,))

    assert (ran.returncode, ran.answers.text("REASON")) == (2, "bad_parameter")


def test_a_copy_that_is_in_place_leaves_nothing_of_its_way(host: ScratchHost, hub: Path) -> None:
    receive(host, hub)
    assert keep(host, hub).returncode == 0
    assert names(hub / ".sparkrun-incoming") == []


@pytest.mark.parametrize("folder", ["blobs", "snapshots", f"snapshots/{COMMIT}"])
def test_a_folder_that_somebody_else_owns_is_told_before_anything_comes(host: ScratchHost, hub: Path, folder: str) -> None:
    closed = hub / "models--org--m" / folder
    if os.getuid() == 0:
        pytest.skip("root may write everywhere")
    closed.mkdir(parents=True)
    closed.chmod(0o500)
    ran = receive(host, hub)
    closed.chmod(0o700)

    assert (ran.returncode, ran.answers.text("REASON")) == (14, "cache_not_writable"), ran
    assert f"{closed} on " in (ran.answers.text("MESSAGE") or "")
    assert not (hub / ".sparkrun-incoming/models--org--m").exists()


def test_a_stock_tells_files_by_what_they_lead_to(host: ScratchHost, hub: Path) -> None:
    receive(host, hub)
    keep(host, hub)
    repo, outside = hub / "models--org--m", host.home / "elsewhere.bin"
    outside.write_bytes(b"x" * 9)
    snapshot = repo / "snapshots" / COMMIT
    (snapshot / "outside.bin").symlink_to(outside)
    (snapshot / "dangling.bin").symlink_to("../../blobs/gone")
    (snapshot / "plain.txt").write_text("four")
    (repo / "blobs/half.incomplete").write_text("half")

    stock = parse_hub_stock(host.run("hub_stock", HUB=str(hub), REPO="org/m").section("STOCK"))

    linked = {HubFile(path, len(BLOBS[blob]), blob) for path, blob in PATHS.items()}
    assert set(stock.files[COMMIT]) == linked | {HubFile("outside.bin", 9, commit=COMMIT), HubFile("plain.txt", 4, commit=COMMIT)}
    assert (stock.refs, stock.blobs, stock.parts) == ({"main": COMMIT}, {name: len(data) for name, data in BLOBS.items()}, {})
    assert stock.free_bytes


def test_revisions_with_a_slash_in_their_name_are_told_and_kept(host: ScratchHost, hub: Path) -> None:
    receive(host, hub)
    links = tuple(f"{len(BLOBS[blob])}\t{blob}\t{path}" for path, blob in PATHS.items())
    kept = host.run("hub_keep", HUB=str(hub), REPO="org/m", SNAPSHOT=COMMIT, LINKS=links, REFS=("main", "refs/pr/3", "a/../../b"))

    stock = parse_hub_stock(host.run("hub_stock", HUB=str(hub), REPO="org/m").section("STOCK"))

    assert kept.returncode == 0
    assert stock.refs == {"main": COMMIT, "refs/pr/3": COMMIT}
    assert not (hub / "models--org--m" / "b").exists()


# --- handed on from host to host ------------------------------------------------------------------------------------------------------


def chain(*hosts: str, feed: str = "", ways: Mapping[str, tuple[str, ...]] | None = None, first_takes: bool = True) -> str:
    """A relay over hosts which are all this one; each counts what it gets."""
    links = [Link(one, other, "mgmt", (ways or {}).get(other, ("env", f"AS={other}"))) for one, other in pairwise(hosts)]
    takers = hosts if first_takes else hosts[1:]
    call = relay_call(hosts[0], [(name, ScriptCall("docker_load", {"IMAGE": name})) for name in takers], links, idle_s=2, feed=feed)
    return compose_script(call.name, {**call.params, "LIFELINE": ""})


def results(ran: Ran, *hosts: str) -> dict[str, RemoteResult]:
    heard = listen_to(hosts)
    for line in ran.stdout.splitlines():
        heard.take(line)
    ended = RemoteResult(hosts[0], ran.returncode, stderr=ran.stderr)
    return {result.host: result for result in relay_results(heard, ended, hosts, hosts)}


LOADING = """
case $1 in
  load) exec sha256sum >"$HOME/$RANDOM.taken" ;;
  save) head -c 500000 /dev/zero ;;
  image) echo sha256:abc ;;
esac
"""


def taken(host: ScratchHost) -> list[str]:
    return [path.read_text().split()[0] for path in host.home.glob("*.taken")]


@pytest.mark.usefixtures("python")
def test_every_host_of_a_chain_gets_the_whole_stream(host: ScratchHost) -> None:
    host.program("docker", LOADING)
    data = os.urandom(2_000_000)

    ran = send(host, chain("a", "b", "c", "d"), data)

    assert {name: result.returncode for name, result in results(ran, *"abcd").items()} == dict.fromkeys("abcd", 0), ran
    assert taken(host) == [hashlib.sha256(data).hexdigest()] * 4


@pytest.mark.usefixtures("python")
def test_a_host_can_feed_a_chain_without_taking_anything_itself(host: ScratchHost) -> None:
    host.program("docker", LOADING)

    ran = send(host, chain("a", "b", "c", feed="docker save x", first_takes=False), b"")

    assert {name: results(ran, *"abc")[name].returncode for name in "bc"} == {"b": 0, "c": 0}, ran
    assert taken(host) == [hashlib.sha256(bytes(500_000)).hexdigest()] * 2


@pytest.mark.usefixtures("python")
def test_a_source_that_cannot_be_read_is_named_with_what_it_said(host: ScratchHost) -> None:
    host.program("docker", LOADING.replace("load) exec", "load) [[ $(wc -c) == 500000 ]] || { echo unexpected EOF >&2; exit 1; };:"))
    feed = "head -c 1000 /dev/zero; echo 'dd: failed to open w: Permission denied' >&2; exit 1"

    ended = results(send(host, chain("a", "b", "c", feed=feed, first_takes=False), b""), *"abc")

    for name in "bc":
        assert failure_text(ended[name]) == "a could not read it: dd: failed to open w: Permission denied", ended


@pytest.mark.usefixtures("python")
def test_a_host_that_cannot_be_reached_keeps_none_before_it_from_the_stream(host: ScratchHost) -> None:
    host.program("docker", LOADING)
    gone = ("bash", "-c", "echo 'ssh: connect to host c port 22: No route to host' >&2; exit 255", "x")

    ended = results(send(host, chain("a", "b", "c", "d", ways={"c": gone}), os.urandom(300_000)), *"abcd")

    assert [ended[name].ok for name in "abcd"] == [True, True, False, False]
    assert (ended["c"].unreachable, "No route to host" in ended["c"].stderr) == (True, True)
    assert ended["d"].stderr == "c, which it came through, was lost"


@pytest.mark.usefixtures("python")
def test_a_sink_that_fails_early_does_not_end_the_stream(host: ScratchHost) -> None:
    host.program("docker", LOADING.replace("load)", "load) [[ ${AS:-} != b ]] || { echo 'no space left on device' >&2; exit 1; };"))
    data = os.urandom(3_000_000)

    ended = results(send(host, chain("a", "b", "c"), data), *"abc")

    assert [ended[name].returncode for name in "abc"] == [0, 17, 0]
    assert taken(host) == [hashlib.sha256(data).hexdigest()] * 2


@pytest.mark.usefixtures("python")
def test_a_feed_that_fails_is_told(host: ScratchHost) -> None:
    host.program(
        "docker", "case $1 in load) cat >/dev/null; echo 'unexpected EOF' >&2; exit 1 ;; *) echo 'cannot save' >&2; exit 3 ;; esac"
    )

    ran = send(host, chain("a", "b", feed="docker save x", first_takes=False), b"")

    assert "a\tFEED=3" in ran.stdout
    assert "a\tFEED_SAID=cannot save" in ran.stdout
    assert results(ran, "a", "b")["b"].returncode == 1


@pytest.mark.usefixtures("python")
def test_a_stream_that_stands_still_is_given_up(host: ScratchHost) -> None:
    host.program("docker", LOADING)

    ran = send(host, chain("a", "b", feed="printf x; exec sleep 600", first_takes=False), b"")

    assert (ran.returncode, "a\tSTALLED=1" in ran.stdout) == (20, True)


@pytest.mark.usefixtures("python")
def test_a_sink_that_does_not_end_once_it_has_all_is_given_up(host: ScratchHost) -> None:
    host.program("docker", "[[ $1 != load ]] || { cat >/dev/null; exec sleep 600; }")
    call = relay_call("a", [("a", ScriptCall("docker_load", {"IMAGE": "a"}))], [], idle_s=60)

    ran = send(host, compose_script("relay", {**call.params, "FINISH_S": "1"}), b"data")

    assert (ran.returncode, "a\tSTALLED=1" in ran.stdout) == (20, True), ran


# --- a lock for what is being brought -------------------------------------------------------------------------------------------------


def test_whoever_comes_second_waits_until_the_first_is_gone(host: ScratchHost) -> None:
    locks = (str(host.home / "one"), str(host.home / "two"))
    first = host.begin("transfer_lock", LOCKS=locks, LIFELINE="1")
    first.wait_for("HELD=1")
    second = host.begin("transfer_lock", LOCKS=locks[::-1], LIFELINE="1")
    second.wait_for("WAITING=1")
    assert "HELD=1" not in second.lines

    assert first.process.stdin is not None
    first.process.stdin.close()

    second.wait_for("HELD=1")


def test_a_lock_leaves_no_file_and_one_that_was_removed_locks_nothing(host: ScratchHost) -> None:
    lock = host.home / "one"
    first = host.begin("transfer_lock", LOCKS=(str(lock),), LIFELINE="1")
    first.wait_for("HELD=1")
    lock.unlink()
    second = host.begin("transfer_lock", LOCKS=(str(lock),), LIFELINE="1")
    second.wait_for("HELD=1")

    assert second.process.stdin is not None
    second.process.stdin.close()

    assert (second.result().returncode, lock.exists()) == (0, False)


def test_other_things_are_brought_at_the_same_time(host: ScratchHost) -> None:
    for name in ("one", "two"):
        host.begin("transfer_lock", LOCKS=(str(host.home / name),), LIFELINE="1").wait_for("HELD=1")


# --- which hosts this one reaches -----------------------------------------------------------------------------------------------------


def test_the_first_way_that_works_to_each_host_is_told(host: ScratchHost) -> None:
    host.program("ssh", "[[ $1 == good* ]]")
    ways = ("b\tfabric\t192.168.0.2\tssh bad", "b\tmgmt\t10.0.0.2\tssh good", "c\tmgmt\t10.0.0.3\tssh bad", "d\tmgmt\t10.0.0.4\tssh good2")

    found = host.run("reach", WAYS=ways).section("REACH").all("REACHED")

    assert sorted(line.rpartition("\t")[0] for line in found) == ["b\tmgmt\t10.0.0.2", "d\tmgmt\t10.0.0.4"]


# --- what docker has ------------------------------------------------------------------------------------------------------------------

STOCKED = """
case $1 in
  info) printf '%s\\t%s\\t%s\\n' overlay2 '[["driver-type","x"]]' "$HOME" ;;
  history) printf '40\\n0\\n30\\n' ;;
  image)
    [[ $2 != ls ]] || { printf 'sha256:1\\nsha256:2\\n'; exit; }
    [[ $* != *gone* ]] || exit 1
    [[ $* != *RepoDigests* ]] || { printf 'sha256:1\\t70\\tr/i@sha256:d,\\tsha256:a,sha256:b,\\n'; exit; }
    printf 'sha256:a,sha256:b,\\nsha256:a,\\nsha256:a,\\n'
    ;;
esac
"""


def test_the_stock_of_images_tells_layers_sizes_and_room(host: ScratchHost) -> None:
    host.program("docker", STOCKED)

    stock = parse_image_stock(host.run("docker_stock", IMAGES=("r/i:1", "gone:1")).section("STOCK"))

    image = StockedImage("sha256:1", 70, frozenset({"sha256:d"}), ("sha256:a", "sha256:b"), (30, 40))
    assert (stock.images, stock.held) == ({"r/i:1": image}, (("sha256:a", "sha256:b"), ("sha256:a",)))
    assert (stock.store, stock.root, bool(stock.free_bytes)) == ("overlay2", str(host.home), True)


def test_dockers_newer_image_store_is_told_apart(host: ScratchHost) -> None:
    host.program("docker", STOCKED.replace('"x"', '"io.containerd.snapshotter.v1"'))

    assert parse_image_stock(host.run("docker_stock").section("STOCK")).takes_parts is False


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
        ("403 Client Error: access to org/m is restricted", "denied", "the hub does not give org/m: 403 access to org/m is restricted"),
        ("ConnectionError: Name or service not known", "failed", "ConnectionError: Name or service not known"),
    ],
)
def test_a_failed_download_says_why_and_leaves_no_model(host: ScratchHost, hub: Path, says: str, reason: str, told: str) -> None:
    host.program("hf", f"{HF}\necho 'Traceback' >&2; echo '{says}' >&2; exit 1")

    ran = download(host, hub)

    assert (ran.answers.text("REASON"), told in (ran.answers.text("MESSAGE") or "")) == (reason, True), ran
    assert not looks_whole(host, hub)
    assert (hub / ".sparkrun-incoming/models--org--m/blobs/w").exists(), "the next attempt goes on from there"


@pytest.mark.parametrize(
    ("answer", "reason", "told"),
    [
        (
            "401 GatedRepoError: Access to model org/m is restricted",
            "denied",
            "does not give org/m: 401 Access to model org/m is restricted",
        ),
        ("401 RepositoryNotFoundError: 401 Client Error.", "not_there", "has no org/m, or does not show it to this user (HTTP 401)"),
        ("404 RevisionNotFoundError: 404 Client Error.", "not_there", "the hub (https://huggingface.co) has no revision v9 of org/m"),
        ("429 HfHubHTTPError: slow down", "hub_fails", "is asked too often: 429 slow down"),
        ("503 HfHubHTTPError: maintenance", "hub_fails", "fails: 503 maintenance"),
        ("0 ConnectError: [Errno 111] Connection refused", "hub_fails", "does not answer as it should: ConnectError: [Errno 111]"),
        ("0 OSError: [Errno 28] No space left on device", "disk_full", "is full: OSError: [Errno 28] No space left on device"),
    ],
)
def test_what_the_hub_answers_is_told_in_one_line(host: ScratchHost, hub: Path, answer: str, reason: str, told: str) -> None:
    program = host.program("asking", f"echo 'more words' >&2; echo 'HUB={answer}' >&2; exit 1")

    ran = download(host, hub, PYTHON=str(program), REVISION="v9")

    assert (ran.answers.text("REASON"), told in (ran.answers.text("MESSAGE") or "")) == (reason, True), ran
    assert ran.answers.text("HINT")
    assert names(hub / ".sparkrun-incoming") == []


def test_a_file_that_the_hub_sends_damaged_does_not_become_a_model(host: ScratchHost, hub: Path) -> None:
    good, small = hashlib.sha256(b"w\n").hexdigest(), hashlib.sha1(b"blob 2\0w\n").hexdigest()
    host.program("hf", HF + 'cd "$repo/blobs"; for name in $BLOBS; do echo w >"$name"; done')

    host.env["BLOBS"] = f"{good} {small}"
    whole = download(host, hub)
    host.env["BLOBS"] = f"{good} {'a' * 64}"
    damaged = download(host, hub)

    assert (whole.returncode, damaged.returncode, damaged.answers.text("REASON")) == (0, 16, "damaged"), damaged
    assert f"came damaged from the hub: {'a' * 64}" in (damaged.answers.text("MESSAGE") or "")
    assert sorted(names(hub / ".sparkrun-incoming/models--org--m/blobs")) == sorted(["w", good]), "what is whole waits for the next attempt"


def test_an_image_without_the_hubs_client_is_told(host: ScratchHost, hub: Path) -> None:
    host.program("docker", "echo \"ModuleNotFoundError: No module named 'huggingface_hub'\" >&2; exit 1")

    ran = download(host, hub, IMAGE="img:1")

    assert (ran.returncode, ran.answers.text("REASON")) == (3, "no_program")
    assert "nor img:1 has huggingface_hub to fetch org/m with" in (ran.answers.text("MESSAGE") or "")


def test_a_host_without_flock_gets_its_model_all_the_same(host: ScratchHost, hub: Path) -> None:
    (host.tools / "flock").unlink()
    host.program("hf", HF)

    fetched = download(host, hub)
    receive(host, hub)
    kept = keep(host, hub)

    assert (fetched.returncode, kept.returncode) == (0, 0), (fetched, kept)
    assert looks_whole(host, hub)


def test_a_model_that_is_in_place_leaves_nothing_of_its_way(host: ScratchHost, hub: Path) -> None:
    host.program("hf", HF + 'mkdir -p "$HF_HUB_CACHE/.locks/models--org--m"; echo >"$HF_HUB_CACHE/.locks/models--org--m/w.lock"')
    (hub / ".sparkrun-incoming/models--org--m/blobs").mkdir(parents=True)
    (hub / ".sparkrun-incoming/models--org--m/blobs/w.part").write_text("of a copy that broke off")

    assert download(host, hub).returncode == 0

    assert names(hub / ".sparkrun-incoming") == []
    assert names(hub / "models--org--m/blobs") == ["w"]


def test_a_download_in_which_nothing_moves_is_given_up(host: ScratchHost, hub: Path) -> None:
    host.program("hf", f"{HF}\nexec sleep 600")

    ran = download(host, hub, IDLE_S="2")

    assert (ran.returncode, ran.answers.text("REASON")) == (24, "stalled"), ran


def test_a_download_that_says_much_is_not_taken_for_one_that_stands_still(host: ScratchHost, hub: Path) -> None:
    host.program("hf", f"{HF}\nfor n in {{1..2000}}; do echo warning $n >&2; done")

    assert download(host, hub, IDLE_S="60").returncode == 0


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


def standstill(host: ScratchHost) -> dict[str, str]:
    """Parameters for a host on which nothing moves but what a test moves."""
    counter = host.home / "sys/class/net/eth0/statistics/rx_bytes"
    counter.parent.mkdir(parents=True)
    counter.write_text("5000000\n")
    (host.home / "diskstats").write_text("8 0 sda 1 2 3 4 5 6 700 8\n")
    return {"SYSFS": str(host.home / "sys"), "DISKSTATS": str(host.home / "diskstats")}


def test_an_image_of_which_nothing_moves_any_more_is_given_up(host: ScratchHost) -> None:
    host.program("docker", "[[ $1 == pull ]] || exit 1; echo 'a: Pulling fs layer'; exec sleep 600")

    ran = host.run("docker_pull", IMAGE="ghcr.io/x:1", IDLE_S="2", **standstill(host))

    assert (ran.returncode, ran.answers.text("REASON")) == (24, "stalled")
    assert "nothing of ghcr.io/x:1 has come to " in (ran.answers.text("MESSAGE") or "")


@pytest.mark.parametrize(
    "moves",
    [
        "echo $((n * 2000000 + 5000000)) >$HOME/sys/class/net/eth0/statistics/rx_bytes",
        "echo 8 0 sda 1 2 3 4 5 6 $((n * 5000)) >$HOME/diskstats",
    ],
)
def test_an_image_whose_layer_still_comes_or_is_unpacked_is_waited_for(host: ScratchHost, moves: str) -> None:
    pulls = f"echo 'a: Pulling fs layer'; for n in {{1..40}}; do {moves}; sleep 0.1; done; echo 'Status: Downloaded'"
    host.program("docker", f"case $1 in pull) {pulls} ;; image) echo sha256:abc ;; esac")

    assert host.run("docker_pull", IMAGE="ghcr.io/x:1", IDLE_S="3", **standstill(host)).returncode == 0


@pytest.mark.parametrize(
    ("says", "hint"),
    [
        ("Get http://r/v2/: context deadline exceeded (Client.Timeout exceeded while awaiting headers)", "this machine's docker"),
        ("Head http://r/v2/x/manifests/1: no basic auth credentials", "docker login"),
        ("invalid reference format: repository name must be lowercase", "correct the image's name"),
    ],
)
def test_what_docker_says_of_a_registry_is_told_with_a_way_out(host: ScratchHost, says: str, hint: str) -> None:
    host.program("docker", f"[[ $1 == pull ]] || exit 1; echo '1: Pulling from x'; echo '{says}' >&2; exit 1")

    ran = host.run("docker_pull", IMAGE="r/x:1")

    assert (ran.answers.text("MESSAGE"), hint in (ran.answers.text("HINT") or "")) == (says, True)


def test_a_registry_that_has_begun_to_send_a_large_layer_is_not_silent(host: ScratchHost) -> None:
    pulls = "echo '1: Pulling from x'; echo 'a: Pulling fs layer'; sleep 2.5; echo 'Status: Downloaded'"
    host.program("docker", f"case $1 in pull) {pulls} ;; image) echo sha256:abc ;; esac")

    assert host.run("docker_pull", IMAGE="ghcr.io/x:1", PATIENCE_S="1", **standstill(host)).returncode == 0


def test_a_daemon_that_is_down_is_told_as_that_by_every_look(host: ScratchHost) -> None:
    said = 'template: :1:2: executing "" at <.DockerRootDir>: reflect: indirection through nil pointer to embedded struct field Info'
    host.program("docker", f"echo '{said}' >&2; exit 1")

    assert [host.run(script).answers.text("REASON") for script in ("docker_stock", "image_cache")] == ["docker_down"] * 2


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
        ("Error response from daemon: Get https://ghcr.io/v2/: request canceled while waiting for connection", 1, "failed"),
        (DENIED, 4, "docker_denied"),
    ],
)
def test_a_pull_that_fails_says_why_in_dockers_words(host: ScratchHost, says: str, code: int, reason: str) -> None:
    host.program("docker", f"echo 'a: Pulling fs layer'; echo '{says}' >&2; exit 1")

    ran = host.run("docker_pull", IMAGE="x:1")

    assert (ran.returncode, ran.answers.text("REASON"), bool(ran.answers.text("HINT"))) == (code, reason, True)
    assert code == 4 or says in (ran.answers.text("MESSAGE") or "")


def test_a_registry_that_has_spoken_may_take_its_time_for_a_layer(host: ScratchHost) -> None:
    pull = "echo '1: Pulling from x'; echo 'a: Pulling fs layer'; sleep 3.5; echo 'a: Pull complete'"
    host.program("docker", f"case $1 in pull) {pull} ;; image) echo sha256:abc ;; esac")

    ran = host.run("docker_pull", IMAGE="ghcr.io/x:1", PATIENCE_S="3")

    assert (ran.returncode, ran.section("PULL").all("LAYERS")) == (0, ("1/1",)), ran


def test_a_registry_that_says_nothing_is_given_up(host: ScratchHost) -> None:
    host.program("docker", "[[ $1 != pull ]] || exec sleep 600")

    ran = host.run("docker_pull", IMAGE="ghcr.io/x:1", PATIENCE_S="1")

    assert (ran.returncode, ran.answers.text("REASON")) == (23, "no_answer")


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
