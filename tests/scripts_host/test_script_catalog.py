"""What is fed to `bash -s`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sparkrun.scripts import SCRIPTS, catalog, compose_script, compose_scripts, load_script
from sparkrun.utils.shell import parse_answers
from tests.scripts_host.scratch_host import ScratchHost

FILES = sorted(Path(catalog.__file__).parent.glob("*.sh"))
# Quoting as it is meant in a pattern, `A && B || C` as an idiom, and what one part of a script has from another.
ACCEPTED = "SC1003,SC2015,SC2034,SC2088,SC2153,SC2317,SC2329"


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_explains_every_parameter_in_its_header(name: str) -> None:
    header = load_script(name).split("\n\nmain()")[0].split("\n# Answers")[0]
    words = set(re.findall(r"[A-Z][A-Z0-9_]+", header))

    assert {*SCRIPTS[name].texts, *SCRIPTS[name].arrays} - words == set()
    assert "# Exit codes" in load_script(name)


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_every_part_of_a_script_passes_shellcheck(file: Path) -> None:
    program = shutil.which("shellcheck") or shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("shellcheck is not installed")

    said = subprocess.run([program, "-s", "bash", "-e", ACCEPTED, str(file)], capture_output=True, text=True, check=False)

    assert said.stdout == ""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_valid_bash(name: str) -> None:
    assert subprocess.run(["bash", "-n"], input=_all_lines(name), capture_output=True, text=True, check=True).stderr == ""


@pytest.mark.parametrize("name", ["", "nope", "../common", "common", "observe.sh"])
def test_an_unknown_script_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown script .*local_stop"):
        compose_script(name, {})


def test_an_unknown_parameter_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"local_logs takes no parameter 'NAMES' .*known: NAME, LINES"):
        compose_script("local_logs", {"NAMES": ("a",)})


def test_a_text_where_an_array_belongs_is_refused() -> None:
    with pytest.raises(TypeError, match="NAMES of script local_stop is a sequence of texts"):
        compose_script("local_stop", {"NAMES": "a"})
    with pytest.raises(TypeError, match="CACHE of script local_stop is one text"):
        compose_script("local_stop", {"CACHE": ("a",)})


def test_a_parameter_that_is_not_given_is_not_taken_from_the_hosts_environment(host: ScratchHost) -> None:
    host.env |= {"NAMES": "intruder", "ONLY_LAUNCH": "x", "GRACE_S": "nonsense", "MODEL": "/etc/passwd"}

    assert "no names" in (host.run("local_stop").answers.text("MESSAGE") or "")
    assert host.run("observe").section("MODEL").text("MODEL_KIND") == "none"


def test_a_script_of_which_only_a_part_arrives_does_nothing(host: ScratchHost) -> None:
    text = compose_script("local_start", {"NAME": "x", "COMMAND": "sleep 60"})

    for size in (len(text) * 9 // 10, len(text) - len("main\nexit\n") - 1):
        ran = host.feed(text[:size])

        assert (ran.returncode != 0, ran.stdout) == (True, "")
    assert not host.cache.exists()


def test_a_script_reads_nothing_after_itself_from_stdin(host: ScratchHost) -> None:
    ran = host.feed(compose_script("local_status", {}) + "echo intruder\n")

    assert "intruder" not in ran.stdout
    assert ran.section("WORKLOADS").complete


def test_scripts_of_one_session_follow_each_other(host: ScratchHost) -> None:
    ran = host.feed(
        compose_scripts([("local_start", {"NAME": "x", "COMMAND": "sleep 60", "CACHE": str(host.cache)}), ("local_status", {})])
    )

    assert ran.returncode == 0
    assert [section.text("NAME") for section in ran.answers.sections("WORKLOAD")] == ["x"]


def test_a_script_that_fails_ends_those_after_it_with_its_exit_code(host: ScratchHost) -> None:
    ran = host.feed(compose_scripts([("local_start", {"NAME": "../x", "COMMAND": "sleep 60"}), ("local_status", {})]))

    assert (ran.returncode, ran.answers.text("REASON"), ran.answers.sections("WORKLOADS")) == (2, "bad_name", ())


def test_text_outside_ascii_is_measured_in_bytes(host: ScratchHost) -> None:
    ran = host.feed(compose_script("observe", {"MODEL": "/môdel/é\u2028世界"}) + "x" * 100)

    assert parse_answers(ran.stdout).section("MODEL").text("MODEL_REASON") == "no such file: /môdel/é\u2028世界"


def _all_lines(name: str) -> str:
    return "#!/bin/bash\n" + compose_script(name, {}).split("\n", 1)[1]
