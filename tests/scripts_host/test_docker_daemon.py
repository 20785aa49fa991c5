"""Containers of a real docker daemon, from images that hold nothing but a busybox."""

from __future__ import annotations

import json

import pytest

from sparkrun.core.remote import ScriptCall
from sparkrun.orchestration.executor import LogView
from tests.scripts_host.docker_daemon import Daemon, daemon, daemon_of_all
from tests.scripts_host.docker_host import EXECUTOR, NAME, rank_of
from tests.scripts_host.scratch_host import eventually

__all__ = ["daemon", "daemon_of_all"]

pytestmark = pytest.mark.e2e

SERVE = "mkdir /tmp/www; echo ok >/tmp/www/health; exec httpd -f -p 8123 -h /tmp/www"


def status(daemon: Daemon) -> dict[str, str]:
    (seen,) = daemon.run(EXECUTOR.status_call()).answers.sections("WORKLOAD")
    return dict(seen.pairs)


def wait_ended(daemon: Daemon) -> int:
    return int(daemon("wait", NAME))


def test_a_launch_from_start_to_stop(daemon: Daemon) -> None:
    rank = rank_of(f'echo "key of ${{#KEY}}"; {SERVE}', secret_env={"KEY": "hush-12345"}, gated=True)

    assert daemon.start(rank).returncode == 0
    assert status(daemon)["GATE"] == "waiting"
    hook = daemon.run(EXECUTOR.hook_call(rank, "id -u; echo hooked >/tmp/hook", {}, timeout_s=20)).section("EXEC")
    assert (hook.all("HEAD"), hook.number("EXIT_CODE")) == (("0",), 0)
    assert daemon.open(rank).returncode == 0
    assert daemon.run(ScriptCall("wait_port", {"PORT": "8123", "WATCH_CONTAINER": NAME, "TIMEOUT_S": "20"})).returncode == 0

    seen = status(daemon)
    assert (seen["STATE"], seen["PORT_STATE"], seen["HEALTH"], seen["GATE"]) == ("running", "listening", "200", "passed")
    assert int(seen["RSS_KIB"]) > 0
    assert json.loads(seen["LABELS"])["served_model_name"] == 'it\'s "tiny"'
    assert daemon.run(ScriptCall("docker_logs", {"NAME": NAME})).stdout == "key of 10\n"
    assert "hush-12345" not in daemon("inspect", NAME)
    # The engine is the child of docker's init, with no shell between.
    assert [line.split()[7] for line in daemon("top", NAME).splitlines()[1:]] == ["/sbin/docker-init", "httpd"]
    stopped = daemon.run(EXECUTOR.stop_call((NAME,))).section("STOP")
    assert (stopped.text("RESULT"), stopped.text("KILLED")) == ("STOPPED", None)
    assert daemon("ps", "-a", "-q") == ""
    assert [path.name for path in (daemon.home / ".cache/sparkrun/docker").iterdir()] == ["seccomp.json"]


def test_the_container_is_confined(daemon: Daemon) -> None:
    daemon.start(rank_of("grep -E 'Seccomp:|NoNewPrivs' /proc/self/status; exec sleep 600"))

    eventually(lambda: daemon("logs", NAME).split() == ["NoNewPrivs:", "1", "Seccomp:", "2"])


def test_docker_takes_every_option_of_the_configuration(daemon: Daemon) -> None:
    config = {
        "cap_add": ["SYS_PTRACE"],
        "ipc": "private",
        "shm_size": "64mb",
        "memory_limit": "256m",
        "labels": {"team": "a b"},
        "security_opt": ["seccomp=unconfined"],
        "volumes": [f"{daemon.home}:/data:ro"],
        "devices": ["/dev/null:/dev/nothing"],
        "network": "none",
    }

    ran = daemon.start(rank_of(env={"A": "1"}, docker_args=("--hostname", "inside")), **config)

    assert ran.returncode == 0, ran
    (made,) = json.loads(daemon("inspect", NAME))
    assert made["Config"]["Labels"]["team"] == "a b"
    assert made["HostConfig"]["Memory"] == 256 << 20
    assert f"{daemon.home}:/data:ro" in made["HostConfig"]["Binds"]
    assert made["Config"]["Hostname"] == "inside"


def test_a_dead_engine_leaves_its_exit_code_and_its_last_words(daemon: Daemon) -> None:
    daemon.start(rank_of("echo going; exit 42"))
    wait_ended(daemon)

    said = daemon.run(EXECUTOR.evidence_call(NAME)).section("EVIDENCE")

    assert (said.number("EXIT_CODE"), said.all("LOG")) == (42, ("going",))
    assert (status(daemon)["STATE"], status(daemon)["EXIT_CODE"]) == ("exited", "42")


def test_a_dead_container_goes_when_its_workload_is_started_anew(daemon: Daemon) -> None:
    daemon.start(rank_of("exit 1"))
    wait_ended(daemon)

    assert daemon.start(rank_of(name="elsewhere", removes=(NAME,)), "two").returncode == 0
    assert daemon("ps", "-a", "--format", "{{.Names}}").split() == ["elsewhere"]


def test_an_engine_killed_for_memory_says_so(daemon: Daemon) -> None:
    daemon.start(rank_of("exec awk 'BEGIN { x = \"a\"; while (1) x = x x }'"), memory_limit="24m")
    wait_ended(daemon)

    said = daemon.run(EXECUTOR.evidence_call(NAME)).section("EVIDENCE")

    assert (said.number("EXIT_CODE"), said.text("SIGNAL")) == (137, "KILL")
    assert "memory" in (said.text("OOM_HINT") or "")


def test_a_restarted_container_passes_its_gate_by_itself_with_its_secrets(daemon: Daemon) -> None:
    rank = rank_of('echo "$KEY"; [ -e /tmp/again ] && exec sleep 600; : >/tmp/again; exit 1', secret_env={"KEY": "k1"}, gated=True)
    daemon.start(rank, restart_policy="on-failure:3")
    daemon.open(rank)

    eventually(lambda: daemon("logs", NAME) == "k1\nk1\n")
    assert status(daemon)["RESTARTS"] == "1"


def test_a_crash_loop_ends(daemon: Daemon) -> None:
    daemon.start(rank_of("exit 1"), restart_policy="always")

    eventually(lambda: status(daemon)["GATE"] == "gave_up")
    assert status(daemon)["STATE"] == "exited"
    assert daemon.run(EXECUTOR.stop_call((NAME,))).returncode == 0


def test_a_gate_that_nobody_opens_ends_the_container(daemon: Daemon) -> None:
    daemon.start(rank_of(gated=True, gate_timeout_s=1))

    assert wait_ended(daemon) == 78


def test_an_image_without_a_shell_is_refused(daemon: Daemon) -> None:
    daemon.image("bare:1", shell=False)

    ran = daemon.start(rank_of(image="bare:1"))

    assert (ran.returncode, ran.answers.text("REASON")) == (16, "no_shell")
    assert daemon("ps", "-a", "-q") == ""


@pytest.mark.parametrize(
    ("image", "entrypoint", "script", "kept"),
    [
        ("swallows:1", ["/bin/echo", "serve"], "", "cleared"),
        ("passes:1", ["/opt/entrypoint.sh"], '#!/bin/sh\nexec "$@"\n', "kept"),
        ("lies:1", ["/opt/entrypoint.sh"], "#!/bin/sh\necho usage; exit 2\n", "cleared"),
    ],
)
def test_the_images_entrypoint(daemon: Daemon, image: str, entrypoint: list[str], script: str, kept: str) -> None:
    daemon.image(image, entrypoint=entrypoint, files={"opt/entrypoint.sh": script})

    ran = daemon.start(rank_of("echo engine; exec sleep 600", image=image))

    assert (ran.returncode, ran.section("LAUNCH").text("ENTRYPOINT")) == (0, kept), ran
    eventually(lambda: daemon("logs", NAME) == "engine\n")


def test_a_hook_that_takes_too_long_leaves_nothing_in_the_container(daemon: Daemon) -> None:
    daemon.start(rank_of("exec sleep 600"))

    ran = daemon.run(EXECUTOR.hook_call(rank_of(), "sleep 700 & sleep 800", {}, timeout_s=1))

    assert ran.section("EXEC").flag("TIMED_OUT")
    assert [line.split()[-1] for line in daemon("top", NAME).splitlines()[1:]] == ["600", "600"]


def test_two_starts_of_one_name_end_with_one_container(daemon: Daemon) -> None:
    assert daemon.start(rank_of()).returncode == 0

    ran = daemon.start(rank_of(), "two")

    assert (ran.returncode, ran.answers.text("REASON")) == (11, "running")
    assert status(daemon)["LAUNCH"] == "one"


def test_logs_end_with_the_container(daemon: Daemon) -> None:
    daemon.start(rank_of("for i in 1 2 3; do echo $i; done"))
    wait_ended(daemon)

    call = EXECUTOR.logs_call(NAME, LogView(follow=True, skip=1))
    ran = daemon.run(ScriptCall(call.name, {**call.params, "LIFELINE": ""}))

    assert ran.stdout.split() == ["2", "3"]


def test_an_image_that_is_not_here_is_not_pulled(daemon: Daemon) -> None:
    ran = daemon.start(rank_of(image="org/missing:1"))

    assert (ran.returncode, ran.answers.text("REASON")) == (12, "no_image")
