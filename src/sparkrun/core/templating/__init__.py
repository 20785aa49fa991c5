"""Command templates and ``env`` values with their placeholders filled in."""

from sparkrun.core.shell_text import quote_word
from sparkrun.core.templating.braces import Doubling
from sparkrun.core.templating.environment import LAUNCH_FIELDS, EnvReferences, UnknownEnvReference, env_references, render_env
from sparkrun.core.templating.passes import UnknownPlaceholder
from sparkrun.core.templating.rendering import Rendered, render
from sparkrun.core.templating.resolving import PlaceholderCycle

__all__ = [
    "LAUNCH_FIELDS",
    "Doubling",
    "EnvReferences",
    "PlaceholderCycle",
    "Rendered",
    "UnknownEnvReference",
    "UnknownPlaceholder",
    "env_references",
    "quote_word",
    "render",
    "render_env",
]
