"""Serving a recipe, and showing what that would do."""

from __future__ import annotations

import msgspec

from sparkrun.api._context import reach
from sparkrun.api._results import Brought, BuildResult, BuiltImage, RunResult, TuningResult
from sparkrun.core.context import SparkrunContext
from sparkrun.core.launcher import Launched, launch_inference, plan_inference, plan_preparation, prepare_inference
from sparkrun.core.plan import LaunchPlan
from sparkrun.core.run_options import RunOptions
from sparkrun.core.timings import Timing
from sparkrun.diagnostics.launch_bundle import collecting

STAGE_SCHEMA = "sparkrun.stage/1"


def run(options: RunOptions, *, sctx: SparkrunContext) -> RunResult:
    """Serve a recipe and wait until it truly answers (unless ``options.wait`` is off).

    Raises a ``SparkrunError`` of the situation; after a failed or interrupted launch nothing of it is left running,
    unless ``options.keep_on_failure``. ``options.collect_diagnostics`` names a file that tells everything about it, however it ended.
    """
    with collecting(sctx.cwd / options.collect_diagnostics if options.collect_diagnostics else None) as record:
        launched = launch_inference(options, reach(options.hosts, sctx), record)
    return _result(launched, record.timings)


def plan(options: RunOptions, *, sctx: SparkrunContext) -> LaunchPlan:
    """The launch that ``run`` would execute, with its secrets: print ``plan.public()``, never the plan itself."""
    return plan_inference(options, reach(options.hosts, sctx))


def build(options: RunOptions, *, sctx: SparkrunContext) -> BuildResult:
    """Everything that ``run`` does before it launches: build the image, bring image, model and tuning configs to all hosts.

    What runs on the hosts does not matter. Raises a ``SparkrunError`` of the situation; what has arrived as a whole stays.
    """
    return _prepared(prepare_inference(options, reach(options.hosts, sctx)))


def stage(options: RunOptions, *, sctx: SparkrunContext) -> BuildResult:
    """As ``build``, on every host that is given: also on those that would have no rank."""
    done = prepare_inference(msgspec.structs.replace(options, everywhere=True), reach(options.hosts, sctx))
    return msgspec.structs.replace(_prepared(done), schema=STAGE_SCHEMA)


def _prepared(done: LaunchPlan) -> BuildResult:
    images = {rank.host: rank.image for rank in done.ranks if rank.image}
    if done.head.image:
        images |= dict.fromkeys(done.staged_hosts, done.head.image)
    return BuildResult(
        recipe=done.recipe,
        hosts=(*done.hosts, *done.staged_hosts),
        images=images,
        built=tuple(BuiltImage(build.image, build.builder, build.hosts, build.why) for build in done.builds),
        brought=tuple(
            Brought(transfer.kind, transfer.what, transfer.way, (*transfer.hosts, *transfer.onward)) for transfer in done.transfers
        ),
        tuning=_tuning(done),
    )


def plan_build(options: RunOptions, *, sctx: SparkrunContext) -> LaunchPlan:
    """The launch for which ``build`` would prepare (``options.everywhere``: ``stage``), with its secrets: print ``plan.public()``, never
    the plan itself."""
    return plan_preparation(options, reach(options.hosts, sctx))


def _tuning(done: LaunchPlan) -> TuningResult | None:
    if done.tuning is None or done.tuning.skipped:
        return None
    sent = tuple(dict.fromkeys(action.host for stage in done.tuning.sends for action in stage.actions))
    return TuningResult(done.tuning.runtime, done.tuning.registry or None, len(done.tuning.files), sent)


def _result(launched: Launched, timings: tuple[Timing, ...]) -> RunResult:
    planned, outcome = launched.plan, launched.outcome
    return RunResult(
        cluster_id=launched.existing.cluster_id if launched.existing else planned.cluster_id,
        recipe=planned.recipe,
        runtime=planned.runtime,
        model=planned.model,
        served_model_name=planned.served_model_name,
        endpoint=planned.endpoint,
        port=planned.port,
        hosts=planned.hosts,
        ready=outcome is not None,
        already_running=launched.existing is not None,
        port_open_ms=outcome.port_open_ms if outcome else None,
        healthy_ms=outcome.healthy_ms if outcome else None,
        first_token_ms=outcome.first_token_ms if outcome else None,
        log_lines=launched.log_lines,
        timings=timings,
    )
