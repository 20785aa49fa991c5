"""An ``ssh`` program that reaches nobody: it notes its words and runs the remote command here, or does what a host was told to do."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAM = r"""#!/usr/bin/env bash
here=${0%/*}
printf '%s\x1f' "$@" >>"$here/words"
echo >>"$here/words"
while [[ $1 == -* ]]; do
  case $1 in
    --) shift; break ;;
    -G) ask=1; shift ;;
    -[olipF]) [[ $2 != ControlMaster=auto ]] || sharing=1; shift 2 ;;
    *) shift ;;
  esac
done
host=$1
shift
if [[ -n ${ask:-} ]]; then exec cat "$here/config-of-$host"; fi
if [[ -e $here/$host.sh ]]; then source "$here/$host.sh"; fi
exec bash -c "$*"
"""


class FakeSsh:
    """The program's folder: first on PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        program = folder / "ssh"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def host(self, name: str, does: str) -> None:
        """Bash that a host does instead; what comes after it, unless it ends, is the remote command."""
        (self.folder / f"{name}.sh").write_text(does + "\n")

    def config_of(self, name: str, text: str) -> None:
        """What ``ssh -G`` tells of a host."""
        (self.folder / f"config-of-{name}").write_text(text)

    @property
    def calls(self) -> list[list[str]]:
        """The words of each call."""
        try:
            lines = (self.folder / "words").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line.removesuffix("\x1f").split("\x1f") for line in lines]
