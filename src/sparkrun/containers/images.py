"""How an image comes to a host: the scripts of it. Touches nothing."""

from __future__ import annotations

from sparkrun.core.facts import HostFacts, ImageFacts
from sparkrun.core.plan import HostAction
from sparkrun.core.remote import ScriptCall

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What docker calls the processors that the kernel calls so."""


def pull_action(host: str, image: str) -> HostAction:
    """The host fetches it from its registry."""
    return HostAction(host, f"fetch image {image} on {host}", ScriptCall("docker_pull", {"IMAGE": image, "LIFELINE": "1"}))


def load_action(host: str, image: str) -> HostAction:
    """It comes as the archive of ``docker save``."""
    return HostAction(host, f"copy image {image} to {host}", ScriptCall("docker_load", {"IMAGE": image}))


def suits(image: ImageFacts, host: HostFacts) -> bool:
    """Whether an image that is somewhere else is for this host's processor; what is not known is no reason against it."""
    wanted = ARCHITECTURES.get(host.arch, host.arch)
    return not image.arch or not wanted or image.arch == wanted
