"""Where a model's files come from, told from the text in the recipe."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from sparkrun.core.errors import RecipeError

ModelKind = Literal["hub", "path", "pkg"]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?")
_QUANT = re.compile(r"[A-Za-z0-9][\w.-]*")
_FORMS = "a model is org/name, org/name:QUANT, an absolute path, file:///path or pkg://package/file"


class ModelSource(msgspec.Struct, frozen=True):
    """A model as named: hub id (with a quantisation of a GGUF repository), a path on the host, or a file inside a Python package."""

    kind: ModelKind
    text: str
    repo: str | None = None
    quant: str | None = None
    path: str | None = None

    @property
    def served_name(self) -> str:
        """The name clients use when the recipe gives none: the hub id, else the file's stem."""
        if self.kind == "hub":
            return self.repo or self.text
        name = (self.path or self.text).rstrip("/").rpartition("/")[2]
        return name.removesuffix(".gguf")


def parse_model(text: str) -> ModelSource:
    """Tell what ``model:`` names. Raises ``RecipeError`` for a text that is none of the forms."""
    if text.startswith("pkg://"):
        package, _, file = text.removeprefix("pkg://").partition("/")
        if not package.isidentifier() or not _inner_path(file):
            raise RecipeError(f"{text!r} is not pkg://package/file", hint=_FORMS)
        return ModelSource("pkg", text, path=file)
    path = text.removeprefix("file://")
    if path.startswith("/"):
        return ModelSource("path", text, path=path)
    repo, colon, quant = text.partition(":")
    if not _HUB_ID.fullmatch(repo) or (colon and not _QUANT.fullmatch(quant)):
        raise RecipeError(f"{text!r} is not a model id", hint=_FORMS)
    return ModelSource("hub", text, repo=repo, quant=quant or None)


def _inner_path(file: str) -> bool:
    return bool(file) and not file.startswith("/") and ".." not in file.split("/")
