"""vLLM: with its own multi-node launch, with Ray, and under the name of an earlier recipe format."""

from __future__ import annotations

import json
from typing import ClassVar

import msgspec

from sparkrun.core.effective import EffectiveConfig
from sparkrun.core.flags import FlagMap
from sparkrun.core.plan import Stage
from sparkrun.core.recipe.schema import Values
from sparkrun.core.shell_text import Arity, EngineSyntax, FlagForm, flag_value, insert_flags, quote_word, remove_flag
from sparkrun.core.values import ConfigValue
from sparkrun.orchestration.executor import Executor
from sparkrun.runtimes.base import PlanContext, RuntimePlugin, Strategy
from sparkrun.runtimes.commands import Command, CommandContext, Draft, RankCommand, editable_engine, hub_words
from sparkrun.runtimes.engine_calls import engine_call
from sparkrun.runtimes.environment import OFFLINE, RuntimeEnv, TuningMount
from sparkrun.runtimes.flag_tables import vllm
from sparkrun.runtimes.inference import PoolingFlag
from sparkrun.runtimes.rank_text import with_rank_words, without_flag, words_of
from sparkrun.runtimes.ranks import RankContext, socket_address
from sparkrun.runtimes.runtime_cache import COMPILER_CACHES
from sparkrun.runtimes.strategies import plan_ray

BACKEND = FlagForm(("--distributed-executor-backend",))
SIZE = FlagForm(("--data-parallel-size", "-dp"))
LOCAL_FLAGS = (FlagForm(("--data-parallel-size-local", "-dpl")), FlagForm(("--data-parallel-start-rank", "-dpr")))
"""What an author may say for one host, and the launch says for several."""

RANK_FLAGS = (
    FlagForm(("--nnodes", "-n")),
    FlagForm(("--node-rank", "-r")),
    FlagForm(("--master-addr",)),
    FlagForm(("--master-port",)),
    FlagForm(("--headless",), Arity.NONE),
    FlagForm(("--data-parallel-rank", "-dpn")),
    FlagForm(("--data-parallel-address", "-dpa")),
    FlagForm(("--data-parallel-rpc-port", "-dpp")),
)

POOLING_FLAGS = (
    PoolingFlag(FlagForm(("--runner",)), {"pooling": "embeddings"}),
    PoolingFlag(FlagForm(("--convert",)), {"embed": "embeddings", "classify": "none", "reward": "none"}),
    PoolingFlag(
        FlagForm(("--task",)),
        {
            "embed": "embeddings",
            "embedding": "embeddings",
            "encode": "embeddings",
            "score": "none",
            "rank": "none",
            "classify": "none",
            "reward": "none",
            "transcription": "none",
        },
    ),
)

CACHE_VARIABLES = {**COMPILER_CACHES, "VLLM_CACHE_ROOT": "vllm", "TORCH_HOME": "torch", "TORCH_EXTENSIONS_DIR": "torch_extensions"}

# Waits inside the head's command, so that the command does the same under any executor. Ray's own status command has no stable output.
_WAIT_FOR_NODES = """\
import ray, sys, time
ray.init(address="auto", log_to_driver=False)
until, seen = time.monotonic() + {limit_s}, 0
while seen < {nodes}:
    alive = sum(node["Alive"] for node in ray.nodes())
    if alive != seen: print(alive, "of {nodes} Ray nodes have joined", flush=True)
    if alive < {nodes} and time.monotonic() > until: sys.exit("Ray nodes are missing after {limit_s} s: there are %d of {nodes}" % alive)
    seen = alive
    time.sleep(0.2)"""
RAY_JOIN_TIMEOUT_S = 420
"""What workers may take to import Ray from a cold disk and to join."""


# A worker's Ray gives up when its head does not listen yet, and images differ in how long Ray takes to load.
_WAIT_FOR_HEAD = """\
import socket, sys, time
for _ in range({tries}):
    try: sys.exit(socket.create_connection(({host!r}, {port}), 2).close())
    except OSError: time.sleep(0.2)
sys.exit({failure!r})"""
_HEAD_TRIES = 1500


class VllmRuntime(RuntimePlugin):
    """What every vLLM variant has in common."""

    family: ClassVar[str] = "vllm"
    flag_map: ClassVar[FlagMap] = vllm.FLAGS
    engine: ClassVar[EngineSyntax] = vllm.ENGINE
    flag_list: ClassVar[str | None] = "vllm"
    program: ClassVar[str] = "vllm"
    api_key_env: ClassVar[str | None] = "VLLM_API_KEY"
    api_key_variable: ClassVar[str] = "VLLM_API_KEY"
    always_named: ClassVar[bool] = True
    claims_memory: ClassVar[bool] = True
    consumes: ClassVar[frozenset[str]] = frozenset(vllm.CONSUMED)
    rank_flags: ClassVar[tuple[FlagForm, ...]] = RANK_FLAGS
    pooling_flags: ClassVar[tuple[PoolingFlag, ...]] = POOLING_FLAGS
    cache_variables: ClassVar[dict[str, str]] = CACHE_VARIABLES
    tuning: ClassVar[TuningMount | None] = TuningMount("/tuning/vllm", {"VLLM_TUNED_CONFIG_FOLDER": "/tuning/vllm"})

    def default_executor_config(self) -> Values:
        """Ranks of one host hand memory to each other through ``ptrace``."""
        return {"cap_add": ["SYS_PTRACE"]}

    def launcher_words(self, ctx: CommandContext) -> tuple[str, ...]:
        """A hub model keeps its id, with the commit of its snapshot; GGUF and local models are named by path."""
        model, revision = hub_words(ctx)
        return ("vllm", "serve", model, *(("--revision", revision) if revision else ()))

    def bound_values(self, ctx: CommandContext) -> Values:
        """The draft model in ``speculative_config`` at the commit that was fetched."""
        config = _mapping(ctx.config.get("speculative_config"))
        commit = ctx.draft_revisions.get(str(config.get("model")))
        return {"speculative_config": {**config, "revision": commit}} if commit and "revision" not in config else {}


class VllmDistributedRuntime(VllmRuntime):
    """vLLM that joins its nodes by itself."""

    plugin_name = "vllm-distributed"
    takes_host_images: ClassVar[bool] = True
    env: ClassVar[RuntimeEnv] = RuntimeEnv(cluster={"NCCL_CUMEM_ENABLE": "0"}, container=OFFLINE, address=("VLLM_HOST_IP",))

    def finish(self, draft: Draft, ctx: CommandContext) -> Draft:
        """``ray`` goes: this variant needs none, and one that is not there would be waited for."""
        del ctx
        call = engine_call(draft.text, self.engine)
        if call is None or flag_value(call, BACKEND) != "ray":
            return draft
        return draft.became(remove_flag(call, BACKEND), f"{BACKEND.spellings[0]} ray is left out: vllm-distributed joins nodes without Ray")

    def rank_words(self, rank: RankContext) -> tuple[str, ...]:
        """Places within the replica, and the replica's place among all."""
        return (*_replica_words(rank), *_data_parallel_words(rank))

    def rank_command(self, ctx: CommandContext, command: Command) -> RankCommand:
        """Flags that tell of replicas are told once."""
        if ctx.rank.solo:
            return RankCommand(command.text)
        text = command.text
        for form in (*LOCAL_FLAGS, *((SIZE,) if ctx.rank.replicas > 1 else ())):
            text = without_flag(self, text, form)
        rank = msgspec.structs.replace(ctx.rank, data_parallel_rpc_port=_meeting_port(ctx))
        return with_rank_words(self, text, self.rank_words(rank))

    def rank_ports(self, ctx: CommandContext, command: Command) -> tuple[int, ...]:
        """The head also listens for the other replicas."""
        own = super().rank_ports(ctx, command)
        meets = ctx.rank.head and ctx.rank.replicas > 1 and not ctx.rank.solo
        return (*own, _meeting_port(ctx)) if meets else own


class VllmRayRuntime(VllmRuntime):
    """vLLM whose nodes are joined by Ray."""

    plugin_name = "vllm-ray"
    rendezvous_port: ClassVar[int] = 46379
    env: ClassVar[RuntimeEnv] = RuntimeEnv(
        cluster={"RAY_memory_monitor_refresh_ms": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"},
        container=OFFLINE,
        address=("VLLM_HOST_IP",),
    )

    def cluster_strategy(self) -> Strategy:
        """A Ray cluster first, then one engine on its head."""
        return "ray"

    def first_port(self, config: EffectiveConfig) -> int:
        """Where Ray listens."""
        return config.whole("ray_port", self.rendezvous_port)

    def rank_command(self, ctx: CommandContext, command: Command) -> RankCommand:
        """The head's Ray, a wait until all nodes have joined, and the engine; on any other node a Ray that joins."""
        if ctx.rank.solo:
            return RankCommand(command.text)
        if not ctx.rank.head:
            return RankCommand(_ray_worker(ctx))
        serving = with_rank_words(self, command.text, ())
        lines = (*_ray_head(ctx), *_keep_home(ctx.rank), _wait_for_nodes(ctx.rank.node_count), self._on_ray(serving.text))
        return RankCommand("\n".join(lines), serving.notes)

    def rank_name(self, executor: Executor, cluster_id: str, rank: RankContext) -> str:
        """Ray has a head and workers."""
        return executor.container_name(cluster_id, rank.role)

    def rank_ports(self, ctx: CommandContext, command: Command) -> tuple[int, ...]:
        """The head's Ray listens too."""
        if ctx.rank.solo:
            return (command.port,)
        dashboard = (_dashboard_port(ctx),) if _wants_dashboard(ctx) else ()
        return (command.port, ctx.rank.master_port, *dashboard) if ctx.rank.head else ()

    def plan_cluster(self, ctx: PlanContext) -> tuple[Stage, ...]:
        """Ray's nodes, then the engine."""
        return plan_ray(ctx)

    def _on_ray(self, text: str) -> str:
        call = editable_engine(self, text)
        value = flag_value(call, BACKEND)
        if value == "ray":
            return text
        if value is not None:
            call = editable_engine(self, remove_flag(call, BACKEND))
        return insert_flags(call, [BACKEND.spellings[0], "ray"])


class EugrVllmRuntime(VllmRayRuntime):
    """The name under which recipes of the eugr format ran."""

    plugin_name = "eugr-vllm"
    default_builder: ClassVar[str | None] = "eugr"
    deprecation: ClassVar[str | None] = "runtime eugr-vllm is deprecated; write runtime: vllm-ray and builder: eugr"

    def requires_capability(self) -> str | None:
        """Its images are built for the GB10."""
        return "gb10"


def _meeting_port(ctx: CommandContext) -> int:
    return ctx.config.whole("data_parallel_rpc_port", ctx.rank.data_parallel_rpc_port)


def _replica_words(rank: RankContext) -> tuple[str, ...]:
    if rank.replica_nodes == 1:
        return ()
    return (
        *words_of("--nnodes", rank.replica_nodes, "--node-rank", rank.replica_rank),
        *words_of("--master-addr", rank.master_address, "--master-port", rank.master_port),
        *(() if rank.leads else ("--headless",)),
    )


def _data_parallel_words(rank: RankContext) -> tuple[str, ...]:
    """One replica a node answers for itself. Nodes that hold several hand their work to the head (vLLM, "Data Parallel Deployment")."""
    if rank.replicas == 1:
        return ()
    meeting = words_of("--data-parallel-address", rank.head_address, "--data-parallel-rpc-port", rank.data_parallel_rpc_port)
    if rank.local_replicas == 1:
        return (*words_of("--data-parallel-size", rank.replicas, "--data-parallel-rank", rank.replica), *meeting)
    local = words_of("--data-parallel-size", rank.replicas, "--data-parallel-size-local", rank.local_replicas)
    place = () if rank.head else words_of("--data-parallel-start-rank", rank.replica, "--headless")
    return (*local, *place, *meeting)


def _ray_head(ctx: CommandContext) -> tuple[str, ...]:
    shown = _wants_dashboard(ctx)
    board = words_of("--dashboard-host", "127.0.0.1", "--dashboard-port", _dashboard_port(ctx)) if shown else ()
    words = (
        *words_of("ray", "start", "--head", "--port", ctx.rank.master_port, "--node-ip-address", ctx.rank.address),
        f"--include-dashboard={'True' if shown else 'False'}",
        *board,
        "--disable-usage-stats",
    )
    return (f"{' '.join(words)} || exit",)


def _ray_worker(ctx: CommandContext) -> str:
    host, port = ctx.rank.head_address, ctx.rank.master_port
    meeting = socket_address(host, port)
    wait = _WAIT_FOR_HEAD.format(tries=_HEAD_TRIES, host=host, port=port, failure=f"no Ray head at {meeting}")
    start = words_of("ray", "start", "--block", f"--address={meeting}", "--node-ip-address", ctx.rank.address, "--disable-usage-stats")
    return f"python3 -c {quote_word(wait)} || exit\nexec {' '.join(start)}"


def _keep_home(rank: RankContext) -> tuple[str, ...]:
    """vLLM copies the head's environment to its Ray workers, but for the names in this file."""
    if not rank.host_keys:
        return ()
    folder = '"${VLLM_CONFIG_ROOT:-$HOME/.config/vllm}"'
    names = quote_word(json.dumps(list(rank.host_keys)))
    return (f"mkdir -p {folder} && printf '%s' {names} > {folder}/ray_non_carry_over_env_vars.json || exit",)


def _wait_for_nodes(nodes: int) -> str:
    return f"python3 -c {quote_word(_WAIT_FOR_NODES.format(nodes=nodes, limit_s=RAY_JOIN_TIMEOUT_S))} || exit"


def _wants_dashboard(ctx: CommandContext) -> bool:
    return bool(ctx.config.get("dashboard", ctx.recipe.runtime_config.get("dashboard")))


def _dashboard_port(ctx: CommandContext) -> int:
    return ctx.config.whole("dashboard_port", int(vllm.CONSUMED["dashboard_port"]))


def _mapping(value: ConfigValue) -> Values:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
