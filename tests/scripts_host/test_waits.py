"""Waiting for a port, and standing by a rank."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.scripts_host.docker_host import NAME, DockerHost, dock, rank_of
from tests.scripts_host.scratch_host import ScratchHost, eventually

__all__ = ["dock"]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        yield made


def port_of(listener: socket.socket) -> str:
    return str(listener.getsockname()[1])


def test_a_port_that_listens_ends_the_wait(host: ScratchHost, listener: socket.socket) -> None:
    running = host.begin("wait_port", PORT=port_of(listener), TIMEOUT_S="30")
    running.wait_for("SPARKRUN_WAIT_START")
    listener.listen()

    ran = running.result()

    assert (ran.returncode, ran.section("WAIT").flag("READY")) == (0, True)
    assert ran.section("WAIT").number("OPEN_MS") is not None


def test_waiting_for_a_local_port_connects_to_nothing(host: ScratchHost, listener: socket.socket) -> None:
    listener.listen()
    listener.setblocking(False)

    assert host.run("wait_port", PORT=port_of(listener)).returncode == 0
    assert host.run("wait_port", PORT=port_of(listener), HOST="127.0.0.1").returncode == 0
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_an_address_of_another_host_is_connected_to(host: ScratchHost, listener: socket.socket) -> None:
    listener.listen()
    accepted = threading.Thread(target=listener.accept)
    accepted.start()

    # Not an address of this host, and yet it leads here (ip(7)).
    ran = host.run("wait_port", PORT=port_of(listener), HOST="0.0.0.0", TIMEOUT_S="10")
    accepted.join(10)

    assert (ran.returncode, accepted.is_alive()) == (0, False)


def test_every_address_has_to_listen(host: ScratchHost, listener: socket.socket) -> None:
    listener.listen()

    ran = host.run("wait_port", PORT=port_of(listener), HOST="127.0.0.1 203.0.113.9", TIMEOUT_S="0.3")

    assert (ran.returncode, ran.answers.text("REASON")) == (1, "port_timeout")
    assert "of 203.0.113.9 after" in (ran.answers.text("MESSAGE") or "")


def test_a_port_that_never_listens_ends_the_wait_in_time(host: ScratchHost, listener: socket.socket) -> None:
    ran = host.run("wait_port", PORT=port_of(listener), TIMEOUT_S="0.2")

    assert (ran.returncode, ran.section("WAIT").flag("READY"), ran.answers.text("REASON")) == (1, False, "port_timeout")


def test_a_dead_container_ends_the_wait_for_its_port(dock: DockerHost, listener: socket.socket) -> None:
    dock.started(rank_of("exit 9"))
    dock.docker.exit_code(NAME)

    ran = dock.host.run("wait_port", PORT=port_of(listener), TIMEOUT_S="60", WATCH_CONTAINER=NAME)

    assert (ran.returncode, ran.answers.text("REASON"), ran.answers.text("EXIT_CODE")) == (1, "died", "9")


def test_a_container_that_dies_meanwhile_ends_the_wait(dock: DockerHost, listener: socket.socket) -> None:
    dock.started(rank_of())
    running = dock.host.begin("wait_port", PORT=port_of(listener), TIMEOUT_S="60", WATCH_CONTAINER=NAME)
    running.wait_for("SPARKRUN_WAIT_START")
    eventually(lambda: len(dock.docker.calls("inspect")) > 2)

    dock.docker.crash(NAME)

    ran = running.result()
    assert (ran.answers.text("REASON"), ran.answers.text("EXIT_CODE")) == ("died", "137")


def test_a_dead_process_ends_the_wait_for_its_port(host: ScratchHost, listener: socket.socket) -> None:
    host.start("tiny", "exit 3", WAIT_EARLY_S="0")
    eventually(lambda: host.workload("tiny").text("STATE") == "exited")

    ran = host.run("wait_port", PORT=port_of(listener), TIMEOUT_S="60", WATCH_NAME="tiny")

    assert (ran.returncode, ran.answers.text("REASON"), ran.answers.text("EXIT_CODE")) == (1, "died", "3")


@pytest.mark.parametrize("params", [{"PORT": "0"}, {"PORT": "x"}, {"PORT": "80", "TIMEOUT_S": "soon"}, {"PORT": "80", "HOST": "a;b"}])
def test_a_wait_with_wrong_parameters_is_refused(host: ScratchHost, params: dict[str, str]) -> None:
    ran = host.run("wait_port", **params)

    assert (ran.returncode, ran.answers.text("REASON")) == (2, "bad_parameter")


def test_a_guard_tells_of_the_end_of_its_container(dock: DockerHost) -> None:
    dock.started(rank_of("sleep 60"))
    dock.open(rank_of("sleep 60"))
    guard = dock.host.begin("guard", WATCH_CONTAINER=NAME)
    guard.wait_for("SPARKRUN_GUARD_START")
    dock.docker.crash(NAME)

    ran = guard.result()

    assert (ran.returncode, ran.section("GUARD").flag("READY"), ran.answers.text("REASON")) == (1, False, "died")
    assert ran.section("GUARD").number("EXIT_CODE") is not None


def test_a_guard_needs_something_to_watch(host: ScratchHost) -> None:
    assert host.run("guard").returncode == 2
