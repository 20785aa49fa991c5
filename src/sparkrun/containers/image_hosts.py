"""Looking at the images of hosts, reading them, changing them: one script each, all hosts at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sparkrun.containers.image_cache import HostImage, ImageStore, parse_images
from sparkrun.containers.image_rules import ImageRemoval
from sparkrun.core.facts import Unreachable
from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall
from sparkrun.orchestration.host_reading import OnBytes, read_on_hosts
from sparkrun.orchestration.observe import CONNECT_TIMEOUT_S, silence_of
from sparkrun.orchestration.transfer_locks import lock_file
from sparkrun.utils.shell import parse_answers

LOOK_TIMEOUT_S = 120


def look_at_images(hosts: Sequence[str], runner: HostRunner) -> tuple[tuple[ImageStore, ...], tuple[Unreachable, ...]]:
    """The images of every host that could tell, and the hosts that could not."""
    call = ScriptCall("image_cache", connect_timeout_s=CONNECT_TIMEOUT_S)
    results = runner.run_all([(host, call) for host in hosts], timeout_s=LOOK_TIMEOUT_S)
    found = [(result, parse_answers(result.stdout).section("IMAGES")) for result in results]
    seen = tuple(parse_images(result.host, section) for result, section in found if result.ok and section.complete)
    silent = tuple(_silent(result) for result, section in found if not (result.ok and section.complete))
    return seen, silent


def read_images(
    images: Mapping[str, Sequence[str]], runner: HostRunner, on_bytes: OnBytes
) -> dict[str, dict[str, str | None] | Unreachable]:
    """Let docker read images (ids by host): by host and id what is wrong, ``None`` for nothing."""
    calls = {host: _read_call(ids) for host, ids in images.items()}
    return {result.host: _read(result) for result in read_on_hosts(calls, runner, on_bytes)}


def removal_call(removals: Iterable[ImageRemoval]) -> ScriptCall:
    """Take what was planned."""
    pairs = [(each.image, name) for each in removals for name in each.names]
    remove = tuple(f"{image.id} {name}" for image, name in pairs)
    bringing = tuple(f"{name} {lock_file('image', name)}" for image, name in pairs if name != image.id)
    return ScriptCall("image_change", {"REMOVE": remove, "BRINGING": bringing})


def pin_call(image: HostImage, note: str) -> ScriptCall:
    """Pin an image; ``note`` is one line of JSON (``ImagePin``)."""
    return ScriptCall("image_change", {"PIN": image.id, "NOTE": note})


def unpin_call(image: HostImage) -> ScriptCall:
    """Lift a pin."""
    return ScriptCall("image_change", {"UNPIN": image.id})


def _silent(result: RemoteResult) -> Unreachable:
    return silence_of(result, "what it said of its images")


def _read_call(ids: Iterable[str]) -> ScriptCall:
    return ScriptCall("image_verify", {"IMAGES": tuple(ids), "LIFELINE": "1"}, connect_timeout_s=CONNECT_TIMEOUT_S)


def _read(result: RemoteResult) -> dict[str, str | None] | Unreachable:
    section = parse_answers(result.stdout).section("VERIFY")
    if not result.ok or not section.complete:
        return _silent(result)
    good: dict[str, str | None] = dict.fromkeys(section.all("OK"))
    return good | dict(text.split("\t", 1) for text in section.all("WRONG") if "\t" in text)
