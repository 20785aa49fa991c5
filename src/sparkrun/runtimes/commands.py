"""The engine's command: from the recipe's template, or from the flag map when the recipe has none."""

from __future__ import annotations

from collections.abc import Iterator

from sparkrun.core.errors import RecipeError, UnknownPlaceholderError, UsageError
from sparkrun.core.flags import Edit, apply_override, render_flags
from sparkrun.core.recipe.keys import CONSUMED
from sparkrun.core.recipe.schema import Values
from sparkrun.core.shell_text import EngineCall, flag_uses, insert_flags, model_word, quote_word
from sparkrun.core.templating import Rendered, render
from sparkrun.core.values import is_off
from sparkrun.runtimes.api_keys import HiddenKey, hide_api_key
from sparkrun.runtimes.context import Command, CommandContext, Draft, EngineTraits, RankCommand
from sparkrun.runtimes.engine_calls import engine_call, literals
from sparkrun.utils.text import did_you_mean

__all__ = ["Command", "CommandContext", "Draft", "EngineTraits", "RankCommand", "build_command", "editable_engine", "hub_words"]

_MODEL_KEYS = frozenset({"model", "resolved_model_path"})


def build_command(runtime: EngineTraits, ctx: CommandContext) -> Command:
    """The command of one rank. Raises ``RecipeError`` for what the recipe gets wrong, ``UsageError`` for an override without effect."""
    runtime.check(ctx)
    draft = _from_template(runtime, ctx) if ctx.recipe.command else _from_flags(runtime, ctx)
    draft = _add_served_name(runtime, ctx, draft)
    draft = runtime.finish(draft, ctx)
    if ctx.extra_args:
        draft = draft.became(insert_flags(editable_engine(runtime, draft.text), [quote_word(word) for word in ctx.extra_args]))
    draft = draft.warned(*_rank_flag_warnings(runtime, draft))
    draft, hidden = hide_api_key(runtime, ctx, draft)
    return _learn(runtime, ctx, draft, hidden)


def editable_engine(runtime: EngineTraits, text: str, key: str | None = None) -> EngineCall:
    """The engine in a command that has to be changed (for ``key``). Raises ``RecipeError`` when none can be found."""
    call = engine_call(text, runtime.engine)
    if call is None:
        wanted = f"cannot set {key}: " if key else ""
        starts = " or ".join(" ".join(words) for words in runtime.engine.starts)
        raise RecipeError(
            f"{wanted}the command does not start {starts} in a way that can be edited",
            hint=f"put {{{key}}} into the recipe's command" if key else None,
        )
    return call


def hub_words(ctx: CommandContext) -> tuple[str, str | None]:
    """The quoted model and revision of a command without template: id and commit, or a path that needs no revision."""
    path = ctx.facts.model.path or ctx.model.path
    if ctx.model.kind != "hub" or ctx.model.quant:
        return quote_word(path or ctx.model.text), None
    revision = ctx.commit or ctx.recipe.revision
    return quote_word(ctx.model.text), quote_word(revision) if revision else None


def _from_flags(runtime: EngineTraits, ctx: CommandContext) -> Draft:
    values = {**ctx.config.values(), **runtime.bound_values(ctx)}
    words = (*runtime.launcher_words(ctx), *render_flags(runtime.flag_map, values, {"api_key"}))
    for key in _overridden(ctx):
        if not _is_known(runtime, key):
            raise _no_effect(runtime, key)
    return Draft(" ".join(words)).warned(*_without_effect(runtime, ctx, frozenset(), f"{runtime.plugin_name} has no flag for it"))


def _from_template(runtime: EngineTraits, ctx: CommandContext) -> Draft:
    authored = [key for key in ctx.config.values() if ctx.config.origin(key) in ("recipe", "conditional")]
    rendered = render(ctx.recipe.command or "", _template_values(runtime, ctx), from_recipe=authored, flags=runtime.flag_map)
    if rendered.unknown:
        raise _unknown_placeholders(ctx, rendered)
    draft = Draft(rendered.text, tuple(rendered.notes))
    draft = _apply_overrides(runtime, ctx, draft, rendered.used)
    draft = draft.warned(*_without_effect(runtime, ctx, rendered.used, "the command does not use it"))
    if not rendered.used & _MODEL_KEYS:
        draft = draft.warned(*_model_warnings(runtime, ctx, rendered.text))
    return draft


def _template_values(runtime: EngineTraits, ctx: CommandContext) -> Values:
    """What placeholders stand for. A revision that nobody asked for and that is not known yet takes its flag with it."""
    model = runtime.model_word(ctx)
    revision: Values = {"model_revision": ctx.commit or ctx.recipe.revision or None}
    path: Values = {} if "resolved_model_path" in ctx.config else {"resolved_model_path": model}
    return {**ctx.config.values(), **revision, **path, **runtime.bound_values(ctx), "model": model}


def _apply_overrides(runtime: EngineTraits, ctx: CommandContext, draft: Draft, used: frozenset[str]) -> Draft:
    """What the user asked for takes effect: a literal flag is replaced, a missing one added."""
    for key in _overridden(ctx):
        if key in used or key in (CONSUMED | runtime.consumes) - set(runtime.flag_map.keys):
            continue
        edit = apply_override(editable_engine(runtime, draft.text, key), runtime.flag_map, key, ctx.config.get(key))
        if not isinstance(edit, Edit):
            raise _no_effect(runtime, key)
        if edit.action != "unchanged":
            draft = draft.became(edit.text, _edit_note(key, edit))
    return draft


def _add_served_name(runtime: EngineTraits, ctx: CommandContext, draft: Draft) -> Draft:
    """A name that is configured, or that the engine must always be given, where the command gives none."""
    flag, call = runtime.flag_map.by_key("served_model_name"), engine_call(draft.text, runtime.engine)
    name = ctx.config.get("served_model_name")
    if flag is None:
        return draft if is_off(name) else draft.warned(f"{runtime.plugin_name} cannot be given a served_model_name; it has no effect")
    if is_off(name) and runtime.always_named:
        name = ctx.model.served_name
    if call is None or not call.editable or flag_uses(call, flag.form) or is_off(name):
        return draft
    return draft.became(insert_flags(call, flag.words(name)))


def _overridden(ctx: CommandContext) -> list[str]:
    return [key for key in ctx.config.values() if ctx.config.origin(key) in ("override", "launch")]


def _is_known(runtime: EngineTraits, key: str) -> bool:
    return key in CONSUMED or key in runtime.consumes or runtime.flag_map.by_key(key) is not None


def _without_effect(runtime: EngineTraits, ctx: CommandContext, used: frozenset[str], why: str) -> Iterator[str]:
    """Defaults of the recipe that reach nobody."""
    for key, value in ctx.recipe.defaults.items():
        mapped = not ctx.recipe.command and runtime.flag_map.by_key(key) is not None
        if key in used or key in CONSUMED or key in runtime.consumes or mapped or is_off(value) or key.startswith("_"):
            continue
        meant = did_you_mean(key, {*runtime.flag_map.keys, *CONSUMED} - {key})
        yield f"defaults.{key} has no effect: {why}" + (f"; {meant}" if meant and runtime.flag_map.by_key(key) is None else "")


def _model_warnings(runtime: EngineTraits, ctx: CommandContext, text: str) -> Iterator[str]:
    """A model that the command spells out is not pinned to the files that were checked; another model was not even fetched."""
    call = engine_call(text, runtime.engine)
    word = model_word(call, runtime.engine) if call else None
    if word is None or word.dynamic or ctx.model.kind != "hub" or ctx.model.repo is None:
        return
    if ctx.model.repo in word.text:
        if ctx.bound or ctx.recipe.revision:
            yield f"the command spells out {ctx.model.repo}, so its revision is not pinned; write {{model}} instead"
    elif word.text.startswith(("/", ".", "~")):
        yield f"the command serves {word.text}, not the files of {ctx.model.text} that are fetched; write {{model}} instead"
    else:
        raise RecipeError(
            f"{ctx.recipe.where('command')}: the command serves {word.text}, the recipe's model is {ctx.model.text}",
            hint="write {model} in the command",
        )


def _rank_flag_warnings(runtime: EngineTraits, draft: Draft) -> Iterator[str]:
    call = engine_call(draft.text, runtime.engine)
    uses = [use for form in runtime.rank_flags for use in flag_uses(call, form)] if call else []
    if uses:
        spelt = ", ".join(dict.fromkeys(use.spelling for use in uses))
        yield f"the command holds {spelt}, which each rank gets at launch; remove it from the recipe"


def _learn(runtime: EngineTraits, ctx: CommandContext, draft: Draft, hidden: HiddenKey) -> Command:
    """What the engine will do is read from its final command; the configuration only fills in where the command is silent."""
    call = engine_call(draft.text, runtime.engine)
    said = literals(call, runtime.flag_map, ("port", "host"))
    names = _served_names(runtime, call)
    return Command(
        text=draft.text,
        port=_port(said.get("port"), runtime.default_port if call else ctx.config.whole("port", runtime.default_port)),
        host=_text(said.get("host")),
        served_model_name=names[0] if names else None,
        served_model_names=names,
        api_key=hidden.key,
        secret_env=dict(hidden.env),
        notes=draft.notes,
        warnings=draft.warnings,
    )


def _served_names(runtime: EngineTraits, call: EngineCall | None) -> tuple[str, ...]:
    flag = runtime.flag_map.by_key("served_model_name")
    uses = flag_uses(call, flag.form) if call and flag else ()
    if not uses or uses[-1].dynamic:
        return ()
    return (uses[-1].joined,) if uses[-1].joined is not None else tuple(word.text for word in uses[-1].values)


def _port(said: str | bool | None, default: int) -> int:
    text = _text(said)
    if text is None:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise RecipeError(f"port must be a number between 1 and 65535, not {text!r}")
    return int(text)


def _text(value: str | bool | None) -> str | None:
    return value if isinstance(value, str) else None


def _edit_note(key: str, edit: Edit) -> str:
    value = f" {edit.before}" if edit.before else ""
    if edit.action == "replaced":
        return f"the command says {edit.flag}{value}; replaced, because {key} was given"
    return f"{edit.flag} {edit.action}, because {key} was given and the command does not use {{{key}}}"


def _no_effect(runtime: EngineTraits, key: str) -> UsageError:
    hint = (
        did_you_mean(key, runtime.flag_map.keys)
        or f"{runtime.plugin_name} has no flag for it and the command does not use {{{key}}}; give raw flags after --"
    )
    return UsageError(f"the override {key} would have no effect", hint=hint)


def _unknown_placeholders(ctx: CommandContext, rendered: Rendered) -> UnknownPlaceholderError:
    names = (
        f"unknown placeholder {{{found.name}}}" + (f" (did you mean '{found.nearest}'?)" if found.nearest else "")
        for found in rendered.unknown
    )
    return UnknownPlaceholderError(
        f"{ctx.recipe.where('command')}: {', '.join(names)}",
        hint="define it under defaults:, or give it with -o KEY=VALUE",
    )
