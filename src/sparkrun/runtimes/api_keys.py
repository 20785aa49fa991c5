"""Keeping an engine's API key off its command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from sparkrun.core.flags import Flag
from sparkrun.core.shell_text import EngineCall, flag_uses, insert_flags, remove_flag, replace_flag
from sparkrun.core.values import ConfigValue, is_off, value_text
from sparkrun.runtimes.context import CommandContext, Draft, EngineTraits
from sparkrun.runtimes.engine_calls import engine_call

KEY_VARIABLES = ("VLLM_API_KEY", "SGLANG_API_KEY", "LLAMA_API_KEY")
"""Where a recipe's environment may hold the key."""


_VARIABLE = re.compile(r"\$\{?(\w+)\}?", re.ASCII)


class HiddenKey(NamedTuple):
    """The key that clients need, and the variables through which the engine gets it (and any further keys)."""

    key: str | None = None
    env: Mapping[str, str] = MappingProxyType({})


def hide_api_key(runtime: EngineTraits, ctx: CommandContext, draft: Draft) -> tuple[Draft, HiddenKey]:
    """The command without a key in it. An engine that reads a variable gets that; any other finds ``"$VARIABLE"`` in its command.

    Order of sources: override and defaults, the user's environment, the flag in the command.
    """
    flag, call = runtime.flag_map.by_key("api_key"), engine_call(draft.text, runtime.engine)
    configured = _configured(ctx, flag)
    told = _from_env(runtime, ctx)
    if flag is None:
        unused = (f"{runtime.plugin_name} has no API key; api_key has no effect",) if configured else ()
        return draft.warned(*unused), HiddenKey()
    spelt = _spelt(call, flag) if call else ()
    keys = configured or ((told,) if told else ()) or spelt
    if not keys:
        return draft, HiddenKey(_referenced(ctx, call, flag) if call else None)
    if call is None or not call.editable:
        shown = ("the API key stands in the command, which cannot be edited",) if spelt else ()
        return draft.warned(*shown), HiddenKey(keys[0], _variables(runtime, keys[:1]))
    if not (configured or spelt):
        return draft, HiddenKey(keys[0], _variables(runtime, keys) if runtime.api_key_env else {})
    return draft.became(_without_key(runtime, call, flag, keys)), HiddenKey(keys[0], _variables(runtime, keys))


def _configured(ctx: CommandContext, flag: Flag | None) -> tuple[str, ...]:
    """The keys of the configuration; several where the engine takes several."""
    for name in ("api_key", *(flag.aliases if flag else ())):
        value: ConfigValue = ctx.config.get(name)
        if not is_off(value):
            return tuple(value_text(item) for item in value) if isinstance(value, list) else (value_text(value),)
    return ()


def _from_env(runtime: EngineTraits, ctx: CommandContext) -> str | None:
    names = dict.fromkeys((runtime.api_key_variable, *KEY_VARIABLES))
    return next((ctx.user_env[name] for name in names if ctx.user_env.get(name)), None)


def _spelt(call: EngineCall, flag: Flag) -> tuple[str, ...]:
    """The keys in the command; those that only the shell knows are hidden already."""
    uses = flag_uses(call, flag.form)
    if not uses or uses[-1].dynamic:
        return ()
    return (uses[-1].joined,) if uses[-1].joined is not None else tuple(word.text for word in uses[-1].values)


def _referenced(ctx: CommandContext, call: EngineCall, flag: Flag) -> str | None:
    """The key that a variable in the command stands for, where the user's environment has it."""
    uses = flag_uses(call, flag.form)
    found = _VARIABLE.fullmatch(str(uses[-1].value)) if uses else None
    return ctx.user_env.get(found[1]) if found else None


def _without_key(runtime: EngineTraits, call: EngineCall, flag: Flag, keys: tuple[str, ...]) -> str:
    present = bool(flag_uses(call, flag.form))
    if runtime.api_key_env and len(keys) == 1:
        return remove_flag(call, flag.form) if present else call.text
    words = [f'"${name}"' for name in _variables(runtime, keys)]
    return replace_flag(call, flag.form, words) if present else insert_flags(call, [flag.flag, *words])


def _variables(runtime: EngineTraits, keys: tuple[str, ...]) -> dict[str, str]:
    name = runtime.api_key_env or runtime.api_key_variable
    return {name if number == 1 else f"{name}_{number}": key for number, key in enumerate(keys, start=1)}
