"""What people name for containers: names, labels, images, variables, mounts, further options; and what docker would refuse of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sparkrun.core.errors import UsageError

OWN_LABELS = "sparkrun."
OWNED_OPTIONS: Mapping[str, str] = {
    "--name": "--container-name sets it",
    "--restart": "--restart POLICY sets it, and gives up on an engine that fails again and again",
    "--rm": "a dead container goes when its workload is stopped or started anew, and tells until then how it ended",
    "--detach": "containers always run beside the command",
    "--cidfile": "status shows what runs",
}
"""Options of ``docker run`` that decide how a launch finds its containers again, and what to do in their place."""
MOUNT_OPTIONS = frozenset(
    (
        "ro rw z Z cached delegated consistent nocopy shared rshared slave rslave private rprivate "
        "U O noexec exec nodev dev nosuid suid"  # podman's
    ).split()
)
LABEL_OPTIONS = ("-l", "--label")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,127}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REGISTRY = r"(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"(?:{_REGISTRY}/)?{_COMPONENT}(?:/{_COMPONENT})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@[A-Za-z0-9_+.-]+:[0-9a-fA-F]{{32,}})?"
    r"|sha256:[0-9a-f]{64}"
)


def container_name_problem(name: str) -> str | None:
    """Why docker would not take the name of a container."""
    if _NAME.fullmatch(name):
        return None
    return f"{name!r} is not a container name (letters, digits, '_', '.', '-'; 2 to 128)"


def variable_problem(name: str) -> str | None:
    """Why a shell cannot hand on a variable of that name."""
    if _VARIABLE.fullmatch(name):
        return None
    return f"{name!r} is not the name of a variable (letters, digits and '_', no digit first)"


def label_problem(name: str) -> str | None:
    """Why a container cannot have a label of that name."""
    if not name or re.search(r"\s", name):
        return f"{name!r} is not the name of a label"
    if name.startswith(OWN_LABELS):
        return f"label '{name}': labels that begin with '{OWN_LABELS}' are sparkrun's own"
    return None


def image_problem(image: str) -> str | None:
    """Why docker knows no image of that name."""
    if _IMAGE.fullmatch(image):
        return None
    return f"{image!r} is not an image: [REGISTRY/]NAME[:TAG][@DIGEST], the name in lower case"


def volume_problem(volume: str) -> str | None:
    """What is wrong with ``source:target[:options]`` behind its source, which is looked at elsewhere."""
    parts = volume.split(":")
    if len(parts) > 3:
        return f"{volume!r} has more than source, target and options"
    if len(parts) > 1 and not parts[1].startswith("/"):
        return f"{parts[1]!r}, its place in the container, is not an absolute path"
    unknown = sorted(set(parts[2].split(",")) - MOUNT_OPTIONS) if len(parts) > 2 else []
    return f"{unknown[0]!r} is no option of a mount (ro, rw, z, …)" if unknown else None


def check_docker_words(words: Sequence[str]) -> None:
    """Raise ``UsageError`` for further words of ``docker run`` that are no options, or that sparkrun itself has to decide."""
    if words and not words[0].startswith("-"):
        raise _refusal(words[0], "is no option of docker run; the image is named with --image, words of the engine come after --")
    for word in words:
        if word == "--":
            raise _refusal(word, "ends the options of docker run; words of the engine come after the -- of sparkrun run")
        option = word.partition("=")[0]
        if option in OWNED_OPTIONS:
            raise _refusal(option, f"is not for --executor-args: {OWNED_OPTIONS[option]}")
    for label in _labels(words):
        if label.startswith(OWN_LABELS):
            raise _refusal(label, f"is a label of sparkrun's own: those begin with '{OWN_LABELS}'")


def _labels(words: Iterable[str]) -> Iterator[str]:
    before = ""
    for word in words:
        option, equals, value = word.partition("=")
        if before in LABEL_OPTIONS:
            yield option
        elif equals and option in LABEL_OPTIONS:
            yield value.partition("=")[0]
        before = word


def _refusal(word: str, reason: str) -> UsageError:
    return UsageError(
        f"--executor-args: '{word}' {reason}", hint="write options of docker run, for example --executor-args '-v /data:/data:ro'"
    )
