"""Serving a recipe, and showing what that would do."""

from __future__ import annotations

from sparkrun.api._context import reach
from sparkrun.api._results import RunResult
from sparkrun.core.context import SparkrunContext
from sparkrun.core.launcher import Launched, launch_inference, plan_inference
from sparkrun.core.plan import LaunchPlan
from sparkrun.core.run_options import RunOptions
from sparkrun.core.timings import Timing
from sparkrun.diagnostics.launch_bundle import collecting


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
