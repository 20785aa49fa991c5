"""Images of the eugr/spark-vllm-docker family: what is on the host first, then a published image, then a build of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from sparkrun.builders.base import BuilderPlugin, BuildWish, ImageDecision
from sparkrun.builders.docker_pull import plan_pull
from sparkrun.builders.eugr_names import Named, built_tag, published_image, unmet_args
from sparkrun.builders.eugr_options import EugrOptions, eugr_options, smoke_words
from sparkrun.builders.eugr_stages import STAGES, stage_of, way_out
from sparkrun.containers.images import is_pullable
from sparkrun.core.facts import HostFacts
from sparkrun.core.plan import Build, Gap, HostAction
from sparkrun.core.recipe.builders import EUGR, BuilderKnowledge
from sparkrun.core.remote import ScriptCall

PROGRAM = "./build-and-copy.sh"
NO_LIMIT_S = 24 * 3600
"""A build compiles for as long as it takes; its session ends it, not a clock."""


class EugrBuilder(BuilderPlugin):
    """``vllm-node`` and its kin: used where the host has them, else replaced by a published image, else built by build-and-copy.sh."""

    plugin_name = "eugr"
    knowledge: ClassVar[BuilderKnowledge] = EUGR
    stages: ClassVar[tuple[str, ...]] = STAGES

    def candidates(self, wish: BuildWish) -> tuple[str, ...]:
        """The image as it is named, the published one, and the one that a build would make."""
        ask = _Ask(wish)
        return (ask.image, *((ask.published,) if ask.named.sentinel else ()), ask.tag)

    def plan_build(self, wish: BuildWish, hosts: Sequence[HostFacts]) -> ImageDecision:
        """One image for all hosts, which the head decides; what any of them has built before is not built again."""
        ask = _Ask(wish)
        return _plan_custom(ask, hosts) if ask.custom else _plan_as_named(ask, hosts)

    def asks(self, wish: BuildWish) -> str | None:
        """The command of a build that is not just a published image."""
        ask = _Ask(wish)
        return f"{ask.command} (of {ask.options.repo})" if ask.custom else None

    def stage_of(self, line: str) -> str | None:
        """Told by what docker and the script usually print."""
        return stage_of(line)

    def way_out(self, stage: str, said: str) -> str | None:
        """What usually helps there."""
        return way_out(stage, said)


class _Ask:
    """A wish, read."""

    def __init__(self, wish: BuildWish) -> None:
        self.wish = wish
        self.image = wish.image
        self.options: EugrOptions = eugr_options(wish.options)
        self.named = Named(wish.image)
        self.unmet = unmet_args(wish.args)
        self.published = published_image(self.options, self.named, wish.args)
        self.tag = built_tag(self.named, self.options, wish.args)

    @property
    def custom(self) -> bool:
        """Whether no published image will do."""
        if self.named.local and not self.named.sentinel:
            return bool(self.wish.args)
        return bool(self.unmet) or (not self.options.use_sentinel_image and self.named.sentinel)

    @property
    def command(self) -> str:
        """What is run, for people."""
        return " ".join((PROGRAM, "-t", self.tag, *self.wish.args))

    @property
    def why(self) -> str:
        """What asks for a build."""
        if self.wish.rebuild:
            return "--rebuild"
        return f"build_args {' '.join(self.wish.args)}" if self.unmet or not self.named.sentinel else "use_sentinel_image is off"


def _plan_as_named(ask: _Ask, hosts: Sequence[HostFacts]) -> ImageDecision:
    head = hosts[0]
    if is_pullable(ask.image):
        return plan_pull(ask.wish, hosts, EugrBuilder.plugin_name)
    if not ask.named.sentinel:
        return plan_pull(ask.wish, hosts, EugrBuilder.plugin_name) if _has(head, ask.image) else _left_alone(ask, head)
    if head.assumed:
        note = f"{ask.image} is assumed to be on {head.host}; where it is not, {ask.published} takes its place (see it beforehand: --probe)"
        return ImageDecision(image=ask.image, notes=(note,))
    if _has(head, ask.image) and (ask.wish.offline or not ask.wish.rebuild):
        return ImageDecision(image=ask.image, notes=(f"{ask.image} is on {head.host} and is used as it is",))
    why = "--rebuild" if _has(head, ask.image) else f"{head.host} has no image of that name"
    substituted = plan_pull(msgspec.structs.replace(ask.wish, image=ask.published), hosts, EugrBuilder.plugin_name)
    note = f"{ask.published} takes the place of {ask.image}: {why}"
    doubt = (f"nothing is published under the name {ask.image}: {ask.published} is the plain image",) if ask.named.unknown_variant else ()
    return msgspec.structs.replace(substituted, notes=(note,), warnings=(*substituted.warnings, *doubt))


def _left_alone(ask: _Ask, head: HostFacts) -> ImageDecision:
    if head.assumed:
        return ImageDecision(image=ask.image)
    warning = f"{ask.image} is not on {head.host}; it is a local build, and nothing says how to make it (build_args)"
    return ImageDecision(image=ask.image, warnings=(warning,))


def _plan_custom(ask: _Ask, hosts: Sequence[HostFacts]) -> ImageDecision:
    head = hosts[0]
    if head.assumed:
        image = ask.image if ask.named.specific else ask.tag
        note = f"{image} is assumed to be on {head.host}; where it is not, it is built there: {ask.command} (see it beforehand: --probe)"
        return ImageDecision(image=image, notes=(note,))
    if not ask.wish.rebuild or ask.wish.offline:
        if holder := next((seen.host for seen in hosts if _has(seen, ask.tag)), None):
            return ImageDecision(image=ask.tag, notes=(f"{ask.tag} was built before, of the same source and arguments: {holder} has it",))
        if _has(head, ask.image) and (ask.named.specific or not ask.unmet):
            note = f"{ask.image} is on {head.host} and is used as it is (--rebuild builds it anew)"
            return ImageDecision(image=ask.image, notes=(note,))
    if ask.wish.offline:
        hint = f"build it while there is a network: sparkrun build RECIPE -H {head.host}"
        gap = Gap(host=head.host, kind="image", what=ask.tag, reason="it has to be built, and offline nothing is", hint=hint)
        return ImageDecision(image=ask.tag, gap=gap)
    return ImageDecision(image=ask.tag, build=_build(ask, [seen.host for seen in hosts]))


def _build(ask: _Ask, hosts: Sequence[str]) -> Build:
    host, *others = hosts
    params: dict[str, str | tuple[str, ...]] = {
        "IMAGE": ask.tag,
        "REPO": ask.options.repo,
        "REF": ask.options.ref,
        "ARGS": ask.wish.args,
        "SMOKE": smoke_words(ask.options),
        "REBUILD": "1" if ask.wish.rebuild else "0",
        "LIFELINE": "1",
    }
    handed_on = f", then hand it on to {', '.join(others)}" if others else ""
    title = f"build {ask.tag} on {host}{handed_on} ({ask.command})"
    return Build(
        title=title,
        actions=(HostAction(host, title, ScriptCall("eugr_build", params), timeout_s=NO_LIMIT_S),),
        image=ask.tag,
        builder=EugrBuilder.plugin_name,
        why=ask.why,
        onward=tuple(others),
        save_log=ask.options.save_build_logs,
    )


def _has(host: HostFacts, image: str) -> bool:
    return host.docker.images.get(image) is not None
