"""Tuning configs of a launch: which files come from the recipe's registry, and which of them each host gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from sparkrun.core.context import SparkrunContext
from sparkrun.core.events import Step, Warn
from sparkrun.core.facts import HostFacts
from sparkrun.core.plan import HostAction, Stage, TuningPlan
from sparkrun.core.registry import RegistryManager
from sparkrun.core.remote import ScriptCall
from sparkrun.core.request import Request, tuning_runtime
from sparkrun.core.tuning_configs import TuningSync, apply_sync, files_in, offered_by, plan_sync, read_hashes, read_origins
from sparkrun.orchestration.apply import failure_text

IDLE_S = 60.0
"""A host that takes not a single byte for so long is given up."""


class Tuning(msgspec.Struct, frozen=True):
    """The configs of a launch on this machine: what is planned, and what comes of it. Without ``sync`` nothing is copied."""

    plan: TuningPlan
    sync: TuningSync | None = None

    def facts_after(self, facts: Mapping[str, HostFacts]) -> Mapping[str, HostFacts]:
        """The hosts with the configs that they will have."""
        if self.sync is None:
            return facts
        return {host: msgspec.structs.replace(seen, tuning=_after(self.sync, seen)) for host, seen in facts.items()}

    def plan_for(self, facts: Mapping[str, HostFacts], sctx: SparkrunContext) -> TuningPlan:
        """The plan with what each of these hosts gets. Of a host that nobody looked at nothing is known to be missing."""
        if self.sync is None:
            return self.plan
        folder = Path(self.plan.folder)
        needy = {host: seen for host, seen in facts.items() if not seen.assumed and not _shares(seen, folder, sctx)}
        return msgspec.structs.replace(self.plan, sends=tuple(_sends(self.sync, folder, needy)))


def plan_tuning(request: Request, sctx: SparkrunContext) -> Tuning:
    """What becomes of this machine's configs. Reads its own files, and changes nothing."""
    runtime = tuning_runtime(request)
    if why := _switched_off(request) if runtime else "none":
        return Tuning(TuningPlan(runtime=runtime, skipped=why))
    folder = sctx.config.paths.cache_dir / "tuning" / runtime
    registry, offered = _offer(request, runtime, sctx)
    sync = plan_sync(registry, read_hashes(offered), read_hashes(files_in(folder)), read_origins(folder))
    plan = TuningPlan(
        runtime=runtime,
        registry=registry,
        folder=str(folder),
        copies={name: str(offered[name]) for name in sync.copies},
        adopts=sync.adopts,
        drops=sync.drops,
        kept=sync.kept,
        files=tuple(sorted(sync.after)),
    )
    return Tuning(plan, sync)


def sync_tuning(request: Request, plan: TuningPlan, sctx: SparkrunContext) -> None:
    """Do it. A failure is told, and the launch goes on: configs make an engine faster, not right."""
    registry, offered = _offer(request, plan.runtime, sctx)
    try:
        apply_sync(registry, offered, Path(plan.folder))
    except (OSError, UnicodeDecodeError) as error:
        sctx.emit(Warn(f"tuning configs of @{registry} cannot be copied to {plan.folder}: {error}; the engine may run without them"))
        return
    for number, stage in enumerate(plan.sends, start=1):
        sctx.emit(Step(number, len(plan.sends), stage.title))
        calls = [(action.host, action.call) for action in stage.actions]
        for result in sctx.runner.send_all(calls, lambda _sent: None, idle_s=IDLE_S):
            if not result.ok:
                sctx.emit(Warn(f"{result.host}: tuning configs have not arrived, the engine may run without them: {failure_text(result)}"))


def tuning_notes(plan: TuningPlan) -> Iterator[str]:
    """What to know of files that do not follow their registry."""
    if plan.kept:
        yield (
            f"tuning configs edited on this machine stay as they are: {', '.join(plan.kept)} "
            f"(remove them from {plan.folder} to have those of @{plan.registry})"
        )


def _after(sync: TuningSync, seen: HostFacts) -> dict[str, str]:
    gone = sync.gone
    left = {name: sha256 for name, sha256 in seen.tuning.items() if gone.get(name) != sha256}
    return {**left, **sync.after}


def _shares(seen: HostFacts, folder: Path, sctx: SparkrunContext) -> bool:
    """Whether the host is this machine, with the same folder."""
    return sctx.runner.is_local(seen.host) and f"{seen.cache_dir}/tuning/{folder.name}" == str(folder)


def _switched_off(request: Request) -> str:
    """Why nothing is copied; empty when nothing says so."""
    if not request.options.sync_tuning:
        return "--no-sync-tuning"
    tuning = request.cluster.distribution.get("tuning") if request.cluster else None
    if isinstance(tuning, dict) and tuning.get("enabled") is False and request.cluster:
        return f"cluster {request.cluster.name} has them switched off"
    return ""


def _offer(request: Request, runtime: str, sctx: SparkrunContext) -> tuple[str, dict[str, Path]]:
    """The recipe's own registry and what it offers; nothing for a recipe of no registry."""
    source = request.recipe.source
    if source.kind != "registry" or not source.registry:
        return "", {}
    return source.registry, offered_by(source.registry, runtime, RegistryManager(sctx.config, offline=True))


def _sends(sync: TuningSync, folder: Path, hosts: Mapping[str, HostFacts]) -> Iterator[Stage]:
    """One stream for all hosts that lack the same."""
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for host, seen in hosts.items():
        changed = tuple(name for name in sorted(sync.after) if seen.tuning.get(name) != sync.after[name])
        drops = tuple(name for name, sha256 in sorted(sync.gone.items()) if seen.tuning.get(name) == sha256)
        if changed or drops:
            groups.setdefault((changed, drops), []).append(host)
    for (changed, drops), names in groups.items():
        yield _send(folder, changed, drops, names)


def _send(folder: Path, changed: tuple[str, ...], drops: tuple[str, ...], hosts: list[str]) -> Stage:
    names = ("--", *changed) if changed else ("--files-from", "/dev/null")
    call = ScriptCall("tuning_receive", {"RUNTIME": folder.name, "DROP": drops}, feed=("tar", "-C", str(folder), "-cf", "-", *names))
    told = f"{len(changed)} tuning config{'s' * (len(changed) != 1)}" if changed else f"{len(drops)} outdated tuning configs away"
    title = f"{told} of {folder.name} to {', '.join(hosts)}" if changed else f"take {told} on {', '.join(hosts)}"
    return Stage(title, tuple(HostAction(host, title, call) for host in hosts))
