"""``sparkrun image-cache``: what people read, and what they are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import click
import pytest

from sparkrun import api
from sparkrun.cli.image_cache import image_cache
from sparkrun.core.errors import NotCachedError
from sparkrun.testing import FakeCluster
from tests.cli.conftest import Said, State

ENGINE = "e/v:1"


@pytest.fixture
def two(tmp_path: Path) -> FakeCluster:
    fake = FakeCluster("a", "b", root=tmp_path / "home")
    for host in fake.hosts:
        fake[host].docker.images_here.put(ENGINE)
    return fake


@pytest.fixture
def say(two: FakeCluster, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command on both hosts, and read what it says."""

    def run(*words: str, hosts: str = "a,b") -> Said:
        capsys.readouterr()
        command = cast("click.Group", image_cache)
        code = command.main(args=[*words, "-H", hosts], prog_name="image-cache", standalone_mode=False, obj=State(two))
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run


def serve(fake: FakeCluster, host: str) -> str:
    """A container of the image on a host; its name."""
    fake[host].models["org/m"] = "/models/m"
    fake[host].gpus = 1
    recipe = fake.root / "r.yaml"
    recipe.parent.mkdir(exist_ok=True)
    recipe.write_text(f"model: org/m\nruntime: vllm\ncontainer: {ENGINE}\ndefaults: {{host: 0.0.0.0, port: 8000}}\n")
    api.run(api.RunOptions(recipe=str(recipe), hosts=api.HostOptions((host,))), sctx=fake.sctx)
    return next(iter(fake[host].docker.containers))


def test_an_image_is_listed_once_with_the_hosts_that_have_it(two: FakeCluster, say: Any) -> None:
    two["a"].docker.images_here.put("only/a:1")

    lines = say("list").out.splitlines()

    assert lines[0] == "a: /var/lib/docker (overlay2) — 2 images, 409.6 GB of 921.6 GB free"
    assert lines[3].split()[:2] == ["IMAGE", "ID"]
    assert [(line.split()[0], "all" in line.split()) for line in lines[4:]] == [(ENGINE, True), ("only/a:1", False)]


def test_images_of_the_same_layers_are_one_whatever_their_ids(two: FakeCluster, say: Any) -> None:
    for host in "ab":
        two[host].docker.images_here.put("x:1", content="same", made=host)

    (image,) = json.loads(say("inspect", "x:1", "--json").out)["images"]

    assert [copy["host"] for copy in image["copies"]] == ["a", "b"]
    assert len({copy["id"] for copy in image["copies"]}) == 2


def test_images_of_one_host_are_several_even_with_the_same_layers(two: FakeCluster, say: Any) -> None:
    images = two["a"].docker.images_here
    images.put("x:1", content="same", made="one")
    images.put("x:serves", content="same", made="two")

    assert len(json.loads(say("list", "--json", hosts="a").out)["images"]) == 3


def test_a_name_that_means_different_images_is_told(two: FakeCluster, say: Any) -> None:
    for host in "ab":
        two[host].docker.images_here.put("x:latest", content=host)

    assert "warning: x:latest is not the same image on a, b" in say("list").out


@pytest.mark.parametrize("name", ["x", "x:latest", "DIGEST", "ID", "SHORT"])
def test_an_image_answers_to_tag_digest_and_id(two: FakeCluster, say: Any, name: str) -> None:
    digest = "sha256:" + "d" * 64
    made = two["a"].docker.images_here.put("x:latest", digests=(f"reg.io/x@{digest}",))
    spelt = {"DIGEST": digest, "ID": made, "SHORT": made.removeprefix("sha256:")[:12]}.get(name, name)

    assert made in say("inspect", spelt).out


def test_an_unknown_image_is_told_with_the_nearest_name(say: Any) -> None:
    with pytest.raises(NotCachedError, match="no image 'e/v:2' on a, b") as told:
        say("inspect", "e/v:2")

    assert told.value.hint == "did you mean 'e/v:1'?"


def test_a_host_whose_docker_does_not_answer_is_unknown(two: FakeCluster, say: Any) -> None:
    two["b"].docker.trouble = "docker_down"

    said = say("list")

    assert said.code == 1
    assert "Unknown: b (the docker daemon does not run on b)" in said.out


def test_what_docker_cannot_read_is_told_and_fails(two: FakeCluster, say: Any) -> None:
    images = two["b"].docker.images_here
    images.damaged[next(iter(images.tags))] = 'file integrity checksum failed for "etc/x"'

    said = say("verify", ENGINE)

    assert said.code == 1
    assert "a: e/v:1 (" in said.out
    assert '): damaged: file integrity checksum failed for "etc/x"' in said.out


def test_delete_is_dry_until_applied(two: FakeCluster, say: Any) -> None:
    said = say("delete", ENGINE)
    assert said.code == 0
    assert said.out == (
        "a: e/v:1 (the image): frees 1.5 GB\nb: e/v:1 (the image): frees 1.5 GB\n\n"
        "Would free at least 3.0 GB. Nothing was removed; --apply does it.\n"
    )
    assert two["a"].docker.images_here.tags

    assert say("delete", ENGINE, "--apply").out.endswith("\nFreed at least 3.0 GB.\n")
    assert (two["a"].docker.images_here.tags, two["b"].docker.images_here.tags) == ({}, {})


def test_an_image_that_a_container_has_stays_even_when_that_has_ended(two: FakeCluster, say: Any) -> None:
    name = serve(two, "a")
    two["a"].docker.crash(name)

    said = say("delete", ENGINE, "--apply")

    assert said.code == 1
    assert f"a: e/v:1 stays: container {name} (exited) has it" in said.out
    assert (len(two["a"].docker.images_here.tags), two["b"].docker.images_here.tags) == (1, {})


def test_a_pinned_image_stays_with_the_reason(say: Any) -> None:
    assert say("pin", ENGINE, "--reason", "the demo").out == "a: e/v:1: pinned\nb: e/v:1: pinned\n"

    said = say("delete", ENGINE, "--apply")

    assert said.code == 1
    assert said.out.count("(the demo)") == 2
    assert say("unpin", ENGINE).code == 0
    assert say("delete", ENGINE, "--apply").code == 0


def test_of_several_names_only_the_one_that_was_named_goes(two: FakeCluster, say: Any) -> None:
    made = two["a"].docker.images_here.put("x:1", "x:2")

    said = say("delete", "x:1", "--apply")

    assert "a: x:1 (only the name goes: it is x:2 too): freed 0 bytes" in said.out
    assert two["a"].docker.images_here.tags[made] == ("x:2",)


def test_prune_takes_what_has_no_name(two: FakeCluster, say: Any) -> None:
    nameless = two["a"].docker.images_here.put(content="old")

    change = json.loads(say("prune", "--apply", "--json").out)

    assert (change["schema"], change["frees_bytes"]) == ("sparkrun.image-cache-change/1", 1_500_000_000)
    assert [(image["host"], image["id"], image["outcome"]) for image in change["images"]] == [("a", nameless, "removed")]


def test_prune_takes_what_no_launch_has_used_for_long(two: FakeCluster, say: Any) -> None:
    images = two["a"].docker.images_here
    images.used[next(iter(images.tags))] = 1_800_000_000 - 86400

    said = say("prune", "--older-than", "5")

    assert said.out.splitlines()[0] == "b: e/v:1 (unused for 14 days): frees 1.5 GB"


def test_an_image_of_which_nobody_knows_the_last_use_is_not_old(two: FakeCluster, say: Any) -> None:
    two["b"].docker.images_here.tagged_at = None

    assert say("prune", "--older-than", "0", hosts="b").out == "Nothing would be removed.\n"
