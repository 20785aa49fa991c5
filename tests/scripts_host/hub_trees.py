"""Hub caches on a disk, as the hub's client leaves them."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from sparkrun.models.hub_cache import HubCache, parse_cache
from tests.scripts_host.scratch_host import ScratchHost

MAIN, OTHER = "a" * 40, "b" * 40
HOUR_S = 3600
TOOLS = ("find", "sed", "tr", "xargs", "sha256sum", "sha1sum", "dd", "od", "grep", "flock", "sort")


class HubTree:
    """A cache that a test fills. Whatever it writes is an hour old, so that nothing counts as being on its way."""

    def __init__(self, hub: Path) -> None:
        self.hub = hub
        hub.mkdir(parents=True)

    def model(self, repo: str = "org/m", files: dict[str, bytes] | None = None, revision: str = MAIN, ref: str | None = "main") -> Path:
        """A snapshot with these files; small ones are named by git's sha1, the others by their sha256."""
        folder = self.hub / f"models--{repo.replace('/', '--')}"
        for name, content in (files or {"config.json": b"{}", "model.safetensors": b"w" * 5000}).items():
            self.link(folder, f"snapshots/{revision}/{name}", self.blob(folder, content))
        if ref:
            self.write(folder / "refs" / ref, revision.encode())
        return folder

    def blob(self, folder: Path, content: bytes) -> str:
        """Its name."""
        git = hashlib.sha1(b"blob %d\0%s" % (len(content), content), usedforsecurity=False).hexdigest()
        name = git if len(content) < 100 else hashlib.sha256(content).hexdigest()
        self.write(folder / "blobs" / name, content)
        return name

    def link(self, folder: Path, name: str, blob: str) -> None:
        """A file of a snapshot."""
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to("../" * name.count("/") + f"blobs/{blob}")

    def write(self, path: Path, content: bytes) -> Path:
        """A file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return self.age(path)

    def age(self, path: Path, seconds: float = HOUR_S) -> Path:
        """Make it that old."""
        then = path.lstat().st_mtime - seconds
        os.utime(path, (then, then), follow_symlinks=False)
        return path

    def disk_bytes(self) -> int:
        """What all of it takes on the disk; what has several names counts once."""
        found = {path.lstat().st_ino: path.lstat().st_blocks * 512 for path in self.hub.rglob("*")}
        return sum(found.values())


def use_tools(host: ScratchHost) -> None:
    """What the scripts of caches need besides the rest."""
    for tool in TOOLS:
        if not (host.tools / tool).exists():
            (host.tools / tool).symlink_to(shutil.which(tool) or "/nowhere")


def look(host: ScratchHost, tree: HubTree) -> HubCache:
    """What the script says of it."""
    host.env["HF_HUB_CACHE"] = str(tree.hub)
    ran = host.run("model_cache")
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    return parse_cache("here", ran.section("CACHE"))
