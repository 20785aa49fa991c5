"""Names of the eugr images: which are local builds, what is published in their place, and what a build of one's own is called."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from sparkrun.builders.eugr_options import EugrOptions
from sparkrun.containers.images import is_pullable

SENTINEL = "vllm-node"
"""What build-and-copy.sh calls its image when nobody says."""
VARIANTS = {"": "", "tf5": "-tf5", "b12x": "-b12x"}
"""What follows ``vllm-node-``, and what follows the published image's name for the same thing."""
MET_BY_VARIANT = {
    "--tf5": "tf5",
    "--pre-tf": "tf5",
    "--pre-transformers": "tf5",
    "--exp-b12x": "b12x",
    "--experimental-b12x": "b12x",
}
"""Arguments for which a published variant stands, so that they alone ask for no build."""
TRANSFORMERS_5 = frozenset({"5", "t5", "tf5", "v5"})


class Named:
    """An image as a recipe names it."""

    def __init__(self, image: str) -> None:
        self.local = not is_pullable(image)
        self.base = image.partition("@")[0].partition(":")[0] if self.local else SENTINEL
        self.image = image
        self.sentinel = self.local and (self.base == SENTINEL or self.base.startswith(f"{SENTINEL}-"))
        """Whether it stands for whatever build-and-copy.sh makes."""
        self.variant = self.base.removeprefix(SENTINEL).removeprefix("-") if self.sentinel else ""
        self.unknown_variant = self.variant not in VARIANTS

    @property
    def specific(self) -> bool:
        """Whether its name tells one build from others: then an image of that name is the one that is meant."""
        return self.local and not (self.sentinel and not self.unknown_variant)


def unmet_args(args: Sequence[str]) -> tuple[str, ...]:
    """The arguments that no published image meets."""
    return tuple(word for word in args if word not in MET_BY_VARIANT)


def published_image(options: EugrOptions, named: Named, args: Sequence[str]) -> str:
    """The published image that comes nearest: of the variant that the name, an argument or the option ``transformers`` says."""
    asked = next((MET_BY_VARIANT[word] for word in args if word in MET_BY_VARIANT), "")
    by_option = "tf5" if (options.transformers or "").strip().lower() in TRANSFORMERS_5 else ""
    variant = (named.variant if not named.unknown_variant else "") or asked or by_option
    return f"{options.image_prefix}{VARIANTS[variant]}:latest"


def built_tag(named: Named, options: EugrOptions, args: Sequence[str]) -> str:
    """The name of a build: the same for the same source, arguments and image of a recipe, and for nothing else."""
    made_from = json.dumps([options.repo, options.ref, list(args), named.image])
    return f"{named.base}:sparkrun-{hashlib.sha256(made_from.encode()).hexdigest()[:12]}"
