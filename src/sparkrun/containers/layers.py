"""Which layers of an image a host has already, and how the archive of an image is made without them. Touches nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from sparkrun.utils.shell import Section, quote

CONTAINERD = "containerd"
"""Docker's newer image store. It takes an archive without layers it lacks for a whole one (measured with Docker 26), so it is sent all."""
_NO_CONFIG = (
    '{"Hostname":"","Domainname":"","User":"","AttachStdin":false,"AttachStdout":false,"AttachStderr":false,"Tty":false,'
    '"OpenStdin":false,"StdinOnce":false,"Env":null,"Cmd":null,"Image":"","Volumes":null,"WorkingDir":"","Entrypoint":null,'
    '"OnBuild":null,"Labels":null}'
)


class StockedImage(msgspec.Struct, frozen=True):
    """An image that a host has. ``layers`` are diff ids (digests of the unpacked layers), the lowest first."""

    id: str
    size_bytes: int = 0
    digests: frozenset[str] = frozenset()
    """The digests by which registries know it."""
    layers: tuple[str, ...] = ()
    layer_bytes: tuple[int, ...] = ()
    """Their sizes, empty where docker does not tell."""

    def bytes_above(self, held: int) -> int | None:
        """About how large its archive is without its lowest ``held`` layers; ``None`` where nobody can tell."""
        if not held:
            return self.size_bytes or None
        return sum(self.layer_bytes[held:]) if self.layer_bytes else None

    def is_same(self, other: StockedImage) -> bool:
        """Whether it is the same image: by its id, by a registry's digest, or, across storage drivers, by all of its layers."""
        return self.id == other.id or bool(self.digests & other.digests) or (bool(self.layers) and self.layers == other.layers)


class ImageStock(msgspec.Struct, frozen=True):
    """What a host's docker has."""

    store: str = ""
    root: str = ""
    free_bytes: int | None = None
    """Room in docker's folder."""
    images: dict[str, StockedImage] = {}
    """Those that were asked for."""
    held: tuple[tuple[str, ...], ...] = ()
    """The layers of every image it has."""

    @property
    def takes_parts(self) -> bool:
        """Whether ``docker load`` accepts an archive without the layers that are here, and refuses one without others.

        Measured: Docker 20.10 and 26 with overlay2 do.
        """
        return bool(self.store) and self.store != CONTAINERD

    def has_of(self, layers: Sequence[str]) -> int:
        """How many of the lowest layers are here. A layer counts only on top of the same ones: docker knows it by all below it."""
        return max((_common(layers, held) for held in self.held), default=0)


def parse_image_stock(section: Section) -> ImageStock:
    """The answers of ``docker_stock.sh``."""
    return ImageStock(
        store=section.text("STORE") or "",
        root=section.text("ROOT") or "",
        free_bytes=section.kib("ROOT_FREE_KIB"),
        images=dict(_image(line) for line in section.all("IMAGE")),
        held=tuple(_listed(line) for line in section.all("HELD")),
    )


def save_script(image: str, left_out: Sequence[str]) -> str:
    """Bash that prints the archive of an image without its lowest layers ``left_out``.

    ``docker load`` on a host that has them takes such an archive. A name that the archive does not have (how layers are filed differs by
    docker's version) leaves that layer in, which does no harm; so does a host whose tar is not GNU's.
    """
    save = f"docker save -- {quote(image)}"
    if not left_out:
        return f"exec {save}"
    names = " ".join(quote(name) for name in layer_files(left_out))
    return (
        "set -o pipefail\n"
        'case $(tar --version 2>/dev/null) in *"GNU tar"*) ;; *) exec ' + save + " ;; esac\n"
        f"{{ {save} || kill $$; }} | {{ LC_ALL=C tar -f - --delete {names} 2>/dev/null || :; }}\n"
    )


def layer_files(layers: Sequence[str]) -> tuple[str, ...]:
    """Where the lowest layers of an image lie in its archive: as blobs (Docker 25 and later), and as folders (before that)."""
    return (*(f"blobs/sha256/{layer.partition(':')[2]}" for layer in layers), *(f"{name}/layer.tar" for name in _legacy_names(layers)))


def _legacy_names(layers: Iterable[str]) -> Iterator[str]:
    """The names of layers below the topmost: docker/image/v1.CreateID of an empty config, of the chain of layers and of the parent."""
    chain = parent = ""
    for layer in layers:
        chain = layer if not chain else f"sha256:{hashlib.sha256(f'{chain} {layer}'.encode()).hexdigest()}"
        above = f',"parent":"sha256:{parent}"' if parent else ""
        made = f'{{"container_config":{_NO_CONFIG},"created":"1970-01-01T00:00:00Z","layer_id":"{chain}"{above}}}'
        parent = hashlib.sha256(made.encode()).hexdigest()
        yield parent


def _image(line: str) -> tuple[str, StockedImage]:
    name, made, size, digests, layers, sizes, *_rest = (*line.split("\t"), "", "", "", "", "")
    known = frozenset(digest.partition("@")[2] for digest in _listed(digests))
    return name, StockedImage(made, int(size) if size.isdecimal() else 0, known, _listed(layers), _layer_bytes(sizes, len(_listed(layers))))


def _layer_bytes(sizes: str, count: int) -> tuple[int, ...]:
    """The sizes of layers out of those of the history's steps, the last step first. Steps that made no layer have no size, and so may a
    layer: then nobody can tell which is which."""
    found = tuple(int(size) for size in reversed(_listed(sizes)) if size.isdecimal() and int(size))
    return found if len(found) == count else ()


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
