"""A recipe's field that cannot be used, told the same way to people (an error) and to ``recipe validate`` (a finding)."""

from __future__ import annotations

from sparkrun.core.errors import RecipeError
from sparkrun.core.recipe.schema import Finding


class InvalidRecipeError(RecipeError):
    """A field has the right shape and a value that cannot be used. The message begins with ``file:line:col``."""

    def __init__(self, where: str, message: str, *, code: str = "recipe-field", hint: str | None = None) -> None:
        super().__init__(f"{where}: {message}", hint=hint)
        self.finding = Finding("error", code, message, fix=hint, where=where)
