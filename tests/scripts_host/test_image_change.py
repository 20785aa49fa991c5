"""``image_change`` where docker does not answer, or nothing can be locked."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tests.scripts_host.scratch_host import Ran, ScratchHost

ID = f"sha256:{'1' * 64}"
DOCKER = """
case $1.$2 in
  ps.*) ;;
  image.inspect) {inspect} ;;
  image.rm) {rm} ;;
esac
"""
FOUND = f"echo {ID}"


def remove(host: ScratchHost, *, inspect: str = FOUND, rm: str = ":", bringing: tuple[str, ...] = ()) -> Ran:
    host.program("docker", DOCKER.format(inspect=inspect, rm=rm))
    return host.run("image_change", REMOVE=(f"{ID} x:1",), BRINGING=bringing, PIN="", NOTE="", UNPIN="", CACHE="")


def test_a_docker_that_falls_silent_before_it_is_known_what_the_name_means_is_told(host: ScratchHost) -> None:
    ran = remove(host, inspect="exit 124")

    assert (ran.returncode, ran.section("CHANGE").text("REASON")) == (6, "docker_silent")


def test_an_image_that_docker_does_not_remove_in_time_stays_with_the_reason(host: ScratchHost) -> None:
    ran = remove(host, rm="exit 124")

    assert ran.section("CHANGE").all("KEPT") == (f"{ID} x:1\tdocker has not removed it within 600 s",)


@pytest.mark.parametrize(("flock", "stays"), [(True, True), (False, False)])
def test_what_is_being_brought_stays_where_that_can_be_told(host: ScratchHost, tmp_path: Path, flock: bool, stays: bool) -> None:
    if not flock:
        (host.tools / "flock").unlink()
    with (tmp_path / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ran = remove(host, bringing=(f"x:1 {held.name}",))

    assert ran.section("CHANGE").all("KEPT" if stays else "REMOVED")[0].startswith(f"{ID} x:1")
