"""The common base of every plugin kind. Registration and look-up live in ``core.bootstrap`` alone."""

from __future__ import annotations

from logging import Logger
from typing import ClassVar

from sparkrun.core.framework import Plugin, Variables


class SparkrunPlugin(Plugin):
    """A named implementation at one extension point.

    A subclass sets ``plugin_name`` (what users type) and may name a ``feature`` flag that has to be on.
    Instances hold no state of a launch, so one serves the whole process.
    """

    extension_point: ClassVar[str]
    plugin_name: ClassVar[str] = ""
    feature: ClassVar[str | None] = None
    eager = False

    def name(self) -> str:
        """The framework's key: unique over all kinds."""
        return f"{self.extension_point}/{self.plugin_name}"

    def extension_point_name(self, v: Variables) -> str:
        """The kind of plugin this is."""
        del v
        return self.extension_point

    def is_enabled(self, v: Variables) -> bool:
        """Never the single implementation of its kind: all plugins of a kind live side by side."""
        del v
        return False

    def is_multi_extension(self, v: Variables) -> bool:
        """See ``is_enabled``."""
        del v
        return True

    def initialize(self, v: Variables, logger: Logger) -> object:
        """The plugin is its own value."""
        del v, logger
        return self
