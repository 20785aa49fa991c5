"""What a build goes through, told from what it prints, and what helps where it fails."""

from __future__ import annotations

import re

CLONE, WHEELS, BUILD, EXPORT, SMOKE = "clone", "download wheels", "docker build", "export", "smoke test"
STAGES = (CLONE, WHEELS, BUILD, EXPORT, SMOKE)
_BEGINS = (
    (EXPORT, r"\bexporting (?:to image|layers)|\bnaming to \S|^Successfully (?:built|tagged) "),
    (BUILD, r"^#\d+ (?:\[|building\b)|^Step \d+/\d+|^\[\+\] Building|\bdocker (?:buildx )?build\b|^Sending build context"),
    (WHEELS, r"\bdownload\w*\b.*\b(?:wheels?|\S+\.whl)\b|\bwheels?\b.*\bdownload"),
)
_DISK_FULL = r"no space left on device|disk quota exceeded"
_NO_NETWORK = r"could not resolve|temporary failure in name resolution|network is unreachable|timed out|connection refused"
_MEMORY = r"\bkilled\b|out of memory|cannot allocate memory|signal 9"
_WAYS_OUT = {
    CLONE: "look at the options repo and ref of defaults.builders.eugr; sparkrun needs git and that address on this host",
    WHEELS: "try again later, or compile them: add --rebuild-vllm and --rebuild-flashinfer to build_args",
    BUILD: "correct build_args, or pin a ref that is known to build: defaults.builders.eugr.ref",
    EXPORT: "the image was built but not stored: look at docker's disk (docker system df), then run this again",
    SMOKE: "the image was built but does not work, so it is not used; pin another ref, or say what to test: builder_config.smoke_test",
}


def stage_of(line: str) -> str | None:
    """The stage that begins with this line of build-and-copy.sh, or of the docker build in it."""
    return next((stage for stage, pattern in _BEGINS if _says(pattern, line)), None)


def way_out(stage: str, said: str) -> str | None:
    """What to do about a failure: what its last lines say first, else what usually helps in that stage."""
    if _says(_DISK_FULL, said):
        return "make room on that host: docker system df; docker builder prune; docker image prune"
    if stage in (CLONE, WHEELS) and _says(_NO_NETWORK, said):
        return "that host cannot reach the network; an image from elsewhere does without a build: --image"
    if stage == BUILD and _says(_MEMORY, said):
        return "the compiler ran out of memory: let fewer run at once with build_args [--build-jobs, '4']"
    return _WAYS_OUT.get(stage)


def _says(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None
