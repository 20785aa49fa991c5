"""``sparkrun model-cache``: what people read, and what they are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import click
import pytest

from sparkrun import api
from sparkrun.cli.model_cache import model_cache
from sparkrun.core.errors import NotCachedError
from sparkrun.core.events import Bytes
from sparkrun.testing import FakeCluster, FakeHubCache
from sparkrun.testing.hub_cache import REVISION
from tests.cli.conftest import Said, State

FILES = {"config.json": b"{}", "model.safetensors": b"w" * 4096}
OLD = "f" * 40


@pytest.fixture
def two(tmp_path: Path) -> FakeCluster:
    fake = FakeCluster("a", "b", root=tmp_path / "home")
    for host in fake.hosts:
        fake[host].cache.put("org/m", FILES)
    fake["b"].cache.put("org/n", {"weights.bin": b"n" * 1000})
    return fake


@pytest.fixture
def say(two: FakeCluster, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command on both hosts, and read what it says."""

    def run(*words: str, hosts: str = "a,b") -> Said:
        capsys.readouterr()
        command = cast("click.Group", model_cache)
        arguments = [*words, *(["-H", hosts] if hosts else [])]
        code = command.main(args=arguments, prog_name="model-cache", standalone_mode=False, obj=State(two))
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run


def serve(fake: FakeCluster, host: str, model: str = "org/m") -> str:
    """A workload with the model on a host; its id."""
    fake[host].models[model] = "/models/m"
    fake[host].gpus = 1
    recipe = fake.root / "r.yaml"
    recipe.parent.mkdir(exist_ok=True)
    recipe.write_text(f"model: {model}\nruntime: vllm\ncontainer: e/v:1\ndefaults: {{host: 0.0.0.0, port: 8000}}\n")
    return api.run(api.RunOptions(recipe=str(recipe), hosts=api.HostOptions((host,))), sctx=fake.sctx).cluster_id


# --- looking --------------------------------------------------------------------------------------------------------------------------


def test_every_host_has_its_models_listed(say: Any) -> None:
    said = say("list")

    assert said.code == 0
    assert said.out.splitlines()[:3] == [
        "a: /home/spark/.cache/huggingface/hub — 1 model, 5 kB, 500.0 GB of 1.0 TB free",
        "  MODEL  SIZE  LAST USED  PIN  STATE",
        "  org/m  5 kB  just now   -    whole",
    ]
    assert "b: /home/spark/.cache/huggingface/hub — 2 models, 7 kB, " in said.out


def test_a_shared_cache_is_listed_counted_and_read_once(two: FakeCluster, say: Any) -> None:
    two["b"].cache = two["a"].cache
    two["a"].cache.cache_id = "net:nfs4:nas:/hf:128"

    report = json.loads(say("verify", "--json").out)

    assert [(cache["hosts"], cache["shared"]) for cache in report["caches"]] == [(["a", "b"], True)]
    assert "a, b (one cache): " in say("list").out
    assert [call.name for host in "ab" for call in two[host].ran].count("model_verify") == 1


def test_a_new_marker_is_read_back_by_the_other_hosts(two: FakeCluster, say: Any) -> None:
    shared = two["a"].cache
    two["b"].cache = FakeHubCache(shared.folder, "net:nfs4:nas:/hf:128")
    two["b"].cache.put("org/m", FILES)
    shared.cache_id = "local:a:1:2"
    look = two["b"].cache.answer

    def marks(call: Any) -> Any:
        code, text = look(call)
        if call.name == "model_cache":
            marker = " " + "5" * 32
            two["b"].cache.cache_id += marker
            shared.cache_id += marker
            text = text.replace("NOW=", "MARKED=1\nNOW=")
        return code, text

    two["b"].cache.answer = marks  # type: ignore[method-assign]

    report = api.model_cache(api.CacheOptions(api.HostOptions(("a", "b"))), sctx=two.sctx)

    assert [cache.hosts for cache in report.caches] == [("a", "b")]


def test_a_host_that_does_not_answer_is_unknown_and_hides_no_other(two: FakeCluster, say: Any) -> None:
    two["a"].reachable = False

    said = say("list")

    assert said.code == 1
    assert "Unknown: a (" in said.out
    assert "org/n" in said.out


def test_without_hosts_it_is_this_machine_and_that_is_said(tmp_path: Path) -> None:
    fake = FakeCluster("localhost", root=tmp_path / "home")

    report = api.model_cache(sctx=fake.sctx)

    assert (report.origin, [cache.hosts for cache in report.caches]) == ("this machine", [("localhost",)])


def test_a_model_is_shown_with_its_files_and_its_users(two: FakeCluster, say: Any) -> None:
    workload = serve(two, "a")

    lines = say("inspect", "org/m").out.splitlines()

    assert f"    used by {workload}" in lines
    assert f"    snapshot {REVISION} (main)" in lines
    assert "      config.json        2 bytes  here" in lines


def test_a_name_cannot_steer_the_terminal(two: FakeCluster, say: Any) -> None:
    two["a"].cache.put("org/m", {"evil\x1b[2Jname": b"x" * 200})

    assert "evil\\x1b[2Jname" in say("inspect", "org/m", hosts="a").out


def test_an_unknown_model_is_told_with_the_nearest_name(say: Any) -> None:
    with pytest.raises(NotCachedError, match="no model 'org/nn' in the cache of a, b") as told:
        say("inspect", "org/nn")

    assert told.value.hint == "did you mean 'org/n'?"


@pytest.mark.parametrize("name", ["org/m:Q4_K_M", "models--org--m"])
def test_a_model_answers_to_what_recipes_and_folders_call_it(say: Any, name: str) -> None:
    assert "org/m" in say("inspect", name).out


def test_the_clusters_cache_dir_is_asked_for_and_cache_dir_wins(two: FakeCluster) -> None:
    api.create_cluster("lab", api.ClusterEdit(values={"hosts": ["a"], "cache_dir": "/mnt/hf"}), sctx=two.sctx)
    api.model_cache(api.CacheOptions(api.HostOptions(cluster="lab")), sctx=two.sctx)
    api.model_cache(api.CacheOptions(api.HostOptions(cluster="lab"), "/other"), sctx=two.sctx)

    assert [call.params["HF_HOME_OVERRIDE"] for call in two["a"].ran if call.name == "model_cache"] == ["/mnt/hf", "/other"]


# --- checking and mending -------------------------------------------------------------------------------------------------------------


def test_what_is_wrong_is_told_by_file_and_fails(two: FakeCluster, say: Any) -> None:
    two["b"].cache.damage("org/m", "model.safetensors")

    said = say("verify")

    assert said.code == 1
    assert "  org/m: good (2 files, 4 kB read)" in said.out
    assert f"  org/m: 1 file wrong (2 files, 4 kB read)\n    {REVISION}/model.safetensors: its content is not what it should be" in said.out
    assert [event for event in two.events if isinstance(event, Bytes)] == []


def test_quick_finds_what_is_shorter_than_elsewhere(two: FakeCluster, say: Any) -> None:
    blob = next(path for path, content in two["a"].cache.files.items() if len(content) == 4096)
    two["a"].cache.files[blob] = b"w" * 4000

    said = say("verify", "org/m", "--quick")

    assert said.code == 1
    assert f"{REVISION}/model.safetensors: it is shorter than in another cache" in said.out


def test_repair_is_dry_until_applied_and_says_what_brings_the_files_again(two: FakeCluster, say: Any) -> None:
    two["b"].cache.damage("org/m", "config.json")
    before = dict(two["b"].cache.files)

    said = say("repair", "org/m", hosts="b")
    assert (said.code, two["b"].cache.files) == (0, before)
    assert said.out.splitlines()[-1] == "Would free 512 bytes. Nothing was removed; --apply does it."
    assert f"there: hf download org/m --revision {REVISION}" in said.out

    change = json.loads(say("repair", "org/m", "--apply", "--json", hosts="b").out)
    (model,) = change["caches"][0]["models"]
    assert (change["schema"], change["applied"], change["frees_bytes"]) == ("sparkrun.model-cache-change/1", True, 512)
    assert model["missing"] == [f"{REVISION}/config.json"]
    assert {removal["outcome"] for removal in model["removals"]} == {"removed"}
    assert len(two["b"].cache.files) == len(before) - 1


# --- removing -------------------------------------------------------------------------------------------------------------------------


def test_delete_is_dry_until_applied(two: FakeCluster, say: Any) -> None:
    said = say("delete", "org/n")

    assert said.code == 0
    assert said.out == (
        "b: /home/spark/.cache/huggingface/hub\n  org/n: frees 2 kB\n    models--org--n (the model)\n\n"
        "Would free 2 kB. Nothing was removed; --apply does it.\n"
    )
    assert say("delete", "org/n", "--apply").out.endswith("\nFreed 2 kB.\n")
    assert [model["model"] for model in json.loads(say("list", "--json", hosts="b").out)["caches"][0]["models"]] == ["org/m"]


def test_a_pinned_model_stays_with_the_reason(say: Any) -> None:
    assert say("pin", "org/m", "--reason", "the demo").out.count("org/m: pinned") == 2

    said = say("delete", "org/m", "--apply")

    assert said.code == 1
    assert said.out.count("org/m stays: it is pinned by ") == 2
    assert "(the demo)" in said.out
    assert said.out.endswith("\nNothing was removed.\n")
    assert say("unpin", "org/m").code == 0
    assert say("delete", "org/m", "--apply").out.endswith("\nFreed 10 kB.\n")


def test_a_model_in_use_stays_where_it_is_used(two: FakeCluster, say: Any) -> None:
    workload = serve(two, "a")

    said = say("delete", "org/m", "--apply")

    assert said.code == 1
    assert f"org/m stays: {workload} uses it on a" in said.out
    assert two["a"].cache.files
    assert not any("org--m" in path for path in two["b"].cache.files)


def test_a_model_that_one_host_of_a_shared_cache_uses_stays(two: FakeCluster, say: Any) -> None:
    two["a"].cache = two["b"].cache
    two["b"].cache.cache_id = "net:nfs4:nas:/hf:128"
    serve(two, "b")

    assert "uses it on b" in say("delete", "org/m", "--apply").out


def test_where_nobody_knows_what_runs_nothing_is_removed(two: FakeCluster, say: Any) -> None:
    two["a"].docker.trouble = "docker_down"

    said = say("prune", "--older-than", "0", "--apply")

    assert "org/m stays: what runs on a is unknown: the docker daemon does not run on a" in said.out
    assert two["a"].cache.files
    assert not two["b"].cache.files


def test_prune_takes_what_no_ref_names_and_leaves_the_rest(two: FakeCluster, say: Any) -> None:
    two["a"].cache.put("org/m", {"config.json": b"{}", "old.bin": b"o" * 3000}, revision=OLD, ref=None)

    said = say("prune", "--apply", hosts="a")

    assert said.code == 0
    assert f"models--org--m/snapshots/{OLD} (no branch or tag names this snapshot)" in said.out
    assert said.out.endswith("\nFreed 3 kB.\n")
    assert sorted(two["a"].cache.links) == [f"models--org--m/snapshots/{REVISION}/{name}" for name in sorted(FILES)]


def test_a_cache_that_cannot_be_written_is_told(two: FakeCluster, say: Any) -> None:
    two["a"].cache.writable = False

    said = say("delete", "org/m", "--apply", hosts="a")

    assert said.code == 1
    assert "failed: /home/spark/.cache/huggingface/hub cannot be written by this user" in said.out


def test_a_negative_age_is_refused(say: Any) -> None:
    with pytest.raises(click.UsageError):
        say("prune", "--older-than", "-1")
