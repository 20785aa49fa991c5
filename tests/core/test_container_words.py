"""What docker would refuse is refused before a host is asked."""

from __future__ import annotations

import shlex

import pytest

from sparkrun.core.container_words import (
    check_docker_words,
    container_name_problem,
    image_problem,
    label_problem,
    variable_problem,
    volume_problem,
)
from sparkrun.core.errors import UsageError


@pytest.mark.parametrize("name", ["a1", "my_engine.2-x", "A" * 128])
def test_a_container_name_that_docker_takes(name: str) -> None:
    assert container_name_problem(name) is None


@pytest.mark.parametrize("name", ["", "a", "-x", "bad name", "né1", "a" * 129, "x\n"])
def test_a_container_name_that_docker_refuses(name: str) -> None:
    assert repr(name) in (container_name_problem(name) or "")


@pytest.mark.parametrize("name", ["A", "_x", "NCCL_DEBUG", "a1"])
def test_a_variable_that_a_shell_can_hand_on(name: str) -> None:
    assert variable_problem(name) is None


@pytest.mark.parametrize("name", ["", "A B", "X=Y", "a-b", "1A", "É", "A\n"])
def test_a_variable_that_no_shell_hands_on(name: str) -> None:
    assert repr(name) in (variable_problem(name) or "")


def test_labels_without_a_name_with_blanks_or_of_sparkrun_are_refused() -> None:
    assert label_problem("team") is label_problem("com.example/x") is None
    assert all(label_problem(name) for name in ("", "bad key", "a\nb", "sparkrun.rank"))


@pytest.mark.parametrize(
    "image",
    [
        "vllm-node",
        "org/m:latest",
        "ghcr.io/org/a/b:v1.2_x",
        "localhost:5000/x",
        "[::1]:5000/x:1",
        "Registry.Example/x",
        "x@sha256:" + "0" * 64,
        "x:1@sha256:" + "a" * 64,
        "sha256:" + "0" * 64,
        "0123456789ab",
        "a__b/c-d.e",
    ],
)
def test_an_image_that_docker_knows_how_to_look_for(image: str) -> None:
    assert image_problem(image) is None


@pytest.mark.parametrize("image", ["", "Bad Image:::", "UPPER", "org/", "x:", "x:ta g", "-x", "x@sha256:12", "https://x/y", "a//b"])
def test_an_image_that_is_none(image: str) -> None:
    assert repr(image) in (image_problem(image) or "")


@pytest.mark.parametrize("volume", ["/a", "/a:/b", "/a:/b:ro", "/a:/b:ro,z", "/a:/d a t a"])
def test_a_volume_that_docker_mounts(volume: str) -> None:
    assert volume_problem(volume) is None


@pytest.mark.parametrize(
    ("volume", "named"), [("/a:rel", "'rel'"), ("/a:/b:zz", "'zz'"), ("/a:/b:ro:x", "more than"), ("/a:", "''"), ("/a:/b:", "''")]
)
def test_a_volume_that_docker_refuses(volume: str, named: str) -> None:
    assert named in (volume_problem(volume) or "")


@pytest.mark.parametrize("words", ["", "-v /a:/b", "--env 'A=b c' --label team=x", "--shm-size=1g -l x=1", "-e NAME=--"])
def test_options_of_docker_run_pass(words: str) -> None:
    check_docker_words(shlex.split(words))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("image", "'image' is no option"),
        ("-v /a:/b -- foo", "'--' ends"),
        ("--name x", "--container-name"),
        ("--name=x", "--container-name"),
        ("--restart always", "--restart POLICY"),
        ("--rm", "'--rm'"),
        ("--detach=false", "'--detach'"),
        ("--label sparkrun.cluster_id=x", "sparkrun.cluster_id"),
        ("--label=sparkrun.rank=1", "sparkrun.rank"),
        ("-l sparkrun.rank=1", "sparkrun.rank"),
    ],
)
def test_what_would_hide_a_container_from_sparkrun_is_refused(words: str, named: str) -> None:
    with pytest.raises(UsageError, match="--executor-args") as refused:
        check_docker_words(shlex.split(words))
    assert named in refused.value.message
