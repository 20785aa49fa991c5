"""A launch as one value: every command, variable, address and port of every rank, and why. Printing and executing use the same value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from sparkrun.core.limits import MemoryVerdict
from sparkrun.core.remote import ScriptCall
from sparkrun.core.routes import Link
from sparkrun.utils.text import size_text

PLAN_SCHEMA = "sparkrun.plan/1"
S = TypeVar("S", bound="Stage")


class Mount(msgspec.Struct, frozen=True):
    """A folder or file of the host inside the container. A ``source`` that begins with ``~/`` lies in the host's own home.

    ``create``: a folder that is made on the host where it is missing; any other source has to be there.
    """

    source: str
    target: str
    read_only: bool = False
    create: bool = False


class Upkeep(msgspec.Struct, frozen=True, kw_only=True):
    """What a launch notes of the caches on a host, and clears away there, beside starting a rank. Paths may begin with ``~/``."""

    hub: str = ""
    """Folder of the hub's cache, and in it that of the model which is used."""
    model_folder: str = ""
    runtime_cache: str = ""
    """The rank's own compile cache, and the folder of all of them, from which goes what was unused for so many days; 0 is never."""
    runtime_caches: str = ""
    max_age_days: float = 0
    drop_caches: str = ""
    """The kernel's switch that lets go of memory which holds files, for an accelerator that shares it; empty: it is left alone."""


class RankPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank runs, and where. ``command`` is the shell text the host executes, unchanged."""

    rank: int
    host: str
    role: str
    """``solo``, ``head`` or ``worker``."""
    name: str
    command: str
    env: dict[str, str] = {}
    secret_env: dict[str, str] = {}
    gpus: tuple[int, ...] = ()
    image: str | None = None
    needs_model: bool = True
    """Whether it reads the model's files."""
    ports: tuple[int, ...] = ()
    why: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    """The words by which the executor starts the rank on its host."""
    removes: tuple[str, ...] = ()
    """Dead containers of earlier launches of the workload on this host, which go with this one."""
    mounts: tuple[Mount, ...] = ()
    missing_mounts: Literal["fail", "warn", "ignore"] = "fail"
    """What a mount whose source is missing on the host does to the launch."""
    gpu_vendor: str | None = None
    """Vendor of the host's accelerators, ``None`` for a host without any."""
    gpu_access_mode: str | None = None
    """How containers reach NVIDIA GPUs on this host: ``gpus`` (the runtime hook) or ``cdi``."""
    rootful: bool = False
    """Run the container privileged and as the image's own user."""
    docker_args: tuple[str, ...] = ()
    """Further options of ``docker run``, as they are, just before the image."""
    labels: dict[str, str] = {}
    """Further labels of the container."""
    gated: bool = False
    """The engine waits inside its container until the launch opens the gate."""
    upkeep: Upkeep = Upkeep()
    gate_timeout_s: int = 600
    """How long it waits there without a sign of the launch before it gives up."""


class HostAction(msgspec.Struct, frozen=True):
    """One script on one host, and the script that takes it back. ``timeout_s`` bounds it."""

    host: str
    title: str
    call: ScriptCall
    undo: ScriptCall | None = None
    timeout_s: float = 120


class LocalCommand(msgspec.Struct, frozen=True):
    """A command on the control machine, through the user's shell. ``timeout_s`` 0 is no limit."""

    title: str
    command: str
    env: dict[str, str]
    timeout_s: float


class Watch(msgspec.Struct, frozen=True):
    """A script that ends when a condition holds, or when it cannot hold any more. ``timeout_s`` bounds it as a whole."""

    host: str
    title: str
    call: ScriptCall
    timeout_s: float


class Guard(msgspec.Struct, frozen=True):
    """A script that stands by a rank from its start until the launch answers, and ends only when the rank does."""

    host: str
    rank: int
    title: str
    call: ScriptCall


class Stage(msgspec.Struct, frozen=True):
    """Actions that may run at the same time, and who is watched from then on. It ends when every action has."""

    title: str
    actions: tuple[HostAction, ...] = ()
    guards: tuple[Guard, ...] = ()


class Branch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A chain of hosts that hand a stream on: from ``first`` along ``links``."""

    first: str
    links: tuple[Link, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """All of them, in the order in which bytes reach them."""
        return (self.first, *(link.target for link in self.links))


class Flow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stream of a transfer: the bash that prints it at the source, and what takes it on every host. ``size_bytes`` where known."""

    feed: str
    actions: tuple[HostAction, ...]
    size_bytes: int | None = None


class Build(Stage, frozen=True, kw_only=True):
    """A stage that makes an image, or fetches it anew, before anything is brought. ``why`` is what asks for that."""

    image: str
    builder: str
    why: str
    onward: tuple[str, ...] = ()
    """Hosts that get it afterwards from those that have it then."""
    save_log: bool = False
    """Whether its whole output is kept in ``<cache>/<builder>-builds`` of the control machine."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Where the image is afterwards."""
        return tuple(action.host for action in self.actions)


class Transfer(Stage, frozen=True, kw_only=True):
    """A stage that brings an image or a model to hosts that lack it, before anything is launched.

    ``finish`` are actions that make what has arrived count, once all of it has: half of it never looks whole.
    """

    kind: Literal["image", "model"]
    what: str
    way: Literal["pull", "load", "download", "copy"]
    """``pull``, ``download``: hosts fetch it themselves (``actions``); ``load``, ``copy``: ``flows`` bring it from one that has it."""
    source: str = ""
    """The host that it comes from; empty: this machine, or a registry or hub."""
    why: str = ""
    """Why this way and not another."""
    branches: tuple[Branch, ...] = ()
    """How each flow reaches the hosts, all branches at the same time. The first of a branch is the source itself where that is a host."""
    flows: tuple[Flow, ...] = ()
    """Streams that run at the same time."""
    size_bytes: int | None = None
    """How many bytes leave the source."""
    bytes_by_host: dict[str, int] = {}
    """How many bytes each host still lacks, where that is known."""
    estimate_s: float | None = None
    """About how long it takes, where the speed of its links is known."""
    idle_s: float = 120
    """When nothing has moved for so long it is given up; how long it takes as a whole does not matter."""
    onward: tuple[str, ...] = ()
    """Hosts that get it afterwards from those that have it then."""
    optional: bool = False
    """Whether the launch goes on without it."""
    refresh: bool = False
    """Whether hosts have one already, under a name that may mean a newer one by now."""
    finish: tuple[HostAction, ...] = ()

    @property
    def account(self) -> str:
        """Why this way, how much each host still lacks, and about how long it takes; empty where there is nothing to say."""
        parts = (self.why, _lacking_text(self.bytes_by_host), _time_text(self.estimate_s))
        return "; ".join(part for part in parts if part)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Who gets it."""
        in_flows = (action for flow in self.flows for action in flow.actions)
        return tuple(dict.fromkeys(action.host for action in (*self.actions, *in_flows, *self.finish)))


class TuningPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Tuning configs of a launch. ``skipped`` says why none are copied."""

    runtime: str
    """Whose configs they are, as registries call it: ``vllm``, ``sglang``; empty for an engine without any."""
    skipped: str | None = None
    registry: str = ""
    folder: str = ""
    """Where they are on the control machine."""
    copies: dict[str, str] = {}
    """Files that come into it, by name, and where from."""
    adopts: tuple[str, ...] = ()
    """Files that are the registry's already, and are refreshed with it from now on."""
    drops: tuple[str, ...] = ()
    """Former copies that go."""
    kept: tuple[str, ...] = ()
    """Files that differ from the registry's because somebody edited them; they stay."""
    files: tuple[str, ...] = ()
    """Every file that hosts have afterwards."""
    sends: tuple[Stage, ...] = ()
    """How hosts that lack some get them: one stream for all that lack the same."""

    @property
    def work(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.copies or self.adopts or self.drops or self.sends)


def _lacking_text(bytes_by_host: Mapping[str, int]) -> str:
    sizes = set(bytes_by_host.values())
    if len(bytes_by_host) > 1 and len(sizes) == 1:
        return f"{size_text(sizes.pop())} to each"
    return ", ".join(f"{size_text(size)} to {host}" for host, size in bytes_by_host.items())


def _time_text(seconds: float | None) -> str:
    if seconds is None or seconds < 1:
        return ""
    return f"about {round(seconds / 60)} min" if seconds >= 120 else f"about {round(seconds)} s"


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a host lacks and nothing can bring: the launch is refused. ``hint`` is the way out."""

    host: str
    kind: Literal["image", "model"]
    what: str
    reason: str
    hint: str

    @property
    def text(self) -> str:
        """What is missing where, and why it stays so."""
        return f"{self.host}: {self.kind} {self.what} is not there: {self.reason}"


def gaps_together(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """The same with one for all hosts that lack the same for the same reason: ``host`` then names all of them."""
    hosts: dict[Gap, list[str]] = {}
    for gap in gaps:
        hosts.setdefault(msgspec.structs.replace(gap, host=""), []).append(gap.host)
    return tuple(msgspec.structs.replace(gap, host=", ".join(dict.fromkeys(names))) for gap, names in hosts.items())


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a launch will do, before it does any of it."""

    schema: str = PLAN_SCHEMA
    cluster_id: str
    intent_id: str
    placement_token: str
    digest: str = ""
    """What the workload is made from, besides its intent: with another one it has been changed."""
    recipe: str
    recipe_ref: str
    runtime: str
    executor: str
    model: str
    model_path: str | None = None
    served_model_name: str
    image: str | None = None
    port: int
    endpoint: str
    hosts: tuple[str, ...]
    staged_hosts: tuple[str, ...] = ()
    """Hosts that get image, model and tuning configs without having a rank."""
    assumed_hosts: tuple[str, ...] = ()
    """Hosts nobody looked at: what the plan says of them is assumed."""
    ranks: tuple[RankPlan, ...]
    builds: tuple[Build, ...] = ()
    """Images that are made first of all."""
    transfers: tuple[Transfer, ...] = ()
    """What hosts lack and get first, all at the same time."""
    gaps: tuple[Gap, ...] = ()
    """What hosts lack and cannot get."""
    tuning: TuningPlan | None = None
    stages: tuple[Stage, ...]
    ready: Watch | None = None
    post_exec: tuple[HostAction, ...] = ()
    """What runs in the head's container once it answers, one after the other."""
    post_commands: tuple[LocalCommand, ...] = ()
    stop_after_post: bool = False
    parallelism: dict[str, int] = {}
    memory: MemoryVerdict | None = None
    """What it takes of each GPU, and whether it may."""
    config: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    secret_values: tuple[str, ...] = ()

    @property
    def head(self) -> RankPlan:
        """The rank that answers requests."""
        return self.ranks[0]

    def public(self) -> dict[str, Any]:
        """The plan as plain data without a single secret: what ``--dry-run --json`` prints and job metadata keeps."""
        masked = msgspec.structs.replace(
            self,
            ranks=tuple(msgspec.structs.replace(rank, secret_env=dict.fromkeys(rank.secret_env, "***")) for rank in self.ranks),
            builds=tuple(_masked_stage(build) for build in self.builds),
            transfers=tuple(_masked_transfer(transfer) for transfer in self.transfers),
            stages=tuple(_masked_stage(stage) for stage in self.stages),
            ready=msgspec.structs.replace(self.ready, call=self.ready.call.masked()) if self.ready else None,
            secret_values=(),
        )
        data: dict[str, Any] = msgspec.to_builtins(masked)
        del data["secret_values"]
        masked_data: dict[str, Any] = mask(data, self.secret_values)
        return masked_data


def mask(value: Any, secrets: Iterable[str]) -> Any:
    """``value`` with every secret inside its texts replaced by ``***``."""
    pattern = _secret_pattern(secrets)
    return _mask(value, pattern) if pattern else value


def _mask(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return pattern.sub("***", value)
    if isinstance(value, dict):
        return {key: _mask(item, pattern) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mask(item, pattern) for item in value]
    return value


def _secret_pattern(secrets: Iterable[str]) -> re.Pattern[str] | None:
    words = sorted({re.escape(spelt) for secret in secrets if secret for spelt in _spellings(secret)}, key=len, reverse=True)
    return re.compile(rf"(?<![\w-])(?:{'|'.join(words)})(?![\w-])") if words else None


def _spellings(secret: str) -> tuple[str, ...]:
    """A secret as it is, inside single quotes of a shell, as ``shlex.quote`` writes it, and inside a text of JSON."""
    return secret, secret.replace("'", "'\\''"), secret.replace("'", "'\"'\"'"), json.dumps(secret, ensure_ascii=False)[1:-1]


def _masked_transfer(transfer: Transfer) -> Transfer:
    return msgspec.structs.replace(transfer, actions=_masked_actions(transfer.actions), finish=_masked_actions(transfer.finish))


def _masked_actions(actions: tuple[HostAction, ...]) -> tuple[HostAction, ...]:
    return tuple(
        msgspec.structs.replace(action, call=action.call.masked(), undo=action.undo.masked() if action.undo else None) for action in actions
    )


def _masked_stage(stage: S) -> S:
    return msgspec.structs.replace(stage, actions=_masked_actions(stage.actions))
