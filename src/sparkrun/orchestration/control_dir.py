"""Where the sockets of shared ssh connections may lie. Touches nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping

MAX_SOCKET_PATH_BYTES = 103
"""What every system allows (``sun_path`` is 104 bytes with its end on macOS, 108 on Linux)."""
NAME_DIGITS = 16
_SSH_SUFFIX_BYTES = 17
"""ssh binds the socket under its name, a point and 16 random characters, and renames it."""


def choose_control_dir(env: Mapping[str, str]) -> str | None:
    """A private folder for control sockets, in the first place that can be written and has a short path. Not made yet."""
    roots = (env.get("XDG_RUNTIME_DIR"), env.get("TMPDIR"), "/tmp")
    folders = (f"{root}/sparkrun-{os.getuid()}" for root in roots if root and os.access(root, os.W_OK | os.X_OK))
    return next((folder for folder in folders if fits_a_socket(folder)), None)


def fits_a_socket(folder: str) -> bool:
    """Whether a socket in this folder has a path that the system allows."""
    return len(os.fsencode(folder)) + 1 + NAME_DIGITS + _SSH_SUFFIX_BYTES <= MAX_SOCKET_PATH_BYTES
