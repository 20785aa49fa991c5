"""The runtime plugin: what an engine's command line looks like, and how its ranks are put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from sparkrun.core.effective import EffectiveConfig, Tiers, build_effective
from sparkrun.core.flags import FlagMap
from sparkrun.core.placement import NodeCount, NodeWish, node_rule, required_nodes, world_size
from sparkrun.core.plan import Mount, Stage
from sparkrun.core.plugin import SparkrunPlugin
from sparkrun.core.recipe import Recipe
from sparkrun.core.recipe.keys import PARALLELISM
from sparkrun.core.recipe.knowledge import RuntimeKnowledge
from sparkrun.core.recipe.schema import Values
from sparkrun.core.shell_text import EngineSyntax, FlagForm, canonical
from sparkrun.core.values import value_text
from sparkrun.orchestration.executor import Executor
from sparkrun.runtimes.commands import Command, CommandContext, Draft, RankCommand, build_command
from sparkrun.runtimes.engine_calls import engine_call, literals
from sparkrun.runtimes.environment import MODEL_CACHE, RuntimeEnv, TuningMount
from sparkrun.runtimes.images import ImageChoice, choose_image
from sparkrun.runtimes.inference import Inference, PoolingFlag, inference_of
from sparkrun.runtimes.known_flags import read_known_flags
from sparkrun.runtimes.rank_text import with_rank_words
from sparkrun.runtimes.ranks import RankContext
from sparkrun.runtimes.strategies import PlanContext, R, plan_native, plan_solo, stop_order

__all__ = ["EXT_RUNTIME", "Inference", "PlanContext", "RuntimePlugin", "Strategy"]

EXT_RUNTIME = "sparkrun.runtime"

DECISIVE = PARALLELISM | {"enable_dp_attention", "max_model_len", "gpu_memory_utilization", "kv_cache_dtype"}
"""Keys on which placement and memory depend."""

Strategy = Literal["native", "native/rpc", "ray"]


class RuntimePlugin(SparkrunPlugin):
    """One engine. Mostly data; a subclass overrides what is particular about its engine."""

    extension_point = EXT_RUNTIME
    family: ClassVar[str]
    """What users may say for it beside its own name."""
    flag_map: ClassVar[FlagMap]
    engine: ClassVar[EngineSyntax]
    flag_list: ClassVar[str | None] = None
    """The list of all flags that the engine is known to accept (``known_flags``), where there is one."""
    program: ClassVar[str]
    """The executable to look for on a host."""
    default_port: ClassVar[int] = 8000
    """What the engine listens on when nobody says."""
    default_host: ClassVar[str] = "0.0.0.0"
    """Where it listens when nobody says."""
    health_path: ClassVar[str] = "/health"
    inference: ClassVar[Inference] = "chat"
    """What a server is asked when nothing about it says otherwise (``inference_of``)."""
    pooling_flags: ClassVar[tuple[PoolingFlag, ...]] = ()
    """Flags that make it something else than a chat server."""
    defaults: ClassVar[Values] = {}
    api_key_env: ClassVar[str | None] = None
    """The variable from which the engine reads its API key, so that the key need not stand on the command line."""
    api_key_variable: ClassVar[str] = "SPARKRUN_API_KEY"
    """The variable that stands in the command instead of the key, where the engine reads none."""
    always_named: ClassVar[bool] = False
    """Whether the engine is given a served model name even when nobody configures one."""
    consumes: ClassVar[frozenset[str]] = frozenset()
    """Configuration keys that the runtime reads itself; no flag need stand for them."""
    rank_flags: ClassVar[tuple[FlagForm, ...]] = ()
    """Flags that the launch gives each rank; an author's own are replaced."""
    rendezvous_port: ClassVar[int] = 25000
    """Where nodes meet unless ``init_port`` says otherwise or something holds the port."""
    workers_wait: ClassVar[bool] = False
    """Whether a worker gives up at once when its head does not listen yet."""
    env: ClassVar[RuntimeEnv] = RuntimeEnv()
    cache_variables: ClassVar[dict[str, str]] = {"XDG_CACHE_HOME": ""}
    """Variables of the compile cache, with the folder of each below the mount (``runtime_cache.plan_runtime_cache``)."""
    tuning: ClassVar[TuningMount | None] = None
    """Where its engine reads tuning configs, if it does."""
    cache_by_image: ClassVar[bool] = False
    """Whether compiled kernels fit only the image that made them."""
    takes_host_images: ClassVar[bool] = False
    """Whether ``containers:`` may give each host an image of its own."""
    splits_heads: ClassVar[bool] = True
    """Whether ranks of tensor parallelism share out the attention heads, so that their number has to divide them."""
    default_builder: ClassVar[str | None] = None
    """The builder of its images when a recipe names none."""
    max_nodes: ClassVar[int | None] = None
    runs_on_cpu: ClassVar[bool] = False
    """Whether a host without accelerators can serve with it."""
    claims_memory: ClassVar[bool] = False
    """Whether it takes all of ``gpu_memory_utilization`` when it starts, and gives up where so much is not free."""
    overhead_gib: ClassVar[float] = 2.0
    """What it takes on each GPU beside weights and KV cache, about: its context, captured graphs, room for activations. A rule of thumb."""
    deprecation: ClassVar[str | None] = None
    """What to use instead, told at each launch."""

    def default_executor(self) -> str | None:
        """An executor this engine wants when nobody names one."""
        return None

    def default_executor_config(self) -> Values:
        """Executor settings this engine wants unless somebody says otherwise."""
        return {}

    def requires_capability(self) -> str | None:
        """A capability tag that every host must have."""
        return None

    def cluster_strategy(self) -> Strategy:
        """How several nodes are joined."""
        return "native"

    def parallelism(self, config: EffectiveConfig) -> dict[str, int]:
        """Each kind of parallelism that somebody set, and how much of it."""
        return {key: config.whole(key, 1) for key in sorted(PARALLELISM) if key in config and not config.is_off(key)}

    def dp_attention(self, config: EffectiveConfig) -> bool:
        """Whether data-parallel ranks are the tensor-parallel ones."""
        del config
        return False

    def settings_in_command(self, recipe: Recipe, config: EffectiveConfig) -> Values:
        """What the recipe's command spells out of parallelism and memory, where nobody overrides it; for ``config.with_values``.

        The engine does what its command says, so placement and memory must count with that.
        """
        call = engine_call(recipe.command or "", self.engine)
        overridden = ("override", "launch")
        return {
            key: int(value) if isinstance(value, str) and value.isdecimal() else value
            for key, value in literals(call, self.flag_map, DECISIVE).items()
            if config.origin(key) not in overridden and value_text(config.get(key)) != value
        }

    def configuration(self, recipe: Recipe, tiers: Tiers) -> EffectiveConfig:
        """The configuration chain with what the recipe's command itself spells out."""
        config = build_effective(recipe, tiers)
        spelt = self.settings_in_command(recipe, config)
        return config.with_values(spelt) if spelt else config

    def world_size(self, config: EffectiveConfig) -> int:
        """How many ranks the parallelism asks for."""
        return world_size(node_rule(self.plugin_name, dp_attention=self.dp_attention(config)), self.parallelism(config))

    def replica_size(self, config: EffectiveConfig) -> int:
        """How many ranks one replica has."""
        replicas = 1 if self.dp_attention(config) else config.whole("data_parallel", 1)
        return max(self.world_size(config) // max(replicas, 1), 1)

    def required_nodes(self, recipe: Recipe, config: EffectiveConfig, room: Sequence[int], *, solo: bool = False) -> NodeCount:
        """Ranks and nodes on hosts with so many GPUs each. Raises what ``placement.required_nodes`` raises."""
        wish = NodeWish(
            runtime=self.plugin_name,
            parallelism=self.parallelism(config),
            min_nodes=recipe.min_nodes,
            max_nodes=recipe.max_nodes,
            runtime_max_nodes=self.max_nodes,
            solo=solo,
            dp_attention=self.dp_attention(config),
        )
        return required_nodes(wish, room)

    def first_port(self, config: EffectiveConfig) -> int:
        """The first port to try for the nodes to meet on."""
        return config.whole("init_port", self.rendezvous_port)

    def resolve_container(self, recipe: Recipe, host: str, choice: ImageChoice) -> str:
        """The image of a host. Raises ``RecipeError`` when nobody names one."""
        return choose_image(recipe, host, choice)

    def model_word(self, ctx: CommandContext) -> str:
        """What ``{model}`` becomes in a command template."""
        return ctx.facts.model.path or ctx.model.path or ctx.model.text

    def bound_values(self, ctx: CommandContext) -> Values:
        """Configuration that follows from what is known of the model's files (revisions of draft models)."""
        del ctx
        return {}

    def launcher_words(self, ctx: CommandContext) -> tuple[str, ...]:
        """The first words of a command without template, up to the flags; shell-quoted."""
        raise NotImplementedError

    def finish(self, draft: Draft, ctx: CommandContext) -> Draft:
        """Last changes to a command."""
        del ctx
        return draft

    def check(self, ctx: CommandContext) -> None:
        """Refuse what this engine cannot do, before any side effect."""

    def generate_command(self, ctx: CommandContext) -> Command:
        """The serving command, from the template or from the flag map. Raises ``RecipeError`` or ``UsageError``."""
        return build_command(self, ctx)

    def rank_words(self, rank: RankContext) -> tuple[str, ...]:
        """What this rank's engine is told of the others; shell-quoted."""
        del rank
        return ()

    def rank_command(self, ctx: CommandContext, command: Command) -> RankCommand:
        """What the process ``ctx.rank`` runs: the serving command with its own words. A launch of one runs the command as it is."""
        return RankCommand(command.text) if ctx.rank.solo else with_rank_words(self, command.text, self.rank_words(ctx.rank))

    def rank_name(self, executor: Executor, cluster_id: str, rank: RankContext) -> str:
        """The name of the container or process of a rank."""
        return executor.container_name(cluster_id, "solo") if rank.solo else executor.node_container_name(cluster_id, rank.rank)

    def rank_ports(self, ctx: CommandContext, command: Command) -> tuple[int, ...]:
        """The ports a rank will listen on, which must be free on its host."""
        rank = ctx.rank
        serves = (command.port,) if rank.head or (rank.leads and rank.replicas > 1) else ()
        return (*serves, *((rank.master_port,) if rank.leads and rank.replica_nodes > 1 else ()))

    def needs_model(self, rank: RankContext) -> bool:
        """Whether the model's files have to be on the rank's host."""
        del rank
        return True

    def get_extra_env(self, ctx: CommandContext) -> dict[str, str]:
        """Variables the engine needs on this host, in or out of a container. Everybody's own values beat them."""
        return self.env.on(ctx.rank)

    def get_container_env(self, ctx: CommandContext) -> dict[str, str]:
        """Variables that hold paths of the container, so nobody's own values may beat them."""
        tuned = self.tuning.env if self.tuning and ctx.facts.tuning else {}
        return {**MODEL_CACHE, **self.env.container, **tuned}

    def get_extra_volumes(self, ctx: CommandContext) -> tuple[Mount, ...]:
        """Mounts beside the model cache and the compile cache."""
        del ctx
        return ()

    def get_extra_docker_opts(self, ctx: CommandContext) -> tuple[str, ...]:
        """Words for ``docker run`` that no executor setting stands for."""
        del ctx
        return ()

    def inference_of(self, recipe: Recipe, command: Command) -> Inference:
        """How to ask whether the server works."""
        found = inference_of(engine_call(command.text, self.engine), self.pooling_flags, recipe)
        return self.inference if found == "chat" else found

    def plan(self, ctx: PlanContext) -> tuple[Stage, ...]:
        """The stages that start all ranks."""
        return plan_solo(ctx) if len(ctx.ranks) == 1 else self.plan_cluster(ctx)

    def plan_cluster(self, ctx: PlanContext) -> tuple[Stage, ...]:
        """The stages that start several ranks."""
        return plan_native(ctx, workers_wait=self.workers_wait)

    def stop_order(self, ranks: Sequence[R]) -> tuple[tuple[R, ...], ...]:
        """Groups of ranks, in rank order, that stop together, one group after the other."""
        return stop_order(ranks)

    def knowledge(self) -> RuntimeKnowledge:
        """What checking a recipe needs to know of this runtime."""
        listed = read_known_flags(self.flag_list) if self.flag_list else None
        return RuntimeKnowledge(
            name=self.plugin_name,
            flag_map=self.flag_map,
            engine=self.engine,
            strategy=self.cluster_strategy(),
            consumed=self.consumes,
            rendezvous_flags=frozenset(
                canonical(spelling) for form in self.rank_flags for spelling in form.spellings if spelling.startswith("--")
            ),
            known_flags=listed.names.union(self.flag_map.spellings) if listed else frozenset(),
            flags_of=listed.engine if listed else "",
            defaults=self.defaults,
            max_nodes=self.max_nodes,
            takes_host_images=self.takes_host_images,
        )
