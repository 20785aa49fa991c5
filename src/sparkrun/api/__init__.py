"""Everything the command line does, as typed functions that never print.

Each takes ``sctx`` (see ``make_context``) and raises errors derived from ``SparkrunError``. Progress comes as events through ``sctx.emit``.
A name is loaded when it is first used, so that a program pays only for what it calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkrun.api import _errors
from sparkrun.utils.lazy import lazy_names

if TYPE_CHECKING:
    from sparkrun.api._clusters import (
        ClusterInspection,
        InferredHardware,
        Probe,
        create_cluster,
        default_cluster,
        delete_cluster,
        get_cluster,
        infer_hardware,
        inspect_cluster,
        list_clusters,
        set_default_cluster,
        update_cluster,
    )
    from sparkrun.api._context import make_context
    from sparkrun.api._errors import *  # noqa: F403 - every error, by its own list
    from sparkrun.api._fabric import FabricHostReport, FabricPortReport, FabricReport, fabric
    from sparkrun.api._image_cache import delete_image, image_cache, inspect_image, pin_image, prune_images, unpin_image, verify_images
    from sparkrun.api._image_cache_results import ImageCacheChange, ImageCacheReport, ImageChange, ImageCopy, ImageHostReport, ImageReport
    from sparkrun.api._launch import build, plan, plan_build, run, stage
    from sparkrun.api._model_cache import (
        delete_model,
        inspect_model,
        model_cache,
        pin_model,
        prune_models,
        repair_model,
        unpin_model,
        verify_models,
    )
    from sparkrun.api._model_cache_results import (
        CacheChange,
        CacheReport,
        ModelCacheChange,
        ModelCacheReport,
        ModelChange,
        ModelReport,
        RemovalReport,
        Verification,
        WrongFile,
    )
    from sparkrun.api._model_look import CacheOptions
    from sparkrun.api._ops import check_job, logs, status, stop, stop_all
    from sparkrun.api._profiles import benchmark_profile, benchmark_profiles
    from sparkrun.api._recipe_checks import export, fail_on, schema, validate
    from sparkrun.api._recipes import registries, search_recipes, show
    from sparkrun.api._results import BuildResult, CheckResult, RunResult, StatusReport, StoppedWorkload, StopResult, endpoint_of, label_of
    from sparkrun.api._runtime_cache import RuntimeCacheEntry, RuntimeCacheHost, RuntimeCacheReport, prune_runtime_cache
    from sparkrun.api._schedule import schedule
    from sparkrun.api._vram import vram
    from sparkrun.api._workloads import Narrowing
    from sparkrun.core.benchmark_profiles import BenchmarkProfile, BrokenProfile, ProfileError, ProfileList
    from sparkrun.core.catalog import BrokenRecipe, CatalogItem, CatalogQuery, CatalogResult
    from sparkrun.core.cluster_manager import BrokenCluster, Cluster, ClusterEdit, ClusterError, SavedCluster
    from sparkrun.core.cluster_status import ClusterStatus, State, Workload
    from sparkrun.core.context import SparkrunContext
    from sparkrun.core.fabric import Link
    from sparkrun.core.facts import Unreachable, WorkloadFacts
    from sparkrun.core.hosts import HostOptions
    from sparkrun.core.layout import LayoutError, LayoutRequiredError
    from sparkrun.core.limits import Fit, HostMemoryError, MemoryExceededError, MemoryVerdict
    from sparkrun.core.pending_ops import PendingOp
    from sparkrun.core.placement import Demand, InsufficientCapacity, NodeCountError, Placement, Slot, SlotReason, TensorParallelError
    from sparkrun.core.plan import LaunchPlan
    from sparkrun.core.recipe import Finding, Recipe, recipe_json
    from sparkrun.core.recipe.report import Report
    from sparkrun.core.registry import RegistryManager
    from sparkrun.core.registry.model import RegistryEntry
    from sparkrun.core.registry.results import ChangeResult, RegistryInfo, UpdateResult
    from sparkrun.core.run_options import RunOptions
    from sparkrun.core.vram_report import VramOptions, VramReport
    from sparkrun.orchestration.executor import LogView
    from sparkrun.orchestration.logs import LogLine

__getattr__ = lazy_names(
    __name__,
    {
        "sparkrun.api._clusters": """
            ClusterInspection InferredHardware Probe create_cluster default_cluster delete_cluster
            get_cluster infer_hardware inspect_cluster list_clusters set_default_cluster update_cluster
        """,
        "sparkrun.api._context": "make_context",
        "sparkrun.api._fabric": "FabricHostReport FabricPortReport FabricReport fabric",
        "sparkrun.api._launch": "build plan plan_build run stage",
        "sparkrun.api._image_cache": "delete_image image_cache inspect_image pin_image prune_images unpin_image verify_images",
        "sparkrun.api._image_cache_results": """
            ImageCacheChange ImageCacheReport ImageChange ImageCopy ImageHostReport ImageReport
        """,
        "sparkrun.api._model_cache": """
            delete_model inspect_model model_cache pin_model prune_models repair_model unpin_model verify_models
        """,
        "sparkrun.api._model_cache_results": """
            CacheChange CacheReport ModelCacheChange ModelCacheReport ModelChange ModelReport RemovalReport Verification WrongFile
        """,
        "sparkrun.api._model_look": "CacheOptions",
        "sparkrun.api._ops": "check_job logs status stop stop_all",
        "sparkrun.api._profiles": "benchmark_profile benchmark_profiles",
        "sparkrun.api._recipe_checks": "export fail_on schema validate",
        "sparkrun.api._recipes": "registries search_recipes show",
        "sparkrun.api._results": "BuildResult CheckResult RunResult StatusReport StoppedWorkload StopResult endpoint_of label_of",
        "sparkrun.api._runtime_cache": "RuntimeCacheEntry RuntimeCacheHost RuntimeCacheReport prune_runtime_cache",
        "sparkrun.api._schedule": "schedule",
        "sparkrun.api._vram": "vram",
        "sparkrun.api._workloads": "Narrowing",
        "sparkrun.core.benchmark_profiles": "BenchmarkProfile BrokenProfile ProfileError ProfileList",
        "sparkrun.core.catalog": "BrokenRecipe CatalogItem CatalogQuery CatalogResult",
        "sparkrun.core.cluster_manager": "BrokenCluster Cluster ClusterEdit ClusterError SavedCluster",
        "sparkrun.core.cluster_status": "ClusterStatus State Workload",
        "sparkrun.core.context": "SparkrunContext",
        "sparkrun.core.fabric": "Link",
        "sparkrun.core.facts": "Unreachable WorkloadFacts",
        "sparkrun.core.hosts": "HostOptions",
        "sparkrun.core.layout": "LayoutError LayoutRequiredError",
        "sparkrun.core.limits": "Fit HostMemoryError MemoryExceededError MemoryVerdict",
        "sparkrun.core.placement": "Demand InsufficientCapacity NodeCountError Placement Slot SlotReason TensorParallelError",
        "sparkrun.core.pending_ops": "PendingOp",
        "sparkrun.core.plan": "LaunchPlan",
        "sparkrun.core.recipe": "Finding Recipe recipe_json",
        "sparkrun.core.recipe.report": "Report",
        "sparkrun.core.registry": "RegistryManager",
        "sparkrun.core.registry.model": "RegistryEntry",
        "sparkrun.core.registry.results": "ChangeResult RegistryInfo UpdateResult",
        "sparkrun.core.run_options": "RunOptions",
        "sparkrun.core.vram_report": "VramOptions VramReport",
        "sparkrun.orchestration.executor": "LogView",
        "sparkrun.orchestration.logs": "LogLine",
    },
    others="sparkrun.api._errors",
)

__all__ = [
    "BenchmarkProfile",
    "BrokenCluster",
    "BrokenProfile",
    "BrokenRecipe",
    "BuildResult",
    "CacheChange",
    "CacheOptions",
    "CacheReport",
    "CatalogItem",
    "CatalogQuery",
    "CatalogResult",
    "ChangeResult",
    "CheckResult",
    "Cluster",
    "ClusterEdit",
    "ClusterError",
    "ClusterInspection",
    "ClusterStatus",
    "Demand",
    "FabricHostReport",
    "FabricPortReport",
    "FabricReport",
    "Finding",
    "Fit",
    "HostMemoryError",
    "HostOptions",
    "ImageCacheChange",
    "ImageCacheReport",
    "ImageChange",
    "ImageCopy",
    "ImageHostReport",
    "ImageReport",
    "InferredHardware",
    "InsufficientCapacity",
    "LaunchPlan",
    "LayoutError",
    "LayoutRequiredError",
    "Link",
    "LogLine",
    "LogView",
    "MemoryExceededError",
    "MemoryVerdict",
    "ModelCacheChange",
    "ModelCacheReport",
    "ModelChange",
    "ModelReport",
    "Narrowing",
    "NodeCountError",
    "PendingOp",
    "Placement",
    "Probe",
    "ProfileError",
    "ProfileList",
    "Recipe",
    "RegistryEntry",
    "RegistryInfo",
    "RegistryManager",
    "RemovalReport",
    "Report",
    "RunOptions",
    "RunResult",
    "RuntimeCacheEntry",
    "RuntimeCacheHost",
    "RuntimeCacheReport",
    "SavedCluster",
    "Slot",
    "SlotReason",
    "SparkrunContext",
    "State",
    "StatusReport",
    "StopResult",
    "StoppedWorkload",
    "TensorParallelError",
    "Unreachable",
    "UpdateResult",
    "Verification",
    "VramOptions",
    "VramReport",
    "Workload",
    "WorkloadFacts",
    "WrongFile",
    "benchmark_profile",
    "benchmark_profiles",
    "build",
    "check_job",
    "create_cluster",
    "default_cluster",
    "delete_cluster",
    "delete_image",
    "delete_model",
    "endpoint_of",
    "export",
    "fabric",
    "fail_on",
    "get_cluster",
    "image_cache",
    "infer_hardware",
    "inspect_cluster",
    "inspect_image",
    "inspect_model",
    "label_of",
    "list_clusters",
    "logs",
    "make_context",
    "model_cache",
    "pin_image",
    "pin_model",
    "plan",
    "plan_build",
    "prune_images",
    "prune_models",
    "prune_runtime_cache",
    "recipe_json",
    "registries",
    "repair_model",
    "run",
    "schedule",
    "schema",
    "search_recipes",
    "set_default_cluster",
    "show",
    "stage",
    "status",
    "stop",
    "stop_all",
    "unpin_image",
    "unpin_model",
    "update_cluster",
    "validate",
    "verify_images",
    "verify_models",
    "vram",
]
__all__ += _errors.__all__
