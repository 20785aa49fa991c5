"""The plugin framework, without what it imports for hooks that no plugin of ours has."""

from sparkrun.utils.lazy import put_off

with put_off("asyncio"):  # the greater part of the framework's own time to load
    from scitrera_app_framework import get_extensions, init_framework_embedded, register_plugin
    from scitrera_app_framework.api import Plugin, Variables

__all__ = ["Plugin", "Variables", "get_extensions", "init_framework_embedded", "register_plugin"]
