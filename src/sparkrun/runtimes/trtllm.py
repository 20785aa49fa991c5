"""TensorRT-LLM: ``trtllm-serve``, over several hosts by MPI."""

from __future__ import annotations

from typing import ClassVar

from sparkrun.core.errors import RecipeError
from sparkrun.core.flags import FlagMap
from sparkrun.core.plan import Mount, Stage
from sparkrun.core.recipe.schema import Values
from sparkrun.core.shell_text import (
    EngineCall,
    EngineSyntax,
    TextEdit,
    apply_edits,
    flag_value,
    insert_flags,
    quote_word,
)
from sparkrun.core.values import is_off
from sparkrun.runtimes.base import PlanContext, RuntimePlugin
from sparkrun.runtimes.commands import Command, CommandContext, Draft, RankCommand, editable_engine
from sparkrun.runtimes.engine_calls import engine_call
from sparkrun.runtimes.environment import OFFLINE, RuntimeEnv
from sparkrun.runtimes.flag_tables import trtllm
from sparkrun.runtimes.rank_text import words_of
from sparkrun.runtimes.ranks import RankContext
from sparkrun.runtimes.strategies import plan_mpi
from sparkrun.utils.yamlio import dump_yaml

LAUNCH = "trtllm-llmapi-launch"
WRAPPER = "/tmp/sparkrun-rsh-wrapper.sh"
KEY_ON_HOST = "~/.ssh/id_ed25519"
KEY = "/tmp/.ssh/id_ed25519"
KNOWN_HOSTS = "/tmp/sparkrun-known-hosts"
_END = "SPARKRUN_END"

CLUSTER_ENV = {
    "NCCL_CUMEM_ENABLE": "0",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_ppr_n_pernode": "1",
}

# Open MPI gives the agent a host and a shell command. The login shell of the host takes one more layer of quotes.
_WRAPPER_TEXT = """\
#!/bin/sh
host=$1
shift
case $host in
{cases}
  *) echo "unknown host $host" >&2; exit 1 ;;
esac
command=$(printf '%s' "$*" | sed "s/'/'\\\\\\\\''/g")
exec ssh -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile={known_hosts} -o BatchMode=yes -i {key} "$login" \\
  docker exec "$container" sh -c "'$command'"
"""


class TrtllmRuntime(RuntimePlugin):
    """TensorRT-LLM's own server. Settings that have no flag go into a YAML file beside it."""

    plugin_name = "trtllm"
    family: ClassVar[str] = "trtllm"
    flag_map: ClassVar[FlagMap] = trtllm.FLAGS
    engine: ClassVar[EngineSyntax] = trtllm.ENGINE
    program: ClassVar[str] = "trtllm-serve"
    default_host: ClassVar[str] = "localhost"
    consumes: ClassVar[frozenset[str]] = frozenset(trtllm.EXTRA_CONFIG)
    env: ClassVar[RuntimeEnv] = RuntimeEnv(cluster=CLUSTER_ENV, container=OFFLINE)
    cache_variables: ClassVar[dict[str, str]] = {
        "XDG_CACHE_HOME": "",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "TLLM_AUTOTUNER_CACHE_PATH": "trtllm_autotuner",
    }
    cache_by_image: ClassVar[bool] = True

    def default_executor_config(self) -> Values:
        """Ranks of one host hand memory to each other through ``ptrace``."""
        return {"cap_add": ["SYS_PTRACE"]}

    def launcher_words(self, ctx: CommandContext) -> tuple[str, ...]:
        """The model by path where its files are known: there is no flag for a revision."""
        backend = () if ctx.config.text("backend") else ("--backend", "pytorch")
        return ("trtllm-serve", quote_word(self.model_word(ctx)), *backend)

    def finish(self, draft: Draft, ctx: CommandContext) -> Draft:
        """The YAML file, written by the command itself, and the flag that names it."""
        settings = extra_config(ctx)
        call = engine_call(draft.text, self.engine)
        if not settings or call is None:
            return draft
        named = flag_value(call, trtllm.EXTRA_CONFIG_FLAG)
        if named not in (None, trtllm.EXTRA_CONFIG_FILE):
            keys = ", ".join(key for key in trtllm.EXTRA_CONFIG if not is_off(ctx.config.get(key)))
            return draft.warned(f"the command names its own file of settings ({named}), so {keys} have no effect")
        text = draft.text if named else insert_flags(call, [trtllm.EXTRA_CONFIG_FLAG.spellings[0], trtllm.EXTRA_CONFIG_FILE])
        return draft.became(f"{_file(trtllm.EXTRA_CONFIG_FILE, dump_yaml(settings))}\n{text}")

    def rank_command(self, ctx: CommandContext, command: Command) -> RankCommand:
        """The head runs ``mpirun``, which starts the processes of the others; their containers wait for it with the same files."""
        if ctx.rank.solo:
            return RankCommand(command.text)
        if not ctx.rank.head:
            settings = extra_config(ctx)
            written = (_file(trtllm.EXTRA_CONFIG_FILE, dump_yaml(settings)),) if settings else ()
            return RankCommand("\n".join((*written, "exec sleep infinity")))
        call = editable_engine(self, command.text)
        _refuse_own_mpirun(call)
        wrapper = _file(WRAPPER, rsh_wrapper(ctx.rank))
        return RankCommand(f"{wrapper}\nchmod +x {WRAPPER} || exit\n{_under_mpirun(call, ctx.rank)}")

    def rank_ports(self, ctx: CommandContext, command: Command) -> tuple[int, ...]:
        """MPI chooses its own ports."""
        return (command.port,) if ctx.rank.head else ()

    def get_extra_volumes(self, ctx: CommandContext) -> tuple[Mount, ...]:
        """The head's own key, and nothing else of its ``~/.ssh``, so that its container can reach the others."""
        return (Mount(KEY_ON_HOST, KEY, read_only=True),) if ctx.rank.head and not ctx.rank.solo else ()

    def plan_cluster(self, ctx: PlanContext) -> tuple[Stage, ...]:
        """The others' containers before the head's ``mpirun``."""
        return plan_mpi(ctx)


def extra_config(ctx: CommandContext) -> Values:
    """The settings for the YAML file; empty when none is configured."""
    settings: Values = {}
    for key, path in trtllm.EXTRA_CONFIG.items():
        value = ctx.config.get(key)
        if is_off(value):
            continue
        place = settings
        for part in path[:-1]:
            inner = place.setdefault(part, {})
            assert isinstance(inner, dict)
            place = inner
        place[path[-1]] = value
    return settings


def rsh_wrapper(rank: RankContext) -> str:
    """The script by which ``mpirun`` reaches each container: the host's ssh, and ``docker exec`` there."""
    cases = "\n".join(
        f"  {peer.address}) login={quote_word(f'{peer.user}@{peer.address}' if peer.user else peer.address)};"
        f" container={quote_word(peer.name)} ;;"
        for peer in rank.peers
    )
    return _WRAPPER_TEXT.format(cases=cases, key=KEY, known_hosts=KNOWN_HOSTS)


def _under_mpirun(call: EngineCall, rank: RankContext) -> str:
    """The engine's command with ``mpirun`` before it. Of the environment only what is the same on all hosts is handed on."""
    words = (
        *words_of(
            "mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", WRAPPER, "--mca", "rmaps_ppr_n_pernode", max(len(rank.gpus), 1)
        ),
        *words_of("-H", ",".join(peer.address for peer in rank.peers)),
        *(word for key in sorted({*rank.shared_keys, *CLUSTER_ENV}) for word in ("-x", key)),
    )
    launch = () if f"{LAUNCH} " in call.text else (LAUNCH,)
    start = call.text.index(LAUNCH) if not launch else call.head[0].start
    return apply_edits(call.text, [TextEdit(start, start, " ".join((*words, *launch)) + " ")])


def _refuse_own_mpirun(call: EngineCall) -> None:
    if "mpirun" in call.text[: call.head[0].start]:
        raise RecipeError(
            "the command starts mpirun itself, and so does the launch", hint="let the recipe's command begin with trtllm-serve"
        )


def _file(path: str, text: str) -> str:
    """Shell text that writes a file."""
    return f"cat > {path} <<'{_END}' || exit\n{text.rstrip()}\n{_END}"
