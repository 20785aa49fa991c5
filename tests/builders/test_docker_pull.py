"""The builder that builds nothing."""

from __future__ import annotations

from sparkrun.builders import BuildWish, ImageDecision
from sparkrun.builders.docker_pull import DockerPullBuilder
from sparkrun.core.facts import HostFacts

PULL = DockerPullBuilder()
HOSTS = [HostFacts(host="a"), HostFacts(host="b")]


def test_an_image_is_what_it_is_called() -> None:
    assert PULL.plan_build(BuildWish(image="org/e:1"), HOSTS) == ImageDecision(image="org/e:1")


def test_rebuild_pulls_it_anew_on_every_host() -> None:
    build = PULL.plan_build(BuildWish(image="org/e:1", rebuild=True), HOSTS).build

    assert build is not None
    assert (build.title, build.why, build.hosts) == ("pull org/e:1 anew on a, b", "--rebuild", ("a", "b"))
    assert {action.call.params["IMAGE"] for action in build.actions} == {"org/e:1"}


def test_what_cannot_be_pulled_is_used_and_told() -> None:
    local = PULL.plan_build(BuildWish(image="mine:1", rebuild=True), HOSTS)
    offline = PULL.plan_build(BuildWish(image="org/e:1", rebuild=True, offline=True), HOSTS)

    assert (local.build, offline.build) == (None, None)
    assert local.warnings == ("mine:1 is a local build (its name has no '/'): there is no registry to pull it from anew",)
    assert offline.warnings == ("offline: org/e:1 is used as it is, it is not pulled anew",)
