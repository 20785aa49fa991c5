"""The Hugging Face hub in memory, as far as it is asked what a model is made of."""

from __future__ import annotations

import json
import re

from sparkrun.core.hub_reader import HubAnswer

_INFO = re.compile(r"/api/models/(.+)/revision/[^/]+")
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)")


class FakeHub:
    """Repositories by id, each with its files by name. Nobody answers while ``reachable`` is off.

    ``sizes`` are those of files that are listed and not here (weights); ``refusals`` are HTTP codes by repository; ``asked`` are the
    paths that somebody wanted.
    """

    def __init__(self, *, reachable: bool = True) -> None:
        self.reachable = reachable
        self.files: dict[str, dict[str, bytes]] = {}
        self.sizes: dict[str, dict[str, int]] = {}
        self.refusals: dict[str, int] = {}
        self.asked: list[str] = []

    def get(self, path: str, *, start: int = 0, size_bytes: int) -> HubAnswer:
        """As ``HubReader.get``."""
        self.asked.append(path)
        if not self.reachable:
            raise OSError("no network")
        path = path.partition("?")[0]
        if info := _INFO.fullmatch(path):
            return self._listing(info[1])
        if file := _FILE.fullmatch(path):
            return self._part(file[1], file[2], start, size_bytes)
        return HubAnswer(404)

    def _listing(self, repo: str) -> HubAnswer:
        if repo not in self.files:
            return HubAnswer(self.refusals.get(repo, 401))
        sizes = {name: len(body) for name, body in self.files[repo].items()} | self.sizes.get(repo, {})
        siblings = [{"rfilename": name, "size": size} for name, size in sorted(sizes.items())]
        return HubAnswer(200, json.dumps({"id": repo, "siblings": siblings}).encode())

    def _part(self, repo: str, name: str, start: int, size_bytes: int) -> HubAnswer:
        if repo in self.refusals:
            return HubAnswer(self.refusals[repo])
        body = self.files.get(repo, {}).get(name)
        return HubAnswer(404) if body is None else HubAnswer(206, body[start : start + size_bytes])
