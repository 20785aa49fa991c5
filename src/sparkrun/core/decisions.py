"""The decisions of a launch: where its ranks go, in which configuration, over which network, with which command."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from sparkrun.core.backend_select import resolve_per_host_backends
from sparkrun.core.builds import Images, decide_images
from sparkrun.core.cluster_status import ClusterStatus, join_workloads
from sparkrun.core.context import SparkrunContext
from sparkrun.core.effective import EffectiveConfig
from sparkrun.core.errors import PlacementError
from sparkrun.core.fabric import Fabric, FabricOptions, select_fabric
from sparkrun.core.fabric.bootstrap import is_loopback
from sparkrun.core.facts import HostFacts
from sparkrun.core.hardware import HostHardware
from sparkrun.core.hosts import parse_host
from sparkrun.core.identity import Intent
from sparkrun.core.layout import parse_layout
from sparkrun.core.limits import MemoryVerdict
from sparkrun.core.memory_check import MemoryCase, caps_of, demanded_gib, estimate_launch, judge_memory, platform_memory, share_on
from sparkrun.core.observation import PORTS_TO_TRY
from sparkrun.core.placement import Conditions, Placement, PlacementRules, check_tensor_parallel, compute_placement
from sparkrun.core.recipe.conditional import Facts, Verdict, judge_overrides, matching_overrides
from sparkrun.core.request import Request
from sparkrun.platforms import HardwarePlatformPlugin, resolve_platform
from sparkrun.runtimes._cluster_ops import resolve_comm_env
from sparkrun.runtimes.commands import Command, CommandContext
from sparkrun.runtimes.compatibility import check_runtime_host_compatibility
from sparkrun.runtimes.images import ImageChoice
from sparkrun.runtimes.model_files import container_facts, snapshot_revision
from sparkrun.runtimes.ranks import RankContext, RankPorts, rank_contexts, with_fabric

ANY_ADDRESS = frozenset({None, "", "0.0.0.0", "::", "[::]", "localhost", "127.0.0.1", "::1"})


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What is known once ranks are placed and the serving command is written."""

    request: Request
    facts: Mapping[str, HostFacts]
    hardware: Mapping[str, HostHardware]
    config: EffectiveConfig
    placement: Placement
    memory: MemoryVerdict
    verdicts: tuple[Verdict, ...]
    fabric: Fabric | None
    contexts: tuple[RankContext, ...]
    command: Command
    intent: Intent
    placement_token: str
    endpoint: str
    images: Images = Images()

    @property
    def cluster_id(self) -> str:
        """The id of the workload."""
        return f"sparkrun_{self.intent.id}_{self.placement_token}"

    @property
    def served_model_name(self) -> str:
        """What clients call the model."""
        return self.command.served_model_name or self.request.model.served_name

    def platform(self, host: str) -> HardwarePlatformPlugin:
        """What kind of machine a host is."""
        return resolve_platform(self.hardware[host])

    def image(self, host: str) -> str | None:
        """The image of a host, ``None`` where the executor uses none."""
        return self.images.by_host.get(host)

    def context(self, rank: RankContext) -> CommandContext:
        """What the command of a rank is made of."""
        return command_context(self.request, self.config, self.facts[rank.host], rank)

    def collective_env(self) -> dict[str, dict[str, str]]:
        """By host, what its collective library needs to know of the network. Nothing for a launch of one process."""
        if self.fabric is None:
            return {}
        backends = resolve_per_host_backends({host: self.hardware[host] for host in self.placement.hosts})
        return resolve_comm_env(self.fabric, user_env(self.request, self.config), backends)


def decide(request: Request, facts: Mapping[str, HostFacts], sctx: SparkrunContext) -> Decided:
    """Place the ranks and write the serving command. Raises what placement, platform and runtime refuse; touches nothing."""
    hardware = {host: _hardware(host, seen, request) for host, seen in facts.items()}
    check_runtime_host_compatibility(request.runtime.requires_capability(), hardware, runtime=request.runtime.plugin_name)
    draft = request.draft_config
    intent_draft = _intent(request, draft, None)
    on_first = resolve_platform(hardware[request.selection.hosts[0]]).config_defaults(request.runtime.plugin_name)
    placement = _place(request, request.configuration(on_first), facts, hardware, replacing=intent_draft.id)
    verdicts = _verdicts(request, draft, placement, facts, hardware)
    config = request.configuration(
        resolve_platform(hardware[placement.hosts[0]]).config_defaults(request.runtime.plugin_name),
        matching_overrides(request.recipe.overrides, verdicts),
    )
    fabric = _fabric(request, placement, facts)
    if fabric:
        placement = _around_the_ring(placement, fabric.ring_order)
    contexts = _contexts(request, config, placement, facts, fabric)
    head = facts[placement.hosts[0]]
    command = request.runtime.generate_command(command_context(request, config, head, contexts[0]))
    command = msgspec.structs.replace(command, warnings=(*command.warnings, *_deaf(request, head.host, command, sctx)))
    named = _named_images(request, config, placement.hosts, hardware)
    return Decided(
        request=request,
        facts=facts,
        hardware=hardware,
        config=config,
        placement=placement,
        memory=judge_memory(MemoryCase(request, config, facts, hardware, command.text), placement),
        verdicts=verdicts,
        fabric=fabric,
        contexts=contexts,
        command=command,
        intent=_intent(request, config, command),
        placement_token=request.scheduler.placement_token(placement.hosts),
        endpoint=_endpoint(head, command, sctx),
        images=decide_images(request, named, facts, sctx),
    )


def _named_images(request: Request, config: EffectiveConfig, hosts: Sequence[str], hardware: Mapping[str, HostHardware]) -> dict[str, str]:
    """By host, the image that recipe or platform name. Raises ``RecipeError`` when nobody names one."""
    if not request.executor.uses_images:
        return {}
    conditional = config.container.image if config.container.image != request.recipe.container else None
    named = {}
    for host in hosts:
        platform = resolve_platform(hardware[host]).default_image(request.runtime.plugin_name)
        choice = ImageChoice(option=request.options.image, conditional=conditional, platform=platform)
        named[host] = request.runtime.resolve_container(request.recipe, host, choice)
    return named


def command_context(request: Request, config: EffectiveConfig, facts: HostFacts, rank: RankContext) -> CommandContext:
    """What a command is made of on one host; paths are those that its process sees."""
    return CommandContext(
        recipe=request.recipe,
        config=config,
        model=request.model,
        facts=container_facts(facts) if request.executor.uses_images else facts,
        extra_args=request.options.extra_args,
        env=user_env(request, config),
        rank=rank,
        in_container=request.executor.uses_images,
        draft_revisions={name: commit for name, found in facts.further.items() if (commit := snapshot_revision(found.path))},
    )


def user_env(request: Request, config: EffectiveConfig) -> dict[str, str]:
    """What people set for the engine, low to high: cluster, recipe, ``-o env.NAME``, ``-e``."""
    return {**request.cluster_env, **config.container.env, **config.container.env_overrides, **request.options.env}


def _hardware(host: str, seen: HostFacts, request: Request) -> HostHardware:
    """As seen; for a host that nobody looked at, what the cluster's file says of it, else a DGX Spark."""
    saved = request.cluster.hardware.get(host) if request.cluster and seen.assumed else None
    return saved or seen.believed_hardware


def _place(
    request: Request, config: EffectiveConfig, facts: Mapping[str, HostFacts], hardware: Mapping[str, HostHardware], *, replacing: str
) -> Placement:
    hosts = request.selection.hosts
    count = request.runtime.required_nodes(request.recipe, config, [hardware[host].gpu_count for host in hosts], solo=request.options.solo)
    cpu = request.runtime.runs_on_cpu or not request.executor.uses_images
    _check_heads(request, config, facts)
    case = MemoryCase(request, config, facts, hardware)
    estimate = estimate_launch(case, count.ranks)
    demand = msgspec.structs.replace(count.demand(), cpu_allowed=cpu, memory_gib=demanded_gib(case, estimate))
    conditions = Conditions(
        status=ClusterStatus(hosts, join_workloads(workload for seen in facts.values() for workload in seen.workloads)),
        caps=caps_of(case),
        platforms={host: platform_memory(known) for host, known in hardware.items()},
        utilization=share_on(case, hosts[0], estimate),
        replacing=replacing,
    )
    if layout := parse_layout(request.recipe.layout, request.recipe.where("layout")):
        rules = PlacementRules(policy=request.scheduler.policy, conditions=conditions, layout=layout)
        return compute_placement(demand, hosts, hardware, rules)
    return request.scheduler.schedule(demand, hosts, hardware, conditions)


def _check_heads(request: Request, config: EffectiveConfig, facts: Mapping[str, HostFacts]) -> None:
    """Tensor parallelism against the heads that the model's own config tells of, where a host has it, else the recipe's metadata."""
    if not request.runtime.splits_heads:
        return
    said = {key: value for key, value in request.recipe.metadata.items() if isinstance(value, int)}
    models = [seen.model for seen in facts.values()]
    attention = next((model.attention_heads for model in models if model.attention_heads), said.get("num_attention_heads"))
    kv = next((model.kv_heads for model in models if model.kv_heads), said.get("num_kv_heads"))
    check_tensor_parallel(config.whole("tensor_parallel", 1), attention_heads=attention, kv_heads=kv)


def _verdicts(
    request: Request, config: EffectiveConfig, placement: Placement, facts: Mapping[str, HostFacts], hardware: Mapping[str, HostHardware]
) -> tuple[Verdict, ...]:
    if not request.recipe.overrides:
        return ()
    shared = {short: config.whole(key, 1) for key, short in _PARALLELISM}
    judged = {host: _override_facts(request, config, placement, facts[host], hardware[host], shared) for host in placement.hosts}
    return judge_overrides(request.recipe.overrides, judged)


_PARALLELISM = (
    ("tensor_parallel", "tp"),
    ("pipeline_parallel", "pp"),
    ("data_parallel", "dp"),
    ("expert_parallel", "ep"),
    ("context_parallel", "cp"),
)


def _override_facts(  # noqa: PLR0913 - one fact sheet from everything that is known
    request: Request, config: EffectiveConfig, placement: Placement, seen: HostFacts, hardware: HostHardware, shared: dict[str, int]
) -> Facts:
    spec = hardware.accelerators[0] if hardware.accelerators else None
    return Facts(
        **shared,
        nodes=len(placement.hosts),
        gpus_per_node=hardware.gpu_count,
        runtime=request.runtime.plugin_name,
        platform=resolve_platform(hardware).name,
        vendor=hardware.vendor,
        accelerator=spec.model if spec else None,
        arch=seen.arch or None,
        capability=hardware.capabilities,
        memory_gb=spec.memory_gb if spec else None,
        config=config.values(),
    )


def _fabric(request: Request, placement: Placement, facts: Mapping[str, HostFacts]) -> Fabric | None:
    """The network between the placed hosts; one host needs none."""
    if len(placement.hosts) == 1:
        return None
    cluster = request.cluster
    options = FabricOptions(
        management_interface=cluster.mgmt_interface if cluster else None,
        fabric_interfaces=cluster.fabric_interfaces if cluster else (),
        topology=cluster.topology if cluster else None,
    )
    fabric = select_fabric({host: facts[host].fabric for host in placement.hosts}, options)
    lost = [host for host in fabric.hosts_without_address if not facts[host].assumed]
    if lost:
        hint = "give an address of the network in common, or join the hosts to one"
        raise PlacementError(f"no address by which the other hosts could reach {', '.join(lost)}", hint=hint)
    return fabric


def _around_the_ring(placement: Placement, ring: Sequence[str]) -> Placement:
    """Neighbours in rank order where the hosts are wired in a ring; the head stays the head."""
    if set(ring) != set(placement.hosts):
        return placement
    at = ring.index(placement.hosts[0])
    hosts = (*ring[at:], *ring[:at])
    slots = [slot for host in hosts for slot in placement.on(host)]
    ordered = tuple(msgspec.structs.replace(slot, rank=rank) for rank, slot in enumerate(slots))
    return msgspec.structs.replace(placement, slots=ordered)


def _contexts(
    request: Request, config: EffectiveConfig, placement: Placement, facts: Mapping[str, HostFacts], fabric: Fabric | None
) -> tuple[RankContext, ...]:
    addresses = {host: (fabric.hosts[host].node_address if fabric else None) or _known_name(facts[host]) for host in placement.hosts}
    ports = RankPorts(rendezvous=_free_port(request.runtime.first_port(config), [facts[host] for host in placement.hosts]))
    ranks = rank_contexts(placement, request.runtime.replica_size(config), addresses, ports)
    return with_fabric(ranks, fabric.addresses_towards(placement.hosts[0])) if fabric else ranks


def _known_name(facts: HostFacts) -> str:
    """How others may call a host of which no address is known; never loopback, which means each of them itself."""
    return facts.hostname or socket.gethostname() if means_its_user(facts.host) else parse_host(facts.host).name


def means_its_user(host: str) -> bool:
    """Whether a host, as it was named, is whoever uses that name: nobody else can be told of it."""
    name = parse_host(host).name
    return is_loopback(name) or name == "localhost"


def _free_port(first: int, hosts: Sequence[HostFacts]) -> int:
    """The first port that nothing listens on, on any of the hosts. Raises ``PlacementError`` when all that were looked at are taken."""
    for port in range(first, first + PORTS_TO_TRY):
        if not any(port in seen.ports and seen.ports[port].busy for seen in hosts):
            return port
    raise PlacementError(
        f"ports {first} to {first + PORTS_TO_TRY - 1} are all in use on {', '.join(seen.host for seen in hosts)}",
        hint="name another first port: -o init_port=N",
    )


def _intent(request: Request, config: EffectiveConfig, command: Command | None) -> Intent:
    """What makes this the same workload as another launch of it."""
    recipe = request.recipe
    return Intent(
        runtime=request.runtime.plugin_name,
        model=recipe.model,
        image=request.options.image or recipe.container,
        host_images={} if request.options.image else {entry.host: entry.image for entry in recipe.containers},
        port=command.port if command else config.whole("port", request.runtime.default_port),
        served_model_name=command.served_model_name if command else config.text("served_model_name"),
        parallelism=request.runtime.parallelism(config),
    )


def _deaf(request: Request, host: str, command: Command, sctx: SparkrunContext) -> Iterator[str]:
    """That nobody but the head's own host can reach the engine."""
    listens = command.host or request.runtime.default_host
    if (listens == "localhost" or is_loopback(listens)) and not sctx.runner.is_local(host):
        yield (
            f"{request.runtime.plugin_name} listens on {listens} of {host}, where nobody else reaches it;"
            " let it listen for others with: -o host=0.0.0.0"
        )


def _endpoint(head: HostFacts, command: Command, sctx: SparkrunContext) -> str:
    """Where a client on the control machine reaches the engine."""
    name = str(command.host) if command.host not in ANY_ADDRESS else _name_here(head, sctx)
    return f"http://{f'[{name}]' if ':' in name else name}:{command.port}/v1"


def _name_here(head: HostFacts, sctx: SparkrunContext) -> str:
    """How programs of this machine call a host: by its name, or by the address at which ssh reached it where only ssh knows the name."""
    if sctx.runner.is_local(head.host):
        return "127.0.0.1"
    address = head.fabric.ssh_address
    known = head.assumed or address is None or sctx.runner.resolves(head.host)
    return parse_host(head.host).name if known or address is None else address
