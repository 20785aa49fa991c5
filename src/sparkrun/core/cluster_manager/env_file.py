"""The environment that a cluster gives to engines: ``${NAME}`` in it comes from the cluster's ``env_file`` and from nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from sparkrun.core.cluster_manager.model import Cluster
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import ConfigError
from sparkrun.core.paths import expand
from sparkrun.utils.text import did_you_mean

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LINE = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*)", re.DOTALL)
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?")
_ESCAPE = re.compile(r"\\(.)")


def cluster_env(cluster: Cluster, config: SparkrunConfig) -> dict[str, str]:
    """The variables of ``cluster.env`` with every ``${NAME}`` put in full from ``env_file`` (relative to the folder of cluster files).

    Raises ``ConfigError`` for a name that the file does not have, and for a file that cannot be read where one is needed.
    """
    if not references(cluster.env):
        return dict(cluster.env)
    path = config.paths.clusters_dir / expand(cluster.env_file, config.env) if cluster.env_file else None
    known = read_env_file(path) if path else {}

    def put(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise _missing(cluster, match[1], path, known)
        return known[match[1]]

    return {name: _REFERENCE.sub(put, value) for name, value in cluster.env.items()}


def references(env: Mapping[str, str]) -> tuple[str, ...]:
    """The names inside ``${…}``, each once, in order."""
    return tuple(dict.fromkeys(name for value in env.values() for name in _REFERENCE.findall(value)))


def is_reference(value: str) -> bool:
    """Whether a value holds nothing of its own beside one ``${NAME}``: it can be shown, whatever it stands for."""
    return bool(_REFERENCE.fullmatch(value))


def read_env_file(path: Path) -> dict[str, str]:
    """The variables in a file of ``NAME=value`` lines. Raises ``ConfigError`` with file and line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot read the env_file {path}: {reason}", hint="sparkrun cluster update NAME --env-file FILE") from error
    return parse_env_file(text, str(path))


def parse_env_file(text: str, path: str) -> dict[str, str]:
    """``NAME=value`` lines as a shell reads them, without expansion: ``export``, quotes, blanks and ``#`` comments. A later line wins.

    Raises ``ConfigError`` with file and line.
    """
    return dict(_variable(line.strip(), f"{path}:{number}") for number, line in _assignments(text))


def _assignments(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _variable(line: str, where: str) -> tuple[str, str]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ConfigError(f"{where}: not a line of the form NAME=value")  # the line may hold a secret
    return match["name"], _value(match["value"], where)


def _value(text: str, where: str) -> str:
    if text.startswith('"') and (quoted := _DOUBLE.fullmatch(text)):
        return _ESCAPE.sub(r"\1", quoted[1])
    if text.startswith("'") and (quoted := _SINGLE.fullmatch(text)):
        return quoted[1]
    if text.startswith(('"', "'")):
        raise ConfigError(f"{where}: the quote is not closed, or something follows it")
    return "" if text.startswith("#") else re.split(r"\s#", text, maxsplit=1)[0].rstrip()


def _missing(cluster: Cluster, name: str, path: Path | None, known: Mapping[str, str]) -> ConfigError:
    if path is None:
        hint = f"sparkrun cluster update {cluster.name} --env-file FILE"
        return ConfigError(f"cluster '{cluster.name}': env needs ${{{name}}}, and no env_file is set", hint=hint)
    return ConfigError(
        f"cluster '{cluster.name}': env needs ${{{name}}}, which is not in {path}",
        hint=did_you_mean(name, known) or f"add a line {name}=… to that file; the environment of this shell is not used",
    )
