"""What hosts lack of a launch, and how it comes to them: decided before anything starts, as part of the plan, and done in rounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar, cast, get_args

import msgspec

from sparkrun.containers.layers import ImageStock, StockedImage
from sparkrun.core.builds import facts_after_builds
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import HostUnreachableError, LaunchFailedError, SparkrunError
from sparkrun.core.events import Warn
from sparkrun.core.facts import HostFacts, ModelFacts
from sparkrun.core.item_view import REGISTRY, Attempt, Rules
from sparkrun.core.needs import find_needs, lacking_hosts
from sparkrun.core.plan import LaunchPlan, Transfer, gaps_together
from sparkrun.core.planner import make_plan
from sparkrun.core.request import Request
from sparkrun.core.sources import HERE, Stocks, look_at_sources
from sparkrun.core.values import within_bounds
from sparkrun.core.ways import Distribution, plan_distribution
from sparkrun.models.files import Selection
from sparkrun.orchestration.distribution import Failure, distribute
from sparkrun.orchestration.transfer_locks import holding_transfers
from sparkrun.runtimes.model_files import snapshot_revision

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
        return _warned(plan, _unequal(plan, facts, Stocks()))
    interface = request.cluster.transfer_interface if request.cluster else "auto"
    stocks = look_at_sources(needs, facts, interface, sctx)
    rules = rules_of(request, plan, sctx, failed or {})
    found = plan_distribution(needs, facts, stocks, rules)
    unequal, after = tuple(_unequal(plan, facts, stocks)), facts_after(found.transfers, facts, stocks)
    if after is not facts:
        plan = _planned(request, after, sctx)
    plan = _warned(plan, (*unequal, *(f"{gap.text}; it does without" for gap in gaps_together(found.left_out))))
    secrets = {*plan.secret_values, *filter(None, [rules.token])}
    return msgspec.structs.replace(plan, transfers=found.transfers, gaps=(*plan.gaps, *found.gaps), secret_values=tuple(sorted(secrets)))


def _planned(request: Request, facts: Mapping[str, HostFacts], sctx: SparkrunContext) -> LaunchPlan:
    plan = make_plan(request, facts, sctx)
    return msgspec.structs.replace(plan, notes=(*plan.notes, *_notes(plan)))


def _warned(plan: LaunchPlan, warnings: Iterable[str]) -> LaunchPlan:
    return msgspec.structs.replace(plan, warnings=(*plan.warnings, *warnings))


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
    transfers, before = looking.missing(first).transfers, None
    for _round in range(MOST_ROUNDS):
        # What is missing still, though it was brought without a failure, is so the next time as well.
        if not transfers or transfers == before:
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
            raise (_silent_error(error, failures) if failures else error) from error
        before, transfers = (None if others_brought else transfers), looking.missing(seen).transfers
    _judge(failures, looking.missing(seen), sctx)
    return seen


def _judge(failures: Sequence[Failure], left: LaunchPlan | Distribution, sctx: SparkrunContext) -> None:
    """Raise what failed of that which is still missing, or has come in vain; what failed of anything else is told."""
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
    for text in dict.fromkeys(_source_text(failure) for failure in failures if failure.bad_source):
        sctx.emit(Warn(text))


def _source_text(failure: Failure) -> str:
    machine, transfer = failure.transfer.source, failure.transfer
    told = f"{machine or 'this machine'}: its copy of {transfer.kind} {transfer.what} is damaged or cannot be read; it came from elsewhere"
    command = f"sparkrun model-cache repair {transfer.what.partition(':')[0]}{f' -H {machine}' if machine else ''} --apply"
    return f"{told} (see: {command})" if transfer.kind == "model" else told


def record_failures(failures: Sequence[Failure], failed: dict[Attempt, str]) -> None:
    """Remember which ways do not work, so that the next round takes others."""
    for failure in failures:
        transfer = failure.transfer
        if failure.link:
            failed[Attempt(failure.link, failure.host)] = failure.reason
        elif failure.parts_refused:
            failed[Attempt(transfer.source, "", transfer.what)] = failure.reason
        elif transfer.way in ("pull", "download"):
            failed[Attempt(REGISTRY, failure.host, transfer.what)] = failure.reason
        else:
            failed[Attempt(transfer.source, failure.host, transfer.what)] = failure.reason


def distribution_error(failures: Sequence[Failure]) -> SparkrunError:
    """What could not be brought where: a line for each reason. Of a host that was silent another failure says more, where there is one."""
    told = sorted(failures, key=lambda failure: failure.unreachable)
    items = dict.fromkeys((failure.transfer.kind, failure.transfer.what) for failure in told)
    of_item = {item: [failure for failure in told if (failure.transfer.kind, failure.transfer.what) == item] for item in items}
    text = "\n".join(f"cannot bring {kind} {what} to{_reasons(found)}" for (kind, what), found in of_item.items())
    hints = dict.fromkeys(found[0].hint or _way_out(found[0].transfer) for found in of_item.values())
    error = HostUnreachableError if all(failure.unreachable for failure in told) else LaunchFailedError
    return error(text, hint="\n  ".join(hints))


def _silent_error(error: HostUnreachableError, failures: Sequence[Failure]) -> SparkrunError:
    """What could not be brought, with why hosts are silent now: that says more than how their stream ended."""
    told = distribution_error(failures)
    return type(told)(f"{error.message}\n{told.message}", hint=error.hint)


def _reasons(failures: Sequence[Failure]) -> str:
    hosts: dict[str, dict[str, None]] = {}
    for failure in failures:
        hosts.setdefault(failure.reason, {})[failure.host or "this machine"] = None
    return "".join(f"\n  {', '.join(names)}: {reason}" for reason, names in hosts.items())


def _in_vain(transfers: Sequence[Transfer]) -> LaunchFailedError:
    """What was brought without a word of failure, and is missing all the same."""
    lines = "".join(f"\n  {transfer.kind} {transfer.what} on {', '.join(transfer.hosts)}" for transfer in transfers)
    hint = "something there takes it away again, or calls it otherwise: look with sparkrun image-cache list, sparkrun model-cache list"
    return LaunchFailedError(f"it was brought, and is still not there:{lines}", hint=hint)


def _way_out(transfer: Transfer) -> str:
    if transfer.kind == "image":
        return f"bring it there another way (docker pull {transfer.what}), then run this again"
    return f"bring it there another way (hf download {transfer.what.partition(':')[0]}), then run this again"


def _moved(model: ModelFacts, old: str, new: str) -> ModelFacts:
    mmproj = f"{new}{model.mmproj.removeprefix(old)}" if model.mmproj else None
    return msgspec.structs.replace(model, path=f"{new}{(model.path or '').removeprefix(old)}", mmproj=mmproj)


def _unequal(plan: LaunchPlan, facts: Mapping[str, HostFacts], stocks: Stocks) -> Iterator[str]:
    """What hosts have under one name that is not the same."""
    yield from _unequal_models(plan, facts)
    yield from _unequal_images(plan, facts, stocks)


def _unequal_images(plan: LaunchPlan, facts: Mapping[str, HostFacts], stocks: Stocks) -> Iterator[str]:
    """Ranks that would run different images of one name; those with the same layers are not different."""
    ids: dict[str, dict[str, str]] = {}
    for rank in plan.ranks:
        image = facts[rank.host].docker.images.get(rank.image or "")
        if image:
            ids.setdefault(rank.image or "", {})[rank.host] = image.id
    for name, by_host in ids.items():
        found = {host: stocks.images.get(host, ImageStock()).images.get(name) for host in by_host}
        first = next(iter(by_host))
        if any(by_host[host] != by_host[first] and not _is_same(found[first], found[host]) for host in by_host):
            told = ", ".join(f"{host} {named.removeprefix('sha256:')[:12]}" for host, named in by_host.items())
            yield f"image {name} is not the same on all hosts ({told}); the others get that of {plan.head.host} where they can be reached"


def _is_same(one: StockedImage | None, other: StockedImage | None) -> bool:
    return one is not None and other is not None and one.is_same(other)


def _unequal_models(plan: LaunchPlan, facts: Mapping[str, HostFacts]) -> Iterator[str]:
    """Hosts whose branch or tag of the model stands for another commit."""
    hosts = (*(rank.host for rank in plan.ranks if rank.needs_model), *plan.staged_hosts)
    models = {host: facts[host].model for host in hosts if snapshot_revision(facts[host].model.path)}
    commits = {host: snapshot_revision(model.path) or "" for host, model in models.items()}
    if plan.head.host not in commits:
        return
    if len(set(commits.values())) > 1:
        told = ", ".join(f"{host} {commit[:12]}" for host, commit in commits.items())
        yield f"model {plan.model} is not the same on all hosts ({told}); the others get that of {plan.head.host}"
    for host in lacking_hosts(models, facts[plan.head.host].model):
        if commits[host] == commits[plan.head.host]:
            yield f"{host}: some of the weights of {plan.model} are shorter there than on other hosts; they are brought anew"


def _notes(plan: LaunchPlan) -> Iterator[str]:
    if plan.assumed_hosts:
        yield (
            f"{', '.join(plan.assumed_hosts)}: image and model are assumed to be there, nobody looked; "
            "what is missing is brought when it runs (see it beforehand: --probe)"
        )
