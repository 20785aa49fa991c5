"""``sparkrun cluster import``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sparkrun.cli.options import echo_json, json_option

if TYPE_CHECKING:
    from sparkrun.core.cluster_manager import Cluster

_DEFAULT_NAME = "eugr"


@click.command("import")
@click.argument("source", type=click.Choice(["eugr", "svd"]))
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--name", default=_DEFAULT_NAME, show_default=True, help="The name of the new cluster.")
@click.option("--default", "make_default", is_flag=True, help="Make it the default cluster.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be saved.")
@json_option
def import_cluster(source: str, path: Path, name: str, make_default: bool, dry_run: bool, as_json: bool) -> None:
    """Save a cluster from the .env file of a spark-vllm-docker checkout (PATH is the file or the folder).

    eugr and svd are two names of the same.
    """
    del source
    from sparkrun.cli.cluster_files import ClusterFiles
    from sparkrun.core.cluster_manager import cluster_json, plan_import

    files = ClusterFiles()
    found = plan_import(*_read(path))
    saved = files.manager.preview(name, found.edit) if dry_run else files.manager.create(name, found.edit)
    if make_default and not dry_run:
        files.manager.set_default(name)
    if as_json:
        is_default = make_default or files.manager.default_name() == name
        echo_json({**cluster_json(saved.cluster, default=is_default), "notes": list(found.notes), "saved": not dry_run})
    else:
        for line in _lines(saved.cluster, default=make_default, dry_run=dry_run):
            click.echo(line)
    for note in found.notes:
        click.echo(f"Note: {note}", err=True)
    files.say_warnings(saved.warnings)


def _read(path: Path) -> tuple[str, Path]:
    from sparkrun.core.cluster_manager import ClusterError

    file = (path / ".env" if path.is_dir() else path).absolute()
    try:
        return file.read_text(encoding="utf-8-sig"), file
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(
            f"cannot read {file}: {getattr(error, 'strerror', None) or error}", hint="PATH is the .env file, or its folder"
        ) from error


def _lines(cluster: Cluster, *, default: bool, dry_run: bool) -> Iterator[str]:
    from sparkrun.cli.cluster_text import cluster_lines

    yield f"Cluster '{cluster.name}' {'would be saved' if dry_run else 'saved'}:"
    yield from (f"  {line}" for line in cluster_lines(cluster, default=default))
