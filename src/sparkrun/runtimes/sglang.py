"""SGLang."""

from __future__ import annotations

from typing import ClassVar

from sparkrun.core.effective import EffectiveConfig
from sparkrun.core.errors import RecipeError
from sparkrun.core.flags import FlagMap, truth
from sparkrun.core.recipe.schema import Values
from sparkrun.core.shell_text import Arity, EngineSyntax, FlagForm, flag_uses, flag_value, insert_flags
from sparkrun.runtimes.base import RuntimePlugin
from sparkrun.runtimes.commands import Command, CommandContext, Draft, RankCommand, hub_words
from sparkrun.runtimes.engine_calls import engine_call
from sparkrun.runtimes.environment import OFFLINE, RuntimeEnv, TuningMount
from sparkrun.runtimes.flag_tables import sglang
from sparkrun.runtimes.inference import PoolingFlag
from sparkrun.runtimes.rank_text import with_rank_words, with_value, without_flag, words_of
from sparkrun.runtimes.ranks import RankContext, socket_address
from sparkrun.runtimes.runtime_cache import COMPILER_CACHES

SIZE = FlagForm(("--dp-size", "--dp", "--data-parallel-size"))
ATTENTION = FlagForm(("--enable-dp-attention",), Arity.NONE)
TOKENIZER = FlagForm(("--tokenizer-path",))
DRAFT_REVISION = FlagForm(("--speculative-draft-model-revision",))
DRAFT = FlagForm(("--speculative-draft-model-path", "--speculative-draft-model"))

RANK_FLAGS = (FlagForm(("--dist-init-addr", "--nccl-init-addr")), FlagForm(("--nnodes",)), FlagForm(("--node-rank",)))
CACHE_VARIABLES = {
    **COMPILER_CACHES,
    "SGLANG_CACHE_DIR": "sglang",
    "SGLANG_JIT_CACHE_DIR": "sglang/jit",
    "TILELANG_CACHE_DIR": "tilelang",
    "TVM_FFI_CACHE_DIR": "tvm_ffi",
}


class SglangRuntime(RuntimePlugin):
    """SGLang: its nodes join by themselves; data parallelism without attention is so many independent servers."""

    plugin_name = "sglang"
    family: ClassVar[str] = "sglang"
    flag_map: ClassVar[FlagMap] = sglang.FLAGS
    engine: ClassVar[EngineSyntax] = sglang.ENGINE
    program: ClassVar[str] = "sglang"
    default_port: ClassVar[int] = 30000
    default_host: ClassVar[str] = "127.0.0.1"
    api_key_variable: ClassVar[str] = "SGLANG_API_KEY"
    rank_flags: ClassVar[tuple[FlagForm, ...]] = RANK_FLAGS
    env: ClassVar[RuntimeEnv] = RuntimeEnv(
        cluster={"NCCL_CUMEM_ENABLE": "0", "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK": "0"},
        container=OFFLINE,
        address=("SGLANG_HOST_IP",),
    )
    cache_variables: ClassVar[dict[str, str]] = CACHE_VARIABLES
    tuning: ClassVar[TuningMount | None] = TuningMount("/tuning/sglang/configs", {"SGLANG_MOE_CONFIG_DIR": "/tuning/sglang"})
    takes_host_images: ClassVar[bool] = True
    consumes: ClassVar[frozenset[str]] = frozenset({"init_port"})
    pooling_flags: ClassVar[tuple[PoolingFlag, ...]] = (PoolingFlag(FlagForm(("--is-embedding",), Arity.NONE), {"": "embeddings"}),)

    def default_executor_config(self) -> Values:
        """Ranks of one host hand memory to each other through ``ptrace``."""
        return {"cap_add": ["SYS_PTRACE"]}

    def dp_attention(self, config: EffectiveConfig) -> bool:
        """As configured; a switch in the command counts once ``settings_in_command`` has read it."""
        return truth(config.get("enable_dp_attention"))

    def check(self, ctx: CommandContext) -> None:
        """A GGUF file holds no tokenizer that SGLang reads."""
        if not is_gguf(ctx) or ctx.config.text("tokenizer_path") or "--tokenizer-path" in (ctx.recipe.command or ""):
            return
        raise RecipeError(
            f"{ctx.recipe.where('model')}: SGLang needs tokenizer_path for the GGUF model {ctx.recipe.model}",
            hint="add tokenizer_path: ORG/MODEL under defaults, or give it with -o tokenizer_path=ORG/MODEL",
        )

    def launcher_words(self, ctx: CommandContext) -> tuple[str, ...]:
        """A hub model keeps its id, with the commit of its snapshot; GGUF and local models are named by path."""
        model, revision = hub_words(ctx)
        configured = ctx.config.text("revision")
        return ("sglang", "serve", "--model-path", model, *(("--revision", revision) if revision and not configured else ()))

    def bound_values(self, ctx: CommandContext) -> Values:
        """The draft model at the commit that was fetched."""
        draft = ctx.config.text("speculative_draft_model_path") or ctx.config.text("speculative_draft_model")
        commit = ctx.draft_revisions.get(draft or "")
        return {"speculative_draft_model_revision": commit} if commit and "speculative_draft_model_revision" not in ctx.config else {}

    def finish(self, draft: Draft, ctx: CommandContext) -> Draft:
        """Data-parallel attention has as many data-parallel ranks as tensor-parallel ones; a draft model is pinned."""
        call = engine_call(draft.text, self.engine)
        if call is None or not call.editable:
            return draft
        words: list[str] = []
        if flag_uses(call, ATTENTION) and flag_value(call, SIZE) is None:
            tensor = self.flag_map.by_key("tensor_parallel")
            size = flag_value(call, tensor.form) if tensor else None
            words += ["--dp-size", str(size)] if isinstance(size, str) and size.isdecimal() else []
        commit = ctx.draft_revisions.get(str(flag_value(call, DRAFT)))
        words += ["--speculative-draft-model-revision", commit] if commit and not flag_uses(call, DRAFT_REVISION) else []
        return draft.became(insert_flags(call, words)) if words else draft

    def rank_words(self, rank: RankContext) -> tuple[str, ...]:
        """Each replica meets by itself; one of a single process meets nobody."""
        if rank.replica_nodes == 1:
            return ()
        meeting = socket_address(rank.master_address, rank.master_port)
        return words_of("--dist-init-addr", meeting, "--nnodes", rank.replica_nodes, "--node-rank", rank.replica_rank)

    def rank_command(self, ctx: CommandContext, command: Command) -> RankCommand:
        """A server of one replica does not know of the others, so it is told of those that it holds alone."""
        rank, text = ctx.rank, command.text
        if rank.solo:
            return RankCommand(text)
        if rank.replicas > 1:
            text = (
                with_value(self, text, "data_parallel", rank.local_replicas) if rank.local_replicas > 1 else without_flag(self, text, SIZE)
            )
        return with_rank_words(self, text, self.rank_words(rank))


def is_gguf(ctx: CommandContext) -> bool:
    """Whether the model is a GGUF file: by its name, its quantisation, or where it was found."""
    path = ctx.facts.model.path or ctx.model.path or ""
    return bool(ctx.model.quant) or path.lower().endswith(".gguf") or ctx.model.text.lower().endswith((".gguf", "-gguf"))
