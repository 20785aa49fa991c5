"""Atlas: an engine written for the GB10."""

from __future__ import annotations

from typing import ClassVar

from sparkrun.core.effective import EffectiveConfig
from sparkrun.core.flags import FlagMap
from sparkrun.core.recipe.schema import Values
from sparkrun.core.shell_text import EngineSyntax, FlagForm, quote_word
from sparkrun.runtimes.base import RuntimePlugin
from sparkrun.runtimes.commands import Command, CommandContext, RankCommand
from sparkrun.runtimes.environment import OFFLINE, RuntimeEnv
from sparkrun.runtimes.flag_tables import atlas
from sparkrun.runtimes.rank_text import with_rank_words, with_value, words_of
from sparkrun.runtimes.ranks import RankContext

CLUSTER_ENV = {
    "NCCL_DEBUG": "INFO",
    "NCCL_IB_DISABLE": "0",
    "NCCL_IB_ROCE_VERSION_NUM": "2",
    "NCCL_IB_ADDR_FAMILY": "AF_INET",
    "NCCL_IB_TIMEOUT": "22",
    "NCCL_IB_RETRY_CNT": "7",
    "NCCL_NET_GDR_LEVEL": "0",
    "NCCL_NET_GDR_C2C": "0",
    "NCCL_DMABUF_ENABLE": "0",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_CUMEM_HOST_ENABLE": "0",
    "NCCL_PROTO": "Simple",
    "NCCL_ALGO": "Ring",
    "NCCL_BUFFSIZE": "33554432",
    "NCCL_MIN_NCHANNELS": "1",
    "NCCL_MAX_NCHANNELS": "2",
    # Detected values of these break Atlas; NCCL takes an empty variable as none.
    "NCCL_IB_GID_INDEX": "",
    "NCCL_CROSS_NIC": "",
}


class AtlasRuntime(RuntimePlugin):
    """``spark serve``."""

    plugin_name = "atlas"
    family: ClassVar[str] = "atlas"
    flag_map: ClassVar[FlagMap] = atlas.FLAGS
    engine: ClassVar[EngineSyntax] = atlas.ENGINE
    program: ClassVar[str] = "spark"
    default_port: ClassVar[int] = 8888
    health_path: ClassVar[str] = "/v1/models"
    api_key_variable: ClassVar[str] = "ATLAS_AUTH_TOKEN"
    consumes: ClassVar[frozenset[str]] = frozenset(atlas.CONSUMED)
    rank_flags: ClassVar[tuple[FlagForm, ...]] = tuple(
        FlagForm((name,)) for name in ("--rank", "--world-size", "--master-addr", "--master-port")
    )
    rendezvous_port: ClassVar[int] = 29500
    workers_wait: ClassVar[bool] = True
    env: ClassVar[RuntimeEnv] = RuntimeEnv(cluster=CLUSTER_ENV, container=OFFLINE)

    def default_executor_config(self) -> Values:
        """Pinned memory and real-time threads; the image's entrypoint is ``spark`` itself, which would swallow the command."""
        return {"cap_add": ["IPC_LOCK", "SYS_NICE"], "entrypoint": ""}

    def requires_capability(self) -> str | None:
        """Its kernels are built for the GB10."""
        return "gb10"

    def parallelism(self, config: EffectiveConfig) -> dict[str, int]:
        """``ep_size`` is its name for ``expert_parallel``."""
        found = super().parallelism(config)
        experts = found.pop("ep_size", None)
        return {**found, "expert_parallel": experts} if experts is not None else found

    def launcher_words(self, ctx: CommandContext) -> tuple[str, ...]:
        """The model is a path where its files are known: Atlas has no flag for a revision."""
        return ("spark", "serve", quote_word(self.model_word(ctx)))

    def rank_words(self, rank: RankContext) -> tuple[str, ...]:
        """Its place among all ranks."""
        return (
            *words_of("--rank", rank.rank, "--world-size", rank.node_count),
            *words_of("--master-addr", rank.master_address, "--master-port", rank.master_port),
        )

    def rank_command(self, ctx: CommandContext, command: Command) -> RankCommand:
        """Only the head serves: a worker is given port 0."""
        if ctx.rank.solo:
            return RankCommand(command.text)
        text = command.text if ctx.rank.head else with_value(self, command.text, "port", 0)
        return with_rank_words(self, text, self.rank_words(ctx.rank))
