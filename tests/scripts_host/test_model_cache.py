"""Hub caches: what is in them, what is wrong with them, and what is taken out of them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import struct
from pathlib import Path

import pytest

from sparkrun.models.cache_hosts import removal_call
from sparkrun.models.cache_rules import (
    RemovalPlan,
    checks_of,
    plan_delete,
    plan_prune,
    plan_prune_rest,
    plan_repair,
    problems_of,
    uncheckable,
)
from sparkrun.models.hub_cache import CachedModel, HubCache
from tests.scripts_host.hub_trees import MAIN, OTHER, HubTree, look, use_tools
from tests.scripts_host.scratch_host import Ran, ScratchHost


@pytest.fixture
def tree(host: ScratchHost) -> HubTree:
    use_tools(host)
    return HubTree(host.home / "hub")


def only(cache: HubCache) -> CachedModel:
    (model,) = cache.models
    return model


def remove(host: ScratchHost, cache: HubCache, plan: RemovalPlan) -> Ran:
    call = removal_call(cache, [plan], {model.repo: model.folder for model in cache.models})
    return host.run(call.name, **dict(call.params))


def verify(host: ScratchHost, cache: HubCache, *, quick: bool = False) -> dict[str, str]:
    """Verdict by path."""
    wanted = tuple(f"{check.kind} {check.value} {check.path}" for check in checks_of(only(cache), quick=quick))
    section = host.run("model_verify", HUB=cache.hub, WANTED=wanted).section("VERIFY")
    assert section.complete
    return {value: key for key, value in section.pairs if key != "BYTES"}


# --- looking --------------------------------------------------------------------------------------------------------------------------


def test_a_model_is_told_with_its_refs_snapshots_files_and_blobs(host: ScratchHost, tree: HubTree) -> None:
    tree.model(files={"config.json": b"{}", "sub/model.safetensors": b"w" * 5000})

    cache = look(host, tree)
    model = only(cache)

    assert (model.repo, model.refs) == ("org/m", {"main": MAIN})
    (snapshot,) = model.snapshots
    assert [(file.name, file.state, file.size_bytes) for file in snapshot.files] == [
        ("config.json", "here", 2),
        ("sub/model.safetensors", "here", 5000),
    ]
    assert sorted(blob.size_bytes for blob in model.blobs) == [2, 5000]
    assert (cache.here, cache.writable, problems_of(model, cache)) == (True, True, ())
    assert cache.free_bytes
    assert cache.total_bytes


def test_a_blob_that_two_revisions_have_counts_once(host: ScratchHost, tree: HubTree) -> None:
    tree.model()
    tree.model(revision=OTHER, ref="old")

    model = only(look(host, tree))

    assert len(model.snapshots) == 2
    assert model.size_bytes == 5002 + 2 * 40
    assert {file for blob in model.blobs for file in blob.files} == {
        f"{revision}/{name}" for revision in (MAIN, OTHER) for name in ("config.json", "model.safetensors")
    }


def test_links_that_lead_nowhere_or_out_of_the_cache_are_told(host: ScratchHost, tree: HubTree) -> None:
    folder = tree.model()
    (folder / "snapshots" / MAIN / "gone.bin").symlink_to("../../blobs/gone")
    placed = tree.write(host.home / "elsewhere/w.bin", b"x" * 77)
    (folder / "snapshots" / MAIN / "placed.bin").symlink_to(placed)

    cache = look(host, tree)
    files = {file.name: (file.state, file.size_bytes) for file in only(cache).snapshots[0].files}

    assert (files["gone.bin"], files["placed.bin"]) == (("missing", None), ("outside", 77))
    assert [(problem.kind, problem.path) for problem in problems_of(only(cache), cache)] == [
        ("missing", f"{MAIN}/gone.bin"),
        ("outside", f"{MAIN}/placed.bin"),
    ]


def test_any_name_of_a_file_comes_through(host: ScratchHost, tree: HubTree) -> None:
    names = ["a b", "x\ny", "back\\slash", "é世", "-rf", "a=b", "r\rn", "SPARKRUN_CACHE_END"]
    tree.model(files={name: name.encode() for name in names})

    assert sorted(file.name for file in only(look(host, tree)).snapshots[0].files) == sorted(names)


def test_a_missing_part_of_a_split_file_is_damage(host: ScratchHost, tree: HubTree) -> None:
    tree.model(files={f"model-0000{n}-of-00003.safetensors": b"w" for n in (1, 3)})

    cache = look(host, tree)

    assert [(p.kind, p.path) for p in problems_of(only(cache), cache)] == [("missing", f"{MAIN}/model-00002-of-00003.safetensors")]


def test_what_may_not_be_read_is_unknown_and_not_empty(host: ScratchHost, tree: HubTree) -> None:
    if os.getuid() == 0:
        pytest.skip("root reads everything")
    folder = tree.model()
    (folder / "blobs").chmod(0)

    cache = look(host, tree)
    (folder / "blobs").chmod(0o755)

    assert only(cache).unreadable == ("models--org--m/blobs",)


def test_a_cache_that_is_not_there_is_told_as_such(host: ScratchHost, tree: HubTree) -> None:
    tree.hub.rmdir()

    cache = look(host, tree)

    assert (cache.here, cache.models) == (False, ())
    assert cache.free_bytes


def test_datasets_are_no_models(host: ScratchHost, tree: HubTree) -> None:
    tree.write(tree.hub / "datasets--org--d/blobs/x", b"x")
    tree.model()

    assert only(look(host, tree)).repo == "org/m"


def test_a_large_cache_is_walked_in_a_moment(host: ScratchHost, tree: HubTree) -> None:
    for number in range(40):
        tree.model(f"org/m{number}", {f"f{part}": b"%d %d" % (number, part) for part in range(50)})

    cache = look(host, tree)

    assert (len(cache.models), sum(len(model.blobs) for model in cache.models)) == (40, 2000)


# --- reading --------------------------------------------------------------------------------------------------------------------------


def test_any_flipped_byte_is_found(host: ScratchHost, tree: HubTree) -> None:
    dice = random.Random(7)
    for round_ in range(12):
        size = dice.choice([1, 60, 99, 100, 4096, 70_000])
        content = dice.randbytes(size)
        repo = tree.model(files={"a": content, "b": dice.randbytes(300)})
        cache = look(host, tree)
        assert set(verify(host, cache).values()) == {"OK"}, round_
        blob = next(blob for blob in only(cache).blobs if blob.size_bytes == size)
        path, at = tree.hub / blob.path, dice.randrange(size)
        path.write_bytes(content[:at] + bytes([content[at] ^ (1 << dice.randrange(8))]) + content[at + 1 :])

        found = verify(host, cache)

        assert {file for file, verdict in found.items() if verdict == "WRONG"} == {blob.path}, (round_, size, at)
        host.run("model_change", HUB=cache.hub, REMOVE=(f"{repo.stat().st_ino} {repo.name}",))


def test_reading_a_file_is_no_use_of_it(host: ScratchHost, tree: HubTree) -> None:
    tree.model()
    before = only(look(host, tree)).last_used_at

    verify(host, look(host, tree))

    assert only(look(host, tree)).last_used_at == before


def test_the_length_of_safetensors_is_told_by_their_head(host: ScratchHost, tree: HubTree) -> None:
    header = json.dumps({"a": {"data_offsets": [0, 40]}, "b": {"data_offsets": [40, 1000]}}).encode()
    whole = struct.pack("<Q", len(header)) + header + b"\1" * 1000
    tree.model(files={"model.safetensors": whole, "short.safetensors": whole[:-1], "none.safetensors": b"<html>" * 30})
    cache = look(host, tree)
    by_name = {file.name: f"models--org--m/blobs/{file.blob}" for file in only(cache).snapshots[0].files}

    found = verify(host, cache, quick=True)

    assert found[by_name["model.safetensors"]] == "OK"
    assert found[f"{len(whole)} {by_name['short.safetensors']}"] == "SIZE"
    assert found[by_name["none.safetensors"]] == "WRONG"


def test_the_bytes_that_were_read_are_told(host: ScratchHost, tree: HubTree) -> None:
    tree.model(files={"a": b"x" * 100_000, "b": b"y" * 50})
    cache = look(host, tree)
    wanted = tuple(f"{check.kind} {check.value} {check.path}" for check in checks_of(only(cache)))

    assert host.run("model_verify", HUB=cache.hub, WANTED=wanted).section("VERIFY").all("BYTES")[-1] == "100050"


def test_nobody_reads_on_when_nobody_listens(host: ScratchHost, tree: HubTree) -> None:
    tree.model(files={"a": b"x" * 1000})
    host.program("sha256sum", "exec sleep 600")
    cache = look(host, tree)
    (check,) = checks_of(only(cache))
    running = host.begin("model_verify", HUB=cache.hub, WANTED=(f"sha256 {check.value} {check.path}",), LIFELINE="1")
    running.wait_for("BYTES=0")

    assert running.process.stdin is not None
    running.process.stdin.close()

    assert running.result().answers.text("REASON") == "cancelled"


def test_what_is_not_named_after_its_content_cannot_be_checked(host: ScratchHost, tree: HubTree) -> None:
    folder = tree.model()
    tree.link(folder, f"snapshots/{MAIN}/odd.bin", "not-a-hash")
    tree.write(folder / "blobs/not-a-hash", b"x")
    tree.write(folder / f"snapshots/{MAIN}/own.bin", b"x")

    assert uncheckable(only(look(host, tree))) == (f"{MAIN}/odd.bin", f"{MAIN}/own.bin")


# --- taking out -----------------------------------------------------------------------------------------------------------------------


def messy(tree: HubTree, dice: random.Random) -> None:
    """A cache with something of everything."""
    for repo in ("org/a", "org/b"):
        messy_model(tree, repo, dice)
    if dice.random() < 0.7:
        messy_store(tree, dice)
    if dice.random() < 0.7:
        tree.write(tree.hub / ".sparkrun-incoming/removing.1.2/blobs/x", b"x" * 5000)


def messy_model(tree: HubTree, repo: str, dice: random.Random) -> None:
    folder = tree.model(repo, {f"f{part}": dice.randbytes(dice.randrange(1, 20_000)) for part in range(dice.randrange(1, 5))})
    if dice.random() < 0.7:
        tree.model(repo, {"new": dice.randbytes(9000), "f0": b"same"}, OTHER, ref=None)
    if dice.random() < 0.7:
        tree.write(folder / "blobs" / (hashlib.sha256(b"x").hexdigest() + ".12ab34cd.incomplete"), dice.randbytes(7000))
    if dice.random() < 0.7:
        tree.blob(folder, dice.randbytes(6000))
    if dice.random() < 0.5:
        first = next(path for path in (folder / "blobs").iterdir())
        os.link(first, tree.hub / f"kept-{repo.replace('/', '-')}")
    if dice.random() < 0.5:
        tree.write(tree.hub / f".sparkrun-incoming/{folder.name}/blobs/half", dice.randbytes(8000))
        for path in (tree.hub / ".sparkrun-incoming" / folder.name).rglob("*"):
            tree.age(path)
        tree.age(tree.hub / ".sparkrun-incoming" / folder.name)


def messy_store(tree: HubTree, dice: random.Random) -> None:
    stored = hashlib.sha256(b"stored").hexdigest()
    tree.write(tree.hub / "blobs/ab" / stored, dice.randbytes(5000))
    tree.write(tree.hub / "blobs/ab" / f"{stored}.refs", b"models--org--a/blobs/x\n")
    if dice.random() < 0.7:
        name = hashlib.sha256(b"s").hexdigest()
        (tree.hub / "models--org--a/blobs" / name).symlink_to(f"../../blobs/ab/{stored}")
        tree.age(tree.hub / "models--org--a/blobs" / name)
        if dice.random() < 0.7:
            tree.link(tree.hub / "models--org--a", f"snapshots/{MAIN}/stored", name)


@pytest.mark.parametrize("seed", range(10))
def test_what_pruning_frees_is_what_disappears(host: ScratchHost, tree: HubTree, seed: int) -> None:
    messy(tree, random.Random(seed))
    (tree.hub / ".sparkrun-incoming").mkdir(exist_ok=True)
    cache = look(host, tree)
    plans = [*(plan_prune(model, cache) for model in cache.models), plan_prune_rest(cache)]
    before, whole = tree.disk_bytes(), {model.repo: model.snapshots for model in cache.models}

    for plan in plans:
        ran = remove(host, cache, plan)
        assert (ran.returncode, ran.section("CHANGE").all("KEPT")) == (0, ()), ran

    after = look(host, tree)
    assert before - tree.disk_bytes() == sum(plan.frees_bytes for plan in plans)
    assert [plan_prune(model, after).removals for model in after.models] == [(), ()]
    assert plan_prune_rest(after).removals == ()
    for model in after.models:
        assert model.snapshots == tuple(snapshot for snapshot in whole[model.repo] if snapshot.refs)


@pytest.mark.parametrize("seed", range(6))
def test_what_deleting_frees_is_what_disappears(host: ScratchHost, tree: HubTree, seed: int) -> None:
    messy(tree, random.Random(seed))
    (tree.hub / ".sparkrun-incoming").mkdir(exist_ok=True)
    cache = look(host, tree)
    before, model = tree.disk_bytes(), cache.models[0]
    plan = plan_delete(model, cache)

    ran = remove(host, cache, plan)

    assert (ran.returncode, ran.section("CHANGE").all("KEPT")) == (0, ()), ran
    assert before - tree.disk_bytes() == plan.frees_bytes
    left = look(host, tree)
    assert [(each.repo, each.blobs) for each in left.models] == [(each.repo, each.blobs) for each in cache.models[1:]]


def test_a_model_that_was_fetched_by_commit_keeps_its_snapshot(host: ScratchHost, tree: HubTree) -> None:
    tree.model(ref=None)

    cache = look(host, tree)

    assert plan_prune(only(cache), cache).removals == ()


def test_a_snapshot_that_was_never_put_in_place_is_a_leftover(host: ScratchHost, tree: HubTree) -> None:
    folder = tree.model()
    half = folder / "snapshots" / f".{OTHER}.sparkrun"
    tree.link(half, "model.safetensors", "x")
    tree.age(half)
    cache = look(host, tree)

    assert [snapshot.revision for snapshot in only(cache).snapshots] == [MAIN]
    assert [removal.path for removal in plan_prune(only(cache), cache).removals] == [f"models--org--m/snapshots/.{OTHER}.sparkrun"]


def test_only_a_model_unused_for_long_enough_is_old(host: ScratchHost, tree: HubTree) -> None:
    for path in tree.model().rglob("*"):
        tree.age(path, 40 * 86400)
    cache = look(host, tree)
    model = only(cache)

    assert plan_prune(model, cache, older_than_days=41).removals == ()
    assert [removal.path for removal in plan_prune(model, cache, older_than_days=39).removals] == [model.folder]

    tree.write(tree.hub / ".sparkrun/used" / model.folder, b"")
    cache = look(host, tree)
    assert plan_prune(only(cache), cache, older_than_days=39).removals == ()


def test_what_grows_right_now_is_left_alone(host: ScratchHost, tree: HubTree) -> None:
    folder = tree.model()
    growing = folder / "blobs/x.incomplete"
    growing.write_bytes(b"x")

    cache = look(host, tree)

    assert plan_prune(only(cache), cache).removals == ()
    assert plan_repair(only(cache), cache).removals == ()


def test_a_file_that_the_hubs_client_holds_the_lock_of_stays(host: ScratchHost, tree: HubTree) -> None:
    folder = tree.model()
    tree.write(folder / "blobs/abc.0123abcd.incomplete", b"x")
    lock = tree.write(tree.hub / ".locks" / folder.name / "abc.lock", b"")
    cache = look(host, tree)

    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        kept = remove(host, cache, plan_prune(only(cache), cache)).section("CHANGE").all("KEPT")
        all_kept = remove(host, cache, plan_delete(only(cache), cache)).section("CHANGE").all("KEPT")

    assert kept == ("models--org--m/blobs/abc.0123abcd.incomplete\tit is being fetched right now",)
    assert all_kept == ("models--org--m\tit is being fetched right now",)
    assert remove(host, cache, plan_delete(only(cache), cache)).section("CHANGE").all("REMOVED") == ("models--org--m",)
    assert sorted(path.name for path in tree.hub.iterdir()) == [".locks", ".sparkrun-incoming"]


def test_a_model_that_a_launch_brings_right_now_stays(host: ScratchHost, tree: HubTree) -> None:
    tree.model("org/brought-in-a-test")
    cache = look(host, tree)
    call = removal_call(cache, [plan_delete(only(cache), cache)], {model.repo: model.folder for model in cache.models})
    (lock,) = (Path(text.partition(" ")[2]) for text in call.params["BRINGING"])
    lock.touch()

    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        kept = host.run(call.name, **dict(call.params)).section("CHANGE").all("KEPT")
    lock.unlink()

    assert kept == ("models--org--brought-in-a-test\tit is being fetched right now",)


def test_a_find_that_would_see_nothing_is_refused(host: ScratchHost, tree: HubTree) -> None:
    host.program("find", "echo 'find: unrecognized: -printf' >&2; exit 1")

    ran = host.run("model_cache")

    assert (ran.returncode, ran.answers.text("MESSAGE")) == (1, f"GNU find is not installed on {os.uname().nodename}")


def test_what_cannot_be_looked_at_is_not_told_as_gone(host: ScratchHost, tree: HubTree) -> None:
    folder = tree.model()
    host.program("xargs", "exit 1")
    cache = look(host, tree)

    (kept,) = remove(host, cache, plan_delete(only(cache), cache)).section("CHANGE").all("KEPT")

    assert (kept, folder.exists()) == ("models--org--m\tit cannot be looked at", True)


def test_what_became_something_else_meanwhile_stays(host: ScratchHost, tree: HubTree) -> None:
    folder = tree.model()
    cache = look(host, tree)
    plan = plan_delete(only(cache), cache)
    folder.rename(tree.hub / "aside")
    tree.model()

    assert remove(host, cache, plan).section("CHANGE").all("KEPT") == ("models--org--m\tit has changed meanwhile",)


@pytest.mark.parametrize("path", ["../x", "models--a/../../x", "/etc", "models--a//b", "refs", ".sparkrun/pins/x", "models--", "blobs"])
def test_only_parts_of_models_are_removed(host: ScratchHost, tree: HubTree, path: str) -> None:
    ran = host.run("model_change", HUB=str(tree.hub), REMOVE=(f"1 {path}",))

    assert (ran.returncode, ran.answers.text("REASON")) == (2, "bad_parameter")


def test_a_repaired_model_lacks_only_what_was_wrong_and_does_not_pass_for_whole(host: ScratchHost, tree: HubTree) -> None:
    folder = tree.model(files={"config.json": b"{}", "model.safetensors": b"w" * 5000, "extra.json": b"e" * 500})
    (folder / "snapshots" / MAIN / "gone.json").symlink_to("../../blobs/gone")
    tree.write(folder / "blobs/gone.incomplete", b"x")
    cache = look(host, tree)
    wrong = next(blob.path for blob in only(cache).blobs if blob.size_bytes == 500)
    plan = plan_repair(only(cache), cache, {wrong})

    assert remove(host, cache, plan).section("CHANGE").all("KEPT") == ()

    after = only(look(host, tree))
    assert [file.name for file in after.snapshots[0].files] == ["config.json", "model.safetensors"]
    assert (after.leftovers, len(after.blobs)) == ((), 2)
    host.env["HF_HUB_CACHE"] = str(tree.hub)
    reasons = []
    told = [problem.path.rpartition("/")[2] for problem in problems_of(after, look(host, tree)) if problem.kind == "missing"]
    assert sorted(told) == ["extra.json", "gone.json"]
    for name in ("extra.json", "gone.json"):
        reasons.append(host.run("observe", MODEL="org/m").section("MODEL").text("MODEL_REASON"))
        tree.link(folder, f"snapshots/{MAIN}/{name}", tree.blob(folder, name.encode()))
    assert reasons == [f"incomplete in the hub cache: {name} is missing" for name in ("extra.json", "gone.json")]
    assert host.run("observe", MODEL="org/m").section("MODEL").text("MODEL_PATH")
    assert only(look(host, tree)).gone == ()


def test_content_of_the_store_goes_with_the_last_model_that_has_it(host: ScratchHost, tree: HubTree) -> None:
    content = b"s" * 5000
    name, stored = hashlib.sha256(content).hexdigest(), "c" * 64
    tree.write(tree.hub / "blobs/cc" / stored, content)
    for repo in ("org/a", "org/b"):
        folder = tree.model(repo, {"config.json": b"{}"})
        (folder / "blobs" / name).symlink_to(f"../../blobs/cc/{stored}")
        tree.link(folder, f"snapshots/{MAIN}/model.safetensors", name)

    cache = look(host, tree)
    first, second = cache.models
    assert first.disk_bytes == second.disk_bytes >= 5000
    assert verify_all_ok(host, cache, first)
    plan = plan_delete(first, cache)
    assert [removal.path for removal in plan.removals] == ["models--org--a"]
    remove(host, cache, plan)

    cache = look(host, tree)
    assert [removal.path for removal in plan_delete(only(cache), cache).removals] == ["models--org--b", f"blobs/cc/{stored}"]


def verify_all_ok(host: ScratchHost, cache: HubCache, model: CachedModel) -> bool:
    wanted = tuple(f"{check.kind} {check.value} {check.path}" for check in checks_of(model))
    ran = host.run("model_verify", HUB=cache.hub, WANTED=wanted)
    return len(ran.section("VERIFY").all("OK")) == len(wanted) > 0


# --- pins and identity ----------------------------------------------------------------------------------------------------------------


def test_a_pin_is_kept_with_who_set_it(host: ScratchHost, tree: HubTree) -> None:
    tree.model()
    note = '{"by":"ada@desk","at":"2026-01-02T03:04:05+00:00","reason":"the demo"}'

    assert host.run("model_change", HUB=str(tree.hub), PIN="models--org--m", NOTE=note).section("CHANGE").text("PINNED") == "1"

    pin = only(look(host, tree)).pin
    assert pin is not None
    assert (pin.by, pin.reason) == ("ada@desk", "the demo")
    assert host.run("model_change", HUB=str(tree.hub), UNPIN="models--org--m").section("CHANGE").text("UNPINNED") == "1"
    assert host.run("model_change", HUB=str(tree.hub), UNPIN="models--org--m").section("CHANGE").text("UNPINNED") == "0"
    assert only(look(host, tree)).pin is None


def test_two_names_of_one_folder_are_one_cache(host: ScratchHost, tree: HubTree, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tree.hub)
    first = look(host, tree)
    host.env["HF_HUB_CACHE"] = str(tmp_path / "link")

    assert first.cache_id.startswith("local:")
    assert host.run("cache_identity").section("CACHE").text("CACHE_ID") == first.cache_id
    assert host.run("observe").section("HOST").text("HF_CACHE_ID") == first.cache_id


def test_a_cache_that_is_yet_to_be_made_has_an_identity(host: ScratchHost) -> None:
    host.env["HF_HOME"] = str(host.home / "not/yet")

    told = host.run("cache_identity").section("CACHE").text("CACHE_ID") or ""

    assert told.startswith("local:")
    assert told.endswith("/not/yet/hub")


def test_a_marker_is_read_back_and_local_caches_get_none(host: ScratchHost, tree: HubTree) -> None:
    host.env["HF_HUB_CACHE"] = str(tree.hub)

    ran = host.run("cache_identity", MARK="1").section("CACHE")
    assert (ran.text("MARKED"), (tree.hub / ".sparkrun").exists()) == (None, False)

    tree.write(tree.hub / ".sparkrun/cache-id", b"0123456789abcdef" * 2 + b"\n")
    assert (host.run("observe").section("HOST").text("HF_CACHE_ID") or "").endswith(" " + "0123456789abcdef" * 2)
