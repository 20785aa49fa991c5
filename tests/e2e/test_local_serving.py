"""One machine, the local executor, a real model: the whole life of a workload."""

from __future__ import annotations

import http.client
import json
import os
import shlex
import signal
import socket
from pathlib import Path

import pytest

from tests.e2e.conftest import Sparkrun, connects, press_ctrl_c, wait_for

pytestmark = pytest.mark.e2e


def ask(port: int, question: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    body = {"model": "any", "messages": [{"role": "user", "content": question}], "max_tokens": 8}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer: str = json.load(connection.getresponse())["choices"][0]["message"]["content"]
    return answer


def engine_argv(pid: int) -> list[str]:
    """The command line of the process that the supervisor of a workload runs."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return Path(f"/proc/{children[0]}/cmdline").read_text().rstrip("\0").split("\0")


def supervisor(user: Sparkrun) -> int:
    return int(next((user.home / ".cache/sparkrun/local/pids").glob("*.pid")).read_text())


def test_a_recipe_is_served_asked_shown_and_stopped(sparkrun: Sparkrun) -> None:
    recipe = sparkrun.recipe()
    planned = sparkrun("run", recipe, "--dry-run", "--json")
    assert planned.code == 0, planned.err
    assert sparkrun.workloads() == []

    ran = sparkrun("run", recipe, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["ready"]
    assert ran.json["first_token_ms"] > 0
    assert ask(sparkrun.port, "Say hello.")

    (entry,) = sparkrun.workloads()
    assert (entry["workload_id"], entry["meta"]["state"]) == (planned.json["cluster_id"], "ready")
    assert engine_argv(supervisor(sparkrun)) == shlex.split(planned.json["ranks"][0]["command"])
    assert "model loaded" in sparkrun("logs", "tiny").out
    assert len(sparkrun("logs", "tiny", "-n", "2").out.splitlines()) == 2
    assert sparkrun("cluster", "check-job", "tiny", "--check-http-models").code == 0

    stopped = sparkrun("stop", recipe)
    assert (stopped.code, "Stopped tiny" in stopped.out) == (0, True)
    assert not connects(sparkrun.port)
    assert sparkrun("cluster", "check-job", "tiny").code == 1


def test_the_log_comes_on_stdout_and_the_progress_on_stderr(sparkrun: Sparkrun) -> None:
    ran = sparkrun("run", sparkrun.recipe())
    assert "loading model" in ran.out
    assert "[1/6] Preparing\n" in ran.err
    assert "Step 1/1: " in ran.err
    assert "is ready: http://127.0.0.1:" in ran.out


def test_the_same_workload_twice(sparkrun: Sparkrun) -> None:
    recipe = sparkrun.recipe()
    assert sparkrun("run", recipe, "--no-follow").code == 0
    again = sparkrun("run", recipe, "--no-follow")
    assert again.code == 1
    assert f"runs already: http://127.0.0.1:{sparkrun.port}/v1" in again.err
    assert sparkrun("run", recipe, "--no-follow", "--ensure").code == 0


def test_an_engine_that_dies_at_start_is_told_with_its_words_and_leaves_nothing(sparkrun: Sparkrun) -> None:
    ended = sparkrun("run", sparkrun.recipe(command="llama-server -m {model} --port {port} --no-such-flag"), "--no-follow")
    assert ended.code == 1
    assert "ended with exit code 2 before it answered" in ended.err
    assert "--no-such-flag" in ended.err.split("last lines:")[1]
    assert sparkrun.workloads() == []


def test_a_port_in_use_names_who_holds_it(sparkrun: Sparkrun) -> None:
    with socket.create_server(("127.0.0.1", sparkrun.port)):
        ended = sparkrun("run", sparkrun.recipe(), "--no-follow")
    assert ended.code == 1
    assert f"port {sparkrun.port} is in use by" in ended.err
    assert f"pid {os.getpid()}" in ended.err


def test_an_api_key_is_enforced_and_shown_nowhere(sparkrun: Sparkrun) -> None:
    ran = sparkrun("run", sparkrun.recipe(api_key="s3cret-word"), "--json")
    assert ran.code == 0, ran.err
    said = ran.out + ran.err + sparkrun("-vvv", "status").err + sparkrun("logs", "tiny").out
    kept = "".join(path.read_text() for path in (sparkrun.home / ".cache").rglob("*") if path.is_file())
    assert "s3cret-word" not in said + kept
    connection = http.client.HTTPConnection("127.0.0.1", sparkrun.port, timeout=10)
    connection.request("POST", "/v1/chat/completions", "{}", {"Content-Type": "application/json"})
    assert connection.getresponse().status == 401


def test_ctrl_c_while_waiting_leaves_nothing_running(sparkrun: Sparkrun) -> None:
    process = sparkrun.start("run", sparkrun.recipe(command="sleep 300; llama-server -m {model} --port {port}"), "--no-follow")
    wait_for(lambda: len(sparkrun.workloads()) == 1)
    ended = press_ctrl_c(process)
    assert ended.code == 130
    assert "nothing of this launch is left running" in ended.out
    assert sparkrun.workloads() == []


def test_ctrl_c_while_following_only_detaches(sparkrun: Sparkrun) -> None:
    process = sparkrun.start("run", sparkrun.recipe(), "--follow")
    wait_for(lambda: any(entry["meta"]["state"] == "ready" for entry in sparkrun.workloads()))
    assert process.stdout is not None
    for line in process.stdout:
        if line.lstrip().startswith("stop:"):
            break
    ended = press_ctrl_c(process)
    assert ended.code == 130
    assert "goes on. Stop it with: sparkrun stop" in ended.out
    assert sparkrun.workloads()[0]["meta"]["state"] == "ready"


def test_ctrl_c_in_the_foreground_stops_the_engine(sparkrun: Sparkrun) -> None:
    process = sparkrun.start("run", sparkrun.recipe(), "--foreground")
    assert process.stdout is not None
    for line in process.stdout:
        if line.lstrip().startswith("stop:"):
            break
    assert press_ctrl_c(process).code == 130
    assert sparkrun.workloads() == []


def test_the_truth_is_told_after_the_command_line_was_killed(sparkrun: Sparkrun) -> None:
    process = sparkrun.start("run", sparkrun.recipe(command="sleep 300; llama-server -m {model} --port {port}"), "--no-follow")
    wait_for(lambda: len(sparkrun.workloads()) == 1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert [entry["meta"]["state"] for entry in sparkrun.workloads()] == ["starting"]
    assert sparkrun("stop", "tiny").code == 0
    assert sparkrun.workloads() == []


def test_an_engine_killed_behind_our_back_is_shown_as_ended(sparkrun: Sparkrun) -> None:
    sparkrun("run", sparkrun.recipe(), "--no-follow")
    os.kill(int(Path(f"/proc/{supervisor(sparkrun)}/task/{supervisor(sparkrun)}/children").read_text().split()[0]), signal.SIGKILL)
    wait_for(lambda: sparkrun.workloads()[0]["meta"]["state"] == "exited")
    assert "exit code" in sparkrun("status").out
    assert sparkrun("run", sparkrun.recipe(), "--no-follow").code == 0


def test_a_cache_that_cannot_be_written_stops_before_anything_starts(sparkrun: Sparkrun) -> None:
    ended = sparkrun("run", sparkrun.recipe(), SPARKRUN_CACHE_DIR="/proc/sparkrun")
    assert ended.code == 1
    assert "error: the cache folder /proc/sparkrun is not writable" in ended.err
    assert "Traceback" not in ended.err


def test_a_missing_home_is_no_obstacle(sparkrun: Sparkrun, tmp_path: Path) -> None:
    recipe = sparkrun.recipe()
    sparkrun.env = {key: value for key, value in sparkrun.env.items() if key != "HOME"}
    sparkrun.env |= {"SPARKRUN_CACHE_DIR": str(tmp_path / "cache"), "SPARKRUN_CONFIG_DIR": str(tmp_path / "config")}
    assert sparkrun("run", recipe, "--no-follow").code == 0
    assert sparkrun("stop", "tiny").code == 0


def test_a_host_behind_ssh_serves_and_is_stopped(sparkrun: Sparkrun, ssh_host: str) -> None:
    ran = sparkrun("run", sparkrun.recipe(), "-H", ssh_host, "--json")
    assert ran.code == 0, ran.err
    assert ask(sparkrun.port, "Say hello.")
    (entry,) = sparkrun.workloads("-H", ssh_host)
    assert (entry["host"], entry["meta"]["state"]) == (ssh_host, "ready")
    assert "model loaded" in sparkrun("logs", "tiny", "-H", ssh_host).out
    assert sparkrun("stop", "tiny", "-H", ssh_host).code == 0
    assert not connects(sparkrun.port)


def test_ctrl_c_behind_ssh_leaves_nothing_running(sparkrun: Sparkrun, ssh_host: str) -> None:
    process = sparkrun.start("run", sparkrun.recipe(command="sleep 300; llama-server -m {model} --port {port}"), "-H", ssh_host)
    wait_for(lambda: len(sparkrun.workloads("-H", ssh_host)) == 1)
    ended = press_ctrl_c(process)
    assert ended.code == 130, ended.out
    assert sparkrun.workloads("-H", ssh_host) == []


def test_a_host_that_is_not_there_is_named(sparkrun: Sparkrun) -> None:
    ended = sparkrun("run", sparkrun.recipe(), "-H", "127.0.0.1:9")
    assert ended.code == 1
    assert "127.0.0.1:9: " in ended.err
    status = sparkrun("status", "-H", "127.0.0.1:9")
    assert status.code == 1
    assert "Unknown: 127.0.0.1:9" in status.out
