"""What a recipe runs besides its engine: mods and ``pre_exec`` in every container, ``post_exec`` in the head's, ``post_commands`` here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.decisions import Decided
from sparkrun.core.errors import RecipeError
from sparkrun.core.hosts import parse_host
from sparkrun.core.plan import HostAction, LocalCommand, RankPlan, Stage
from sparkrun.core.recipe.schema import Hook, Values
from sparkrun.core.remote import ScriptCall
from sparkrun.core.templating import Doubling, render
from sparkrun.orchestration.docker_executor import DockerExecutor
from sparkrun.runtimes.runtime_cache import CONTAINER_CACHE
from sparkrun.utils.shell import quote

MODS_DIR = "/workspace/mods"
HOOK_TIMEOUT_S = 3600
"""What a hook may take unless the recipe or ``hooks.timeout_s`` says otherwise."""
HOOK_SLACK_S = 60
"""What ending an overdue hook may take on its host."""
NO_LIMIT_S = 30 * 24 * 3600


def plan_hooks(decided: Decided, ranks: tuple[RankPlan, ...], config: SparkrunConfig) -> tuple[Stage, ...]:
    """A stage for each mod and each ``pre_exec`` entry, in order, all containers at once."""
    executor = decided.request.executor
    if not isinstance(executor, DockerExecutor):
        return ()
    planner = _HookPlanner(decided, ranks, executor, config)
    return (*planner.mods(), *planner.pre_exec())


def plan_post_exec(decided: Decided, ranks: tuple[RankPlan, ...], config: SparkrunConfig) -> tuple[HostAction, ...]:
    """The commands in the head's container once it answers."""
    executor = decided.request.executor
    if not isinstance(executor, DockerExecutor):
        return ()
    planner = _HookPlanner(decided, ranks, executor, config)
    return tuple(planner.action(ranks[0], "post_exec", number, hook) for number, hook in enumerate(decided.request.recipe.post_exec, 1))


def plan_post_commands(decided: Decided, ranks: tuple[RankPlan, ...], config: SparkrunConfig) -> tuple[LocalCommand, ...]:
    """The commands on the control machine after that."""
    values, env = _values(decided, ranks[0]), {**_env(decided, ranks[0]), "SPARKRUN_HOOK": "post_commands", "SPARKRUN_NODE_ROLE": "control"}
    return tuple(
        LocalCommand(f"post_commands[{number}]", _rendered(hook, values), env, _timeout_s(hook, config))
        for number, hook in enumerate(decided.request.recipe.post_commands, 1)
    )


class _HookPlanner:
    def __init__(self, decided: Decided, ranks: tuple[RankPlan, ...], executor: DockerExecutor, config: SparkrunConfig) -> None:
        self._decided = decided
        self._ranks = ranks
        self._executor = executor
        self._config = config

    def mods(self) -> Iterator[Stage]:
        for mod in self._decided.request.mods:
            folder = f"{MODS_DIR}/{mod.name}"
            yield Stage(f"copy mod {mod.name}", tuple(self._copy(rank, str(mod.path), folder) for rank in self._ranks))
            command = f"export WORKSPACE_DIR=$PWD; cd {quote(folder)} && chmod +x run.sh && ./run.sh"
            hook = Hook(command=command)
            yield Stage(
                f"run mod {mod.name}", tuple(self.action(rank, "pre_exec", 0, hook, title=f"mod {mod.name}") for rank in self._ranks)
            )

    def pre_exec(self) -> Iterator[Stage]:
        for number, hook in enumerate(self._decided.request.recipe.pre_exec, 1):
            title = f"pre_exec[{number}]"
            if hook.copy is None:
                yield Stage(title, tuple(self.action(rank, "pre_exec", number, hook) for rank in self._ranks))
            elif hook.source_host:
                where = self._decided.request.recipe.where("pre_exec", number - 1)
                raise RecipeError(f"{where}: {title} copies from {hook.source_host}", hint="copy from this machine: leave source_host out")
            else:
                dest = hook.dest or f"{MODS_DIR}/{PurePosixPath(hook.copy).name}"
                yield Stage(title, tuple(self._copy(rank, hook.copy, dest) for rank in self._ranks))

    def action(self, rank: RankPlan, kind: str, number: int, hook: Hook, *, title: str = "") -> HostAction:
        env = {**_env(self._decided, rank), "SPARKRUN_HOOK": kind}
        command = _rendered(hook, _values(self._decided, rank)) if number else str(hook.command)
        limit_s = _timeout_s(hook, self._config)
        call = self._executor.hook_call(rank, command, env, timeout_s=int(limit_s))
        told = f"{title or f'{kind}[{number}]'} in {rank.name} on {rank.host}"
        return HostAction(rank.host, told, call, timeout_s=limit_s + HOOK_SLACK_S if limit_s else NO_LIMIT_S)

    def _copy(self, rank: RankPlan, source: str, dest: str) -> HostAction:
        call = ScriptCall("docker_copy", {"NAME": rank.name, "DEST": dest}, uploads={"ARCHIVE": source})
        return HostAction(rank.host, f"copy {source} to {dest} in {rank.name} on {rank.host}", call)


def _rendered(hook: Hook, values: Values) -> str:
    return render(hook.command or "", values, from_recipe=tuple(values), doubling=Doubling.NEVER_ESCAPE).text


def _timeout_s(hook: Hook, config: SparkrunConfig) -> float:
    return hook.timeout_s if hook.timeout_s is not None else config.number("hooks.timeout_s", HOOK_TIMEOUT_S)


def _values(decided: Decided, rank: RankPlan) -> Values:
    head = decided.contexts[0]
    return {
        **decided.config.values(),
        "head_host": head.host,
        "head_ip": head.address or parse_host(head.host).name,
        "port": decided.command.port,
        "cluster_id": decided.cluster_id,
        "container_name": rank.name,
        "cache_dir": decided.facts[rank.host].hf_cache,
        "base_url": decided.endpoint.removesuffix("/v1"),
    }


def _env(decided: Decided, rank: RankPlan) -> Mapping[str, str]:
    request, head = decided.request, decided.contexts[0]
    cached = any(mount.target == CONTAINER_CACHE for mount in rank.mounts)
    return {
        "SPARKRUN_CLUSTER_ID": decided.cluster_id,
        "SPARKRUN_RECIPE_NAME": request.recipe.name,
        "SPARKRUN_RUNTIME": request.runtime.plugin_name,
        "SPARKRUN_MODEL": request.recipe.model,
        "SPARKRUN_MODEL_REVISION": request.recipe.revision,
        "SPARKRUN_MODEL_PATH": decided.context(decided.contexts[rank.rank]).facts.model.path or "",
        "SPARKRUN_NUM_NODES": str(len(decided.contexts)),
        "SPARKRUN_NODE_RANK": str(rank.rank),
        "SPARKRUN_NODE_HOST": rank.host,
        "SPARKRUN_NODE_ROLE": rank.role.partition("_")[0],
        "SPARKRUN_IS_HEAD": "1" if rank.rank == 0 else "0",
        "SPARKRUN_HEAD_HOST": head.host,
        "SPARKRUN_HEAD_IP": head.address or parse_host(head.host).name,
        "SPARKRUN_CONTAINER_NAME": rank.name,
        "SPARKRUN_PORT": str(decided.command.port),
        "SPARKRUN_BASE_URL": decided.endpoint.removesuffix("/v1"),
        "SPARKRUN_RUNTIME_CACHE_ENABLED": "1" if cached else "0",
        "SPARKRUN_RUNTIME_CACHE_DIR": CONTAINER_CACHE if cached else "",
    }
