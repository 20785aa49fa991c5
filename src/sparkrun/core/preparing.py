"""What comes before a launch itself: the whole plan, images built, tuning configs brought."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sparkrun.builders.running import run_builds
from sparkrun.core.builds import results_of
from sparkrun.core.context import SparkrunContext
from sparkrun.core.distribution import Failed, plan_launch
from sparkrun.core.facts import HostFacts
from sparkrun.core.plan import LaunchPlan
from sparkrun.core.request import Request
from sparkrun.core.tuning_plans import plan_tuning, tuning_notes


def plan_whole(request: Request, facts: Mapping[str, HostFacts], sctx: SparkrunContext, failed: Failed | None = None) -> LaunchPlan:
    """The launch with everything before it: what is built, what is brought to hosts that lack it, and their tuning configs."""
    tuning = plan_tuning(request, sctx)
    plan = plan_launch(request, tuning.facts_after(facts), sctx, failed)
    planned = tuning.plan_for({host: facts[host] for host in (*plan.hosts, *plan.staged_hosts)}, sctx)
    return msgspec.structs.replace(plan, tuning=planned, notes=(*plan.notes, *tuning_notes(planned)))


def build_images(plan: LaunchPlan, request: Request, sctx: SparkrunContext) -> Request:
    """Do what is to be built; the request for which that is done."""
    run_builds(plan.builds, request.builder, sctx.runner, sctx.emit, sctx.config.paths)
    done = frozenset(result for build in plan.builds for result in results_of(build))
    return msgspec.structs.replace(request, built=request.built | done)
