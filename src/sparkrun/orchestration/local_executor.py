"""The ``local`` executor: the engine is a plain process on the host, in a session of its own."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import ClassVar

import msgspec

from sparkrun.core.plan import RankPlan
from sparkrun.core.remote import ScriptCall
from sparkrun.orchestration.executor import EVIDENCE_LINES, Executor, ExecutorConfig, JobLabels, LogView, assigned, upkeep_params

_PLACES = {
    "working_dir": "WORKING_DIR",
    "env_file": "ENV_FILE",
    "command_prefix": "COMMAND_PREFIX",
    "log_dir": "LOG_DIR",
    "log_file": "LOG_FILE",
    "pid_dir": "PID_DIR",
    "pid_file": "PID_FILE",
}


class LocalExecutor(Executor):
    """Processes under ``setsid`` with pid, log and allocation files below the host's own sparkrun cache."""

    plugin_name = "local"
    feature = "executor.local"
    uses_images: ClassVar[bool] = False
    config_keys: ClassVar[frozenset[str]] = frozenset(_PLACES)

    def run_cmd(self, rank: RankPlan, config: ExecutorConfig, labels: JobLabels | None = None) -> list[str]:
        """``setsid bash -c COMMAND``, as the start script runs it."""
        del labels
        prefix = config.get("command_prefix")
        return ["setsid", "bash", "-c", f"{prefix} {rank.command}" if prefix else rank.command]

    def stop_cmd(self, name: str) -> list[str]:
        """What a user without sparkrun would type on the host."""
        return ["bash", "-c", f'kill -- -"$(cat ~/.cache/sparkrun/local/pids/{shlex.quote(name)}.pid)"']

    def generate_launch_script(self, rank: RankPlan, labels: JobLabels, config: ExecutorConfig) -> ScriptCall:
        """Start detached, once; refuses to replace a live process."""
        params: dict[str, str | tuple[str, ...]] = {
            "NAME": rank.name,
            "CLUSTER_ID": labels.cluster_id,
            "LAUNCH": labels.launch,
            "COMMAND": rank.command,
            "ENVS": assigned(rank.env),
            "ALLOCATIONS": _allocations(rank),
            "LABELS": msgspec.json.encode(labels).decode(),
            **upkeep_params(rank),
        }
        params |= {_PLACES[key]: str(value) for key, value in config.items() if key in _PLACES and value is not None}
        return ScriptCall("local_start", params, {"SECRET_ENVS": assigned(rank.secret_env)})

    def stop_call(self, names: tuple[str, ...], *, launch: str = "") -> ScriptCall:
        """TERM to the whole process group, KILL after the grace, confirmed."""
        return ScriptCall("local_stop", {"NAMES": names, "ONLY_LAUNCH": launch})

    def status_call(self, names: tuple[str, ...] = ()) -> ScriptCall:
        """Every live or ended process that has a pid file."""
        return ScriptCall("local_status", {"NAMES": names})

    def logs_call(self, name: str, view: LogView) -> ScriptCall:
        """The part of the log file that belongs to the current launch."""
        lines = "" if view.lines is None else str(view.lines)
        follow = "1" if view.follow else "0"
        return ScriptCall("local_logs", {"NAME": name, "LINES": lines, "FOLLOW": follow, "SKIP": str(view.skip), "LIFELINE": "1"})

    def evidence_call(self, name: str) -> ScriptCall:
        """Exit code and last lines of a dead engine."""
        return ScriptCall("local_evidence", {"NAME": name, "LINES": str(EVIDENCE_LINES)})

    def watch_params(self, name: str) -> Mapping[str, str]:
        """The observer watches the pid file's process."""
        return {"WATCH_NAME": name}


def _allocations(rank: RankPlan) -> str:
    slots = [{"rank": rank.rank, "gpu_index": gpu, "util_fraction": 1.0, "memory_gb": None} for gpu in rank.gpus]
    return msgspec.json.encode({"schema": 1, "allocations": slots}).decode()
