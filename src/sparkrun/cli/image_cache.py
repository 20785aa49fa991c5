"""``sparkrun image-cache``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sparkrun.cli.lazy import Entry, LazyGroup
from sparkrun.cli.options import apply_option, echo_json, host_options, hosts_of, json_option, say_where
from sparkrun.cli.state import CliState

if TYPE_CHECKING:
    from sparkrun.api import ImageCacheChange

_COMMANDS = {
    "list": Entry("sparkrun.cli.image_cache:list_images", "Show the images of the hosts."),
    "inspect": Entry("sparkrun.cli.image_cache:inspect", "Show one image: names, layers, on which hosts, who uses it."),
    "verify": Entry("sparkrun.cli.image_cache:verify", "Let docker read images and say what is damaged."),
    "pin": Entry("sparkrun.cli.image_cache:pin", "Protect an image from being removed."),
    "unpin": Entry("sparkrun.cli.image_cache:unpin", "Lift that protection."),
    "prune": Entry("sparkrun.cli.image_cache:prune", "Remove what nobody needs."),
    "delete": Entry("sparkrun.cli.image_cache:delete", "Remove an image."),
}


@click.group(cls=LazyGroup, entries=_COMMANDS)
def image_cache() -> None:
    """The images in docker of the hosts: this machine's where no host is named and no default cluster is set.

    IMAGE is a tag, a digest, or an id or the first 8 letters of one. What removes something only tells what would go, until --apply is
    given. An image that any container has, running or not, always stays.
    """


@click.command("list")
@host_options
@json_option
@click.pass_obj
def list_images(state: CliState, /, as_json: bool, **where: Any) -> int:
    """Show the images, on which hosts they are, and who uses them. Images are the same by id, by digest, or by name and layers.

    The exit code is 1 when a host cannot tell.
    """
    from sparkrun import api
    from sparkrun.cli.image_cache_text import report_text

    report = api.image_cache(hosts_of(**where), sctx=state.context())
    say_where(report.origin)
    echo_json(report.to_json()) if as_json else click.echo(report_text(report))
    return 1 if report.unreachable else 0


@click.command()
@click.argument("image")
@host_options
@json_option
@click.pass_obj
def inspect(state: CliState, /, image: str, as_json: bool, **where: Any) -> int:
    """Show what the hosts have of IMAGE. The exit code is 1 when a host cannot tell."""
    from sparkrun import api
    from sparkrun.cli.image_cache_text import report_text

    report = api.inspect_image(image, hosts_of(**where), sctx=state.context())
    say_where(report.origin)
    echo_json(report.to_json()) if as_json else click.echo(report_text(report, details=True))
    return 1 if report.unreachable else 0


@click.command()
@click.argument("image", required=False)
@host_options
@json_option
@click.pass_obj
def verify(state: CliState, /, image: str | None, as_json: bool, **where: Any) -> int:
    """Let docker read IMAGE, or every image, as a whole on each host. The exit code is 1 when one is damaged."""
    from sparkrun import api
    from sparkrun.cli.image_cache_text import verify_text

    report = api.verify_images(image, hosts_of(**where), sctx=state.context())
    say_where(report.origin)
    echo_json(report.to_json()) if as_json else click.echo(verify_text(report))
    return 0 if report.good else 1


@click.command()
@click.argument("image")
@click.option("--reason", default="", metavar="TEXT", help="What for; shown when somebody wants to remove it.")
@host_options
@json_option
@click.pass_obj
def pin(state: CliState, /, image: str, reason: str, as_json: bool, **where: Any) -> int:
    """Protect what IMAGE means on each host now from delete and prune."""
    from sparkrun import api

    return _tell(api.pin_image(image, hosts_of(**where), reason=reason, sctx=state.context()), as_json=as_json)


@click.command()
@click.argument("image")
@host_options
@json_option
@click.pass_obj
def unpin(state: CliState, /, image: str, as_json: bool, **where: Any) -> int:
    """Lift the protection of IMAGE."""
    from sparkrun import api

    return _tell(api.unpin_image(image, hosts_of(**where), sctx=state.context()), as_json=as_json)


@click.command()
@click.option("--older-than", type=click.FloatRange(min=0), metavar="DAYS", help="Also images that nothing has used for so long.")
@apply_option
@host_options
@json_option
@click.pass_obj
def prune(state: CliState, /, older_than: float | None, apply: bool, as_json: bool, **where: Any) -> int:
    """Remove images that have no name any more. Those that are pinned, or that a container has, are left alone."""
    from sparkrun import api

    return _tell(api.prune_images(hosts_of(**where), older_than_days=older_than, apply=apply, sctx=state.context()), as_json=as_json)


@click.command()
@click.argument("image")
@apply_option
@host_options
@json_option
@click.pass_obj
def delete(state: CliState, /, image: str, apply: bool, as_json: bool, **where: Any) -> int:
    """Remove IMAGE from the hosts. One of several tags takes only that name. Refused where it is pinned, or a container has it."""
    from sparkrun import api

    return _tell(api.delete_image(image, hosts_of(**where), apply=apply, sctx=state.context()), as_json=as_json)


def _tell(change: ImageCacheChange, *, as_json: bool) -> int:
    from sparkrun.cli.image_cache_text import change_text

    say_where(change.origin)
    echo_json(change.to_json()) if as_json else click.echo(change_text(change))
    return 0 if change.complete else 1
