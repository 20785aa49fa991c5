"""The words of docker command lines."""

from __future__ import annotations

import os
import shlex
import subprocess

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.errors import ConfigError
from sparkrun.core.placement import Allocation, parse_allocations
from sparkrun.core.plan import Mount, RankPlan
from sparkrun.core.values import ConfigValue
from sparkrun.orchestration.docker import docker_exec_cmd, docker_run_cmd, docker_stop_cmd, docker_text
from sparkrun.orchestration.docker_config import read_docker_config
from sparkrun.orchestration.executor import JobLabels

LABELS = JobLabels(
    cluster_id="sparkrun_0123456789abcdef_0123456789ab",
    intent_id="0123456789abcdef",
    launch="feed",
    recipe="tiny",
    recipe_ref="@x/tiny",
    runtime="vllm-distributed",
    model="org/model",
    served_model_name="tiny",
    rank=0,
    role="solo",
    host="spark-1",
    port=8000,
)
KFD = "$(test -e /dev/kfd && stat -c --group-add=%g /dev/kfd)"
INFINIBAND = "$(test -e /dev/infiniband && echo --device=/dev/infiniband)"


def rank_of(**fields: object) -> RankPlan:
    settings = {"rank": 0, "host": "spark-1", "role": "solo", "name": "c_solo", "command": "vllm serve m", "image": "img:1", **fields}
    return RankPlan(**settings)  # type: ignore[arg-type]


def words_of(rank: RankPlan | None = None, job: JobLabels | None = None, **config: ConfigValue) -> list[str]:
    return docker_run_cmd(rank or rank_of(), read_docker_config(config), job)


def values_of(words: list[str], option: str) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words[:-1]) if word == option]


def test_a_rootless_rank_on_a_spark_has_every_option_in_order() -> None:
    rank = rank_of(
        env={"B": "2", "A": "1"},
        gpus=(0,),
        gpu_vendor="nvidia",
        gpu_access_mode="gpus",
        mounts=(Mount("~/.cache/huggingface", "/cache/huggingface", create=True), Mount("/models", "/models", read_only=True)),
        docker_args=("--hostname", "x"),
    )

    assert words_of(rank, cap_add=["SYS_PTRACE"], volumes=["/data"]) == [
        *("docker", "run", "-d", "--init", "--gpus", "device=0"),
        *("--ipc=shareable", "--shm-size=32gb", "--network=host"),
        *("--user", "$(id -u):$(id -g)", "-v", "/etc/passwd:/etc/passwd:ro", "-v", "/etc/group:/etc/group:ro", "-e", "HOME=/tmp"),
        *("--security-opt", "no-new-privileges", "--cap-add", "SYS_PTRACE"),
        *("--ulimit", "memlock=-1:-1", "--ulimit", "stack=67108864", "--ulimit", "nofile=65535:65535"),
        INFINIBAND,
        *("--security-opt", "seccomp=$SPARKRUN_DOCKER/seccomp.json"),
        *("--name", "c_solo", "-e", "A=1", "-e", "B=2"),
        *("-v", "$HOME/.cache/huggingface:/cache/huggingface", "-v", "/models:/models:ro", "-v", "/data:/data"),
        *("-v", "$SPARKRUN_DOCKER/c_solo:/run/sparkrun", "--hostname", "x"),
        *("img:1", "sh", "/run/sparkrun/gate", "vllm serve m"),
    ]


def test_a_rootful_rank_is_privileged_and_keeps_its_own_user() -> None:
    words = words_of(rank_of(rootful=True))

    assert "--privileged" in words
    assert not {"--user", "--security-opt", "HOME=/tmp", "/etc/passwd:/etc/passwd:ro"} & {*words}
    assert values_of(words, "--ulimit") == ["nofile=65535:65535"]


def test_a_rootful_rank_can_be_told_not_to_be_privileged() -> None:
    words = words_of(rank_of(rootful=True), privileged=False)

    assert "--privileged" not in words
    assert values_of(words, "--security-opt") == ["seccomp=$SPARKRUN_DOCKER/seccomp.json"]


@pytest.mark.parametrize(
    ("fields", "config", "wanted"),
    [
        ({"gpus": (0, 1), "gpu_vendor": "nvidia"}, {}, ["--gpus", '"device=0,1"']),
        ({"gpu_vendor": "nvidia"}, {}, ["--gpus", "all"]),
        (
            {"gpus": (2, 3), "gpu_access_mode": "cdi"},
            {},
            ["--device", "nvidia.com/gpu=2", "--device", "nvidia.com/gpu=3"],
        ),
        ({"gpu_vendor": "nvidia", "gpu_access_mode": "cdi"}, {}, ["--device", "nvidia.com/gpu=all"]),
        ({"gpus": (1,), "gpu_vendor": "nvidia", "gpu_access_mode": "gpus"}, {"gpu_access_mode": "cdi"}, ["--device", "nvidia.com/gpu=1"]),
        ({"gpus": (1,), "gpu_vendor": "nvidia"}, {"gpus": "all"}, ["--gpus", "all"]),
        ({"gpus": (1,), "gpu_vendor": "nvidia"}, {"gpus": "device=0,3"}, ["--gpus", '"device=0,3"']),
        ({"gpus": (1,), "gpu_vendor": "nvidia"}, {"gpus": "none"}, []),
        ({}, {}, []),
        ({}, {"accelerator_vendor": "nvidia"}, ["--gpus", "all"]),
        ({"gpu_vendor": "intel"}, {}, ["--device", "/dev/accel"]),
        (
            {"gpu_vendor": "amd"},
            {},
            [
                "--device",
                "/dev/kfd",
                "--device",
                "/dev/dri",
                "--group-add",
                "video",
                "$(test -e /dev/kfd && stat -c --group-add=%g /dev/kfd)",
            ],
        ),
    ],
)
def test_a_container_reaches_the_accelerators_of_its_host(
    fields: dict[str, object], config: dict[str, ConfigValue], wanted: list[str]
) -> None:
    words = words_of(rank_of(**fields), **config)

    assert words[4 : words.index("--ipc=shareable")] == wanted


def test_each_ulimit_stands_once_and_the_configured_value_wins() -> None:
    assert values_of(words_of(ulimit=["memlock=100", "nproc=5"]), "--ulimit") == [
        *("memlock=100", "stack=67108864", "nofile=65535:65535", "nproc=5")
    ]


def test_a_given_user_has_no_mounts_of_the_hosts_accounts() -> None:
    words = words_of(user="1000:1000")

    assert values_of(words, "--user") == ["1000:1000"]
    assert "HOME=/tmp" not in words


def test_a_given_home_is_not_doubled() -> None:
    assert [value for value in values_of(words_of(rank_of(env={"HOME": "/root"})), "-e") if value.startswith("HOME=")] == ["HOME=/root"]


def test_given_security_options_replace_the_default_ones() -> None:
    assert values_of(words_of(security_opt=["apparmor=unconfined"]), "--security-opt") == ["apparmor=unconfined"]
    assert values_of(words_of(security_opt=[]), "--security-opt") == []


def test_infiniband_that_is_asked_for_is_not_left_to_the_host() -> None:
    words = words_of(devices=["/dev/infiniband:/dev/infiniband"])

    assert values_of(words, "--device") == ["/dev/infiniband:/dev/infiniband"]
    assert INFINIBAND not in words


@pytest.mark.parametrize(("entrypoint", "wanted"), [(None, []), ("", [""]), ("/bin/x", ["/bin/x"])])
def test_the_entrypoint_is_the_images_own_cleared_or_given(entrypoint: str | None, wanted: list[str]) -> None:
    assert values_of(words_of(entrypoint=entrypoint), "--entrypoint") == wanted


def test_memory_and_restart_policy_are_handed_on() -> None:
    words = words_of(memory_limit="32G", restart_policy="on-failure:3")

    assert (values_of(words, "--memory"), values_of(words, "--restart")) == (["32G"], ["on-failure:3"])


def test_docker_never_removes_a_container_that_can_tell_how_its_engine_ended() -> None:
    assert "--rm" not in words_of()


@pytest.mark.parametrize(
    ("config", "goes"),
    [({}, True), ({"auto_remove": False}, False), ({"restart_policy": "always"}, False), ({"restart_policy": "no"}, True)],
)
def test_a_dead_container_says_whether_it_goes_by_itself(config: dict[str, ConfigValue], goes: bool) -> None:
    assert ("sparkrun.auto_remove=true" in words_of(job=LABELS, **config)) is goes


def test_labels_say_everything_once_each_and_as_json() -> None:
    words = words_of(rank_of(gpus=(1,), labels={"team": "a"}), LABELS, labels={"team": "b", "site": "x"})

    labels = dict(text.split("=", 1) for text in values_of(words, "--label"))
    assert msgspec.json.decode(labels.pop("sparkrun.job"), type=JobLabels) == LABELS
    assert parse_allocations(labels.pop("sparkrun.gpu_allocations")) == (Allocation(0, 1),)
    assert labels == {
        "sparkrun.cluster_id": LABELS.cluster_id,
        "sparkrun.distribution": "sparkrun",
        "sparkrun.intent_id": "0123456789abcdef",
        "sparkrun.rank": "0",
        "sparkrun.recipe": "tiny",
        "sparkrun.runtime": "vllm-distributed",
        "sparkrun.model": "org/model",
        "sparkrun.served_model_name": "tiny",
        "sparkrun.launch": "feed",
        "sparkrun.auto_remove": "true",
        "team": "a",
        "site": "x",
    }
    assert "$SPARKRUN_DOCKER/c_solo.feed:/run/sparkrun" in words


def test_nobody_else_sets_our_labels() -> None:
    with pytest.raises(ConfigError, match=r"sparkrun\.distribution"):
        words_of(labels={"sparkrun.distribution": "x"})


def test_a_rank_without_an_image_is_refused() -> None:
    with pytest.raises(ConfigError, match="no container image for rank 0 on spark-1"):
        words_of(rank_of(image=None))


def test_a_secret_stands_in_no_word() -> None:
    assert not [word for word in words_of(rank_of(secret_env={"KEY": "hush-12345"}), LABELS) if "hush-12345" in word or "KEY" in word]


def test_a_command_in_a_running_container() -> None:
    words = docker_exec_cmd("c", ["sh", "-s"], user="0", env={"B": "2", "A": "1"}, stdin=True)

    assert words == ["docker", "exec", "-i", "-u", "0", "-e", "A=1", "-e", "B=2", "c", "sh", "-s"]


def test_stopping_has_a_grace() -> None:
    assert docker_stop_cmd(("a", "b"), grace_s=5) == ["docker", "stop", "-t", "5", "a", "b"]


def test_the_text_of_a_command_line_gives_the_hosts_values_in_a_shell() -> None:
    words = words_of(rank_of(mounts=(Mount("~/my models", "/m"),)))
    env = {"HOME": "/home/a b", "SPARKRUN_DOCKER": "/cache/docker", "PATH": os.environ["PATH"]}

    said = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {docker_text(words)}"], env=env, capture_output=True, text=True, check=True
    ).stdout

    got = said.split("\0")
    assert f"{os.getuid()}:{os.getgid()}" in got
    assert "/home/a b/my models:/m" in got
    assert "/cache/docker/c_solo:/run/sparkrun" in got
    assert "seccomp=/cache/docker/seccomp.json" in got
    assert not [word for word in got if "$" in word]


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])).filter(lambda word: not word.startswith("$"))))
def test_the_text_of_any_words_reads_back_as_these_words(words: list[str]) -> None:
    assert shlex.split(docker_text(words)) == words
