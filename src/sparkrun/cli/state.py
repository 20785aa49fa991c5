"""What the global options say, and the context every command works with."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path

    from sparkrun.core.context import SparkrunContext
    from sparkrun.core.events import EventSink


class CliState:
    """``verbosity``: -1 quiet, 0 progress, 1 details, 2 with times, 3 with scripts."""

    def __init__(self, verbosity: int) -> None:
        self.verbosity = verbosity

    def context(self, *, offline: bool | None = None) -> SparkrunContext:
        """``sctx`` with events on stderr. Imported here: usage errors and help need none of it."""
        from sparkrun.api import make_context

        sctx = make_context(env=os.environ, cwd=_cwd(), emit=self.sink(), offline=offline, approve=_ask if sys.stdin.isatty() else None)
        for warning in sctx.config.warnings:
            click.echo(f"warning: {warning}", err=True)
        return sctx

    def sink(self) -> EventSink:
        """Where the events of a long operation become lines."""
        from sparkrun.cli.progress import progress_sink

        return progress_sink(self.verbosity)


def _ask(why: str, actions: tuple[str, ...]) -> bool:
    click.echo(f"{why}:", err=True)
    for action in actions:
        click.echo(f"  {action}", err=True)
    return click.confirm("Let it?", default=False, err=True)


def _cwd() -> Path:
    from pathlib import Path  # help and usage errors need none

    try:
        return Path.cwd()
    except FileNotFoundError:
        raise click.ClickException("the current folder does not exist any more") from None
