"""What checking a recipe knows of the builders that sparkrun brings along: their options, and what ``build_args`` they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

_TAGS = "sparkrun names the image itself"
_COPIES = "sparkrun brings the image to the other hosts itself"
_SETS_UP = "it sets the host up, and builds nothing"


class BuilderKnowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a builder."""

    makes_images: bool = True
    """Whether it names the image itself, so that ``containers:`` cannot name others."""
    options: frozenset[str] = frozenset()
    """Keys that it reads of ``builder_config`` and of ``defaults.builders.<name>``."""
    reads_args: bool = False
    """Whether ``build_args`` mean something to it."""
    refused_args: Mapping[str, str] = MappingProxyType({})
    """Words that ``build_args`` must not hold, and why."""
    unavailable: str = ""
    """Why it cannot be used, although its name is known."""


DOCKER_PULL = BuilderKnowledge(makes_images=False, options=frozenset({"rebuild"}))
EUGR = BuilderKnowledge(
    options=frozenset({"repo", "ref", "use_sentinel_image", "image_prefix", "transformers", "save_build_logs", "smoke_test", "rebuild"}),
    reads_args=True,
    refused_args=MappingProxyType(
        {
            **dict.fromkeys(("-t", "--tag"), _TAGS),
            **dict.fromkeys(
                ("-c", "--copy-to", "--copy-to-host", "--copy-to-hosts", "--copy-parallel", "-u", "--user", "--no-build"), _COPIES
            ),
            **dict.fromkeys(("--setup", "--config", "--cleanup", "-h", "--help"), _SETS_UP),
        }
    ),
)
UV_VENV = BuilderKnowledge(unavailable="the builder uv-venv (feature builder.uv_venv) is not part of this version")
BUILDERS: Mapping[str, BuilderKnowledge] = MappingProxyType({"docker-pull": DOCKER_PULL, "eugr": EUGR, "uv-venv": UV_VENV})
