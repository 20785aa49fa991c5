"""Modular MAX: one host."""

from __future__ import annotations

from typing import ClassVar

from sparkrun.core.flags import FlagMap
from sparkrun.core.shell_text import EngineSyntax, FlagForm, flag_value, insert_flags, quote_word
from sparkrun.runtimes.base import RuntimePlugin
from sparkrun.runtimes.commands import CommandContext, Draft
from sparkrun.runtimes.engine_calls import engine_call
from sparkrun.runtimes.environment import OFFLINE, RuntimeEnv
from sparkrun.runtimes.flag_tables import modular_max
from sparkrun.runtimes.inference import PoolingFlag

DEVICES = FlagForm(("--devices",))


class ModularMaxRuntime(RuntimePlugin):
    """``max serve``."""

    plugin_name = "modular-max"
    family: ClassVar[str] = "modular-max"
    flag_map: ClassVar[FlagMap] = modular_max.FLAGS
    engine: ClassVar[EngineSyntax] = modular_max.ENGINE
    program: ClassVar[str] = "max"
    health_path: ClassVar[str] = "/v1/models"
    max_nodes: ClassVar[int | None] = 1
    env: ClassVar[RuntimeEnv] = RuntimeEnv(container=OFFLINE)
    pooling_flags: ClassVar[tuple[PoolingFlag, ...]] = (PoolingFlag(FlagForm(("--task",)), {"embeddings_generation": "embeddings"}),)

    def launcher_words(self, ctx: CommandContext) -> tuple[str, ...]:
        """The model by path where its files are known."""
        return ("max", "serve", "--model", quote_word(self.model_word(ctx)))

    def finish(self, draft: Draft, ctx: CommandContext) -> Draft:
        """``tensor_parallel`` is a list of devices to it."""
        call, size = engine_call(draft.text, self.engine), ctx.config.whole("tensor_parallel", 1)
        if call is None or not call.editable or size == 1 or flag_value(call, DEVICES) is not None:
            return draft
        return draft.became(insert_flags(call, ["--devices", f"gpu:{','.join(str(index) for index in range(size))}"]))
