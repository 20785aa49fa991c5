"""What the status script says is what /proc and the port say."""

from __future__ import annotations

import base64
import socket
import time
from collections.abc import Iterator

import pytest

from tests.pace import slowness
from tests.scripts_host.fake_engine import FakeEngine, answer, never, silent
from tests.scripts_host.scratch_host import ScratchHost, end_process, eventually, is_alive, session_members

FOREVER = "exec sleep 600"


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    with FakeEngine() as fake:
        yield fake


def labels(port: int, path: str = "/health") -> str:
    return f'{{"cluster_id":"c_1","port":{port},"health_path":"{path}","other":null}}'


def test_a_running_workload_is_told_with_all_that_is_known(host: ScratchHost) -> None:
    launch = host.start(
        "sparkrun_a_solo", FOREVER, CLUSTER_ID="sparkrun_a", LAUNCH="word", LABELS='{"model":"org/m\\n"}', ALLOCATIONS='{"schema":1}'
    )

    record = host.workload("sparkrun_a_solo")

    told = {key: record.text(key) for key in ("STATE", "CLUSTER_ID", "OWNER", "LAUNCH", "LABELS", "EXIT_CODE", "PORT_STATE")}
    assert told == {
        "STATE": "running", "CLUSTER_ID": "sparkrun_a", "OWNER": "sparkrun", "LAUNCH": "word", "LABELS": '{"model":"org/m\\n"}',
        "EXIT_CODE": "", "PORT_STATE": None,
    }  # fmt: skip
    for key in ("PID", "LOG_FILE", "LOG_OFFSET", "STARTED_AT"):
        assert record.text(key) == launch.text(key)
    assert base64.b64decode(record.text("ALLOCATIONS") or "").decode() == '{"schema":1}\n'
    assert (record.number("RSS_KIB") or 0) > 1000
    assert record.number("UPTIME_S") in range(60)
    assert record.complete


def test_an_ended_workload_is_told_with_its_exit_code(host: ScratchHost) -> None:
    host.start("tiny", "exit 42")

    eventually(lambda: host.workload("tiny").text("STATE") == "exited")
    assert host.workload("tiny").number("EXIT_CODE") == 42
    assert host.workload("tiny").text("RSS_KIB") is None


def test_an_engine_ended_by_a_signal_has_128_and_more(host: ScratchHost) -> None:
    pid = host.start("tiny", ": >ready; exec sleep 600").number("PID")
    assert pid is not None
    eventually((host.home / "ready").exists)
    for member in session_members(pid):
        if member != pid:
            end_process(member)

    eventually(lambda: host.workload("tiny").number("EXIT_CODE") == 137)


def test_a_workload_that_vanished_without_a_word_is_stale(host: ScratchHost) -> None:
    pid = host.start("tiny", FOREVER).number("PID")
    assert pid is not None
    for member in [pid, *session_members(pid)]:
        end_process(member)

    eventually(lambda: not session_members(pid))
    assert host.workload("tiny").text("STATE") == "stale"


def test_an_engine_that_lives_on_without_its_supervisor_runs(host: ScratchHost) -> None:
    pid = host.start("tiny", ": >ready; exec sleep 600").number("PID")
    assert pid is not None
    eventually((host.home / "ready").exists)
    end_process(pid)
    eventually(lambda: not is_alive(pid))

    assert host.workload("tiny").text("STATE") == "running"


def test_all_workloads_are_told_when_no_names_are_given(host: ScratchHost) -> None:
    for name in ("one", "two"):
        host.start(name, FOREVER)
    host.start("three", FOREVER, PID_DIR=str(host.root / "elsewhere"))

    ran = host.run("local_status")

    assert sorted(section.text("NAME") or "" for section in ran.answers.sections("WORKLOAD")) == ["one", "three", "two"]
    assert ran.section("WORKLOADS").number("COUNT") == 3


def test_a_name_without_a_record_is_told_as_missing(host: ScratchHost) -> None:
    host.start("one", FOREVER)

    ran = host.run("local_status", NAMES=("one", "two"))

    assert ran.section("WORKLOADS").all("MISSING") == ("two",)
    assert len(ran.answers.sections("WORKLOAD")) == 1


def test_a_host_without_a_cache_has_no_workloads(host: ScratchHost) -> None:
    ran = host.run("local_status")

    assert (ran.returncode, ran.section("WORKLOADS").text("COUNT")) == (0, "0")
    assert not host.cache.exists()


def test_odd_files_among_the_records_are_passed_over(host: ScratchHost) -> None:
    host.start("one", FOREVER)
    (host.cache / "local/pids/a b.pid").write_text("1\n")
    (host.cache / "local/pids/.x.pid").write_text("1\n")

    assert host.run("local_status").section("WORKLOADS").text("COUNT") == "1"


@pytest.mark.parametrize("suffix", [".start", ".exit", ".log", ".owner", ".launch", ".labels", ".cluster", ".allocations", ""])
def test_the_text_of_a_record_is_never_run(host: ScratchHost, suffix: str) -> None:
    host.start("tiny", "exit 0")
    eventually(host.file("tiny", ".exit").exists)
    trap = "a[$(touch pwned)]"
    host.file("tiny", suffix).write_text(f"{trap} {trap} {trap} {trap}\n{trap}\n")

    for script in ("local_status", "observe"):
        assert host.run(script).returncode == 0
    host.run("local_evidence", NAME="tiny")
    host.run("local_logs", NAME="tiny")
    host.run("local_stop", NAMES=("tiny",))
    assert list(host.root.rglob("pwned")) == []


def test_the_cluster_of_an_old_record_is_read_from_its_name(host: ScratchHost) -> None:
    host.start("sparkrun_x_y_node_3", FOREVER)
    host.file("sparkrun_x_y_node_3", ".cluster").unlink()

    assert host.workload("sparkrun_x_y_node_3").text("CLUSTER_ID") == "sparkrun_x_y"


@pytest.mark.parametrize("status", [200, 503])
def test_the_health_of_a_listening_port_is_asked_for(host: ScratchHost, engine: FakeEngine, status: int) -> None:
    engine.on("GET /v1/models", answer(status))
    host.start("tiny", FOREVER, LABELS=labels(engine.port, "/v1/models"))

    record = host.workload("tiny")

    assert (record.number("PORT"), record.text("PORT_STATE"), record.number("HEALTH")) == (engine.port, "listening", status)


def test_a_port_that_nobody_listens_on_is_closed(host: ScratchHost, engine: FakeEngine) -> None:
    port = engine.port
    engine.close()
    host.start("tiny", FOREVER, LABELS=labels(port))

    record = host.workload("tiny")

    assert (record.text("PORT_STATE"), record.text("HEALTH")) == ("closed", None)


def test_servers_that_do_not_answer_delay_no_other(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on("GET /health", never())
    for name in ("one", "two", "three"):
        host.start(name, FOREVER, LABELS=labels(engine.port))
    began = time.monotonic()

    ran = host.run("local_status")

    assert [section.number("HEALTH") for section in ran.answers.sections("WORKLOAD")] == [0, 0, 0]
    assert time.monotonic() - began < 2.5 * slowness()


def test_a_server_that_says_nothing_has_no_health(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on("GET /health", silent())
    host.start("tiny", FOREVER, LABELS=labels(engine.port))

    assert host.workload("tiny").number("HEALTH") == 0


@pytest.mark.parametrize("address", ["127.0.0.2", "::1", "::", "0.0.0.0"])
def test_the_port_is_found_on_whatever_address_it_listens(host: ScratchHost, address: str) -> None:
    try:
        fake = FakeEngine(address)
    except OSError:
        pytest.skip(f"this machine has no {address}")
    with fake:
        fake.on("GET /health", answer(200))
        host.start("tiny", FOREVER, LABELS=labels(fake.port))

        assert host.workload("tiny").number("HEALTH") == 200


@pytest.mark.parametrize("text", ["", "{}", '{"port":null}', '{"port":"x"}', '{"import":80}', "no json"])
def test_labels_without_a_port_have_no_port_state(host: ScratchHost, text: str) -> None:
    host.start("tiny", FOREVER, LABELS=text)

    record = host.workload("tiny")

    assert (record.text("STATE"), record.text("LABELS"), record.text("PORT_STATE")) == ("running", text, None)


def test_a_bad_name_is_refused(host: ScratchHost) -> None:
    assert host.run("local_status", NAMES=("a/b",)).returncode == 2


def test_ports_that_only_look_alike_do_not_count_as_listening(host: ScratchHost) -> None:
    """An established connection from a port is not a listener on it."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        host.start("tiny", FOREVER, LABELS=labels(client.getsockname()[1]))

        assert host.workload("tiny").text("PORT_STATE") == "closed"
