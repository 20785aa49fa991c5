"""What is wanted, resolved as far as that goes without looking at a host: recipe, configuration, runtime, executor, hosts, trust."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal, cast, get_args

import msgspec

from sparkrun.builders.base import BuilderPlugin
from sparkrun.core.bootstrap import Plugins
from sparkrun.core.cluster_manager import Cluster, cluster_env
from sparkrun.core.context import SparkrunContext
from sparkrun.core.effective import EffectiveConfig, Tiers, parse_overrides
from sparkrun.core.errors import ConfigError, HostsError, RecipeError, UsageError
from sparkrun.core.events import Detail, Note, Warn
from sparkrun.core.facts import HostFacts
from sparkrun.core.hosts import HostSelection, resolve_hosts
from sparkrun.core.model_source import ModelSource, parse_model
from sparkrun.core.mods import FoundMod, ModNotFoundError, find_mods, untrusted_mods
from sparkrun.core.readiness import Readiness, resolve_readiness
from sparkrun.core.recipe import Finding, Recipe, runtime_in_force
from sparkrun.core.recipe.checks.environment import FABRIC_ENV
from sparkrun.core.recipe.keys import CONSUMED
from sparkrun.core.recipe.knowledge import Surroundings
from sparkrun.core.recipe.memory import SHARES, fraction_problem, takes_gib
from sparkrun.core.recipe.schema import ConditionalOverride, Values
from sparkrun.core.recipe.validate import PLAIN_SURROUNDINGS, validate
from sparkrun.core.registry import RegistryManager
from sparkrun.core.resolve import resolve_context, resolve_recipe
from sparkrun.core.run_options import RunOptions
from sparkrun.core.scheduler import Scheduler, SchedulerLayers, resolve_scheduler
from sparkrun.core.surroundings import surroundings_of
from sparkrun.core.trust import TrustVerdict, check_mounts, recipe_trust, refuse_untrusted
from sparkrun.core.typed_values import check_typed_values
from sparkrun.core.values import ConfigValue
from sparkrun.models.vram.find import ModelAnswer
from sparkrun.orchestration.executor import Executor, ExecutorConfig, ExecutorLayers, resolve_executor, resolve_executor_config
from sparkrun.runtimes.base import RuntimePlugin
from sparkrun.runtimes.commands import Command, CommandContext
from sparkrun.runtimes.images import check_host_images
from sparkrun.runtimes.memory_wish import shares_in
from sparkrun.utils.text import did_you_mean

MissingMounts = Literal["fail", "warn", "ignore"]
MANAGED = "managed-comm-env"
UNREAD_KEY = "unknown-top-level-key"
NO_BUILDER = "docker-pull"
"""Who brings images where nobody builds them."""
TOLD_ONLY = frozenset({"duplicate-key"})
"""Errors of a recipe that its author has to mend, and that do not keep it from running."""


class Request(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything about a launch that does not depend on what the hosts are like."""

    options: RunOptions
    recipe: Recipe
    surroundings: Surroundings
    model: ModelSource
    runtime: RuntimePlugin
    executor: Executor
    executor_config: ExecutorConfig
    scheduler: Scheduler
    selection: HostSelection
    readiness: Readiness
    trust: TrustVerdict
    untrusted_mods: tuple[FoundMod, ...] = ()
    """Mods of a registry that is not trusted, to be asked for even where the recipe is."""
    mods: tuple[FoundMod, ...] = ()
    user_defaults: Values = {}
    builder: BuilderPlugin
    builder_options: Values = {}
    """What the builder reads of the command line, of ``config.yaml`` and of the recipe."""
    built: frozenset[tuple[str, str]] = frozenset()
    """Host and image of every build of this launch that is done."""
    user_runtime_cache: Values | bool | None = None
    """``runtime_cache`` of config.yaml."""
    cluster_env: dict[str, str] = {}
    model_answer: ModelAnswer | None = None
    """What is known of the model beyond what hosts tell, once that was asked."""
    missing_mounts: MissingMounts = "fail"
    """What a mount whose source is missing on a host does to the launch."""

    @property
    def cluster(self) -> Cluster | None:
        """The saved cluster whose settings apply."""
        return self.selection.cluster

    @cached_property
    def draft_config(self) -> EffectiveConfig:
        """The configuration as far as it goes without knowing a host."""
        return self.configuration()

    @cached_property
    def draft(self) -> Command:
        """The command for a host that nobody has seen. Raises what is wrong with it."""
        facts = HostFacts(host=self.selection.hosts[0], assumed=True)
        context = CommandContext(
            recipe=self.recipe, config=self.draft_config, model=self.model, facts=facts, extra_args=self.options.extra_args
        )
        return self.runtime.generate_command(context)

    def configuration(self, platform: Values | None = None, conditional: tuple[ConditionalOverride, ...] = ()) -> EffectiveConfig:
        """The configuration chain with what the platform and the overrides that hold add, and what the command itself spells out."""
        tiers = Tiers(
            overrides={**parse_overrides(self.options.overrides), **self.options.settings},
            user=self.user_defaults,
            conditional=conditional,
            platform=platform or {},
            runtime=self.runtime.defaults,
        )
        return self.runtime.configuration(self.recipe, tiers)


def resolve_request(options: RunOptions, sctx: SparkrunContext, *, fetch: bool) -> Request:
    """Recipe, configuration, runtime, executor and hosts. Raises the error of whichever cannot be told, before a host is touched.

    ``fetch``: whether a registry may be fetched for a mod; without it a mod that is not here is told, and left open.
    """
    check_typed_values(options)
    if sctx.config.env.get("SPARKRUN_NO_RUNTIME_CACHE") == "1":
        options = msgspec.structs.replace(options, runtime_cache=False)
    context = msgspec.structs.replace(resolve_context(sctx), trust=options.trust)
    recipe = resolve_recipe(options.recipe, context)
    plugins = Plugins(sctx.config)
    runtime = plugins.runtime(runtime_in_force(recipe, parse_overrides(options.overrides)))
    selection = resolve_hosts(options.hosts, sctx.config)
    if selection:
        check_host_images(recipe, selection.hosts, allowed=runtime.takes_host_images)
    cluster = selection.cluster if selection else None
    executor = resolve_executor(_executor_layers(options, recipe, cluster, runtime, sctx), plugins.executor)
    trust = recipe_trust(recipe.source, context.manager)
    if not options.trust:
        refuse_untrusted(recipe, trust)
    check_mounts(recipe)
    mods = find_mods(recipe, context.manager) if fetch else _mods_here(recipe, sctx)
    user_defaults = sctx.config.mapping("defaults.runtimes").get(runtime.plugin_name)
    builder = plugins.builder(_builder_name(options, recipe, runtime, executor))
    request = Request(
        options=options,
        recipe=recipe,
        surroundings=surroundings_of(recipe, sctx.config, plugins),
        model=parse_model(recipe.model),
        runtime=runtime,
        executor=executor,
        executor_config=_executor_config(options, recipe, cluster, _wishes(runtime, executor), sctx),
        scheduler=_scheduler(options, recipe, cluster, plugins),
        selection=selection or _this_machine(executor, sctx),
        readiness=resolve_readiness(recipe.readiness, sctx.config),
        trust=trust,
        mods=mods,
        untrusted_mods=untrusted_mods(mods, context.manager),
        user_defaults=user_defaults if isinstance(user_defaults, dict) else {},
        builder=builder,
        builder_options=_builder_options(builder, options, recipe, sctx),
        user_runtime_cache=_user_runtime_cache(sctx),
        cluster_env=cluster_env(cluster, sctx.config) if cluster else {},
        missing_mounts=_missing_mounts(sctx),
    )
    _check_executor_config(request)
    _refuse_unsupported(request)
    _refuse_unwaited_hooks(request)
    _refuse_memory_in_gib(request)
    return request


def tuning_runtime(request: Request) -> str:
    """The runtime whose configs a launch uses, as registries call it; empty when its engine has none."""
    return request.runtime.family if request.runtime.tuning and request.executor.uses_images else ""


def tell_findings(request: Request, sctx: SparkrunContext) -> tuple[Finding, ...]:
    """What ``recipe validate`` says, on a run: warnings and keys that nobody reads are told, other suggestions only to those who ask.

    Returns what stops the run.
    """
    report = validate(request.recipe, request.surroundings)
    stopping = tuple(finding for finding in report.at_least(request.options.fail_on) if finding.code not in TOLD_ONLY)
    for finding in _grouped([finding for finding in report.findings if finding not in stopping], request.recipe):
        sctx.emit(_finding_event(finding))
    for warning in request.cluster.warnings if request.cluster else ():
        sctx.emit(Warn(warning))
    for warning in (*executor_warnings(request), *builder_warnings(request, sctx)):
        sctx.emit(Warn(warning))
    return stopping


def _grouped(findings: Sequence[Finding], recipe: Recipe) -> Iterator[Finding]:
    """The same, with one line for all network variables that a recipe sets: some set a dozen."""
    network = [finding for finding in findings if finding.code == MANAGED]
    for finding in findings:
        if len(network) < 2 or finding.code != MANAGED:
            yield finding
        elif finding is network[0]:
            names = ", ".join(name for name in recipe.env if name in FABRIC_ENV)
            message = f"env {names} are detected on each host; what the recipe says is used on all of them instead"
            yield msgspec.structs.replace(finding, message=message, fix="remove them, unless every host has the same")


def refuse_findings(stopping: Sequence[Finding]) -> None:
    """Raise ``RecipeError`` with all of them, if there are any."""
    if stopping:
        raise RecipeError("\n".join(_finding_text(finding) for finding in stopping), hint=stopping[0].fix)


def _mods_here(recipe: Recipe, sctx: SparkrunContext) -> tuple[FoundMod, ...]:
    """What of them is on this machine; one that is not is told, and left open."""
    try:
        return find_mods(recipe, RegistryManager(sctx.config, offline=True, emit=sctx.emit)) if recipe.mods else ()
    except ModNotFoundError as error:
        sctx.emit(Warn(error.message))
        return ()


def executor_warnings(request: Request) -> Iterator[str]:
    """Keys of ``executor_config`` that mean nothing to the executor in force."""
    for key in request.executor.unknown_keys(request.executor_config):
        hint = did_you_mean(key, request.executor.config_keys)
        yield f"executor_config.{key} means nothing to the executor '{request.executor.plugin_name}'" + (f"; {hint}" if hint else "")


def builder_warnings(request: Request, sctx: SparkrunContext) -> Iterator[str]:
    """Options in ``config.yaml`` that the builder does not read."""
    name, known = request.builder.plugin_name, request.builder.knowledge.options
    for key in sctx.config.mapping(f"defaults.builders.{name}"):
        if key not in known:
            hint = did_you_mean(key, sorted(known)) or f"it reads {', '.join(sorted(known)) or 'none'}"
            yield f"{sctx.config.paths.config_file}: defaults.builders.{name}.{key} means nothing to the builder '{name}'; {hint}"


def _finding_event(finding: Finding) -> Warn | Note | Detail:
    if finding.severity != "suggestion":
        return Warn(_finding_text(finding))
    return Note(_finding_text(finding)) if finding.code == UNREAD_KEY else Detail(_finding_text(finding))


def _finding_text(finding: Finding) -> str:
    text = f"{finding.where}: {finding.message}" if finding.where else finding.message
    return f"{text} ({finding.fix})" if finding.fix and finding.severity != "error" else text


def _builder_name(options: RunOptions, recipe: Recipe, runtime: RuntimePlugin, executor: Executor) -> str:
    """An image that the user names is used as it is; without images there is nothing to build."""
    if options.image or not executor.uses_images:
        return NO_BUILDER
    return recipe.builder or runtime.default_builder or NO_BUILDER


def _builder_options(builder: BuilderPlugin, options: RunOptions, recipe: Recipe, sctx: SparkrunContext) -> Values:
    """Lowest first: the recipe, ``config.yaml``, the command line."""
    own = sctx.config.mapping(f"defaults.builders.{builder.plugin_name}")
    shared = CONSUMED & builder.knowledge.options
    tiers: tuple[tuple[Values, frozenset[str]], ...] = (
        (recipe.defaults, shared),
        (recipe.builder_config, builder.knowledge.options),
        (sctx.config.mapping("defaults"), shared),
        (own, builder.knowledge.options),
        (parse_overrides(options.overrides), shared),
    )
    return {key: values[key] for values, read in tiers for key in read if key in values}


def _executor_layers(
    options: RunOptions, recipe: Recipe, cluster: Cluster | None, runtime: RuntimePlugin, sctx: SparkrunContext
) -> ExecutorLayers:
    return ExecutorLayers(
        cli=options.executor,
        recipe=recipe.executor,
        cluster=cluster.executor if cluster else None,
        runtime=runtime.default_executor(),
        config=sctx.config.text("default_executor") or sctx.config.text("defaults.executor"),
    )


def _wishes(runtime: RuntimePlugin, executor: Executor) -> Values:
    """What the runtime wants of an executor, as far as this one has it."""
    return {key: value for key, value in runtime.default_executor_config().items() if key in executor.config_keys}


def _executor_config(
    options: RunOptions, recipe: Recipe, cluster: Cluster | None, wishes: Values, sctx: SparkrunContext
) -> dict[str, ConfigValue]:
    return resolve_executor_config(
        options.executor_config,
        recipe.executor_config,
        cluster.executor_config if cluster else {},
        wishes,
        sctx.config.mapping("executor_config"),
    )


def _scheduler(options: RunOptions, recipe: Recipe, cluster: Cluster | None, plugins: Plugins) -> Scheduler:
    layers = SchedulerLayers(cli=options.scheduler, recipe=recipe.scheduler, cluster=cluster.effective_scheduler if cluster else None)
    return resolve_scheduler(layers, plugins.scheduler)


def _user_runtime_cache(sctx: SparkrunContext) -> Values | bool | None:
    value = sctx.config.get("runtime_cache")
    return value if isinstance(value, bool) else sctx.config.mapping("runtime_cache") or None


def _missing_mounts(sctx: SparkrunContext) -> MissingMounts:
    said = sctx.config.text("mounts.missing_source", "fail")
    return cast("MissingMounts", said) if said in get_args(MissingMounts) else "fail"


def _this_machine(executor: Executor, sctx: SparkrunContext) -> HostSelection:
    """A recipe for plain processes needs no host to be named: this machine is one."""
    if executor.uses_images:
        hint = "name them with -H host1,host2, or save them once: sparkrun cluster create NAME -H host1,host2 --default"
        raise HostsError("no hosts specified", hint=hint)
    sctx.emit(Note("no hosts named: serving on this machine"))
    return HostSelection(("localhost",), "this machine")


def _check_executor_config(request: Request) -> None:
    """Raise what the executor cannot do with its settings: ``UsageError`` for those of the command line, ``ConfigError`` for others."""
    try:
        request.executor.check_config(request.options.executor_config)
    except ConfigError as error:
        raise UsageError(error.message, hint=error.hint) from None
    request.executor.check_config(request.executor_config)


def _refuse_memory_in_gib(request: Request) -> None:
    """A share of memory that looks like a size, whoever gave it; in the recipe itself checking finds it with its place."""
    config = request.draft_config
    for key in SHARES:
        if config.is_off(key) or config.origin(key) not in ("override", "user") or takes_gib(request.recipe.command, key):
            continue
        if problem := fraction_problem(key, config.get(key), PLAIN_SURROUNDINGS.memory_gib):
            raise UsageError(problem, hint="give a fraction between 0 and 1")


def _refuse_unwaited_hooks(request: Request) -> None:
    """What a recipe runs once it answers cannot be run by a launch that does not wait for that."""
    recipe = request.recipe
    after = [name for name in ("post_exec", "post_commands", "stop_after_post") if getattr(recipe, name)]
    if after and not request.options.wait:
        raise UsageError(
            f"--no-ready-wait and the recipe's {', '.join(after)} exclude each other: they run once it answers",
            hint="leave --no-ready-wait out, or take them out of the recipe",
        )


def refuse_shares_in(request: Request, command: str) -> None:
    """The same in the words of the finished command, those behind ``--`` among them. Raises ``UsageError``."""
    for key, value in shares_in(request.runtime, command).items():
        if problem := fraction_problem(key, value, PLAIN_SURROUNDINGS.memory_gib):
            raise UsageError(problem, hint="give a fraction between 0 and 1")


def _refuse_unsupported(request: Request) -> None:
    """The local executor has no container to run hooks and mods in; leaving them out silently would serve something else."""
    if request.executor.uses_images:
        return
    recipe = request.recipe
    hooks = {"pre_exec": recipe.pre_exec, "post_exec": recipe.post_exec, "post_commands": recipe.post_commands, "mods": recipe.mods}
    used = [name for name, entries in hooks.items() if entries]
    if used:
        message = f"{recipe.where(used[0])}: {', '.join(used)} cannot be run by the executor '{request.executor.plugin_name}'"
        raise RecipeError(message, hint="use the docker executor")
