"""The argument that names a recipe, and what a shell may complete it to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class RecipeName(click.ParamType[str]):
    """A recipe by path, ``@registry/name``, name or address. Completed from the index on disk: no plugin, no network, no git."""

    name = "recipe"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Recipes whose name begins so; files when it looks like a path."""
        from click.shell_completion import CompletionItem

        del ctx, param
        if incomplete.startswith((".", "/", "~")):
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(name, help=description) for name, description in _names(incomplete)] or [
            CompletionItem(incomplete, type="file")
        ]


class WorkloadName(click.ParamType[str]):
    """A workload by id, recipe, model or served name. Completed from the launches of this machine."""

    name = "target"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Ids and recipes of the newest launches."""
        from click.shell_completion import CompletionItem

        from sparkrun.core.jobs import read_jobs
        from sparkrun.core.paths import resolve_paths

        del ctx, param
        jobs = read_jobs(resolve_paths(os.environ))[:_MOST_JOBS]
        names = dict.fromkeys(name for job in jobs for name in (job.recipe, job.cluster_id) if name and name.startswith(incomplete))
        return [CompletionItem(name) for name in names]


class ClusterName(click.ParamType[str]):
    """A saved cluster."""

    name = "cluster"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The files of the clusters folder."""
        from click.shell_completion import CompletionItem

        from sparkrun.core.paths import resolve_paths

        del ctx, param
        files = resolve_paths(os.environ).clusters_dir.glob("*.yaml")
        return [CompletionItem(path.stem) for path in sorted(files) if path.stem.startswith(incomplete) and "." not in path.stem]


class CachedModelName(click.ParamType[str]):
    """A model in a hub cache. Completed from the cache of this machine and from its launches."""

    name = "model"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The folders of the cache, and the models of the newest launches."""
        from click.shell_completion import CompletionItem

        from sparkrun.core.jobs import read_jobs
        from sparkrun.core.paths import expand, resolve_paths

        del ctx, param
        home = os.environ.get("HF_HOME") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
        hub = expand(os.environ.get("HF_HUB_CACHE") or f"{home}/hub", os.environ)
        here = sorted(path.name.removeprefix("models--").replace("--", "/") for path in hub.glob("models--*"))
        launched = [(job.model or "").partition(":")[0] for job in read_jobs(resolve_paths(os.environ))[:_MOST_JOBS]]
        names = dict.fromkeys((*here, *(name for name in launched if name and not name.startswith("/"))))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


_MOST_JOBS = 25


def _names(incomplete: str) -> list[tuple[str, str | None]]:
    from pathlib import Path

    from sparkrun.core.catalog import CatalogQuery, search_recipes
    from sparkrun.core.config import SparkrunConfig
    from sparkrun.core.errors import SparkrunError
    from sparkrun.core.resolve import ResolveContext

    scoped = incomplete.startswith("@") and "/" in incomplete
    query = CatalogQuery(registry=incomplete[1:].partition("/")[0] if scoped else None, hidden=scoped)
    try:
        found = search_recipes(query, ResolveContext.create(SparkrunConfig.load(os.environ), Path.cwd(), offline=True))
    except (SparkrunError, OSError):
        return []
    names = [(item.name if incomplete.startswith("@") else item.file, item.description) for item in found.items]
    return [(name, description) for name, description in names if name.startswith(incomplete)]
