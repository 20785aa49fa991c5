"""A file of diagnostic records: one JSON object a line, in order, without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from sparkrun.core.errors import StateError, UsageError
from sparkrun.core.plan import mask

REDACTED = "[redacted]"
RECORD_BYTES = 64 * 1024
"""The most that one record may have; its longest texts are cut to fit."""
FILE_BYTES = 64 * 1024 * 1024
_SECRET_KEY = re.compile(r"pass(word|wd|phrase)|secret|(?<!placement_)token(?!s|izer)|api[-_]?key|auth[-_]?key|credential", re.IGNORECASE)
_IN_TEXT = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), REDACTED),
    (re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"), REDACTED),
    (re.compile(r"(?i)(\bbearer\s+)[\w.~+/=-]+"), rf"\1{REDACTED}"),
)


class RecordFile:
    """Opens a file that must not exist, private; every record gets ``_type``, ``_seq`` (from 1) and ``_ts``.

    What looks like a secret is put out of sight, and so is everything in ``secrets``.
    """

    def __init__(self, path: Path) -> None:
        """Raises ``UsageError`` where the file is there, ``StateError`` where it cannot be made."""
        self.path = path
        self.secrets: tuple[str, ...] = ()
        self.truncated = False
        self._count = self._written = 0
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise UsageError(f"{path} is there already", hint="name a new file") from None
        except OSError as error:
            raise StateError(f"cannot write {path}: {error.strerror}") from error
        self._stream = os.fdopen(handle, "wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stream.close()

    def add(self, kind: str, fields: Mapping[str, Any]) -> None:
        """One record. Beyond the size of a whole file nothing more is written."""
        head = {"_type": kind, "_seq": self._count + 1, "_ts": datetime.now(UTC).isoformat(timespec="milliseconds")}
        line = _fitted({**head, **mask(redact(msgspec.to_builtins(fields)), self.secrets)})
        if self._written + len(line) > FILE_BYTES:
            self.truncated = True
            return
        self._count += 1
        self._written += self._stream.write(line)


def redact(value: Any, key: str = "") -> Any:
    """The same data without what looks like a secret: values of such names, private keys, logins in addresses, bearer tokens."""
    if isinstance(value, dict):
        return {name: redact(item, str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item, key) for item in value]
    if not isinstance(value, str) or not value:
        return value
    if _SECRET_KEY.search(key):
        return REDACTED
    name, equals, _rest = value.partition("=")
    if equals and name.isidentifier() and _SECRET_KEY.search(name):
        return f"{name}={REDACTED}"
    for pattern, replacement in _IN_TEXT:
        value = pattern.sub(replacement, value)
    return value


def _fitted(record: dict[str, Any]) -> bytes:
    limit = RECORD_BYTES
    while len(line := msgspec.json.encode(record) + b"\n") > RECORD_BYTES:
        limit //= 2
        record = _cut(record, limit)
    return line


def _cut(value: Any, limit: int) -> Any:
    """Texts to their last characters, lists to their last entries: the end tells more."""
    if isinstance(value, dict):
        return {key: _cut(item, limit) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item, limit) for item in _last(value, limit // 64)]
    return value[-limit:] if isinstance(value, str) else value


def _last(values: list[Any], most: int) -> Iterable[Any]:
    return values[-most:] if most > 0 else ()
