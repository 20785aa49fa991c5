"""The text of a call, with files of the control machine inside its parameters: small folders, packed when it is sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sparkrun.core.errors import StateError
from sparkrun.core.remote import Params, ScriptCall
from sparkrun.scripts import compose_scripts

if TYPE_CHECKING:
    import tarfile

MOST_BYTES = 64 * 1024 * 1024
"""A mod is a script and some patches; anything larger belongs into the image."""


def script_text(call: ScriptCall) -> str:
    """What is fed to the host's bash. Raises ``StateError`` for a file that cannot be sent."""
    return compose_scripts([(part.name, call_params(part)) for part in call.chain])


def call_params(call: ScriptCall) -> Params:
    """Everything a script is sent: parameters, secrets, and each upload as base64 of a tar archive. Raises ``StateError``."""
    return {**call.params, **call.secrets, **{name: _packed(Path(source)) for name, source in call.uploads.items()}}


def _packed(source: Path) -> str:
    import base64  # most calls carry no file
    import io
    import tarfile

    buffer = io.BytesIO()
    try:
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path in [source] if source.is_file() else sorted(source.iterdir()):
                archive.add(path, arcname=path.name, filter=_anonymous)
    except OSError as error:
        raise StateError(f"cannot read {source}: {error.strerror}") from error
    if buffer.tell() > MOST_BYTES:
        raise StateError(f"{source} has {buffer.tell() // 1024**2} MiB, at most {MOST_BYTES // 1024**2} MiB can be copied into a container")
    return base64.b64encode(buffer.getvalue()).decode()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Owned by root in the container, whoever owns it here."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
