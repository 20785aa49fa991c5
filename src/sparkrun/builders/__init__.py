"""How images come to be, before they are brought to hosts."""

from sparkrun.builders.base import EXT_BUILDER, BuilderPlugin, BuildWish, ImageDecision

__all__ = ["EXT_BUILDER", "BuildWish", "BuilderPlugin", "ImageDecision"]
