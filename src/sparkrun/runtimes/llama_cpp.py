"""llama.cpp's ``llama-server``: on one host, or with the memory of others through ``rpc-server``; through the embedded engine where a host
of the local executor has no ``llama-server`` of its own."""

from __future__ import annotations

from typing import ClassVar

from sparkrun.core.effective import EffectiveConfig
from sparkrun.core.errors import EngineMissingError
from sparkrun.core.flags import FlagMap
from sparkrun.core.plan import Stage
from sparkrun.core.recipe.schema import Values
from sparkrun.core.shell_text import (
    Arity,
    EngineSyntax,
    FlagForm,
    flag_value,
    insert_flags,
    quote_word,
    replace_engine_words,
    swap_flag,
)
from sparkrun.core.values import ConfigValue, is_off
from sparkrun.orchestration.executor import Executor
from sparkrun.runtimes.base import PlanContext, RuntimePlugin, Strategy
from sparkrun.runtimes.commands import Command, CommandContext, Draft, RankCommand
from sparkrun.runtimes.engine_calls import engine_call
from sparkrun.runtimes.flag_tables import llama_cpp
from sparkrun.runtimes.inference import PoolingFlag
from sparkrun.runtimes.rank_text import with_rank_words, with_value, words_of
from sparkrun.runtimes.ranks import RankContext, socket_address
from sparkrun.runtimes.strategies import plan_rpc

EMBEDDED_MODULE = "sparkrun.embedded.llama_server"
ENGINE = llama_cpp.ENGINE._replace(starts=(*llama_cpp.ENGINE.starts, ("python", "-m", EMBEDDED_MODULE)))

RPC = FlagForm(("--rpc",))
SPLIT_MODE = FlagForm(("--split-mode", "-sm"))
POOLING_FLAGS = (
    PoolingFlag(FlagForm(("--embedding", "--embeddings"), Arity.NONE), {"": "embeddings"}),
    PoolingFlag(FlagForm(("--rerank", "--reranking"), Arity.NONE), {"": "none"}),
    PoolingFlag(FlagForm(("--pooling",)), {"rank": "none"}),
)


class LlamaCppRuntime(RuntimePlugin):
    """GGUF models by ``llama-server``."""

    plugin_name = "llama-cpp"
    family: ClassVar[str] = "llama-cpp"
    flag_map: ClassVar[FlagMap] = llama_cpp.FLAGS
    engine: ClassVar[EngineSyntax] = ENGINE
    flag_list: ClassVar[str | None] = "llama_server"
    program: ClassVar[str] = "llama-server"
    default_port: ClassVar[int] = 8080
    default_host: ClassVar[str] = "127.0.0.1"
    runs_on_cpu: ClassVar[bool] = True
    api_key_env: ClassVar[str | None] = "LLAMA_API_KEY"
    api_key_variable: ClassVar[str] = "LLAMA_API_KEY"
    consumes: ClassVar[frozenset[str]] = frozenset({"mmproj", "rpc_port"})
    rank_flags: ClassVar[tuple[FlagForm, ...]] = (RPC,)
    rendezvous_port: ClassVar[int] = 50052
    takes_host_images: ClassVar[bool] = True
    overhead_gib: ClassVar[float] = 0.5
    splits_heads: ClassVar[bool] = False
    pooling_flags: ClassVar[tuple[PoolingFlag, ...]] = POOLING_FLAGS

    def cluster_strategy(self) -> Strategy:
        """Workers are ``rpc-server`` processes."""
        return "native/rpc"

    def first_port(self, config: EffectiveConfig) -> int:
        """Where the workers listen."""
        return config.whole("rpc_port", super().first_port(config))

    def launcher_words(self, ctx: CommandContext) -> tuple[str, ...]:
        """The engine and its model: a file where one is known, else the hub id."""
        path = ctx.facts.model.path or (ctx.model.path if ctx.model.kind == "path" else None)
        if path is None and ctx.model.kind == "hub":
            return ("llama-server", "-hf", quote_word(ctx.model.text))
        return ("llama-server", "-m", quote_word(path or ctx.model.text))

    def model_word(self, ctx: CommandContext) -> str:
        """The file where one is known, so that ``-m {model}`` works; ``-hf {model}`` is turned into ``-m`` afterwards."""
        return ctx.facts.model.path or (ctx.model.path if ctx.model.kind == "path" else None) or ctx.model.text

    def finish(self, draft: Draft, ctx: CommandContext) -> Draft:
        """The model's files in place of its id, its projector, how it is split, and the engine that is there."""
        draft = self._with_split(draft, ctx)
        return self._with_engine(self._with_projector(self._with_file(draft, ctx), ctx), ctx)

    def rank_words(self, rank: RankContext) -> tuple[str, ...]:
        """Where the other hosts' memory is."""
        return words_of("--rpc", ",".join(socket_address(peer.fast_address, rank.master_port) for peer in rank.peers[1:]))

    def rank_command(self, ctx: CommandContext, command: Command) -> RankCommand:
        """Workers lend their memory, on the fabric's address alone, since nothing asks who comes. Rows cannot be split over RPC."""
        rank = ctx.rank
        if rank.solo:
            return RankCommand(command.text)
        if not rank.head:
            return RankCommand(" ".join(words_of("rpc-server", "--host", rank.fast_address, "--port", rank.master_port)))
        text = command.text
        call = engine_call(text, self.engine)
        if call and flag_value(call, SPLIT_MODE) == "row":
            text = with_value(self, text, "split_mode", "layer")
        return with_rank_words(self, text, self.rank_words(rank))

    def rank_name(self, executor: Executor, cluster_id: str, rank: RankContext) -> str:
        """A head and numbered workers, so that two workers on one host have names of their own."""
        return executor.container_name(cluster_id, rank.role)

    def rank_ports(self, ctx: CommandContext, command: Command) -> tuple[int, ...]:
        """The head serves, the workers lend."""
        return (command.port,) if ctx.rank.head else (ctx.rank.master_port,)

    def needs_model(self, rank: RankContext) -> bool:
        """The head reads the file and hands the layers out."""
        return rank.head

    def plan_cluster(self, ctx: PlanContext) -> tuple[Stage, ...]:
        """Workers first."""
        return plan_rpc(ctx, ctx.contexts[0].master_port)

    def _with_split(self, draft: Draft, ctx: CommandContext) -> Draft:
        """``tensor_parallel`` splits rows, ``pipeline_parallel`` layers, unless the command or somebody says."""
        call = engine_call(draft.text, self.engine)
        if call is None or not call.editable or flag_value(call, SPLIT_MODE) is not None or "split_mode" in ctx.config:
            return draft
        tensor, pipeline = ctx.config.whole("tensor_parallel", 1), ctx.config.whole("pipeline_parallel", 1)
        mode = "row" if tensor > 1 else "layer" if pipeline > 1 else None
        return draft.became(insert_flags(call, ["--split-mode", mode])) if mode else draft

    def _with_file(self, draft: Draft, ctx: CommandContext) -> Draft:
        call, path = engine_call(draft.text, self.engine), ctx.facts.model.path
        named = flag_value(call, llama_cpp.MODEL_REPOSITORY) if call else None
        if call is None or path is None or named not in (path, ctx.model.text, ctx.model.repo):
            return draft
        return draft.became(swap_flag(call, llama_cpp.MODEL_REPOSITORY, ["-m", quote_word(path)]))

    def _with_projector(self, draft: Draft, ctx: CommandContext) -> Draft:
        call, model, wanted = engine_call(draft.text, self.engine), ctx.facts.model, _wanted_projector(ctx)
        if call is None or wanted is False or flag_value(call, llama_cpp.PROJECTOR_FILE) is not None:
            return draft
        if model.mmproj is None:
            return draft.warned(*((f"no projector is known beside {ctx.model.text}",) if wanted and ctx.bound else ()))
        path = f"{model.mmproj.rpartition('/')[0]}/{wanted}" if isinstance(wanted, str) else model.mmproj
        note = f"{model.mmproj_count} projectors exist; {path.rpartition('/')[2]} is used"
        return draft.became(insert_flags(call, ["--mmproj", quote_word(path)]), *((note,) if model.mmproj_count > 1 else ()))

    def _with_engine(self, draft: Draft, ctx: CommandContext) -> Draft:
        """The embedded engine takes the place of a missing ``llama-server``."""
        call, facts = engine_call(draft.text, self.engine), ctx.facts
        if call is None or facts.engine_path or facts.assumed or ctx.in_container:
            return draft
        if facts.embedded_python is None:
            raise EngineMissingError(
                f"{facts.host}: no llama-server on PATH, and no embedded engine",
                hint="install llama.cpp there, or: pip install 'sparkrun[local]'",
            )
        text = replace_engine_words(call, [quote_word(facts.embedded_python), "-m", EMBEDDED_MODULE])
        return draft.became(text, f"no llama-server on {facts.host}: the embedded engine (xllamacpp) takes its place")


def _wanted_projector(ctx: CommandContext) -> ConfigValue:
    """What ``mmproj`` says: a file beside the model, ``False`` for none, ``True`` or nothing for the one that was found best."""
    runtime: Values = ctx.recipe.runtime_config
    value = ctx.config.get("mmproj", runtime.get("mmproj"))
    return None if is_off(value) else value
