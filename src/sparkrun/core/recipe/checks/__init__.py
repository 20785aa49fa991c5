"""The rules that a recipe is checked against, one module a subject. Each rule takes a ``Case`` and yields findings."""

from sparkrun.core.recipe.checks.command import COMMAND_RULES
from sparkrun.core.recipe.checks.container import CONTAINER_RULES
from sparkrun.core.recipe.checks.environment import ENVIRONMENT_RULES
from sparkrun.core.recipe.checks.legacy import LEGACY_RULES
from sparkrun.core.recipe.checks.metadata import METADATA_RULES
from sparkrun.core.recipe.checks.plugins import PLUGIN_RULES
from sparkrun.core.recipe.checks.settings import SETTING_RULES

ALL_RULES = (
    *SETTING_RULES,
    *PLUGIN_RULES,
    *COMMAND_RULES,
    *ENVIRONMENT_RULES,
    *CONTAINER_RULES,
    *METADATA_RULES,
    *LEGACY_RULES,
)

__all__ = ["ALL_RULES"]
