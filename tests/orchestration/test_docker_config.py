"""Decoding ``executor_config`` for docker."""

from __future__ import annotations

import pytest

from sparkrun.core.errors import ConfigError
from sparkrun.core.recipe.keys import DOCKER_OPTIONS
from sparkrun.core.values import ConfigValue
from sparkrun.orchestration.docker_config import KEYS, DockerSettings, read_docker_config


def test_the_keys_are_those_that_recipes_may_use() -> None:
    assert KEYS == DOCKER_OPTIONS


def test_nothing_configured_is_the_default() -> None:
    assert read_docker_config({}) == DockerSettings()


def test_keys_of_other_executors_are_left_alone() -> None:
    assert read_docker_config({"working_dir": "/x", "nonsense": 1}) == DockerSettings()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["/a", "/b:/c:ro"], ("/a:/a", "/b:/c:ro")),
        ("/a:/b", ("/a:/b",)),
        ({"/a": "/b", "/c": None}, ("/a:/b", "/c:/c")),
        ({"/a": {"bind": "/b", "mode": "ro"}}, ("/a:/b:ro",)),
        (None, ()),
    ],
)
def test_volumes_in_each_of_their_shapes(given: ConfigValue, wanted: tuple[str, ...]) -> None:
    assert read_docker_config({"volumes": given}).volumes == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("all", ("all",)), ([0, 1], ("0", "1")), ("0,1", ("0", "1")), (0, ("0",)), (False, ()), ("none", ()), (True, None), (None, None)],
)
def test_gpus_in_each_of_their_shapes(given: ConfigValue, wanted: tuple[str, ...] | None) -> None:
    assert read_docker_config({"gpus": given}).gpus == wanted


def test_labels_and_limits_may_be_lists_or_mappings() -> None:
    listed = read_docker_config({"labels": ["a=b=c", "d"], "ulimit": ["memlock=-1"]})
    mapped = read_docker_config({"labels": {"a": "b=c", "d": ""}, "ulimit": {"memlock": -1}})

    assert (listed.labels, listed.ulimit) == (mapped.labels, mapped.ulimit) == ({"a": "b=c", "d": ""}, ("memlock=-1",))


def test_a_number_is_a_size_and_a_single_text_is_a_list() -> None:
    settings = read_docker_config({"shm_size": 1073741824, "cap_add": "IPC_LOCK"})

    assert (settings.shm_size, settings.cap_add) == ("1073741824", ("IPC_LOCK",))


def test_an_empty_entrypoint_is_not_the_images_own() -> None:
    assert read_docker_config({"entrypoint": ""}).entrypoint == ""
    assert read_docker_config({"entrypoint": None}).entrypoint is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("restart_policy", "sometimes"),
        ("auto_remove", "maybe"),
        ("shm_size", "much"),
        ("memory_limit", "32 potatoes"),
        ("gpus", "the big one"),
        ("gpu_access_mode", "usb"),
        ("accelerator_vendor", "acme"),
        ("cap_add", [{"a": 1}]),
        ("ulimit", ["memlock"]),
        ("volumes", {"/a": 3}),
        ("network", ["host"]),
    ],
)
def test_a_value_that_docker_could_not_take_is_refused_with_its_key(key: str, value: ConfigValue) -> None:
    with pytest.raises(ConfigError, match=rf"executor_config\.{key} cannot be"):
        read_docker_config({key: value})
