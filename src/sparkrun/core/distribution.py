"""What hosts lack of a launch, and how it comes to them: decided before anything starts, as part of the plan, and done in rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeVar, cast, get_args

import msgspec

from sparkrun.core.builds import facts_after_builds
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import HostUnreachableError, LaunchFailedError, SparkrunError
from sparkrun.core.events import Warn
from sparkrun.core.facts import HostFacts, ModelFacts
from sparkrun.core.item_view import REGISTRY, Attempt, Rules
from sparkrun.core.needs import find_needs
from sparkrun.core.plan import LaunchPlan, Transfer
from sparkrun.core.planner import make_plan
from sparkrun.core.request import Request
from sparkrun.core.sources import HERE, Stocks, look_at_sources
from sparkrun.core.values import within_bounds
from sparkrun.core.ways import Distribution, plan_distribution
from sparkrun.models.files import Selection
from sparkrun.orchestration.distribution import Failure, distribute
from sparkrun.orchestration.transfer_locks import holding_transfers

TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
STREAMS_PER_HOST = 2
IDLE_S = 120.0
MOST_ROUNDS = 6
"""Fetching, handing on, and what another way is tried for; then it is given up."""

Failed = Mapping[Attempt, str]
T = TypeVar("T")


def plan_launch(request: Request, facts: Mapping[str, HostFacts], sctx: SparkrunContext, failed: Failed | None = None) -> LaunchPlan:
    """The launch, and before it what hosts lack. Where they lack nothing, nobody is asked anything more."""
    plan = _planned(request, facts, sctx)
    needs = find_needs(plan, request, facts_after_builds(plan, facts))
    if not needs:
        return plan
    interface = request.cluster.transfer_interface if request.cluster else "auto"
    stocks = look_at_sources(needs, facts, interface, sctx)
    rules = rules_of(request, plan, sctx, failed or {})
    found = plan_distribution(needs, facts, stocks, rules)
    after = facts_after(found.transfers, facts, stocks)
    if after is not facts:
        plan = _planned(request, after, sctx)
    secrets = {*plan.secret_values, *filter(None, [rules.token])}
    return msgspec.structs.replace(plan, transfers=found.transfers, gaps=(*plan.gaps, *found.gaps), secret_values=tuple(sorted(secrets)))


def _planned(request: Request, facts: Mapping[str, HostFacts], sctx: SparkrunContext) -> LaunchPlan:
    plan = make_plan(request, facts, sctx)
    return msgspec.structs.replace(plan, notes=(*plan.notes, *_notes(plan)), warnings=(*plan.warnings, *_unequal(plan, facts)))


def rules_of(request: Request, plan: LaunchPlan, sctx: SparkrunContext, failed: Failed) -> Rules:
    """What the command line, the cluster and the configuration say of transfers."""
    env, cluster = sctx.config.env, request.cluster
    settings = cluster.distribution.get("model") if cluster else None
    of_models = settings if isinstance(settings, dict) else {}
    streams = of_models.get("streams_per_host") or sctx.config.number("model_transfer_streams_per_host", STREAMS_PER_HOST)
    idle_s = of_models.get("idle_timeout_s") or sctx.config.number("model_transfer_idle_timeout_s", IDLE_S)
    selection = of_models.get("file_selection") or sctx.config.text("model_file_selection") or "auto"
    return Rules(
        mode=request.options.transfer_mode or (cluster.transfer_mode if cluster else "auto"),
        offline=sctx.offline,
        head=plan.head.host,
        image_for={rank.host: rank.image for rank in plan.ranks if rank.image},
        token=next((env[name] for name in TOKEN_VARIABLES if env.get(name)), ""),
        endpoint=request.cluster_env.get("HF_ENDPOINT") or env.get("HF_ENDPOINT", ""),
        streams=max(1, int(streams)) if within_bounds(streams) else STREAMS_PER_HOST,
        idle_s=float(idle_s) if within_bounds(idle_s) and idle_s > 0 else IDLE_S,
        selection=cast(Selection, selection) if selection in get_args(Selection) else "auto",
        copied_once=of_models.get("skip_fan_out") is True,
        failed=failed,
    )


def facts_after(transfers: Sequence[Transfer], facts: Mapping[str, HostFacts], stocks: Stocks) -> Mapping[str, HostFacts]:
    """The hosts as they are once copies of models have arrived: their files have the same names there as where they came from."""
    changed = dict(facts)
    for transfer in transfers:
        giver = stocks.here if transfer.source == HERE else facts[transfer.source]
        if transfer.way == "copy" and giver is not None:
            changed |= {host: _with_copy(changed[host], giver, transfer.what) for host in transfer.hosts}
    return changed if changed != dict(facts) else facts


def _with_copy(host: HostFacts, giver: HostFacts, what: str) -> HostFacts:
    further = what in host.further
    given = giver.further.get(what, giver.model)
    if not (given.path and giver.hf_hub and given.path.startswith(f"{giver.hf_hub}/")):
        return host
    moved = _moved(given, giver.hf_hub, host.hf_hub)
    return msgspec.structs.replace(host, further={**host.further, what: moved}) if further else msgspec.structs.replace(host, model=moved)


class Looking(Protocol[T]):
    """Who looks at the hosts, for as often as something was brought to them."""

    def missing(self, seen: T) -> LaunchPlan | Distribution:
        """What is brought, and what cannot be, by the last look."""
        ...

    def let_go(self) -> None:
        """Others may launch while something is brought: that may take hours."""
        ...

    def again(self, failed: Failed) -> T:
        """Look and plan anew, heeding which ways have failed."""
        ...


def bring_in_rounds(first: T, looking: Looking[T], sctx: SparkrunContext) -> T:
    """Bring what is missing, look again, and bring what can be brought then, until nothing is left: what one host has got it can hand on.

    Returns the last look. Raises what could not be brought.
    """
    seen, failed = first, dict[Attempt, str]()
    failures: list[Failure] = []
    for _round in range(MOST_ROUNDS):
        transfers = looking.missing(seen).transfers
        if not transfers:
            break
        looking.let_go()
        with holding_transfers(transfers, sctx.runner, sctx.emit) as others_brought:
            # Whoever was at it may have brought all of it: that is seen by looking again.
            if not others_brought:
                now = distribute(transfers, sctx.runner, sctx.emit, sctx.config.paths)
                failures += now
                if any(failure.final and failure.host for failure in now):
                    raise distribution_error(failures)
                record_failures(now, failed)
                failed.update({Attempt(REGISTRY, "", transfer.what): "" for transfer in transfers if transfer.way == "pull"})
        try:
            seen = looking.again(failed)
        except HostUnreachableError as error:
            raise (distribution_error(failures) if failures else error) from error
    _judge(failures, looking.missing(seen), sctx)
    return seen


def _judge(failures: Sequence[Failure], left: LaunchPlan | Distribution, sctx: SparkrunContext) -> None:
    """Raise what failed of that which is still missing, or has come again and again; what failed of anything else is told."""
    missing = {gap.what for gap in left.gaps} | {transfer.what for transfer in left.transfers}
    if fatal := [failure for failure in failures if failure.transfer.what in missing]:
        raise distribution_error(fatal)
    if vain := [transfer for transfer in left.transfers if not transfer.optional]:
        raise _in_vain(vain)
    for failure in failures:
        if failure.transfer.refresh:
            sctx.emit(Warn(f"{failure.host}: no look for a newer {failure.transfer.what}, the one that is there is used: {failure.reason}"))
        elif failure.transfer.optional:
            what = f"{failure.transfer.kind} {failure.transfer.what}"
            sctx.emit(Warn(f"{failure.host or 'this machine'}: {what} did not arrive: {failure.reason}"))


def record_failures(failures: Sequence[Failure], failed: dict[Attempt, str]) -> None:
    """Remember which ways do not work, so that the next round takes others."""
    for failure in failures:
        transfer = failure.transfer
        if failure.link:
            failed[Attempt(failure.link, failure.host)] = failure.reason
        elif failure.parts_refused:
            failed[Attempt(transfer.source, "", transfer.what)] = failure.reason
        elif not transfer.flows:
            failed[Attempt(REGISTRY, failure.host, transfer.what)] = failure.reason
        else:
            failed[Attempt(transfer.source, failure.host, transfer.what)] = failure.reason


def distribution_error(failures: Sequence[Failure]) -> SparkrunError:
    """What could not be brought where, one error with a line a host. A host that was silent is never the most telling one."""
    told = sorted(failures, key=lambda failure: failure.unreachable)
    first = told[0]
    lines = "".join(f"\n  {failure.host or 'this machine'}: {failure.reason}" for failure in told)
    kind = HostUnreachableError if all(failure.unreachable for failure in told) else LaunchFailedError
    return kind(f"cannot bring {first.transfer.kind} {first.transfer.what} to{lines}", hint=first.hint or _way_out(first.transfer))


def _in_vain(transfers: Sequence[Transfer]) -> LaunchFailedError:
    """What was brought as often as anything is tried, without a word of failure, and is missing all the same."""
    lines = "".join(f"\n  {transfer.kind} {transfer.what} on {', '.join(transfer.hosts)}" for transfer in transfers)
    hint = "something there takes it away again, or calls it otherwise: look with sparkrun image-cache list, sparkrun model-cache list"
    return LaunchFailedError(f"brought {MOST_ROUNDS} times and still not there:{lines}", hint=hint)


def _way_out(transfer: Transfer) -> str:
    if transfer.kind == "image":
        return f"bring it there another way (docker pull {transfer.what}), then run this again"
    return f"bring it there another way (hf download {transfer.what.partition(':')[0]}), then run this again"


def _moved(model: ModelFacts, old: str, new: str) -> ModelFacts:
    mmproj = f"{new}{model.mmproj.removeprefix(old)}" if model.mmproj else None
    return msgspec.structs.replace(model, path=f"{new}{(model.path or '').removeprefix(old)}", mmproj=mmproj)


def _unequal(plan: LaunchPlan, facts: Mapping[str, HostFacts]) -> Iterator[str]:
    """Ranks that would run different images of one name."""
    ids: dict[str, dict[str, str]] = {}
    for rank in plan.ranks:
        image = facts[rank.host].docker.images.get(rank.image or "")
        if image:
            ids.setdefault(rank.image or "", {})[rank.host] = image.id
    for name, by_host in ids.items():
        if len(set(by_host.values())) > 1:
            told = ", ".join(f"{host} {found.removeprefix('sha256:')[:12]}" for host, found in by_host.items())
            yield f"image {name} is not the same on all hosts ({told}); the others get that of {plan.head.host} where they can be reached"


def _notes(plan: LaunchPlan) -> Iterator[str]:
    if plan.assumed_hosts:
        yield (
            f"{', '.join(plan.assumed_hosts)}: image and model are assumed to be there, nobody looked; "
            "what is missing is brought when it runs (see it beforehand: --probe)"
        )
