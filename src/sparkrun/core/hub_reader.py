"""The seam to the Hugging Face hub: small answers about a model, never its weights."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class HubAnswer(NamedTuple):
    """What the hub said to one request, redirects followed. ``body`` holds at most as many bytes as were asked for."""

    status: int
    body: bytes = b""

    @property
    def ok(self) -> bool:
        """Whether it is what was asked for: the whole (200) or a part (206)."""
        return self.status in (200, 206)


class HubReader(Protocol):
    """Somebody who asks the hub."""

    def get(self, path: str, *, start: int = 0, size_bytes: int) -> HubAnswer:
        """At most ``size_bytes`` from byte ``start`` of what is at a path of the hub.

        Raises ``OSError`` when the hub does not answer, or not in time.
        """
        ...
