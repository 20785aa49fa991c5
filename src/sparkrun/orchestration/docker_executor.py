"""The ``docker`` executor: the engine is the main process of a container, behind a gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from sparkrun.core.plan import HostAction, RankPlan
from sparkrun.core.remote import ScriptCall
from sparkrun.orchestration.docker import OWNER, docker_run_cmd, docker_stop_cmd, gate_name
from sparkrun.orchestration.docker_config import KEYS, DockerSettings, read_docker_config
from sparkrun.orchestration.executor import EVIDENCE_LINES, Executor, ExecutorConfig, JobLabels, LogView, assigned, upkeep_params
from sparkrun.orchestration.primitives import in_home

START_SCRIPT = "docker_start"
GRACE_S = 10
"""What a container may take to end after TERM before it is killed."""


class DockerExecutor(Executor):
    """Containers with the labels of their workload. Docker itself keeps exit codes, logs and restart policies."""

    plugin_name = "docker"
    feature = "executor.docker"
    dated_logs: ClassVar[bool] = True
    config_keys: ClassVar[frozenset[str]] = KEYS
    start_timeout_s: ClassVar[float] = 900
    """Longer than all calls of docker together, each of which has a limit of its own (``docker_start.sh``)."""

    def run_cmd(self, rank: RankPlan, config: ExecutorConfig, labels: JobLabels | None = None) -> list[str]:
        """``docker run …``; what only the host knows stands in it as shell text (see ``docker_text``)."""
        return docker_run_cmd(rank, read_docker_config(config), labels)

    def stop_cmd(self, name: str) -> list[str]:
        """``docker stop``."""
        return docker_stop_cmd((name,), grace_s=GRACE_S)

    def generate_launch_script(self, rank: RankPlan, labels: JobLabels, config: ExecutorConfig) -> ScriptCall:
        """Start the container once; refuses to replace a live one, and what belongs to another application."""
        settings = read_docker_config(config)
        params: dict[str, str | tuple[str, ...]] = {
            "NAME": rank.name,
            "LAUNCH": labels.launch,
            "OWNER": OWNER,
            "IMAGE": rank.image or "",
            "RUN": tuple(docker_run_cmd(rank, settings, labels)),
            "GATE": gate_name(rank.name, labels),
            "GATED": "1" if rank.gated else "0",
            "GATE_TIMEOUT_S": str(rank.gate_timeout_s),
            "FIXED_ENTRYPOINT": "0" if settings.entrypoint is None else "1",
            "RESTARTS": "1" if settings.restart_policy else "0",
            "MISSING_SOURCE": rank.missing_mounts,
            "DEAD": rank.removes,
            **upkeep_params(rank),
            "CREATE": tuple(in_home(mount.source) for mount in rank.mounts if mount.create),
            "CHECKED": _checked_sources(settings),
        }
        return ScriptCall(START_SCRIPT, params, {"SECRET_ENVS": assigned(rank.secret_env)})

    def check_config(self, config: ExecutorConfig) -> None:
        """Decode it."""
        read_docker_config(config)

    def trial_call(self, start: ScriptCall) -> ScriptCall | None:
        """The same start, up to a container that docker makes under another name and that is removed again."""
        if start.name != START_SCRIPT:
            return None
        return msgspec.structs.replace(start, params={**start.params, "TRIAL": "1"}, then=None)

    def gate_action(self, rank: RankPlan, labels: JobLabels, config: ExecutorConfig) -> HostAction | None:
        """Let a gated rank become its engine."""
        del config
        if not rank.gated:
            return None
        return HostAction(rank.host, f"open the gate of rank {rank.rank} on {rank.host}", self.open_call(rank, labels))

    def open_call(self, rank: RankPlan, labels: JobLabels) -> ScriptCall:
        """Open the gate of one launch of a container."""
        return ScriptCall("docker_gate", {"NAME": rank.name, "GATE": gate_name(rank.name, labels)})

    def hook_call(self, rank: RankPlan, command: str, env: Mapping[str, str], *, timeout_s: int) -> ScriptCall:
        """Run a command in the container as root. ``timeout_s`` 0 is no limit."""
        return ScriptCall("docker_exec", {"NAME": rank.name, "COMMAND": command, "ENVS": assigned(env), "TIMEOUT_S": str(timeout_s)})

    def stop_call(self, names: tuple[str, ...], *, launch: str = "") -> ScriptCall:
        """Stopped, removed, and confirmed gone."""
        return ScriptCall("docker_stop", {"NAMES": names, "ONLY_LAUNCH": launch, "OWNER": OWNER, "GRACE_S": str(GRACE_S)})

    def status_call(self, names: tuple[str, ...] = ()) -> ScriptCall:
        """Every container that carries our labels, living or dead."""
        return ScriptCall("docker_status", {"NAMES": names})

    def logs_call(self, name: str, view: LogView) -> ScriptCall:
        """``docker logs``: a container is one launch, so all of them are of this launch."""
        params = {
            "NAME": name,
            "LINES": "" if view.lines is None else str(view.lines),
            "SKIP": str(view.skip),
            "SINCE": view.since or "",
            "FOLLOW": "1" if view.follow else "0",
            "DATED": "1" if view.dated else "0",
            "LIFELINE": "1",
        }
        return ScriptCall("docker_logs", params)

    def evidence_call(self, name: str) -> ScriptCall:
        """Exit code, out-of-memory flag and last lines of a dead engine."""
        return ScriptCall("docker_evidence", {"NAME": name, "LINES": str(EVIDENCE_LINES)})

    def watch_params(self, name: str) -> Mapping[str, str]:
        """The observer watches the container."""
        return {"WATCH_CONTAINER": name}


def _checked_sources(settings: DockerSettings) -> tuple[str, ...]:
    """Sources that somebody wrote down, which must not lead into the host's own folders."""
    return tuple(in_home(volume).partition(":")[0] for volume in settings.volumes)
