"""How soon a launch tells that it cannot end well, and that it never ends well for want of knowing."""

from __future__ import annotations

import re
import time

import pytest

from tests.e2e.bed import Bed, Host, Options
from tests.e2e.conftest import wait_for
from tests.e2e.users import User, containers
from tests.pace import SLOW, slowness

pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("bed", [Options(count=4)], indirect=True, ids=["bed"])]
pytest_plugins = ["tests.e2e.bed.fixtures", "tests.e2e.users"]

REPORT_S = 2.0
"""Between the end of an engine and the line that tells of it."""


def died_at(host: Host, since: float) -> float:
    """When the first container of a host ended from then on, by docker's own account: it may be gone by now."""
    span = ("--since", f"{since:.3f}", "--until", f"{time.time():.3f}")
    told = host.docker("events", *span, "--filter", "event=die", "--format", "{{.TimeNano}}")
    return int(told.split()[0]) / 1e9


@pytest.mark.parametrize("rank", [0, 3])
def test_the_end_of_an_engine_is_told_within_two_seconds_of_it(bed: Bed, user: User, rank: int) -> None:
    crash = ("BED_CRASH_AFTER_S=1", "BED_LOAD_S=60", "BED_CODE=7", f"BED_RANK={rank}")
    began = time.time()
    launch = user.start_launch(*(word for pair in crash for word in ("-e", pair)))
    launch.wait_for("ended with exit code 7")
    (told_at, line), *_ = [(when, text) for when, text in launch.lines if "ended with exit code 7" in text]
    assert f"rank {rank} on {bed.hosts[rank].name}" in line
    ran = launch.end()
    took = told_at - died_at(bed.hosts[rank], began)
    print(f"told {took:.2f} s after the engine of rank {rank} had ended")
    assert 0 < took <= REPORT_S * slowness() / SLOW, (took, ran.err)
    assert (ran.code, user.nothing_left()) == (1, True)


@pytest.mark.parametrize("broken", [0, 3])
def test_a_docker_that_goes_away_while_an_engine_loads_is_the_reason(bed: Bed, user: User, broken: int) -> None:
    lost = bed.hosts[broken]
    launch = user.start_launch("-e", "BED_LOAD_S=6")
    launch.wait_for("wait until")
    lost.fault("kill-dockerd")
    ran = launch.end()
    assert (ran.code, ran.error.startswith(f"docker on {lost.name} is gone")) == (1, True), ran.err
    assert f"whether rank {broken} runs there is not known" in ran.error
    assert f"could not undo on {lost.name}" in ran.err
    assert user.jobs(), "what may still run there is forgotten"
    assert not [name for host in bed.hosts if host is not lost for name in containers(host)]
    lost.fault("heal")
    assert user("stop", "vllm").code == 0
    assert user.nothing_left()


def test_an_engine_that_is_ready_while_docker_is_away_is_not_called_ready(bed: Bed, user: User) -> None:
    lost = bed.hosts[3]
    launch = user.start_launch("-e", "BED_LOAD_S=2.5")
    launch.wait_for("wait until")
    lost.fault("kill-dockerd")
    ran = launch.end()
    assert ran.code == 1, ran
    assert re.match(f"docker on {lost.name} is gone", ran.error)
    lost.fault("heal")
    assert user("stop", "vllm").code == 0


def test_what_is_kept_of_a_failure_is_named_and_private(bed: Bed, user: User) -> None:
    crash = ("-e", "BED_CRASH_AFTER_S=0.5", "-e", "BED_LOAD_S=60", "-e", "BED_CODE=7", "-e", "BED_RANK=0", "-e", "HF_TOKEN=hf_s3cr3t")
    ran = user.launch(*crash)
    kept = sorted((user.home / ".cache/sparkrun/failures").glob("*.log"))
    assert [path.stem.partition("-")[2] for path in kept] == [host.name for host in bed.hosts]
    assert f"kept in {kept[0]}" in ran.err
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in kept)
    assert "told to fail" in kept[0].read_text()
    assert not [path for path in kept if "hf_s3cr3t" in path.read_text()]
    wait_for(user.nothing_left)
