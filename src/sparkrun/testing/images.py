"""Docker's images on a host in memory, which answer the scripts for images by name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable

from sparkrun.core.remote import ScriptCall
from sparkrun.testing.answers import change_pins, section

Answer = tuple[int, str]
NOW_S = 1_800_000_000
IMAGE_SCRIPTS = frozenset({"image_cache", "image_change", "image_verify"})


class FakeImages:
    """What a test puts into it, and the answers of the scripts. ``used_by`` tells the containers of an image: name and state of each."""

    def __init__(self, used_by: Callable[[str], Iterable[tuple[str, str]]]) -> None:
        self.tags: dict[str, tuple[str, ...]] = {}
        """Names by id."""
        self.layers: dict[str, tuple[str, ...]] = {}
        self.digests: dict[str, tuple[str, ...]] = {}
        self.pins: dict[str, str] = {}
        self.used: dict[str, int] = {}
        self.damaged: dict[str, str] = {}
        """What docker says of an image that it cannot read, by id."""
        self.tagged_at: str | None = "2027-01-01T00:00:00.123456789Z"
        """When docker says that they got their names."""
        self._used_by = used_by

    def put(self, *tags: str, content: str = "", made: str = "", digests: tuple[str, ...] = ()) -> str:
        """An image; its id. ``content`` decides its layers, ``made`` its id: the same content may have several."""
        image = f"sha256:{hashlib.sha256((made or content or tags[0]).encode()).hexdigest()}"
        self.tags[image] = tags
        self.digests[image] = digests
        self.layers[image] = (f"sha256:{hashlib.sha256((content or tags[0]).encode()).hexdigest()}",)
        return image

    def answer(self, call: ScriptCall) -> Answer:
        """Exit code and output of a script for images."""
        answers = {"image_cache": self._look, "image_change": self._change, "image_verify": self._verify}
        return answers[call.name](call)

    def _look(self, call: ScriptCall) -> Answer:
        del call
        head = {"NOW": str(NOW_S), "ROOT": "/var/lib/docker", "DRIVER": "overlay2", "FREE_KIB": "400000000", "TOTAL_KIB": "900000000"}
        return 0, section(
            "IMAGES",
            [
                *head.items(),
                *(("IMAGE", json.dumps(self._told(image))) for image in self.tags),
                *(("UNIQUE", f"{image} 1.5GB") for image in self.tags),
                *(("CONTAINER", f"{image} {state} /{name}") for image in self.tags for name, state in self._users(image)),
                *(("PIN", f"{image} {note}") for image, note in self.pins.items()),
                *(("USED", f"{image} {moment}") for image, moment in self.used.items()),
            ],
        )

    def _told(self, image: str) -> dict[str, object]:
        return {
            "id": image,
            "tags": self.tags[image],
            "digests": self.digests[image],
            "size": 2_000_000_000,
            "layers": self.layers[image],
            "created": "2026-01-01T00:00:00.123456789Z",
            "arch": "arm64",
            "os": "linux",
            "tagged": self.tagged_at,
        }

    def _users(self, image: str) -> list[tuple[str, str]]:
        return [user for tag in self.tags[image] for user in self._used_by(tag)]

    def _verify(self, call: ScriptCall) -> Answer:
        found = [
            ("WRONG", f"{image}\t{self.damaged[image]}") if image in self.damaged else ("OK", image) for image in call.params["IMAGES"]
        ]
        return 0, section("VERIFY", [*found, ("BYTES", "2000000000")])

    def _change(self, call: ScriptCall) -> Answer:
        told = []
        for item in call.params.get("REMOVE", ()):
            image, _blank, name = item.partition(" ")
            if users := self._users(image) if image in self.tags else []:
                told.append(("KEPT", f"{item}\tcontainer {users[0][0]} has it"))
                continue
            told.append(("REMOVED", item))
            self.tags[image] = tuple(tag for tag in self.tags.get(image, ()) if tag != name)
            if not self.tags[image]:
                del self.tags[image]
        return 0, section("CHANGE", [*told, *change_pins(call, self.pins)])
