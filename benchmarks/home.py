"""A user's home to measure in: a registry of a thousand recipes that was fetched, a saved cluster, a recipe file."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import BenchmarkError, Command, run

RECIPES = 1000
SPARKRUN = str(Path(sys.executable).with_name("sparkrun"))
NO_HOST = "192.0.2.1"
"""An address that belongs to nobody: what asked it would wait, and not keep to its budget."""

_RUNTIMES = ("vllm", "sglang", "trtllm", "llama-cpp")
_GIT_SETTINGS = ("user.name=benchmark", "user.email=benchmark@localhost", "commit.gpgsign=false", "init.defaultBranch=main")
_GIT = ("git", *(word for setting in _GIT_SETTINGS for word in ("-c", setting)))


class Home:
    """What commands are run in. ``recipe`` is a file outside every registry, ``settings`` the folder of the user's configuration."""

    def __init__(self, folder: Path) -> None:
        self.settings = folder / ".config" / "sparkrun"
        self.recipe = folder / "work" / "mine.yaml"
        self._places = {
            "HOME": folder,
            "XDG_RUNTIME_DIR": folder,
            "SPARKRUN_CONFIG_DIR": self.settings,
            "SPARKRUN_CACHE_DIR": folder / ".cache" / "sparkrun",
        }

    def sparkrun(self, *words: str) -> tuple[str, ...]:
        """A command line of sparkrun in this home."""
        return self.words(SPARKRUN, *words)

    def words(self, *words: str) -> tuple[str, ...]:
        """Any command line in this home; words ``NAME=value`` may stand before it. The baseline too: ``env`` takes time."""
        return ("env", "-C", str(self.recipe.parent), *(f"{name}={path}" for name, path in self._places.items()), *words)

    def baseline(self) -> Command:
        """A bare Python."""
        return Command("python -c pass", self.words(sys.executable, "-c", "pass"))


@contextmanager
def made(recipes: int = RECIPES) -> Iterator[Home]:
    """A home that is gone afterwards. Raises ``BenchmarkError`` without git."""
    with tempfile.TemporaryDirectory(prefix="sparkrun-") as name:
        folder = Path(name)
        home = Home(folder)
        home.recipe.parent.mkdir()
        home.recipe.write_text(recipe_text(0))
        url = make_repository(folder / "repository", recipes)
        home.settings.mkdir(parents=True)
        registry = {"name": "thousand", "url": url, "subpath": "recipes", "trusted": False}
        (home.settings / "registries.yaml").write_text(json.dumps({"config_version": 1, "registries": [registry]}))
        for words in (("registry", "update", "thousand"), ("cluster", "create", "lab", "-H", NO_HOST), ("list", "--offline")):
            prepare(Command(" ".join(words), home.sparkrun(*words)))
        yield home


def make_repository(folder: Path, recipes: int) -> str:
    """A git repository with so many recipes; returns its address."""
    (folder / "recipes").mkdir(parents=True)
    for number in range(recipes):
        (folder / "recipes" / f"model-{number:04}.yaml").write_text(recipe_text(number))
    for words in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "recipes")):
        try:
            subprocess.run([*_GIT, "-C", folder, *words], check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise BenchmarkError("git is needed, and not installed") from None
        except subprocess.CalledProcessError as error:
            raise BenchmarkError(f"git {words[0]}: {error.stderr.strip()}") from None
    return f"file://{folder}"


def recipe_text(number: int) -> str:
    """A recipe of the usual size."""
    runtime = _RUNTIMES[number % len(_RUNTIMES)] if number else "vllm"
    return f"""\
recipe_version: "2"
model: organisation-{number % 40}/Model-{number:04}-Instruct-FP8
runtime: {runtime}
min_nodes: {1 + number % 2}
container: example.org/engines/{runtime}:latest
metadata:
  description: Model {number} with long context, for coding and chat
  maintainer: benchmark
defaults:
  host: 0.0.0.0
  port: 8000
  tensor_parallel: {1 + number % 2}
  gpu_memory_utilization: 0.8
  max_model_len: 32768
env:
  HF_HUB_ENABLE_HF_TRANSFER: "1"
command: |
  vllm serve {{model}} --host {{host}} --port {{port}} \\
    --tensor-parallel-size {{tensor_parallel}} \\
    --gpu-memory-utilization {{gpu_memory_utilization}} --max-model-len {{max_model_len}}
"""


def prepare(command: Command) -> None:
    """Run what has to be done once, before anything is measured."""
    done = run(command)
    if done.returncode:
        raise BenchmarkError(f"{command.name}: {done.stderr.strip()[-300:]}")
