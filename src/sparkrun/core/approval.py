"""Asking before a recipe that is not trusted runs something of its own on a host."""

from __future__ import annotations

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
    return tuple(f"{action.key} in {action.place}: {action.text}" for action in host_actions(request.recipe))


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
