"""What hosts lack of a launch, and how it comes to them: decided before anything starts, as part of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from sparkrun.containers.images import load_action, pull_action, suits
from sparkrun.core.context import SparkrunContext
from sparkrun.core.facts import HostFacts, ImageFacts, ModelFacts
from sparkrun.core.model_source import ModelSource
from sparkrun.core.observation import wanted_images
from sparkrun.core.plan import Gap, LaunchPlan, Transfer
from sparkrun.core.planner import make_plan, needs_files
from sparkrun.core.request import Request
from sparkrun.models.hub import Fetch, download_action, keep_action, receive_action, repo_bytes
from sparkrun.orchestration.observe import Question, observe_here
from sparkrun.utils.text import size_text

TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a host lacks. A model that is not ``required`` can be fetched by the engine itself, if nobody has it nearer."""

    host: str
    kind: Literal["image", "model"]
    what: str
    required: bool = True


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to bring from: the control machine, as far as it was looked at, and whether the network may be asked."""

    model: ModelSource
    here: HostFacts | None = None
    model_bytes: int | None = None
    """The size of the model's whole folder here."""
    own: frozenset[str] = frozenset()
    """Hosts that are the control machine itself."""
    offline: bool = False
    image_for: Mapping[str, str] = {}
    """By host, the image it will run."""
    revision: str = ""
    token: str = ""

    def image_here(self, image: str, host: HostFacts) -> ImageFacts | None:
        """The control machine's copy of an image, where it is of use to the host."""
        found = self.here.docker.images.get(image) if self.here else None
        return found if found and host.host not in self.own and suits(found, host) else None

    def has_model_for(self, host: HostFacts) -> bool:
        """Whether the control machine's cache holds the model, whole."""
        return self.here is not None and host.host not in self.own and bool(_model_below_hub(self.here))


class Distribution(msgspec.Struct, frozen=True):
    """What will be brought, and what cannot be."""

    transfers: tuple[Transfer, ...] = ()
    gaps: tuple[Gap, ...] = ()


def plan_launch(request: Request, facts: Mapping[str, HostFacts], sctx: SparkrunContext) -> LaunchPlan:
    """The launch, and before it what hosts lack. Where they lack nothing, nobody is asked anything more."""
    plan = make_plan(request, facts, sctx)
    plan = msgspec.structs.replace(plan, notes=(*plan.notes, *_notes(plan)))
    needs = find_needs(plan, request, facts)
    if not needs:
        return plan
    source = _source(plan, request, needs, sctx)
    found = plan_distribution(needs, facts, source)
    after = facts_after(found, facts, source)
    if after is not facts:
        told = make_plan(request, after, sctx)
        plan = msgspec.structs.replace(told, notes=(*told.notes, *_notes(told)))
    secret = {source.token} if source.token else set[str]()
    return msgspec.structs.replace(
        plan, transfers=found.transfers, gaps=found.gaps, secret_values=tuple(sorted({*plan.secret_values, *secret}))
    )


def find_needs(plan: LaunchPlan, request: Request, facts: Mapping[str, HostFacts]) -> tuple[Need, ...]:
    """What each host lacks of what its ranks use, images first. Of a host that nobody looked at nothing is known to be missing."""
    return tuple(dict.fromkeys((*_image_needs(plan, facts), *_model_needs(plan, request, facts))))


def plan_distribution(needs: tuple[Need, ...], facts: Mapping[str, HostFacts], source: Source) -> Distribution:
    """How each need is met: a copy from the control machine where it has one, else the host fetches it itself."""
    gaps = tuple(gap for need in needs if (gap := _gap(need, facts[need.host], source)))
    closed = {(gap.host, gap.kind, gap.what) for gap in gaps}
    groups: dict[tuple[str, str, str], list[str]] = {}
    for need in needs:
        way = _way(need, facts[need.host], source)
        if way and (need.host, need.kind, need.what) not in closed:
            groups.setdefault((need.kind, way, need.what), []).append(need.host)
    return Distribution(tuple(_transfer(way, what, hosts, facts, source) for (_kind, way, what), hosts in groups.items()), gaps)


def facts_after(found: Distribution, facts: Mapping[str, HostFacts], source: Source) -> Mapping[str, HostFacts]:
    """The hosts as they are once copies of the control machine's model have arrived: its files then have the same names there."""
    inside = _model_below_hub(source.here) if source.here else None
    copied = {host for transfer in found.transfers if transfer.way == "copy" for host in transfer.hosts}
    if not inside or source.here is None or not copied:
        return facts
    model = source.here.model
    return {
        host: msgspec.structs.replace(seen, model=_moved(model, source.here.hf_hub, seen.hf_hub)) if host in copied else seen
        for host, seen in facts.items()
    }


def _image_needs(plan: LaunchPlan, facts: Mapping[str, HostFacts]) -> Iterator[Need]:
    for rank in plan.ranks:
        images = facts[rank.host].docker.images
        if rank.image and not facts[rank.host].assumed and rank.image in images and images[rank.image] is None:
            yield Need(host=rank.host, kind="image", what=rank.image)


def _model_needs(plan: LaunchPlan, request: Request, facts: Mapping[str, HostFacts]) -> Iterator[Need]:
    if request.model.kind != "hub":
        return
    for rank in plan.ranks:
        seen = facts[rank.host]
        if rank.needs_model and not seen.assumed and seen.model.path is None:
            yield Need(host=rank.host, kind="model", what=request.model.text, required=needs_files(rank, request))


def _source(plan: LaunchPlan, request: Request, needs: tuple[Need, ...], sctx: SparkrunContext) -> Source:
    """Looks at the control machine, unless the hosts in need are all this machine."""
    own = frozenset(need.host for need in needs if sctx.runner.is_local(need.host))
    here = None
    if own != {need.host for need in needs}:
        question = Question(model=request.recipe.model, images=wanted_images(request))
        looked = observe_here(question, sctx.runner)
        here = looked if isinstance(looked, HostFacts) else None
    env = sctx.config.env
    held = here is not None and request.model.repo is not None and _model_below_hub(here) is not None
    return Source(
        model=request.model,
        here=here,
        model_bytes=repo_bytes(here.hf_hub, request.model.repo) if held and here and request.model.repo else None,
        own=own,
        offline=sctx.offline,
        image_for={rank.host: rank.image for rank in plan.ranks if rank.image},
        revision=request.recipe.model_revision or "",
        token=next((env[name] for name in TOKEN_VARIABLES if env.get(name)), ""),
    )


def _way(need: Need, host: HostFacts, source: Source) -> Literal["load", "pull", "copy", "download"] | None:
    """``None``: it stays as it is."""
    if need.kind == "image":
        return "load" if source.image_here(need.what, host) else None if source.offline else "pull"
    if source.has_model_for(host):
        return "copy" if need.required or not _no_room(need, host, source) else None
    return "download" if need.required and not source.offline else None


def _gap(need: Need, host: HostFacts, source: Source) -> Gap | None:
    way = _way(need, host, source)
    if way == "copy":
        return _no_room(need, host, source)
    if way or not need.required:
        return None
    return _gap_of(need, f"offline, and {_why_not_here(need, source)}", _hint(need))


def _no_room(need: Need, host: HostFacts, source: Source) -> Gap | None:
    size, free = source.model_bytes, host.hf_free_bytes
    if size is None or free is None or size <= free:
        return None
    room = f"it needs {size_text(size)}, {size_text(free)} are free at {host.hf_hub}"
    return _gap_of(need, room, f"make room on {need.host}, or set HF_HOME there to a larger disk")


def _gap_of(need: Need, reason: str, hint: str) -> Gap:
    return Gap(host=need.host, kind=need.kind, what=need.what, reason=reason, hint=hint)


def _why_not_here(need: Need, source: Source) -> str:
    if need.host in source.own or source.here is None:
        return "no other machine is known to have it"
    here = source.here
    if need.kind == "model":
        return f"this machine has none to copy either ({here.model.reason or here.hf_hub})"
    if not here.docker.usable:
        return f"this machine has no docker to copy it from ({here.docker.reason or 'docker is not installed'})"
    if other := here.docker.images.get(need.what):
        return f"this machine's copy is for {other.arch}"
    return "this machine's docker does not have it either"


def _hint(need: Need) -> str:
    if need.kind == "image":
        return f"fetch it there while there is a network: docker pull {need.what}"
    repo, _colon, _quant = need.what.partition(":")
    return f"fetch it, there or on this machine, while there is a network: hf download {repo}"


def _transfer(way: str, what: str, hosts: list[str], facts: Mapping[str, HostFacts], source: Source) -> Transfer:
    names = ", ".join(hosts)
    if way == "pull":
        return Transfer(
            title=f"image {what} on {names} (docker pull)",
            actions=tuple(pull_action(host, what) for host in hosts),
            kind="image",
            what=what,
            way="pull",
        )
    if way == "load":
        image = source.image_here(what, facts[hosts[0]])
        size = image.size_bytes if image else None
        return Transfer(
            title=f"image {what} to {names} (save | load{_sized(size)})",
            actions=tuple(load_action(host, what) for host in hosts),
            kind="image",
            what=what,
            way="load",
            size_bytes=size,
        )
    return _copy(what, hosts, facts, source) if way == "copy" else _download(what, hosts, facts, source)


def _copy(what: str, hosts: list[str], facts: Mapping[str, HostFacts], source: Source) -> Transfer:
    assert source.here is not None
    repo, here, size = source.model.repo or what, source.here.hf_hub, source.model_bytes
    return Transfer(
        title=f"model {repo} to {', '.join(hosts)} (copy of this machine's{_sized(size)})",
        actions=tuple(receive_action(host, facts[host].hf_hub, here, repo, size) for host in hosts),
        kind="model",
        what=what,
        way="copy",
        size_bytes=size,
        finish=tuple(keep_action(host, facts[host].hf_hub, repo) for host in hosts),
    )


def _download(what: str, hosts: list[str], facts: Mapping[str, HostFacts], source: Source) -> Transfer:
    return Transfer(
        title=f"model {what} on {', '.join(hosts)} (from the hub)",
        actions=tuple(
            download_action(host, facts[host].hf_hub, Fetch(source.model, source.revision, source.image_for.get(host, ""), source.token))
            for host in hosts
        ),
        kind="model",
        what=what,
        way="download",
    )


def _model_below_hub(here: HostFacts) -> str | None:
    """The model's path within the hub's cache, where that is where it lies."""
    path, hub = here.model.path, here.hf_hub
    return path.removeprefix(f"{hub}/") if path and hub and path.startswith(f"{hub}/") else None


def _moved(model: ModelFacts, old: str, new: str) -> ModelFacts:
    mmproj = f"{new}{model.mmproj.removeprefix(old)}" if model.mmproj else None
    return msgspec.structs.replace(model, path=f"{new}{(model.path or '').removeprefix(old)}", mmproj=mmproj)


def _sized(size: int | None) -> str:
    return f", {size_text(size)}" if size else ""


def _notes(plan: LaunchPlan) -> Iterator[str]:
    if plan.assumed_hosts:
        yield (
            f"{', '.join(plan.assumed_hosts)}: image and model are assumed to be there, nobody looked; "
            "what is missing is brought when it runs (see it beforehand: --probe)"
        )
