"""``sparkrun setup prune-runtime-cache``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sparkrun.cli.options import apply_option, echo_json, host_options, hosts_of, json_option, say_where
from sparkrun.cli.state import CliState

if TYPE_CHECKING:
    from sparkrun.api import RuntimeCacheEntry, RuntimeCacheReport


@click.command("prune-runtime-cache")
@click.option("--older-than", type=click.FloatRange(min=0), metavar="DAYS", help="How long an entry may be unused (default 30).")
@apply_option
@host_options
@json_option
@click.pass_obj
def prune_runtime_cache(state: CliState, /, older_than: float | None, apply: bool, as_json: bool, **where: Any) -> int:
    """Remove compiled kernels that no launch has used for long. A launch does so too, for the host it is on."""
    from sparkrun import api

    report = api.prune_runtime_cache(hosts_of(**where), max_age_days=older_than, apply=apply, sctx=state.context())
    say_where(report.origin)
    echo_json(report.to_json()) if as_json else click.echo(_text(report))
    return 0 if report.complete else 1


def _text(report: RuntimeCacheReport) -> str:
    from sparkrun.cli.cache_text import freed_lines, joined_blocks, unknown_lines
    from sparkrun.cli.tables import columns
    from sparkrun.utils.text import size_text

    blocks = []
    for host in report.hosts:
        rows = [_row(entry) for entry in host.entries]
        table = columns([("ENTRY", "SIZE", "LAST USED", "STATE"), *rows]).splitlines() if rows else ["nothing"]
        blocks.append([f"{host.host}: {host.root}", *(f"  {line}" for line in table)])
    going = any(entry.outcome in ("planned", "removed") for host in report.hosts for entry in host.entries)
    summary = freed_lines(size_text(report.frees_bytes), going=going, applied=report.applied)
    return joined_blocks([*blocks, unknown_lines(report.unreachable), summary])


def _row(entry: RuntimeCacheEntry) -> tuple[str, ...]:
    from sparkrun.cli.cache_text import NOTHING, age_text
    from sparkrun.utils.text import size_text

    size = NOTHING if entry.size_bytes is None else size_text(entry.size_bytes)
    return (entry.path, size, age_text(entry.last_used_at), entry.reason or entry.outcome)
