"""dev.sh, run for real in a tree of its own, with stand-ins for Python and uv that write down what they were asked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

DEV_SH = Path(__file__).resolve().parent.parent / "dev.sh"
TOOLS = ("bash", "cat", "chmod", "cmp", "dirname", "mkdir", "mv", "rm", "sed", "sh", "tail")

PYTHON = """
echo "python $*" >>"$LOG"
case "$*" in
    *sys.version_info*) echo "$0" ;;
    *"pip install"*) install_uv "$@" ;;
    "-m venv"*) echo "ensurepip is not available"; exit 1 ;;
esac
"""
# What the stand-in for pip does: put the spare uv into the folder after --target, as its last argument.
INSTALL_UV = """
install_uv() {
    [ -e "$BIN/spare-uv" ] || { echo "No module named pip"; exit 1; }
    for folder; do :; done
    mkdir -p "$folder/bin"
    cat "$BIN/spare-uv" >"$folder/bin/uv"
    chmod +x "$folder/bin/uv"
}
"""
UV = """
[ "$1" != --version ] || exit 0
echo "uv $*" >>"$LOG"
[ "$1" = venv ] || exit 0
for folder; do :; done
mkdir -p "$folder/bin"
echo made >"$folder/pyvenv.cfg"
echo 'export ACTIVATED=yes' >"$folder/bin/activate"
printf '#!/bin/sh\\n' >"$folder/bin/python"
chmod +x "$folder/bin/python"
"""


class Tree:
    """A copy of what dev.sh reads, and the only programs it can find."""

    def __init__(self, folder: Path) -> None:
        self.root, self.bin, self.log = folder / "tree", folder / "bin", folder / "log"
        self.environment = {"PATH": str(self.bin), "PYTHONDONTWRITEBYTECODE": "1"}
        self.bin.mkdir()
        for tool in TOOLS:
            self.link(tool)
        (self.root / "requirements").mkdir(parents=True)
        for name in ("requirements/dev.txt", "requirements/model.txt", "requirements/uv.txt", "pyproject.toml"):
            (self.root / name).write_text(f"{name}\n")
        (self.root / "versions.yaml").write_text('python: "3.11"\n')
        shutil.copy(DEV_SH, self.root)
        self.program("python3", PYTHON)
        self.program("uv", UV)

    def link(self, tool: str) -> None:
        found = shutil.which(tool)
        assert found is not None, f"{tool} is missing on this machine"
        (self.bin / tool).symlink_to(found)

    def program(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\nLOG={self.log} BIN={self.bin}\n{INSTALL_UV}{body}")
        path.chmod(0o755)

    def dev(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.bash(f"{self.root}/dev.sh", *words)

    def source(self, before: str, after: str) -> subprocess.CompletedProcess[str]:
        return self.bash("-c", f"{before}\nsource {self.root}/dev.sh\n{after}")

    def bash(self, *words: str) -> subprocess.CompletedProcess[str]:
        bash = str(self.bin / "bash")
        return subprocess.run([bash, *words], env=self.environment, cwd="/", capture_output=True, text=True, timeout=30, check=False)

    def calls(self) -> list[str]:
        """What Python and uv were asked since the last look."""
        calls = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return calls


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_first_start_installs_the_locked_packages_and_prints_where(tree: Tree) -> None:
    done = tree.dev("env")

    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tree.root}/.venv\n"
    locked, ours = [call for call in tree.calls() if "pip install" in call]
    assert "--no-deps" in locked
    assert "--require-hashes" in locked
    assert f"-r {tree.root}/requirements/dev.txt -r {tree.root}/requirements/model.txt" in locked
    assert ours.endswith(f"--editable {tree.root}")


def test_warm_start_starts_neither_python_nor_uv(tree: Tree) -> None:
    tree.dev("env")
    tree.calls()

    assert tree.dev("env").stdout == f"{tree.root}/.venv\n"
    assert tree.calls() == []


@pytest.mark.parametrize("name", ["requirements/dev.txt", "requirements/model.txt", "pyproject.toml"])
def test_a_changed_file_installs_again_into_the_same_environment(tree: Tree, name: str) -> None:
    tree.dev("env")
    tree.calls()
    (tree.root / name).write_text("other\n")

    assert tree.dev("env").returncode == 0
    calls = tree.calls()
    assert any("pip install" in call for call in calls)
    assert not any(call.startswith("uv venv") for call in calls)


def test_a_moved_tree_gets_a_new_environment(tree: Tree) -> None:
    tree.dev("env")
    left_over = tree.root / ".venv" / "left-over"
    left_over.touch()
    tree.calls()
    tree.root = tree.root.rename(tree.root.with_name("moved"))

    assert tree.dev("env").stdout == f"{tree.root}/.venv\n"
    assert any(call.startswith("uv venv") for call in tree.calls())
    assert not (tree.root / ".venv" / "left-over").exists()


def test_an_environment_that_the_user_made_is_kept(tree: Tree, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "bin").mkdir(parents=True)
    (mine / "pyvenv.cfg").touch()
    (mine / "bin" / "python").symlink_to(tree.bin / "sh")
    tree.environment["SPARKRUN_VENV"] = str(mine)

    assert tree.dev("env").stdout == f"{mine}\n"
    assert not any(call.startswith("uv venv") for call in tree.calls())


def test_a_failed_install_is_tried_again(tree: Tree) -> None:
    tree.program("uv", UV.replace('[ "$1" = venv ] ||', '[ "$1" != pip ] || exit 7; [ "$1" = venv ] ||'))
    assert tree.dev("env").returncode == 7
    tree.program("uv", UV)
    tree.calls()

    assert tree.dev("env").returncode == 0
    assert any("pip install" in call for call in tree.calls())


def test_without_uv_and_ensurepip_the_pip_of_python_puts_uv_into_the_project(tree: Tree) -> None:
    (tree.bin / "uv").rename(tree.bin / "spare-uv")

    done = tree.dev("env")

    assert done.returncode == 0, done.stderr
    assert any(f"--target {tree.root}/.dev/uv" in call and "--require-hashes" in call for call in tree.calls())


def test_without_uv_and_pip_the_error_says_the_way_out(tree: Tree) -> None:
    (tree.bin / "uv").unlink()

    done = tree.dev("env")

    assert done.returncode == 1
    assert "error: uv cannot be installed: No module named pip: install python3-venv or uv" in done.stderr


def test_without_a_new_python_the_error_says_the_way_out(tree: Tree) -> None:
    tree.program("python3", '[ "$1" = --version ] && echo "Python 3.9.2"')

    done = tree.dev("lint")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: Python 3.11 or newer is needed, found Python 3.9.2: install one")


def test_unknown_command_is_wrong_usage(tree: Tree) -> None:
    done = tree.dev("tset")

    assert done.returncode == 2
    assert done.stderr.endswith("error: unknown command 'tset'\n")


@pytest.mark.parametrize("options", ["", "set -u", "set -eu", "set +o posix; set -f"])
def test_sourcing_activates_and_leaves_the_shell_as_it_was(tree: Tree, options: str) -> None:
    look = 'echo "$(set +o) $PWD"; declare -F || :; compgen -v SPARKRUN || :'

    done = tree.source(f"{options}\n{look}\necho --", f"echo $?\n{look}\necho ${{PYTHONDONTWRITEBYTECODE-gone}} $ACTIVATED")

    before, after = done.stdout.split("--\n")
    assert after == f"0\n{before}gone yes\n"


def test_sourcing_that_fails_leaves_the_shell_alive(tree: Tree) -> None:
    tree.program("python3", "exit 1")

    assert tree.source("", "echo alive $?").stdout == "alive 1\n"


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_sourcing_works_in_zsh(tree: Tree) -> None:
    tree.link("zsh")
    words = f'setopt | cat >"{tree.root}/before"; source {tree.root}/dev.sh && setopt | cmp - "{tree.root}/before" && echo $ACTIVATED'

    assert tree.bash("-c", f"exec zsh -f -c '{words}'").stdout == "yes\n"
