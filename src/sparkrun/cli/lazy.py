"""A Click group whose commands are imported only when they run; the help is told from a table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import click

from sparkrun.utils.text import did_you_mean


class Entry(NamedTuple):
    """Where a command lives (``module:attribute``), and its line in the help."""

    target: str
    help: str
    hidden: bool = False


class LazyGroup(click.Group):
    """Commands by a table of entries, in the order of the table."""

    def __init__(self, *args: object, entries: Mapping[str, Entry], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the table."""
        del ctx
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        del ctx
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return _unveiled(command) if _advanced() else command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command list, without importing any of them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self._entries.items() if _advanced() or not entry.hidden])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """As Click does, with the nearest name for a command that does not exist."""
        name = args[0]
        if name not in self._entries and not name.startswith("-"):
            hint = did_you_mean(name, self._entries)
            raise click.UsageError(f"no such command '{name}'" + (f"\n  hint: {hint}" if hint else ""), ctx)
        return super().resolve_command(ctx, args)


def _advanced() -> bool:
    """Whether hidden commands and options stand in the help too."""
    return os.environ.get("SPARKRUN_ADVANCED", "").lower() in {"1", "true", "yes", "on"}


def _unveiled(command: click.Command) -> click.Command:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            parameter.hidden = False
    return command
