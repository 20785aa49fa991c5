"""What a registry's name, address and paths may be: the one gate for everything that comes from a file, a manifest or the user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from sparkrun.core.registry.errors import UnsafeRegistryError

BUILTIN = "builtin"
"""The registry inside the package."""

ROOT = "/"
"""The subpath that means the whole repository."""

RESERVED_PREFIXES = (
    "arena",
    "spark-arena",
    "sparkarena",
    "sparkrun",
    "official",
    "experimental",
    "transitional",
    "community",
    "eugr",
    "dbotwinick",
    "raphaelamorim",
    "scitrera",
)
ALLOWED_ORGANISATIONS = ("spark-arena", "scitrera", "eugr", "dbotwinick", "raphaelamorim")
"""The GitHub owners whose repositories may use a reserved prefix."""

RESERVED_NAMES: Mapping[str, str] = {"atlas": "atlas-inf", "coldsnap": "sparksq", "coldsnap-vanilla": "sparksq"}
"""Names that belong to one GitHub owner each."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FORMAT = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_SCP = re.compile(r"git@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?P<path>[^-\s].*)")
_HOST = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9.:_\]-]*")
_SCHEMES = ("https", "ssh", "file")
_GITHUB = ("github.com", "www.github.com")


class Address(NamedTuple):
    """Where a git repository is. ``host`` holds a port where one is given; it is empty for ``file://``."""

    scheme: str
    host: str
    path: str
    password: bool = False


def validate_registry_name(name: str, url: str | None = None) -> None:
    """Refuse a name of the wrong shape, the built-in one, and, for the repository at ``url``, one that is kept for others.

    Raises ``UnsafeRegistryError``.
    """
    if not _NAME.fullmatch(name):
        raise UnsafeRegistryError(
            f"{name!r} is not a registry name", hint="a name is a letter or digit, then letters, digits, '.', '_' and '-', up to 100"
        )
    if name.lower() == BUILTIN:
        raise UnsafeRegistryError(f"registry name '{name}' is kept for the recipes inside sparkrun", hint="choose another name")
    if url is not None:
        _refuse_reserved(name, organisation(url))


def validate_registry_url(url: str) -> None:
    """Refuse an address that is not ``https://``, ``ssh://``, ``git@host:path`` or ``file://``. Raises ``UnsafeRegistryError``."""
    parse_address(url)


def validate_new_url(url: str) -> None:
    """``validate_registry_url``, and no password: git's command line would show it. Raises ``UnsafeRegistryError``."""
    if parse_address(url).password:
        raise UnsafeRegistryError(f"{mask_url(url)} holds a password", hint="keep it in a git credential helper, or use an ssh address")


def validate_subpath(path: str) -> str:
    """The folder inside a repository, without a trailing slash. ``/`` is the whole. Raises ``UnsafeRegistryError``."""
    if path == ROOT:
        return path
    trimmed = path.rstrip("/")
    if not all(_SEGMENT.fullmatch(segment) for segment in trimmed.split("/")):
        raise UnsafeRegistryError(
            f"{path!r} is not a folder inside a repository",
            hint="a folder is relative; no part begins with '.'; '/' alone is the whole repository",
        )
    return trimmed


def validate_asset_name(name: str) -> str:
    """The name of a recipe, profile or mod inside a registry, perhaps with folders before it. Raises ``UnsafeRegistryError``."""
    segments = name.split("/")
    if "\\" in name or any(segment in ("", ".", "..") or segment.startswith(".") or not segment.isprintable() for segment in segments):
        raise UnsafeRegistryError(
            f"{name!r} is not a name inside a registry", hint="a name is file or folder/file, without '..' and without a leading '/'"
        )
    return name


def validate_format(name: str) -> None:
    """Refuse a format's name of the wrong shape. Raises ``UnsafeRegistryError``."""
    if not _FORMAT.fullmatch(name):
        raise UnsafeRegistryError(
            f"{name!r} is not a registry format", hint="a format begins with a small letter, then letters, digits, '_' and '-'"
        )


def parse_address(url: str) -> Address:
    """The parts of a git address. Raises ``UnsafeRegistryError`` for one that git must not be given."""
    if url.isprintable() and " " not in url and "\\" not in url:
        if match := _SCP.fullmatch(url):
            return Address("ssh", match["host"].lower(), match["path"])
        if url.partition("://")[0] in _SCHEMES and (address := _split(url)):
            return address
    raise UnsafeRegistryError(
        f"{mask_url(url)!r} is not an address of a git repository",
        hint="use https://host/path, ssh://host/path, git@host:path or file:///path",
    )


def organisation(url: str) -> str | None:
    """The owner of a repository on GitHub, in lower case; ``None`` for any other host."""
    address = parse_address(url)
    owner = address.path.strip("/").partition("/")[0].lower()
    return owner if address.host in _GITHUB and owner else None


def normalized_url(url: str) -> str:
    """What two addresses of one repository share: no scheme, user, ``.git``, trailing slash or upper case."""
    address = parse_address(url)
    path = address.path.strip("/").lower().removesuffix(".git").rstrip("/")
    return f"{address.host.removeprefix('www.')}/{path}"


def mask_url(url: str) -> str:
    """``url`` fit for a message: no password, no control characters."""
    masked = re.sub(r"(://[^/@:\s]*):[^/@\s]*@", r"\1:***@", url)
    return "".join(char if char.isprintable() else "?" for char in masked)


def _split(url: str) -> Address | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme == "file":
        return Address("file", "", parts.path) if parts.path.startswith("/") and not parts.netloc else None
    host = (parts.hostname or "") + (f":{port}" if port else "")
    user = parts.username or ""
    if not _HOST.fullmatch(host) or user.startswith("-") or not parts.path.strip("/") or parts.query or parts.fragment:
        return None
    return Address(parts.scheme, host, parts.path, parts.password is not None)


def _refuse_reserved(name: str, owner: str | None) -> None:
    lower = name.lower()
    kept_for = RESERVED_NAMES.get(lower)
    if kept_for and owner != kept_for:
        raise UnsafeRegistryError(
            f"registry name '{name}' is kept for repositories of {kept_for} on github.com", hint="choose another name"
        )
    prefix = next((prefix for prefix in RESERVED_PREFIXES if lower.startswith(prefix)), None)
    if prefix and owner not in ALLOWED_ORGANISATIONS:
        raise UnsafeRegistryError(
            f"registry name '{name}' begins with '{prefix}', kept for repositories of {', '.join(ALLOWED_ORGANISATIONS)} on github.com",
            hint=f"choose a name that does not begin with '{prefix}'",
        )
