"""Asking before a recipe that is not trusted runs something of its own on a host."""

from __future__ import annotations

from collections.abc import Iterator

from sparkrun.core.builds import build_wish
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import RecipeError
from sparkrun.core.request import Request
from sparkrun.core.trust import host_actions


class NotApprovedError(RecipeError):
    """An untrusted recipe has hooks or mods, and nobody said that they may run."""


def needs_approval(request: Request) -> tuple[str, ...]:
    """What an untrusted recipe would run besides its engine, a line each; empty when nobody needs to be asked."""
    if request.options.trust:
        return ()
    if request.trust.trusted:
        return tuple(f"mod {mod.reference} of the registry {mod.registry}, which is not trusted" for mod in request.untrusted_mods)
    actions = tuple(f"{action.key} in {action.place}: {action.text}" for action in host_actions(request.recipe))
    return (*(f"a build on the head: {text}" for text in _builds(request)), *actions)


def _builds(request: Request) -> Iterator[str]:
    """What building the recipe's image would run, where it is not just a published one."""
    if request.recipe.container and (text := request.builder.asks(build_wish(request, request.recipe.container))):
        yield text


def require_approval(request: Request, sctx: SparkrunContext) -> None:
    """Ask once for all of it. Raises ``NotApprovedError`` when the answer is no, or when there is nobody to ask."""
    actions = needs_approval(request)
    if not actions:
        return
    why = f"{request.recipe.source.ref} wants to run" + ("" if request.trust.trusted else f", and {request.trust.reason}")
    if sctx.approve is None:
        raise NotApprovedError(
            f"{why}:\n  " + "\n  ".join(actions), hint="read them, then run again with --trust; there is no terminal to ask on"
        )
    if not sctx.approve(why, actions):
        raise NotApprovedError(
            f"not run: {request.recipe.source.ref} was not approved", hint="nothing was started; --trust approves it without asking"
        )
