"""A host of its own with a `docker` on it, and the launches that tests make there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkrun.core.plan import Mount, RankPlan
from sparkrun.core.remote import ScriptCall
from sparkrun.core.values import ConfigValue
from sparkrun.orchestration.docker_executor import DockerExecutor
from sparkrun.orchestration.executor import JobLabels
from sparkrun.utils.shell import Section
from tests.scripts_host.fake_docker import FakeDocker
from tests.scripts_host.scratch_host import Ran, Running, ScratchHost

NAME = "sparkrun_0123456789abcdef_0123456789ab_solo"
FOREVER = "exec sleep 600"
EXECUTOR = DockerExecutor()


class DockerHost:
    """Calls as the executor makes them, run for real."""

    def __init__(self, host: ScratchHost) -> None:
        self.host = host
        for tool in ("date", "id"):
            if not (host.tools / tool).is_symlink():
                (host.tools / tool).symlink_to(shutil.which(tool) or "/nowhere")
        self.docker = FakeDocker(host)
        self.folder = host.cache / "docker"

    def run(self, call: ScriptCall) -> Ran:
        return self.host.run(call.name, **call.params, **call.secrets)

    def begin(self, call: ScriptCall) -> Running:
        return self.host.begin(call.name, **call.params, **call.secrets)

    def start(self, rank: RankPlan, launch: str = "one", **config: ConfigValue) -> Ran:
        return self.run(EXECUTOR.generate_launch_script(rank, labels_of(rank, launch), config))

    def started(self, rank: RankPlan, launch: str = "one", **config: ConfigValue) -> Section:
        ran = self.start(rank, launch, **config)
        assert ran.returncode == 0, ran
        return ran.section("LAUNCH")

    def open(self, rank: RankPlan, launch: str = "one") -> Ran:
        return self.run(EXECUTOR.open_call(rank, labels_of(rank, launch)))

    def stop(self, *names: str, launch: str = "") -> Ran:
        return self.run(EXECUTOR.stop_call(names, launch=launch))

    def gate(self, name: str = NAME, launch: str = "one") -> Path:
        return self.folder / f"{name}.{launch}"


def rank_of(command: str = FOREVER, **fields: object) -> RankPlan:
    settings = {"rank": 0, "host": "h", "role": "solo", "name": NAME, "image": "img:1", "mounts": (), **fields}
    return RankPlan(command=command, **settings)  # type: ignore[arg-type]


def labels_of(rank: RankPlan, launch: str = "one") -> JobLabels:
    return JobLabels(
        cluster_id="sparkrun_0123456789abcdef_0123456789ab",
        intent_id="0123456789abcdef",
        launch=launch,
        recipe="tiny",
        recipe_ref="@x/tiny",
        runtime="vllm",
        model="org/model",
        served_model_name='it\'s "tiny"',
        rank=rank.rank,
        role=rank.role,
        host=rank.host,
        port=8123,
    )


def mount(source: Path | str, **fields: bool) -> Mount:
    return Mount(str(source), "/inside", **fields)


@pytest.fixture
def dock(host: ScratchHost) -> Iterator[DockerHost]:
    made = DockerHost(host)
    yield made
    made.docker.close()
