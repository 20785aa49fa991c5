"""Whether programs of this machine know a name."""

from __future__ import annotations

import socket
import threading
from functools import lru_cache

LOOKUP_S = 1.0


@lru_cache(maxsize=64)
def name_is_known(name: str) -> bool:
    """Whether this machine finds an address for a name; one that takes longer than ``LOOKUP_S`` is taken for known."""
    failed = threading.Event()

    def look_up() -> None:
        try:
            socket.getaddrinfo(name, None)
        except (OSError, UnicodeError):
            failed.set()

    thread = threading.Thread(target=look_up, name=f"look-up of {name}", daemon=True)
    thread.start()
    thread.join(LOOKUP_S)
    return not failed.is_set()
