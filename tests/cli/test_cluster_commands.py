"""``sparkrun cluster``: saved clusters on the command line."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkrun.core.paths import resolve_paths
from sparkrun.utils.files import write_atomic
from sparkrun.utils.yamlio import load_yaml
from tests.cli.conftest import Said

Cli = Callable[..., Said]


class Terminal(io.StringIO):
    """Standard input as a terminal has it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def folder() -> Path:
    return resolve_paths(os.environ).clusters_dir


def saved(folder: Path, name: str = "lab") -> object:
    return load_yaml((folder / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("hosts", [("-H", "a,b"), ("-H", "a, b"), ("-H", "a,b,"), ("-H", "a", "-H", "b"), ("--hosts", "a b")])
def test_create_takes_every_spelling_of_a_host_list(cli: Cli, folder: Path, hosts: tuple[str, ...]) -> None:
    said = cli("cluster", "create", "lab", *hosts)

    assert (said.code, said.out, said.err) == (0, "Cluster 'lab' created: a, b\n", "")
    assert saved(folder) == {"name": "lab", "hosts": ["a", "b"], "scheduler": "occupancy-sparse"}


def test_create_takes_a_hosts_file(cli: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a # one\nb\n")

    assert cli("cluster", "create", "lab", "--hosts-file", str(tmp_path / "hosts")).code == 0
    assert cli("cluster", "show", "lab", "--json").out.startswith('{"name": "lab", "hosts": ["a", "b"]')


def test_create_writes_every_setting(cli: Cli, folder: Path) -> None:
    words = """
        -H a -u dgx -d lab --cache-dir /mnt/hf --sparkrun-cache-dir /mnt/sr --transfer-mode push --transfer-interface mgmt --topology ring
        --mgmt-interface eth0 --fabric-interface *np0 --fabric-interface *np1 -e A=1 -e T=${X} --env-file ~/s.env --executor docker
        -o shm_size=64gb -o init=true --scheduler occupancy-dense --max-gpu-mem-util 0.9 --accelerator-limit gb10=0.8 --offline
    """

    said = cli("cluster", "create", "lab", *words.split())

    assert (said.code, said.err) == (0, "")
    assert saved(folder) == {
        "name": "lab",
        "hosts": ["a"],
        "description": "lab",
        "user": "dgx",
        "cache_dir": "/mnt/hf",
        "sparkrun_cache_dir": "/mnt/sr",
        "transfer_mode": "push",
        "transfer_interface": "mgmt",
        "topology": "ring",
        "fabric_interfaces": ["*np0", "*np1"],
        "mgmt_interface": "eth0",
        "env": {"A": "1", "T": "${X}"},
        "env_file": "~/s.env",
        "scheduler": "occupancy-dense",
        "executor": "docker",
        "executor_config": {"shm_size": "64gb", "init": True},
        "offline": True,
        "max_gpu_memory_utilization": 0.9,
        "accelerator_memory_limits": {"gb10": 0.8},
    }


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("create", "lab"), 1, "cluster 'lab' would have no host"),
        (("create", "../x", "-H", "a"), 1, "'../x' cannot be the name of a cluster"),
        (("create", "lab", "-H", "a,a"), 2, "host given twice: a"),
        (("create", "lab", "-H", "a;b"), 2, "'a;b' is not a host"),
        (("create", "lab", "-H", "a", "--transfer-mode", "puush"), 2, "'puush' is not one of"),
        (("create", "lab", "-H", "a", "--max-gpu-mem-util", "90"), 1, "90 % is 0.9"),
        (("create", "lab", "-H", "a", "--max-gpu-mem-util", "x"), 1, "must be above 0 and at most 1, such as 0.9, not 'x'"),
        (("create", "lab", "-H", "a", "-o", "x"), 1, "-o x: not of the form KEY=VALUE"),
        (("create", "lab", "-H", "a", "--scheduler", "ocupancy-sparse"), 1, "did you mean 'occupancy-sparse'?"),
        (("create", "lab", "-H", "a", "--executor", "dokcer"), 1, "did you mean 'docker'?"),
        (("update", "nope", "-u", "x"), 1, "cluster 'nope' not found"),
        (("show", "nope"), 1, "cluster 'nope' not found"),
        (("delete", "nope", "--force"), 1, "cluster 'nope' not found"),
        (("set-default", "nope"), 1, "cluster 'nope' not found"),
        (("shwo",), 2, "did you mean 'show'?"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_saved(cli: Cli, folder: Path, words: tuple[str, ...], code: int, told: str) -> None:
    said = cli("cluster", *words)

    assert (said.code, said.out) == (code, "")
    assert told in said.err
    assert not list(folder.glob("*.yaml"))


def test_a_taken_name_is_refused(cli: Cli) -> None:
    cli("cluster", "create", "lab", "-H", "a")

    said = cli("cluster", "create", "lab", "-H", "b")

    assert said.code == 1
    assert "cluster 'lab' exists already" in said.err


def test_update_changes_what_is_given_and_an_empty_text_clears(cli: Cli, folder: Path) -> None:
    cli("cluster", "create", "lab", *"-H a,b -u dgx --topology ring --fabric-interface *np1 --max-gpu-mem-util 0.9 --offline".split())

    said = cli(
        "cluster", "update", "lab", *"-d new --topology none --add-host c,d --remove-host a --remove-host zz --online -u".split(), ""
    )
    cleared = cli("cluster", "update", "lab", "--fabric-interface", "", "--max-gpu-mem-util", "", "--scheduler", "")

    assert (said.code, cleared.code) == (0, 0)
    assert "zz is no host of this cluster" in said.err
    assert saved(folder) == {"name": "lab", "hosts": ["b", "c", "d"], "description": "new"}


def test_update_replaces_the_hosts(cli: Cli, folder: Path) -> None:
    cli("cluster", "create", "lab", "-H", "a,b")

    assert cli("cluster", "update", "lab", "-H", "c").out == "Cluster 'lab' updated: c\n"


def test_update_edits_the_executor_config(cli: Cli, folder: Path) -> None:
    cli("cluster", "create", "lab", "-H", "a", "-o", "shm_size=32gb", "-o", "ipc=host")

    cli("cluster", "update", "lab", "-o", "ipc=", "-o", "memory=8g")
    assert saved(folder) == {
        "name": "lab",
        "hosts": ["a"],
        "scheduler": "occupancy-sparse",
        "executor_config": {"shm_size": "32gb", "memory": "8g"},
    }

    cli("cluster", "update", "lab", "--clear-executor-config", "-o", "init=true")
    assert saved(folder) == {"name": "lab", "hosts": ["a"], "scheduler": "occupancy-sparse", "executor_config": {"init": True}}


def test_update_without_a_wish_fails(cli: Cli) -> None:
    cli("cluster", "create", "lab", "-H", "a")

    said = cli("cluster", "update", "lab")

    assert said.code == 1
    assert "nothing to change was given" in said.err


def test_list_marks_the_default_and_is_empty_at_first(cli: Cli) -> None:
    assert cli("cluster", "list").out == "No saved clusters.\n"
    assert cli("cluster", "list", "--json").out == "[]\n"
    cli("cluster", "create", "lab", "-H", "a,b", "-d", "two sparks", "--default")
    cli("cluster", "create", "home", "-H", "c", "--scheduler", "greedy")

    assert cli("cluster", "list").out.splitlines() == [
        "   NAME  HOSTS  SCHEDULER         DESCRIPTION",
        "   home  c      greedy",
        "*  lab   a, b   occupancy-sparse  two sparks",
    ]


def test_list_as_json_leaves_out_what_is_not_set(cli: Cli) -> None:
    cli("cluster", "create", "lab", *"-H a -d lab -u dgx --transfer-mode push --default".split())

    item = {"name": "lab", "hosts": ["a"], "description": "lab", "user": "dgx", "transfer_mode": "push"}
    assert json.loads(cli("cluster", "list", "--json").out) == [{**item, "scheduler": "occupancy-sparse", "default": True}]


def test_a_broken_file_is_named_and_the_others_are_listed(cli: Cli, folder: Path) -> None:
    cli("cluster", "create", "lab", "-H", "a")
    write_atomic(folder / "bad.yaml", "hosts: [a\nuser: x\n")

    said = cli("cluster", "list")
    items = json.loads(cli("cluster", "list", "--json").out)

    assert said.code == 0
    assert "lab" in said.out
    assert "cluster 'bad' cannot be used: " in said.err
    assert "bad.yaml:2:" in said.err
    assert [item["name"] for item in items] == ["lab", "bad"]
    assert "bad.yaml:2:" in items[1]["error"]


def test_show_tells_of_a_file_without_a_scheduler(cli: Cli, folder: Path) -> None:
    write_atomic(folder / "old.yaml", "hosts: [a]\ntransfer_mod: push\n")

    said = cli("cluster", "show", "old")

    assert "greedy (the file names none)" in said.out
    assert "sparkrun cluster update old --scheduler occupancy-sparse" in said.err
    assert "unknown key 'transfer_mod'; did you mean 'transfer_mode'?" in said.err
    shape = json.loads(cli("cluster", "show", "old", "--json").out)
    assert (shape["effective_scheduler"], shape["scheduler_defaulted"]) == ("greedy", True)


def test_no_command_shows_a_secret(cli: Cli) -> None:
    said = [cli("cluster", "create", "lab", "-H", "a", "-e", "HF_TOKEN=hf_secret", "--default")]
    for words in (("list",), ("show", "lab"), ("inspect", "lab"), ("default",)):
        said += [cli("cluster", *words), cli("cluster", *words, "--json")]

    assert all(each.code == 0 for each in said)
    assert not any("hf_secret" in each.out + each.err for each in said)
    assert "better keep it in an env_file" in said[0].err


def test_inspect_tells_what_the_settings_come_to(cli: Cli) -> None:
    cli("cluster", "create", "lab", "-H", "localhost", "--cache-dir", "/mnt/hf")

    shape = json.loads(cli("cluster", "inspect", "lab", "--json").out)
    text = cli("cluster", "inspect", "lab").out

    assert (shape["transfer_mode_resolved"], shape["transfer_interface_resolved"]) == ("local", "cx7")
    assert shape["caches"]["hosts"]["huggingface"] == "/mnt/hf"
    assert "local (this machine is one of the hosts)" in text


def test_the_default_is_shown_set_and_unset(cli: Cli) -> None:
    cli("cluster", "create", "lab", "-H", "a")

    assert cli("cluster", "default").out == "No default cluster.\n"
    assert cli("cluster", "default", "--json").out == "null\n"
    assert cli("cluster", "set-default", "lab").out == "Default cluster: lab\n"
    assert json.loads(cli("cluster", "default", "--json").out) == json.loads(cli("cluster", "list", "--json").out)[0]
    assert cli("cluster", "default").out == "lab  a\n"
    assert cli("cluster", "unset-default").out == "No default cluster now (it was 'lab').\n"
    assert cli("cluster", "unset-default").code == 0


def test_a_default_that_is_gone_is_told_once(cli: Cli, folder: Path) -> None:
    cli("cluster", "create", "lab", "-H", "a", "--default")
    (folder / "lab.yaml").unlink()

    said = cli("cluster", "default")

    assert said.out == "No default cluster.\n"
    assert "the default cluster 'lab' does not exist any more" in said.err
    assert cli("cluster", "default").err == ""


def test_delete_without_a_terminal_needs_force(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("cluster", "create", "lab", "-H", "a", "--default")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))

    refused = cli("cluster", "delete", "lab")

    assert refused.code == 1
    assert "add --force" in refused.err
    assert (folder / "lab.yaml").exists()
    assert cli("cluster", "delete", "lab", "--force").out == "Cluster 'lab' deleted. There is no default cluster now.\n"
    assert not (folder / "lab.yaml").exists()


@pytest.mark.parametrize(("answer", "code", "gone"), [("y\n", 0, True), ("n\n", 1, False), ("\n", 1, False)])
def test_delete_asks_on_a_terminal(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, gone: bool) -> None:
    cli("cluster", "create", "lab", "-H", "a")
    monkeypatch.setattr(sys, "stdin", Terminal(answer))

    said = cli("cluster", "delete", "lab")

    assert said.code == code
    assert "Delete cluster 'lab'?" in said.err
    assert (folder / "lab.yaml").exists() is not gone


def test_every_change_can_answer_in_json(cli: Cli) -> None:
    created = json.loads(cli("cluster", "create", "lab", "-H", "a", "--default", "--json").out)
    updated = json.loads(cli("cluster", "update", "lab", "-u", "dgx", "--json").out)

    assert created == {"name": "lab", "hosts": ["a"], "scheduler": "occupancy-sparse", "default": True}
    assert updated == {"name": "lab", "hosts": ["a"], "user": "dgx", "scheduler": "occupancy-sparse", "default": True}
    assert json.loads(cli("cluster", "set-default", "lab", "--json").out) == updated
    assert json.loads(cli("cluster", "unset-default", "--json").out) == {"unset": "lab"}
    assert json.loads(cli("cluster", "delete", "lab", "--force", "--json").out) == {"deleted": "lab", "was_default": False}


def test_update_looks_at_the_hosts_when_asked(cli: Cli, folder: Path) -> None:
    """This machine answers without ssh, whatever it is made of."""
    cli("cluster", "create", "lab", "-H", "localhost")

    said = cli("cluster", "update", "lab", "--infer-hardware", "--json")

    assert said.code == 0, said.err
    assert json.loads(said.out)["hosts_hardware"]["localhost"]["source"] == "probed"


@pytest.mark.parametrize("source", ["eugr", "svd"])
def test_import_saves_a_cluster_from_a_checkout(cli: Cli, folder: Path, tmp_path: Path, source: str) -> None:
    (tmp_path / ".env").write_text("CLUSTER_NODES=a,b\nETH_IF=enp1s0f1np1\nCONTAINER_HF_TOKEN=hf_secret\nLOCAL_IP=1\n")

    said = cli("cluster", "import", source, str(tmp_path), "--name", "lab", "--default")

    assert said.code == 0
    assert "hf_secret" not in said.out + said.err
    assert "Note: without a meaning here: LOCAL_IP" in said.err
    assert saved(folder) == {
        "name": "lab",
        "hosts": ["a", "b"],
        "description": f"imported from {tmp_path}/.env",
        "fabric_interfaces": ["*np1"],
        "env": {"HF_TOKEN": "${CONTAINER_HF_TOKEN}"},
        "env_file": f"{tmp_path}/.env",
        "scheduler": "occupancy-sparse",
        "sync_source": "eugr-env",
    }
    assert cli("cluster", "default").out.startswith("lab")


def test_a_dry_import_saves_nothing(cli: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("CLUSTER_NODES=a\n")

    said = cli("cluster", "import", "eugr", str(tmp_path / ".env"), "-n", "--default")

    assert said.code == 0
    assert "would be saved" in said.out
    assert not folder.exists()
    assert json.loads(cli("cluster", "import", "eugr", str(tmp_path), "-n", "--json").out)["saved"] is False


def test_an_import_of_nothing_fails(cli: Cli, tmp_path: Path) -> None:
    said = cli("cluster", "import", "eugr", str(tmp_path))

    assert said.code == 1
    assert "cannot read" in said.err


@pytest.mark.parametrize("words", [["list"], ["show", "lab"], ["create", "two", "-H", "a"], ["update", "lab", "-u", "x"], ["default"]])
def test_saved_clusters_are_handled_without_plugins_ssh_or_rich(cli: Cli, words: list[str]) -> None:
    cli("cluster", "create", "lab", "-H", "a")
    program = f"""
import sys
from sparkrun.cli.root import run_command
run_command({["cluster", *words]!r})
print(sorted({{"scitrera_app_framework", "rich", "huggingface_hub", "textual", "vpd", "sparkrun.orchestration.ssh"}} & set(sys.modules)))
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)

    assert done.stdout.splitlines()[-1] == "[]", done.stdout
