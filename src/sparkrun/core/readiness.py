"""When a workload counts as ready: its port is open, it is healthy, and it has said a first token."""

from __future__ import annotations

from typing import get_args

import msgspec

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import RecipeError
from sparkrun.core.recipe.schema import Values
from sparkrun.core.values import ConfigValue, within_bounds

READINESS_PROMPT = "Answer with exactly one word: ready"


class Readiness(msgspec.Struct, frozen=True):
    """The budget of each stage in seconds, and whether a first token is asked for."""

    port_timeout_s: float = 1800
    health_timeout_s: float = 900
    inference: bool = True
    inference_style: str = "auto"
    inference_timeout_s: float = 1200
    inference_prompt: str = READINESS_PROMPT

    @property
    def total_s(self) -> float:
        """The longest that all stages may take together."""
        return self.port_timeout_s + self.health_timeout_s + (self.inference_timeout_s if self.inference else 0)


def resolve_readiness(recipe: Values, config: SparkrunConfig) -> Readiness:
    """Recipe over ``config.yaml`` over defaults. A bad value in the recipe is a ``RecipeError``, one in the settings gives the default."""
    settings: dict[str, ConfigValue] = {}
    for key, value in config.mapping("readiness").items():
        if _valid(key, value):
            settings[key] = value
        else:
            config.warnings.append(f"{config.paths.config_file}: readiness.{key} cannot be {value!r}; the default is used")
    for key, value in recipe.items():
        if not _valid(key, value):
            raise RecipeError(f"readiness.{key} cannot be {value!r}", hint=f"known keys: {', '.join(_FIELDS)}")
        settings[key] = value
    return msgspec.convert(settings, Readiness)


_FIELDS = {field.name: field.type for field in msgspec.structs.fields(Readiness)}


def _valid(key: str, value: ConfigValue) -> bool:
    wanted = _FIELDS.get(key)
    if wanted is None:
        return False
    if wanted is float:
        return within_bounds(value) and value > 0
    return type(value) in (get_args(wanted) or (wanted,))
