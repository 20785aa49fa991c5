"""Looking at images where docker does not tell all of it."""

from __future__ import annotations

import pytest

from tests.scripts_host.scratch_host import ScratchHost

DOWN = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


@pytest.mark.parametrize("fails", ["ps", "inspect"])
def test_containers_that_docker_does_not_tell_are_unknown_and_not_none(host: ScratchHost, fails: str) -> None:
    said = {
        "info": "printf '/docker\\nvfs\\n'",
        "ps": "echo abc",
        "inspect": "echo 'sha256:1 running /c1'",
        fails: f"echo '{DOWN}' >&2; exit 1",
    }
    host.program("docker", f"case $1 in {' '.join(f'{verb}) {text} ;;' for verb, text in said.items())} esac")

    ran = host.run("image_cache")

    assert (ran.returncode, ran.answers.text("REASON")) == (5, "docker_down"), ran


def test_a_container_that_goes_meanwhile_is_no_trouble(host: ScratchHost) -> None:
    gone = "echo 'sha256:1 running /c1'; echo 'Error: No such container: abc' >&2; exit 1"
    host.program("docker", f"case $1 in info) printf '/docker\\nvfs\\n' ;; ps) echo abc ;; inspect) {gone} ;; esac")

    ran = host.run("image_cache")

    assert (ran.returncode, ran.section("IMAGES").all("CONTAINER")) == (0, ("sha256:1 running /c1",)), ran
