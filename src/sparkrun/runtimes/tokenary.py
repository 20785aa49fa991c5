"""Tokenary."""

from __future__ import annotations

from typing import ClassVar

from sparkrun.core.flags import FlagMap
from sparkrun.core.shell_text import Arity, EngineSyntax, FlagForm, quote_word
from sparkrun.runtimes.base import RuntimePlugin
from sparkrun.runtimes.commands import CommandContext
from sparkrun.runtimes.environment import RuntimeEnv
from sparkrun.runtimes.flag_tables import tokenary
from sparkrun.runtimes.inference import PoolingFlag
from sparkrun.runtimes.rank_text import words_of
from sparkrun.runtimes.ranks import RankContext


class TokenaryRuntime(RuntimePlugin):
    """``tokenary serve``."""

    plugin_name = "tokenary"
    family: ClassVar[str] = "tokenary"
    flag_map: ClassVar[FlagMap] = tokenary.FLAGS
    engine: ClassVar[EngineSyntax] = tokenary.ENGINE
    program: ClassVar[str] = "tokenary"
    health_path: ClassVar[str] = "/v1/models"
    rank_flags: ClassVar[tuple[FlagForm, ...]] = tuple(
        FlagForm((name,)) for name in ("--rank", "--world-size", "--master-addr", "--master-port")
    )
    rendezvous_port: ClassVar[int] = 27101
    workers_wait: ClassVar[bool] = True
    env: ClassVar[RuntimeEnv] = RuntimeEnv()
    pooling_flags: ClassVar[tuple[PoolingFlag, ...]] = (
        PoolingFlag(FlagForm(("--encode-only",), Arity.NONE), {"": "embeddings"}),
        PoolingFlag(FlagForm(("--ner",), Arity.NONE), {"": "none"}),
    )

    def launcher_words(self, ctx: CommandContext) -> tuple[str, ...]:
        """The model by path where its files are known."""
        return ("tokenary", "serve", quote_word(self.model_word(ctx)))

    def rank_words(self, rank: RankContext) -> tuple[str, ...]:
        """Its place among all ranks."""
        return (
            *words_of("--rank", rank.rank, "--world-size", rank.node_count),
            *words_of("--master-addr", rank.master_address, "--master-port", rank.master_port),
        )
