"""How an image comes to a host: the scripts of it. Touches nothing."""

from __future__ import annotations

from sparkrun.core.facts import HostFacts, ImageFacts
from sparkrun.core.plan import HostAction
from sparkrun.core.remote import ScriptCall

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What docker calls the processors that the kernel calls so."""


REGISTRY_PATIENCE_S = 60
"""How long a registry may take to say its first word."""
REFRESH_PATIENCE_S = 15
"""The same, where the image is here already."""


def is_mutable(image: str) -> bool:
    """Whether a registry may know a newer image of that name: it has the tag ``latest`` or none, and is no name of a local build."""
    path, _at, digest = image.partition("@")
    _repository, _colon, tag = path.rpartition("/")[2].partition(":")
    return "/" in path and not digest and tag in ("", "latest")


def pull_action(host: str, image: str, *, patience_s: int = REGISTRY_PATIENCE_S) -> HostAction:
    """The host fetches it from its registry, or a newer one than it has."""
    params = {"IMAGE": image, "PATIENCE_S": str(patience_s), "LIFELINE": "1"}
    return HostAction(host, f"fetch image {image} on {host}", ScriptCall("docker_pull", params))


def load_action(host: str, image: str) -> HostAction:
    """It comes as the archive of ``docker save``."""
    return HostAction(host, f"copy image {image} to {host}", ScriptCall("docker_load", {"IMAGE": image}))


def is_pullable(image: str) -> bool:
    """Whether a reference means an image of a registry: a name of one part is taken for a local build."""
    return "/" in image.partition("@")[0]


def suits(image: ImageFacts, host: HostFacts) -> bool:
    """Whether an image that is somewhere else is for this host's processor; what is not known is no reason against it."""
    wanted = ARCHITECTURES.get(host.arch, host.arch)
    return not image.arch or not wanted or image.arch == wanted
