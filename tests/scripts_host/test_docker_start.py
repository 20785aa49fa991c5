"""Starting a container, and its gate."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from sparkrun.core.remote import ScriptCall
from sparkrun.orchestration.executor import LogView
from sparkrun.scripts import load_script
from tests.scripts_host.docker_host import EXECUTOR, FOREVER, NAME, DockerHost, dock, labels_of, mount, rank_of
from tests.scripts_host.scratch_host import Ran, ScratchHost, eventually

__all__ = ["dock"]


def test_start_answers_which_container_runs(dock: DockerHost) -> None:
    launch = dock.started(rank_of())

    assert launch.text("CONTAINER_ID") == dock.docker.containers()[NAME]["id"]
    assert launch.text("IMAGE_ID") == "sha256:img:1"
    assert (launch.text("ENTRYPOINT"), launch.text("GATE")) == ("none", "open")
    assert (launch.text("STARTED_AT") or "").startswith(time.strftime("%Y-", time.gmtime()))


def test_the_engine_of_a_gated_rank_begins_when_the_gate_opens(dock: DockerHost) -> None:
    rank = rank_of("echo engine; exec sleep 600", gated=True)

    assert dock.started(rank).text("GATE") == "waiting"
    assert dock.docker.log(NAME) == ""
    opened = dock.open(rank)

    assert (opened.returncode, opened.section("GATE").text("GATE")) == (0, "passed")
    eventually(lambda: dock.docker.log(NAME) == "engine\n")


def test_the_gates_process_becomes_the_engine(dock: DockerHost) -> None:
    dock.started(rank_of("sleep 600"))

    pid = dock.docker.containers()[NAME]["pid"]
    eventually(lambda: Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00600\x00")


def test_the_engines_exit_code_is_the_containers(dock: DockerHost) -> None:
    dock.started(rank_of("exit 7"))

    assert dock.docker.exit_code(NAME) == 7


def test_a_command_of_several_lines_and_quotes_runs_as_it_is(dock: DockerHost) -> None:
    dock.started(rank_of("x='it'\"'\"'s $HOME'\necho \"$x\" | cat\nexit 3"))

    assert dock.docker.exit_code(NAME) == 3
    assert dock.docker.log(NAME) == "it's $HOME\n"


def test_a_gate_counts_from_the_last_hook(dock: DockerHost) -> None:
    rank = rank_of("echo engine", gated=True, gate_timeout_s=4)
    dock.started(rank)

    for _hook in range(3):
        assert dock.run(EXECUTOR.hook_call(rank, "sleep 2", {}, timeout_s=30)).returncode == 0

    assert dock.open(rank).returncode == 0
    assert dock.docker.exit_code(NAME) == 0


def test_a_gate_that_nobody_opens_gives_up(dock: DockerHost) -> None:
    rank = rank_of(gated=True, gate_timeout_s=1)
    dock.started(rank)

    assert dock.docker.exit_code(NAME) == 78
    assert "did not open the gate within 1 s" in dock.docker.log(NAME)
    late = dock.open(rank)
    assert (late.returncode, late.answers.text("REASON"), late.answers.text("EXIT_CODE")) == (9, "died", "78")
    assert "waited too long" in (late.answers.text("MESSAGE") or "")


def test_opening_a_gate_that_is_not_there_fails(dock: DockerHost) -> None:
    ran = dock.open(rank_of())

    assert (ran.returncode, ran.answers.text("REASON")) == (8, "no_gate")


def test_opening_the_gate_of_a_removed_container_fails(dock: DockerHost) -> None:
    rank = rank_of(gated=True)
    dock.started(rank)
    dock.docker.crash(NAME)
    dock.docker.forget(NAME)

    assert dock.open(rank).answers.text("REASON") == "gone"


def test_words_that_only_the_host_knows_become_its_own(dock: DockerHost) -> None:
    (dock.host.home / "models").mkdir()

    dock.started(rank_of(mounts=(mount("~/models", read_only=True),)), volumes=["~/models:/again"])

    words = dock.docker.calls("run")[0]
    assert words[words.index("--user") + 1] == f"{os.getuid()}:{os.getgid()}"
    assert f"seccomp={dock.folder}/seccomp.json" in words
    assert f"{dock.gate()}:/run/sparkrun" in words
    assert f"{dock.host.home}/models:/inside:ro" in words
    assert f"{dock.host.home}/models:/again" in words
    assert ("--device=/dev/infiniband" in words) == Path("/dev/infiniband").exists()
    assert not [word for word in words[:-1] if "$" in word]


def test_the_engine_gets_its_variables_whatever_they_hold(dock: DockerHost) -> None:
    odd = "a 'b' \"c\" $d `e` \\ &\nnext"

    dock.started(rank_of('printf "%s|%s|%s" "$ODD" "$KEY" "$limit"', env={"ODD": odd, "limit": "9"}, secret_env={"KEY": odd}))

    assert dock.docker.exit_code(NAME) == 0
    assert dock.docker.log(NAME) == f"{odd}|{odd}|9"


def test_a_secret_is_in_no_command_line_and_gone_from_disk_once_it_is_read(dock: DockerHost) -> None:
    rank = rank_of('echo "${#KEY}"; exec sleep 600', secret_env={"KEY": "hush-12345"}, gated=True)
    ran = dock.start(rank)
    env = dock.gate() / "env"

    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    assert stat.S_IMODE(dock.folder.stat().st_mode) == 0o700
    dock.open(rank)
    eventually(lambda: dock.docker.log(NAME) == "10\n")
    assert not env.exists()
    assert "hush-12345" not in ran.stdout + ran.stderr + (dock.docker.root / "calls").read_text()
    assert [path for path in dock.host.root.rglob("*") if path.is_file() and b"hush-12345" in path.read_bytes()] == []


@pytest.mark.parametrize(("fields", "config"), [({"rootful": True}, {}), ({}, {"user": "1234:1234"})])
def test_another_user_of_the_container_can_read_its_gate(dock: DockerHost, fields: dict[str, bool], config: dict[str, str]) -> None:
    dock.started(rank_of(secret_env={"KEY": "x"}, gated=True, **fields), **config)

    assert stat.S_IMODE((dock.gate() / "env").stat().st_mode) == 0o644
    assert stat.S_IMODE(dock.gate().stat().st_mode) == 0o777


def test_a_container_that_docker_restarts_keeps_its_secret(dock: DockerHost) -> None:
    dock.started(rank_of('echo "$KEY"', secret_env={"KEY": "again"}), restart_policy="always")

    assert dock.docker.exit_code(NAME) == 0
    assert "again" in (dock.gate() / "env").read_text()


def test_a_live_container_is_not_replaced(dock: DockerHost) -> None:
    dock.started(rank_of())

    ran = dock.start(rank_of(), "two")

    assert (ran.returncode, ran.answers.text("REASON")) == (11, "running")
    assert dock.docker.containers()[NAME]["labels"]["sparkrun.launch"] == "one"
    assert [path.name for path in dock.folder.glob("sparkrun_*")] == [dock.gate().name]


def test_a_dead_container_of_ours_is_replaced(dock: DockerHost) -> None:
    dock.started(rank_of("exit 1"))
    dock.docker.exit_code(NAME)

    dock.started(rank_of(), "two")

    assert dock.docker.containers()[NAME]["labels"]["sparkrun.launch"] == "two"
    assert [path.name for path in dock.folder.glob("sparkrun_*")] == [dock.gate(launch="two").name]


def test_what_is_left_of_an_earlier_launch_goes_with_the_next_one(dock: DockerHost) -> None:
    dock.started(rank_of("exit 1"))
    dock.docker.exit_code(NAME)

    dock.started(rank_of(name="other_solo", removes=(NAME, "never_was")), "two")

    assert list(dock.docker.containers()) == ["other_solo"]
    assert not dock.gate().exists()


def test_what_lives_again_or_is_another_s_stays(dock: DockerHost) -> None:
    dock.started(rank_of())
    dock.docker.container("database", code=1)

    dock.started(rank_of(name="other_solo", removes=(NAME, "database")), "two")

    assert set(dock.docker.containers()) == {NAME, "database", "other_solo"}


def test_an_unlabelled_container_of_an_earlier_version_is_replaced_by_its_name(dock: DockerHost) -> None:
    dock.docker.container(NAME)

    dock.started(rank_of())


@pytest.mark.parametrize(("name", "labels"), [(NAME, {"sparkrun.distribution": "other"}), ("database", {})])
def test_what_is_not_ours_is_left_alone(dock: DockerHost, name: str, labels: dict[str, str]) -> None:
    made = dock.docker.container(name, labels=labels)

    ran = dock.start(rank_of(name=name))

    assert (ran.returncode, ran.answers.text("REASON")) == (8, "not_ours")
    assert {name: container["id"] for name, container in dock.docker.containers().items()} == {name: made}


def test_a_missing_image_is_named_before_anything_runs(dock: DockerHost) -> None:
    ran = dock.start(rank_of(image="org/missing:2"))

    assert (ran.returncode, ran.answers.text("REASON")) == (12, "no_image")
    assert "org/missing:2" in (ran.answers.text("MESSAGE") or "")
    assert dock.docker.calls("run") == []


@pytest.mark.parametrize(("mode", "code", "warned"), [("fail", 13, False), ("warn", 0, True), ("ignore", 0, False)])
def test_a_missing_mount_source_does_what_is_configured(dock: DockerHost, mode: str, code: int, warned: bool) -> None:
    ran = dock.start(rank_of(mounts=(mount(dock.host.root / "missing"),), missing_mounts=mode))

    assert ran.returncode == code
    assert bool(ran.section("LAUNCH").text("WARN")) is warned
    if code:
        assert ran.answers.text("REASON") == "no_source"
        assert str(dock.host.root / "missing") in (ran.answers.text("MESSAGE") or "")
        assert dock.docker.calls("run") == []


def test_a_folder_to_create_is_made_as_this_user(dock: DockerHost) -> None:
    dock.started(rank_of(mounts=(mount("~/.cache/huggingface", create=True),)))

    assert (dock.host.home / ".cache/huggingface").stat().st_uid == os.getuid()


@pytest.mark.parametrize("target", ["/etc", "/", "/dev/shm"])
def test_a_volume_that_leads_into_the_hosts_own_folders_is_refused(dock: DockerHost, target: str) -> None:
    (dock.host.root / "link").symlink_to(target)

    ran = dock.start(rank_of(), volumes=[f"{dock.host.root}/link:/data"])

    assert (ran.returncode, ran.answers.text("REASON")) == (13, "denied_source")
    assert dock.docker.calls("run") == []


def test_an_entrypoint_that_would_swallow_the_words_is_cleared(dock: DockerHost) -> None:
    dock.docker.image("img:1", ["/bin/echo", "served"])

    launch = dock.started(rank_of("echo engine"))

    assert launch.text("ENTRYPOINT") == "cleared"
    assert dock.docker.exit_code(NAME) == 0
    assert dock.docker.log(NAME) == "engine\n"


def test_an_entrypoint_that_runs_the_words_is_kept(dock: DockerHost) -> None:
    script = dock.host.program("nvidia_entrypoint.sh", 'echo banner; exec "$@"')
    dock.docker.image("img:1", [str(script)])

    launch = dock.started(rank_of("echo engine"))

    assert launch.text("ENTRYPOINT") == "kept"
    assert dock.docker.exit_code(NAME) == 0
    assert dock.docker.log(NAME) == "banner\nengine\n"


def test_an_entrypoint_that_only_looks_as_if_it_ran_the_words_is_cleared_at_a_second_try(dock: DockerHost) -> None:
    script = dock.host.program("entrypoint.sh", 'echo "unknown argument: $1"; exit 2')
    dock.docker.image("img:1", [str(script)])

    launch = dock.started(rank_of("echo engine"))

    assert launch.text("ENTRYPOINT") == "cleared"
    assert dock.docker.exit_code(NAME) == 0
    assert dock.docker.log(NAME) == "engine\n"


def test_a_given_entrypoint_that_does_not_reach_the_gate_is_told_with_its_last_words(dock: DockerHost) -> None:
    ran = dock.start(rank_of(), entrypoint="/bin/false")

    assert (ran.returncode, ran.answers.text("REASON"), ran.answers.text("EXIT_CODE")) == (9, "died", "1")
    assert "entrypoint" in (ran.answers.text("HINT") or "")
    assert dock.docker.containers() == {}
    assert not dock.gate().exists()


def test_an_engine_that_has_failed_five_times_at_once_is_not_started_again(dock: DockerHost) -> None:
    rank = rank_of("echo started", gated=True)
    dock.started(rank, restart_policy="always")
    (dock.gate() / "starts").write_text(f"5 {Path('/proc/uptime').read_text().split('.')[0]}\n")

    assert dock.open(rank).answers.text("REASON") == "died"
    assert "failed 5 times" in dock.docker.log(NAME)
    assert "started\n" not in dock.docker.log(NAME)


def test_a_launch_that_was_taken_back_starts_nothing(dock: DockerHost) -> None:
    dock.stop(NAME, launch="one")

    ran = dock.start(rank_of())

    assert (ran.returncode, ran.answers.text("REASON")) == (10, "not_started")
    assert dock.docker.containers() == {}
    dock.started(rank_of(), "two")


def test_a_launch_that_is_taken_back_while_it_starts_leaves_nothing(dock: DockerHost) -> None:
    script = dock.host.program("entrypoint.sh", f': >"{dock.folder}/stopped.one"; exec "$@"')
    dock.docker.image("img:1", [str(script)])

    ran = dock.start(rank_of())

    assert (ran.returncode, ran.answers.text("REASON")) == (10, "not_started")
    assert dock.docker.containers() == {}
    assert not dock.gate().exists()


@pytest.mark.parametrize(
    ("said", "code", "reason"),
    [
        ('docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].', 15, "no_gpu_support"),
        ("docker: Error response from daemon: CDI device injection failed: unresolvable CDI devices", 15, "no_gpu_support"),
        ('docker: Error response from daemon: error gathering device information while adding custom device "/dev/x"', 15, "no_device"),
        ('docker: Error response from daemon: OCI runtime create failed: exec: "sh": executable file not found in $PATH', 16, "no_shell"),
        ("docker: Error response from daemon: write /var/lib/docker/x: no space left on device", 17, "disk_full"),
        ("docker: Error response from daemon: invalid mount config", 7, "docker_failed"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", 5, "docker_down"),
    ],
)
def test_why_docker_does_not_run_it_is_told(dock: DockerHost, said: str, code: int, reason: str) -> None:
    dock.docker.fail("run", said)

    ran = dock.start(rank_of())

    assert (ran.returncode, ran.answers.text("REASON")) == (code, reason)
    assert not dock.gate().exists()


@pytest.mark.parametrize(
    ("fault", "code", "reason"),
    [("denied", 4, "docker_denied"), ("down", 5, "docker_down"), ("broken", 7, "docker_failed"), (None, 3, "docker_missing")],
)
def test_each_trouble_with_docker_itself_has_a_reason_of_its_own(dock: DockerHost, fault: str | None, code: int, reason: str) -> None:
    if fault:
        dock.docker.fault(fault)
    else:
        (dock.host.bin / "docker").unlink()
        dock.folder.mkdir(parents=True)

    ran = dock.run(EXECUTOR.status_call())

    assert (ran.returncode, ran.answers.text("REASON")) == (code, reason)
    assert ran.answers.sections("WORKLOADS") == ()


@pytest.mark.parametrize(
    "call",
    [
        EXECUTOR.generate_launch_script(rank_of(), labels_of(rank_of()), {}),
        EXECUTOR.stop_call((NAME,)),
        EXECUTOR.evidence_call(NAME),
        EXECUTOR.hook_call(rank_of(), "true", {}, timeout_s=5),
        EXECUTOR.logs_call(NAME, LogView()),
    ],
    ids=lambda call: call.name,
)
def test_a_dead_daemon_is_told_by_every_script(dock: DockerHost, call: ScriptCall) -> None:
    dock.docker.fault("down")

    ran = dock.run(call)

    assert ran.returncode == 5
    assert "REASON=docker_down\n" in (ran.stderr if call.name == "docker_logs" else ran.stdout)


def test_a_docker_that_never_answers_is_given_up(dock: DockerHost) -> None:
    dock.docker.fault("hang")
    # The bound itself is what is looked at, not how long it is.
    (dock.host.tools / "timeout").unlink()
    dock.host.program("timeout", 'echo "$3" >>"$HOME/bounds"; exit 124')

    ran = dock.run(EXECUTOR.status_call())

    assert (ran.returncode, ran.answers.text("REASON")) == (6, "docker_silent")
    assert (dock.host.home / "bounds").read_text() == "8\n"


def test_podman_serves_where_there_is_no_docker(host: ScratchHost, dock: DockerHost) -> None:
    (host.bin / "docker").rename(host.bin / "podman")

    dock.started(rank_of())

    assert NAME in dock.docker.containers()


def test_a_cache_that_cannot_be_written_is_told(dock: DockerHost) -> None:
    dock.host.cache.parent.mkdir(exist_ok=True)
    dock.host.cache.write_text("in the way")

    ran = dock.start(rank_of())

    assert (ran.returncode, ran.answers.text("REASON")) == (14, "cache_not_writable")
    assert dock.docker.calls("run") == []


@pytest.mark.parametrize("entry", ["no-equals-sh0wn", "1X=sh0wn", "A-B=sh0wn", "=sh0wn"])
def test_a_variable_that_cannot_be_set_is_refused_without_its_value(dock: DockerHost, entry: str) -> None:
    call = EXECUTOR.generate_launch_script(rank_of(FOREVER), labels_of(rank_of()), {})

    ran = dock.run(ScriptCall(call.name, call.params, {"SECRET_ENVS": (entry,)}))

    assert (ran.returncode, ran.answers.text("REASON")) == (2, "bad_parameter")
    assert "sh0wn" not in ran.stdout + ran.stderr


def suited(host: ScratchHost, words: str) -> list[str]:
    """What podman of a user without root is given, where files may be 1024, memory that stays 8 MiB and stacks as large as one likes."""
    functions = load_script("docker_start").removesuffix("main\n")
    limits = "ulimit() { case $2 in -n) echo 1024 ;; -l) echo 8192 ;; *) echo unlimited ;; esac; }"
    text = f"{functions}\n{limits}\nOWN_USER=1 WORDS=({words})\nsuit_rootless_podman\nprintf '%s\\n' \"${{WORDS[@]}}\""
    return host.feed(text + "\n").stdout.split()


def test_podman_without_root_asks_for_no_more_than_its_user_may_have(host: ScratchHost) -> None:
    limits = "--ulimit memlock=-1:-1 --ulimit stack=67108864 --ulimit nofile=65535:65535"
    words = suited(host, f"podman run -d --init --user 7:7 {limits} img sh gate cmd")
    assert words[:5] == ["podman", "run", "-d", "--init", "--userns=keep-id"]
    given = [words[at + 1] for at, word in enumerate(words) if word == "--ulimit"]
    assert given == ["memlock=8388608:8388608", "stack=67108864", "nofile=1024:1024"]
    assert words[-4:] == ["img", "sh", "gate", "cmd"]


# --- a start that is only tried ----------------------------------------------------------------------------------------------------------


def tried(dock: DockerHost, launch: str = "two") -> Ran:
    call = EXECUTOR.trial_call(EXECUTOR.generate_launch_script(rank_of(), labels_of(rank_of(), launch), {}))
    assert call is not None
    return dock.run(call)


def test_a_trial_leaves_what_runs_and_nothing_else(dock: DockerHost) -> None:
    running = dock.started(rank_of()).text("CONTAINER_ID")

    assert tried(dock).returncode == 0
    assert {name: meta["id"] for name, meta in dock.docker.containers().items()} == {NAME: running}
    assert {path.name for path in dock.folder.iterdir()} == {"seccomp.json", f"{NAME}.one"}


def test_a_trial_shows_docker_the_words_of_the_start_but_no_label_of_a_rank(dock: DockerHost) -> None:
    tried(dock)

    (words,) = dock.docker.calls("create")
    assert words[words.index("--name") + 1] == f"{NAME}.trial"
    assert not [word for word in words if word.startswith("sparkrun.")]
    assert words[-4:-1] == ["img:1", "sh", "/run/sparkrun/gate"]


def test_a_trial_that_docker_refuses_says_why_and_leaves_what_runs(dock: DockerHost) -> None:
    dock.started(rank_of())
    dock.docker.fail("create", "unknown flag: --nope\nSee 'docker create --help'.")

    ran = tried(dock)
    assert (ran.returncode, ran.answers.text("REASON")) == (7, "docker_failed")
    assert (ran.answers.text("MESSAGE") or "").endswith("unknown flag: --nope")
    assert list(dock.docker.containers()) == [NAME]
    assert not (dock.folder / f"{NAME}.two.trial").exists()


def test_a_registry_that_refuses_a_connection_is_no_dead_daemon(dock: DockerHost) -> None:
    said = 'docker: Error response from daemon: Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry: connection refused'
    dock.docker.fail("run", said)

    ran = dock.start(rank_of())
    assert (ran.returncode, ran.answers.text("REASON")) == (7, "docker_failed")
    assert ': Get "https://registry-1.docker.io/v2/"' in (ran.answers.text("MESSAGE") or "")
    assert "Error response" not in (ran.answers.text("MESSAGE") or "")


def test_a_gate_whose_container_somebody_removed_goes_with_a_later_launch(dock: DockerHost) -> None:
    lost, fresh, foreign = (dock.folder / name for name in (f"{NAME}.0123456789ab", f"{NAME}.ba9876543210", "something.else"))
    for folder in (lost, fresh, foreign):
        folder.mkdir(parents=True)
    for folder in (lost, foreign):
        os.utime(folder, (0, 0))
    kept = rank_of(name=f"{NAME}2")
    dock.started(kept, launch="00112233aabb")
    os.utime(dock.gate(kept.name, "00112233aabb"), (0, 0))
    dock.started(rank_of())

    eventually(lambda: not lost.exists())
    assert fresh.exists()
    assert foreign.exists()
    assert dock.gate(kept.name, "00112233aabb").exists()


def test_a_start_that_cannot_write_its_profile_leaves_no_gate(dock: DockerHost) -> None:
    (dock.folder / "seccomp.json").mkdir(parents=True)

    assert dock.start(rank_of()).returncode == 14
    assert [path.name for path in dock.folder.iterdir()] == ["seccomp.json"]
