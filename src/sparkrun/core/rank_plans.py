"""What each rank runs: its command, environment, image and mounts, from the decisions of a launch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import msgspec

from sparkrun.core.decisions import Decided, means_its_user, user_env
from sparkrun.core.facts import DockerFacts, HostFacts
from sparkrun.core.hardware import DEVICE_ACCESS, UNIFIED
from sparkrun.core.plan import Mount, RankPlan, Upkeep
from sparkrun.core.secret_names import split_secrets
from sparkrun.models.files import repo_folder
from sparkrun.orchestration.executor import JobLabels
from sparkrun.orchestration.primitives import merge_env
from sparkrun.platforms import HardwarePlatformPlugin
from sparkrun.runtimes.environment import LaunchFields, render_recipe_env
from sparkrun.runtimes.model_files import CONTAINER_HF_HOME, CONTAINER_HUB
from sparkrun.runtimes.ranks import RankContext, with_env_keys, with_peers
from sparkrun.runtimes.runtime_cache import CONTAINER_CACHE, CacheKey, CacheSettings, RuntimeCache, cache_settings, plan_runtime_cache

HF_CACHE = "~/.cache/huggingface"
"""Where a host keeps models when it does not say otherwise."""
SPARKRUN_CACHE = "~/.cache/sparkrun"
"""Where it keeps everything else."""


DROP_CACHES = "/proc/sys/vm/drop_caches"
"""Where the kernel is told to let go of what it keeps of files (proc_sys_vm(5))."""


def plan_ranks(decided: Decided) -> tuple[RankPlan, ...]:
    """Every rank, in rank order."""
    collective = decided.collective_env()
    contexts = with_env_keys(decided.contexts, [collective.get(rank.host, {}) for rank in decided.contexts])
    names = [_name(decided, rank) for rank in contexts]
    contexts = with_peers(contexts, names, [decided.facts[rank.host].user for rank in contexts])
    return tuple(_rank_plan(decided, rank, collective.get(rank.host, {})) for rank in contexts)


def rank_labels(decided: Decided, rank: RankPlan, launch: str, digest: str) -> JobLabels:
    """What a rank says of itself on its host; ``digest`` is that of ``workload_digest``."""
    request = decided.request
    return JobLabels(
        cluster_id=decided.cluster_id,
        intent_id=decided.intent.id,
        launch=launch,
        recipe=request.recipe.name,
        recipe_ref=request.recipe.source.ref,
        runtime=request.runtime.plugin_name,
        model=request.recipe.model,
        served_model_name=decided.served_model_name,
        rank=rank.rank,
        role=rank.role,
        host=rank.host,
        port=decided.command.port if rank.rank == 0 else None,
        endpoint=decided.endpoint if rank.rank == 0 else None,
        health_path=request.runtime.health_path if rank.rank == 0 else None,
        image=rank.image,
        tensor_parallel=decided.config.whole("tensor_parallel", 1),
        ranks=len(decided.contexts),
        hosts=",".join(host for host in decided.placement.hosts if not means_its_user(host)),
        digest=digest,
    )


def workload_digest(decided: Decided) -> str:
    """16 hex digits of everything that people decide about a workload and that is not in its intent. No secret goes into it."""
    request, recipe = decided.request, decided.request.recipe
    env, secret_env = split_secrets(user_env(request, decided.config))
    made_from = (
        decided.command.text,
        env,
        sorted(secret_env),
        request.executor.plugin_name,
        request.executor_config,
        (request.options.executor_args, request.options.labels, request.options.rootful),
        sorted(set(decided.images.by_host.values())),
        (recipe.mods, recipe.pre_exec, recipe.post_exec, recipe.post_commands),
    )
    return hashlib.sha256(msgspec.json.encode(made_from, order="deterministic")).hexdigest()[:16]


def _rank_plan(decided: Decided, rank: RankContext, collective: Mapping[str, str]) -> RankPlan:
    request, facts = decided.request, decided.facts[rank.host]
    context = decided.context(rank)
    command = request.runtime.rank_command(context, decided.command)
    image = decided.image(rank.host)
    cache = _runtime_cache(decided, facts, image)
    env, secret_env = split_secrets(_environment(decided, rank, collective, cache))
    plan = RankPlan(
        rank=rank.rank,
        host=rank.host,
        role=_role(rank),
        name=_name(decided, rank),
        command=command.text,
        env=env,
        secret_env={**decided.command.secret_env, **secret_env},
        gpus=rank.gpus,
        image=image,
        needs_model=request.runtime.needs_model(rank),
        ports=request.runtime.rank_ports(context, decided.command),
        why=command.notes,
        upkeep=_upkeep(decided, facts, cache),
    )
    return _in_container(plan, decided, rank, cache) if request.executor.uses_images else plan


def _name(decided: Decided, rank: RankContext) -> str:
    request = decided.request
    if wanted := request.options.container_name:
        return wanted if rank.solo else f"{wanted}_{rank.rank}"
    return request.runtime.rank_name(request.executor, decided.cluster_id, rank)


def _in_container(plan: RankPlan, decided: Decided, rank: RankContext, cache: RuntimeCache | None) -> RankPlan:
    request, facts = decided.request, decided.facts[rank.host]
    context = decided.context(rank)
    hardware = decided.hardware[rank.host]
    cached = (cache.mount,) if cache else ()
    own = request.runtime.get_extra_volumes(context)
    return msgspec.structs.replace(
        plan,
        removes=tuple(_left_of(decided, facts, plan.name)),
        mounts=(*_model_mounts(decided, facts), *cached, *_tuning_mounts(decided, facts), *own),
        gpu_vendor=hardware.vendor,
        gpu_access_mode=_gpu_access(decided.platform(rank.host), facts.docker),
        rootful=request.options.rootful,
        labels=request.options.labels,
        missing_mounts=request.missing_mounts,
        docker_args=(*request.runtime.get_extra_docker_opts(context), *request.options.executor_args),
        gated=bool(request.recipe.pre_exec or request.mods),
    )


def _gpu_access(platform: HardwarePlatformPlugin, docker: DockerFacts) -> str | None:
    """As the platform prefers, where the host's docker can. podman hands out NVIDIA's accelerators by CDI only."""
    if platform.vendor != "nvidia":
        return None
    listed = docker.cdi and (platform.gpu_access_mode == "cdi" or not docker.gpu_hook)
    return "cdi" if listed or docker.podman else "gpus"


def _left_of(decided: Decided, facts: HostFacts, own_name: str) -> Iterator[str]:
    for workload in facts.workloads:
        if workload.auto_remove and not workload.alive and f"_{decided.intent.id}_" in workload.cluster_id and workload.name != own_name:
            yield workload.name


def _environment(decided: Decided, rank: RankContext, collective: Mapping[str, str], cache: RuntimeCache | None) -> dict[str, str]:
    """Every tier, lowest first: network, compile cache, runtime, platform, people, and what must not be changed in a container."""
    request = decided.request
    context = decided.context(rank)
    in_container = request.executor.uses_images
    return merge_env(
        collective,
        cache.env if cache else {},
        request.runtime.get_extra_env(context),
        decided.platform(rank.host).env(request.runtime.plugin_name) if in_container else {},
        _visible_gpus(decided, rank),
        _people(decided, rank, cache),
        request.runtime.get_container_env(context) if in_container else {},
    )


def _people(decided: Decided, rank: RankContext, cache: RuntimeCache | None) -> dict[str, str]:
    facts = decided.context(rank).facts
    fields = LaunchFields(
        cluster_id=decided.cluster_id,
        rank=rank,
        model_path=facts.model.path or decided.request.recipe.model,
        model_revision=decided.context(rank).commit or "",
        runtime_cache_dir=CONTAINER_CACHE if cache else "",
    )
    return render_recipe_env(user_env(decided.request, decided.config), decided.config.values(), fields)


def _visible_gpus(decided: Decided, rank: RankContext) -> dict[str, str]:
    """Which accelerators a process may use. In a container with NVIDIA's the toolkit hands in only those, and numbers them anew."""
    vendor = decided.hardware[rank.host].vendor or ""
    if decided.request.executor.uses_images and vendor == "nvidia":
        return {}
    access = DEVICE_ACCESS.get(vendor)
    return access.visible(rank.gpus) if access else {}


def _runtime_cache(decided: Decided, facts: HostFacts, image: str | None) -> RuntimeCache | None:
    request = decided.request
    if not request.executor.uses_images:
        return None
    settings = _cache_settings(decided)
    key = CacheKey(family=request.runtime.family, model=request.recipe.model, image=image or "")
    if request.runtime.cache_by_image:
        settings = msgspec.structs.replace(settings, key_by_image=True)
    return plan_runtime_cache(settings, key, request.runtime.cache_variables, facts.cache_dir or SPARKRUN_CACHE)


def _cache_settings(decided: Decided) -> CacheSettings:
    recipe, cluster = decided.request.recipe, decided.request.cluster
    if decided.request.options.runtime_cache is False:
        return CacheSettings(enabled=False)
    if recipe.runtime_cache is not None:
        return cache_settings(recipe.runtime_cache, recipe.where("runtime_cache"))
    if cluster and cluster.runtime_cache is not None:
        return cache_settings(cluster.runtime_cache, f"cluster {cluster.name}")
    return cache_settings(decided.request.user_runtime_cache, "config.yaml")


def _upkeep(decided: Decided, facts: HostFacts, cache: RuntimeCache | None) -> Upkeep:
    model = decided.request.model
    folder = repo_folder(model.repo) if model.repo and facts.hf_hub else ""
    switch = DROP_CACHES if UNIFIED in facts.believed_hardware.capabilities else ""
    if cache is None:
        return Upkeep(hub=facts.hf_hub, model_folder=folder, drop_caches=switch)
    return Upkeep(
        drop_caches=switch,
        hub=facts.hf_hub,
        model_folder=folder,
        runtime_cache=cache.host_dir,
        runtime_caches=cache.root,
        max_age_days=cache.max_age_days,
    )


def _tuning_mounts(decided: Decided, facts: HostFacts) -> Iterator[Mount]:
    """The host's own tuning configs, where there is one. The folder is made, so that configs which did not arrive stop no launch."""
    runtime = decided.request.runtime
    if runtime.tuning and facts.tuning:
        yield Mount(f"{facts.cache_dir or SPARKRUN_CACHE}/tuning/{runtime.family}", runtime.tuning.target, create=True)


def _model_mounts(decided: Decided, facts: HostFacts) -> Iterator[Mount]:
    cluster = decided.request.cluster
    home = (cluster.cache_dir if cluster else None) or facts.hf_cache or HF_CACHE
    yield Mount(home, CONTAINER_HF_HOME, create=True)
    if facts.hf_cache and facts.hf_hub and facts.hf_hub != f"{home}/hub":
        # Models are kept apart (HF_HUB_CACHE): they are found by their ids, and by the paths they have on the host.
        yield Mount(facts.hf_hub, CONTAINER_HUB, create=True)
        yield Mount(facts.hf_hub, facts.hf_hub, read_only=True)
    model = decided.request.model
    if model.kind == "path" and model.path:
        yield Mount(model.path, model.path, read_only=True)


def _role(rank: RankContext) -> str:
    if rank.solo:
        return "solo"
    return "head" if rank.head else f"worker_{rank.rank}"
