"""A Hugging Face hub cache in memory, which answers the scripts for caches by name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from sparkrun.core.remote import ScriptCall
from sparkrun.testing.answers import change_pins, section

Answer = tuple[int, str]
REVISION = "0123456789abcdef0123456789abcdef01234567"
CACHE_SCRIPTS = frozenset({"model_cache", "cache_identity", "model_verify", "model_change"})
NOW_S = 1_800_000_000
BLOCK_BYTES = 512


class FakeHubCache:
    """What a test puts into it, and the answers of the scripts. Hosts that are given the same one share it.

    ``cache_id`` is what hosts call it; ``free_bytes`` of its disk are free. Everything in it is an hour old.
    """

    def __init__(self, folder: str, cache_id: str = "") -> None:
        self.folder = folder
        self.cache_id = cache_id
        self.free_bytes = 500 * 10**9
        self.writable = True
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.pins: dict[str, str] = {}
        self.used: dict[str, int] = {}
        self.damaged: set[str] = set()

    def put(self, repo: str, files: Mapping[str, bytes], revision: str = REVISION, ref: str | None = "main") -> None:
        """A snapshot of a model."""
        folder = _folder(repo)
        for name, content in files.items():
            blob = hashlib.sha256(content).hexdigest()
            self.files[f"{folder}/blobs/{blob}"] = content
            self.links[f"{folder}/snapshots/{revision}/{name}"] = "../" * (2 + name.count("/")) + f"blobs/{blob}"
        if ref:
            self.files[f"{folder}/refs/{ref}"] = revision.encode()

    def damage(self, repo: str, name: str) -> None:
        """Let a file of a model hold something else than it should."""
        link = next(path for path in self.links if path.startswith(f"{_folder(repo)}/") and path.endswith(f"/{name}"))
        self.damaged.add(f"{_folder(repo)}/blobs/{self.links[link].rpartition('/')[2]}")

    def answer(self, call: ScriptCall) -> Answer:
        """Exit code and output of a script for caches."""
        answers = {
            "model_cache": self._look,
            "cache_identity": self._identity,
            "model_verify": self._verify,
            "model_change": self._change,
        }
        return answers[call.name](call)

    def _identity(self, call: ScriptCall) -> Answer:
        del call
        return 0, section("CACHE", {"HUB": self.folder, "CACHE_ID": self.cache_id})

    def _look(self, call: ScriptCall) -> Answer:
        del call
        head = {
            "HUB": self.folder,
            "CACHE_ID": self.cache_id,
            "NOW": str(NOW_S),
            "HUB_HERE": "1",
            "WRITABLE": "1" if self.writable else "0",
            "FREE_KIB": str(self.free_bytes // 1024),
            "TOTAL_KIB": str(2 * self.free_bytes // 1024),
        }
        refs = ((content.decode(), path) for path, content in self.files.items() if "/refs/" in path)
        return 0, section(
            "CACHE",
            [
                *head.items(),
                *self._entries(),
                *(("REF", f"{commit} {path}") for commit, path in refs),
                *(("PIN", f"{folder} {note}") for folder, note in self.pins.items()),
                *(("USED", f"{folder} {moment}") for folder, moment in self.used.items()),
            ],
        )

    def _entries(self) -> Iterator[tuple[str, str]]:
        paths = (*self.files, *self.links)
        folders = dict.fromkeys(folder for path in paths for folder in _parents(path))
        then = f"{NOW_S - 3600}.0"
        for number, path in enumerate((*folders, *paths), start=1):
            tail = f"{then} {then} 1:{number} 1 {path}"
            if path in self.files:
                size = len(self.files[path])
                yield "ENTRY", f"f f {size} {-(-size // BLOCK_BYTES)} {tail}"
            elif path in self.links:
                yield "ENTRY", f"l {'f' if self._target(path) in self.files else 'N'} 80 0 {tail}"
                yield "LINK", self.links[path]
            else:
                yield "ENTRY", f"d d 0 0 {tail}"

    def _target(self, link: str) -> str:
        return f"{link.partition('/')[0]}/blobs/{self.links[link].rpartition('/')[2]}"

    def _verify(self, call: ScriptCall) -> Answer:
        paths = [item.split(" ", 2)[2] for item in call.params["WANTED"]]
        read = sum(len(self.files[path]) for path in paths)
        return 0, section("VERIFY", [("BYTES", str(read)), *(("WRONG" if path in self.damaged else "OK", path) for path in paths)])

    def _change(self, call: ScriptCall) -> Answer:
        if not self.writable:
            return 14, section("CHANGE", {"REASON": "cache_not_writable", "MESSAGE": f"{self.folder} cannot be written by this user"})
        removed = [item.partition(" ")[2] for item in call.params.get("REMOVE", ())]
        for path in removed:
            self.files = {name: content for name, content in self.files.items() if not _within(name, path)}
            self.links = {name: target for name, target in self.links.items() if not _within(name, path)}
        told = [("REMOVED", path) for path in removed]
        return 0, section("CHANGE", [*told, *change_pins(call, self.pins)])


def _folder(repo: str) -> str:
    return f"models--{repo.replace('/', '--')}"


def _parents(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:end]) for end in range(1, len(parts)))


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
