"""Images of a real dockerd: what there is, what is damaged, what goes."""

from __future__ import annotations

import io
import tarfile

import pytest

from sparkrun.containers.image_cache import HostImage, ImageStore, parse_images
from sparkrun.containers.image_hosts import removal_call
from sparkrun.containers.image_rules import ImageRemoval, plan_delete, plan_prune, refusal
from sparkrun.core.remote import ScriptCall
from tests.scripts_host.docker_daemon import Daemon, daemon, daemon_of_all
from tests.scripts_host.scratch_host import Ran

__all__ = ["daemon", "daemon_of_all"]


def look(daemon: Daemon) -> ImageStore:
    ran = daemon.run(ScriptCall("image_cache"))
    assert ran.returncode == 0, ran
    return parse_images("here", ran.section("IMAGES"))


def find(store: ImageStore, tag: str) -> HostImage:
    return next(image for image in store.images if tag in image.tags)


def remove(daemon: Daemon, removal: ImageRemoval) -> Ran:
    return daemon.run(removal_call([removal]))


def put(daemon: Daemon, tag: str, text: str) -> None:
    """An image of one file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        entry = tarfile.TarInfo("etc/x")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text.encode()))
    daemon("import", "-", tag, stdin=made.getvalue())


@pytest.fixture(autouse=True)
def _clean(daemon: Daemon) -> None:
    for image in look(daemon).images:
        if "img:1" not in image.tags:
            daemon("image", "rm", "-f", image.id)


def test_images_are_told_with_names_sizes_layers_and_containers(daemon: Daemon) -> None:
    put(daemon, "x:1", "hello" * 1000)
    daemon("tag", "x:1", "y:2")
    daemon("create", "--name", "c1", "--network=host", "img:1", "sleep", "1")

    store = look(daemon)
    image = find(store, "x:1")

    assert (image.tags, image.size_bytes, len(image.layers), image.os) == (("x:1", "y:2"), 5000, 1, "linux")
    assert image.unique_bytes == 5000
    assert [(user.name, user.state) for user in find(store, "img:1").users] == [("c1", "created")]
    assert image.last_used_at is not None
    assert abs(image.last_used_at - store.now) < 60
    assert (store.driver, bool(store.free_bytes)) == ("vfs", True)


def test_docker_finds_content_that_has_changed(daemon: Daemon) -> None:
    put(daemon, "x:1", "hello" * 1000)
    made = find(look(daemon), "x:1").id
    assert daemon.run(ScriptCall("image_verify", {"IMAGES": (made,)})).section("VERIFY").all("OK") == (made,)
    (file,) = (daemon.root / "data/vfs/dir").glob("*/etc/x")
    file.write_text("hellO" + "hello" * 999)

    section = daemon.run(ScriptCall("image_verify", {"IMAGES": (made,)})).section("VERIFY")

    assert section.all("WRONG") == (f'{made}\tfile integrity checksum failed for "etc/x"',)


def test_an_image_goes_with_all_its_names(daemon: Daemon) -> None:
    put(daemon, "x:1", "x")
    daemon("tag", "x:1", "y:2")
    image = find(look(daemon), "x:1")

    ran = remove(daemon, plan_delete(image, image.id))

    assert ran.section("CHANGE").all("REMOVED") == (f"{image.id} x:1", f"{image.id} y:2", f"{image.id} {image.id}")
    assert image.id not in {each.id for each in look(daemon).images}


def test_an_image_that_any_container_has_stays(daemon: Daemon) -> None:
    daemon("create", "--name", "c1", "--network=host", "img:1", "sleep", "1")
    image = find(look(daemon), "img:1")

    assert refusal(image) == "container c1 (created) has it"
    (kept,) = remove(daemon, ImageRemoval(image, ("img:1",), "", 0)).section("CHANGE").all("KEPT")

    assert kept == f"{image.id} img:1\tcontainer c1 has it"
    assert find(look(daemon), "img:1")


def test_a_name_that_became_another_images_stays(daemon: Daemon) -> None:
    put(daemon, "x:1", "old")
    old = find(look(daemon), "x:1")
    put(daemon, "x:1", "new")

    (kept,) = remove(daemon, ImageRemoval(old, ("x:1",), "", 0)).section("CHANGE").all("KEPT")

    assert kept.endswith("\tthe name is another image's by now")
    assert find(look(daemon), "x:1").id != old.id


def test_what_lost_its_name_is_pruned(daemon: Daemon) -> None:
    put(daemon, "x:1", "old")
    old = find(look(daemon), "x:1")
    put(daemon, "x:1", "new")

    (removal,) = plan_prune(look(daemon))
    assert removal.image.id == old.id
    assert remove(daemon, removal).section("CHANGE").all("KEPT") == ()

    assert plan_prune(look(daemon)) == ()
    assert find(look(daemon), "x:1")


def test_a_pin_is_kept_with_who_set_it(daemon: Daemon) -> None:
    image = find(look(daemon), "img:1")
    daemon.run(ScriptCall("image_change", {"PIN": image.id, "NOTE": '{"by":"ada@desk","reason":"the demo"}'}))

    assert refusal(find(look(daemon), "img:1")) == "it is pinned by ada@desk (the demo)"

    daemon.run(ScriptCall("image_change", {"UNPIN": image.id}))
    assert refusal(find(look(daemon), "img:1")) is None
