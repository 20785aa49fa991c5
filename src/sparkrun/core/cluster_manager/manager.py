"""The files of saved clusters: one YAML file a cluster, and the name of the default one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sparkrun.core.cluster_manager.edit import NAME, ClusterEdit, apply_edit, check_name
from sparkrun.core.cluster_manager.errors import ClusterError
from sparkrun.core.cluster_manager.model import Cluster, read_cluster
from sparkrun.core.config import Settings, read_settings
from sparkrun.core.errors import ConfigError
from sparkrun.core.paths import Paths
from sparkrun.utils.files import locked, write_atomic
from sparkrun.utils.text import did_you_mean


class BrokenCluster(NamedTuple):
    """A cluster file that cannot be used; the others can."""

    name: str
    reason: str


class SavedCluster(NamedTuple):
    """A cluster as it is on disk now, and what the user should know about the change."""

    cluster: Cluster
    warnings: tuple[str, ...] = ()


class ClusterManager:
    """Reads and writes ``clusters/``. ``warnings`` gathers what reading found odd and put right."""

    def __init__(self, paths: Paths) -> None:
        self._dir = paths.clusters_dir
        self._lock = paths.config_dir / ".documents.lock"
        self.warnings: list[str] = []

    def names(self) -> tuple[str, ...]:
        """Every saved cluster, sorted."""
        return tuple(sorted(path.stem for path in self._dir.glob("*.yaml") if NAME.fullmatch(path.stem)))

    def load(self, name: str) -> Cluster:
        """One cluster. Raises ``ClusterError`` for an unknown name, ``ConfigError`` for a broken file."""
        return read_cluster(name, self._read(name), str(self.path(name)))

    def load_all(self) -> tuple[tuple[Cluster, ...], tuple[BrokenCluster, ...]]:
        """Every cluster, and every file that is broken."""
        good: list[Cluster] = []
        broken: list[BrokenCluster] = []
        for name in self.names():
            try:
                good.append(self.load(name))
            except ConfigError as error:
                broken.append(BrokenCluster(name, error.message))
        return tuple(good), tuple(broken)

    def create(self, name: str, edit: ClusterEdit) -> SavedCluster:
        """Save a new cluster. Raises ``ClusterError`` for a name that is taken or none, no host, or a value that a key cannot hold."""
        with self._writing():
            self.preview(name, edit)
            return self._write(name, {}, edit)

    def preview(self, name: str, edit: ClusterEdit) -> SavedCluster:
        """What ``create`` would save. Raises as it does; writes nothing."""
        check_name(name)
        if self.path(name).exists():
            raise ClusterError(f"cluster '{name}' exists already", hint=f"change it: sparkrun cluster update {name}")
        settings, warnings = apply_edit({}, edit, name)
        return SavedCluster(read_cluster(name, settings, str(self.path(name))), warnings)

    def update(self, name: str, edit: ClusterEdit) -> SavedCluster:
        """Change a cluster; keys that nobody here knows are kept. Raises ``ClusterError`` as ``create`` does, and for an empty edit."""
        if edit.empty:
            raise ClusterError("nothing to change was given", hint="sparkrun cluster update --help")
        with self._writing():
            return self._write(name, self._read(name), edit)

    def delete(self, name: str) -> bool:
        """Remove a cluster's file; whether it was the default one. What set-up did to its hosts stays recorded. Raises ``ClusterError``."""
        with self._writing():
            self.require(name).unlink()
            if self._default_text() != name:
                return False
            self._default_file.unlink(missing_ok=True)
            return True

    def default_name(self) -> str | None:
        """The name of the default cluster. One that names no cluster is forgotten, with a line in ``warnings``."""
        name = self._default_text()
        if not name:
            return None
        if NAME.fullmatch(name) and self.path(name).is_file():
            return name
        self.warnings.append(f"the default cluster '{name}' does not exist any more; there is no default now")
        self.unset_default()
        return None

    def default(self) -> Cluster | None:
        """The default cluster, if one is set and exists. Raises ``ConfigError`` for a broken file."""
        name = self.default_name()
        return self.load(name) if name else None

    def set_default(self, name: str) -> None:
        """Make a cluster the default one. Raises ``ClusterError`` for an unknown name."""
        with self._writing():
            self.require(name)
            write_atomic(self._default_file, f"{name}\n")

    def unset_default(self) -> str | None:
        """Have no default cluster; the name it had."""
        name = self._default_text()
        with self._writing():
            self._default_file.unlink(missing_ok=True)
        return name

    def path(self, name: str) -> Path:
        """The file of a cluster."""
        return self._dir / f"{name}.yaml"

    def require(self, name: str) -> Path:
        """The file of a cluster that exists, broken or not. Raises ``ClusterError``."""
        path = self.path(name)
        if NAME.fullmatch(name) and path.is_file():
            return path
        known = self.names()
        listed = f"available clusters: {', '.join(known)}" if known else "save one: sparkrun cluster create NAME -H host1,host2"
        meant = did_you_mean(name, known)
        raise ClusterError(f"cluster '{name}' not found", hint=f"{meant} {listed}" if meant else listed)

    @property
    def _default_file(self) -> Path:
        return self._dir / ".default"

    def _default_text(self) -> str | None:
        try:
            return self._default_file.read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError):
            return None

    def _read(self, name: str) -> Settings:
        return read_settings(self.require(name))

    def _write(self, name: str, before: Settings, edit: ClusterEdit) -> SavedCluster:
        from sparkrun.utils.yamlio import dump_yaml  # only who writes needs it

        settings, warnings = apply_edit(before, edit, name)
        write_atomic(self.path(name), dump_yaml(settings))
        return SavedCluster(read_cluster(name, settings, str(self.path(name))), warnings)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One writer at a time. Raises ``ConfigError`` when the files cannot be written."""
        try:
            with locked(self._lock):
                yield
        except OSError as error:
            hint = "check the folder's permissions and the free disk space"
            raise ConfigError(f"cannot write {self._dir}: {error.strerror}", hint=hint) from error
