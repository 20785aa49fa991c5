"""One look at a host."""

from __future__ import annotations

import base64
import json
import os
import platform
import pwd
import shutil
import socket
import sys
import threading
from pathlib import Path

import pytest

from sparkrun.utils.shell import Section
from tests.scripts_host.docker_host import EXECUTOR, NAME, DockerHost, dock, rank_of
from tests.scripts_host.scratch_host import ScratchHost, eventually

__all__ = ["dock"]

SECTIONS = ("HOST", "ACCEL", "ENGINE", "MODEL", "PORTS", "WORKLOADS", "DOCKER")


def look(host: ScratchHost, section: str, **params: str | tuple[str, ...]) -> Section:
    ran = host.run("observe", **params)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(ran.section(name).complete for name in SECTIONS)
    return ran.section(section)


def model(host: ScratchHost, name: str, **params: str) -> dict[str, str]:
    return dict(look(host, "MODEL", MODEL=name, **params).pairs)


def impatient(host: ScratchHost) -> None:
    """Makes every time limit of the script 0.3 s."""
    host.program("timeout", f'while [[ $1 == -* || $1 == [0-9]* ]]; do shift; done; exec "{host.tools}/timeout" 0.3 "$@"')


# --- host -----------------------------------------------------------------------------------------------------------------------------


def test_the_host_says_what_it_is(host: ScratchHost) -> None:
    section = look(host, "HOST")

    assert section.text("HOSTNAME") == socket.gethostname()
    assert section.number("UID") == os.getuid()
    assert section.number("GID") == os.getgid()
    assert section.text("HOME") == str(host.home)
    assert section.text("OS") == "Linux"
    assert section.text("ARCH") == platform.machine()
    assert section.number("CPUS") == os.cpu_count()
    total, available = section.number("MEM_TOTAL_KIB"), section.number("MEM_AVAILABLE_KIB")
    assert total is not None
    assert available is not None
    assert 0 < available <= total
    assert (section.number("SPARKRUN_CACHE_FREE_KIB") or 0) > 0
    assert (section.number("HF_CACHE_FREE_KIB") or 0) > 0


def test_a_bare_host_is_a_fact_and_no_failure(host: ScratchHost) -> None:
    ran = host.run("observe", MODEL="pkg://some/file", ENGINE="llama-server", PORTS=("1",))

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.section("DOCKER").flag("DOCKER_PRESENT") is False
    assert ran.section("ACCEL").flag("NVIDIA_PRESENT") is False
    assert ran.section("ENGINE").text("ENGINE_PATH") == ""
    assert ran.section("MODEL").text("MODEL_REASON") == "no python here that could look up package some"
    assert not host.cache.exists()


def test_a_home_that_the_session_lacks_comes_from_the_user_database(host: ScratchHost) -> None:
    for name in ("HOME", "SPARKRUN_CACHE_DIR"):
        del host.env[name]

    section = look(host, "HOST")

    home = pwd.getpwuid(os.getuid()).pw_dir
    told = [section.text(key) for key in ("USER", "HOME", "SPARKRUN_CACHE")]
    assert told == [pwd.getpwuid(os.getuid()).pw_name, home, f"{home}/.cache/sparkrun"]


@pytest.mark.parametrize(
    ("env", "override", "wanted"),
    [
        ({}, "", ("{home}/.cache/huggingface", "{home}/.cache/huggingface/hub")),
        ({"XDG_CACHE_HOME": "/x"}, "", ("/x/huggingface", "/x/huggingface/hub")),
        ({"HF_HOME": "/hf"}, "", ("/hf", "/hf/hub")),
        ({"HF_HOME": "/hf", "HF_HUB_CACHE": "~/hub"}, "", ("/hf", "{home}/hub")),
        ({"HF_HOME": "/hf", "HF_HUB_CACHE": "/hub"}, "~/mine/", ("{home}/mine", "{home}/mine/hub")),
    ],
)
def test_the_hub_cache_is_where_the_hosts_variables_put_it(
    host: ScratchHost, env: dict[str, str], override: str, wanted: tuple[str, str]
) -> None:
    host.env |= env

    section = look(host, "HOST", HF_HOME_OVERRIDE=override)

    assert (section.text("HF_CACHE"), section.text("HF_HUB_CACHE")) == tuple(item.format(home=host.home) for item in wanted)


def test_the_cache_is_told_with_whether_it_can_be_written(host: ScratchHost) -> None:
    section = look(host, "HOST")
    assert (section.text("SPARKRUN_CACHE"), section.flag("SPARKRUN_CACHE_WRITABLE")) == (str(host.cache), True)

    host.cache.write_text("a file where a folder belongs")
    assert look(host, "HOST").flag("SPARKRUN_CACHE_WRITABLE") is False
    section = look(host, "HOST", CACHE="/dev/null/cache")
    assert (section.text("SPARKRUN_CACHE"), section.flag("SPARKRUN_CACHE_WRITABLE")) == ("/dev/null/cache", False)


# --- accelerators ---------------------------------------------------------------------------------------------------------------------


def test_nvidia_gpus_are_told_one_by_one(host: ScratchHost) -> None:
    host.program("nvidia-smi", "echo 'NVIDIA GB10, [N/A], 12.1, 580.95.05'; echo 'NVIDIA RTX A6000, 49140, 8.6, 580.95.05'")

    section = look(host, "ACCEL")

    assert [section.text(key) for key in ("NVIDIA_PRESENT", "NVIDIA_GPU_COUNT", "NVIDIA_DRIVER_VERSION")] == ["1", "2", "580.95.05"]
    assert [section.text(f"NVIDIA_GPU_0_{key}") for key in ("NAME", "MEMORY_MIB", "COMPUTE_CAP")] == ["NVIDIA GB10", "[N/A]", "12.1"]
    assert [section.text(f"NVIDIA_GPU_1_{key}") for key in ("NAME", "MEMORY_MIB", "COMPUTE_CAP")] == ["NVIDIA RTX A6000", "49140", "8.6"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("echo 'NVIDIA-SMI has failed because of the driver.'; exit 9", "NVIDIA-SMI has failed because of the driver."),
        ("exit 3", "nvidia-smi ended with exit code 3"),
        ("exec sleep 600", "nvidia-smi did not answer within 5 s"),
    ],
)
def test_an_nvidia_smi_that_fails_leaves_the_gpus_unknown(host: ScratchHost, body: str, error: str) -> None:
    impatient(host)
    host.program("nvidia-smi", body)

    section = look(host, "ACCEL")

    assert section.text("NVIDIA_ERROR") == error
    assert section.flag("NVIDIA_PRESENT") is None
    assert section.number("NVIDIA_GPU_COUNT") is None


def test_other_accelerators_are_found_in_sysfs(host: ScratchHost) -> None:
    sysfs = host.root / "sys"
    for node, gpu_id in enumerate((0, 4711, 4712)):
        _write(sysfs / f"class/kfd/kfd/topology/nodes/{node}/gpu_id", f"{gpu_id}\n")
    for card, vendor in enumerate(("0x1da3", "0x1da3", "0x8086", "0x1234")):
        _write(sysfs / f"class/accel/accel{card}/device/vendor", f"{vendor}\n")
    _write(sysfs / "class/infiniband/rocep1s0f0/ports/1/state", "4: ACTIVE\n")
    _write(sysfs / "devices/system/cpu/online", "0-9,12,14-15\n")

    ran = host.run("observe", SYSFS=str(sysfs))

    wanted = {"AMD_GPU_COUNT": 2, "AMD_PRESENT": 1, "INTEL_GAUDI_COUNT": 2, "INTEL_PRESENT": 1, "IB_PRESENT": 1}
    assert {key: ran.section("ACCEL").number(key) for key in wanted} == wanted
    assert ran.section("HOST").number("CPUS") == 13


# --- engine ---------------------------------------------------------------------------------------------------------------------------


def test_the_engine_is_found_on_path_or_in_the_users_bin(host: ScratchHost) -> None:
    assert look(host, "ENGINE", ENGINE="llama-server").text("ENGINE_PATH") == ""

    user_bin = host.home / ".local/bin/llama-server"
    _write(user_bin, "#!/bin/sh\n").chmod(0o755)
    assert look(host, "ENGINE", ENGINE="llama-server").text("ENGINE_PATH") == str(user_bin)

    on_path = host.program("llama-server", "exit 0")
    assert look(host, "ENGINE", ENGINE="llama-server").text("ENGINE_PATH") == str(on_path)
    assert look(host, "ENGINE", ENGINE="~/.local/bin/llama-server").text("ENGINE_PATH") == str(user_bin)


def test_what_cannot_be_run_is_no_engine(host: ScratchHost) -> None:
    _write(host.bin / "llama-server", "no program")
    (host.bin / "other").mkdir()

    assert look(host, "ENGINE", ENGINE="llama-server").text("ENGINE_PATH") == ""
    assert look(host, "ENGINE", ENGINE="other").text("ENGINE_PATH") == ""
    assert look(host, "ENGINE", ENGINE="cd").text("ENGINE_PATH") == ""


@pytest.fixture
def site(host: ScratchHost) -> Path:
    """Where the pythons of this host find packages: those here end whoever imports them."""
    folder = host.root / "site"
    for package in ("sparkrun", "sparkrun/embedded"):
        _write(folder / package / "__init__.py", "")
    for module in ("sparkrun/embedded/llama_server", "xllamacpp/__init__", "llm_tiny/__init__"):
        _write(folder / f"{module}.py", "raise SystemExit('imported')")
    (folder / "xllamacpp-2026.10.1.dist-info").mkdir()
    _write(folder / "llm_tiny/tiny.gguf", "x" * 10)
    host.env["PYTHONPATH"] = str(folder)
    return folder


def isolated_python(path: Path) -> Path:
    """A python with nothing but what PYTHONPATH names."""
    return _program(path, f'exec "{sys.executable}" -S "$@"')


def test_the_embedded_engine_is_found_without_being_imported(host: ScratchHost, site: Path) -> None:
    python = isolated_python(host.bin / "python3")

    section = look(host, "ENGINE", ENGINE="llama-server")

    assert (section.text("EMBEDDED_PYTHON"), section.text("EMBEDDED_ENGINE")) == (str(python), "2026.10.1")


@pytest.mark.parametrize("missing", ["xllamacpp", "sparkrun/embedded", "sparkrun"])
def test_half_an_embedded_engine_is_none(host: ScratchHost, site: Path, missing: str) -> None:
    isolated_python(host.bin / "python3")
    shutil.rmtree(site / missing)

    assert look(host, "ENGINE", ENGINE="llama-server").text("EMBEDDED_PYTHON") == ""


@pytest.mark.parametrize("params", [{"ENGINE": "vllm"}, {"ENGINE": ""}, {"ENGINE": "llama-server"}])
def test_no_python_is_started_without_need(host: ScratchHost, site: Path, params: dict[str, str]) -> None:
    host.program("python3", ': >"$HOME/asked"')
    host.program("llama-server", "exit 0")

    look(host, "ENGINE", **params)

    assert not (host.home / "asked").exists()


def test_the_given_python_is_asked_first(host: ScratchHost, site: Path) -> None:
    host.program("python3", ': >"$HOME/asked"; exit 1')
    mine = isolated_python(host.root / "my python")

    assert look(host, "ENGINE", ENGINE="llama-server", PYTHON=str(mine)).text("EMBEDDED_PYTHON") == str(mine)
    assert not (host.home / "asked").exists()


@pytest.mark.parametrize("head", ["#!{python}\n", "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n"])
def test_the_python_of_an_installed_launcher_is_asked(host: ScratchHost, site: Path, head: str) -> None:
    python = isolated_python(host.root / "tool/bin/python3.11")
    _write(host.bin / "sparkrun-llama-server", head.format(python=python) + "import sys\n").chmod(0o755)

    assert look(host, "ENGINE", ENGINE="llama-server").text("EMBEDDED_PYTHON") == str(python)


def test_the_python_of_the_installed_tool_is_asked_last(host: ScratchHost, site: Path) -> None:
    host.program("python3", "exit 1")
    python = isolated_python(host.home / ".local/share/uv/tools/sparkrun/bin/python")

    assert look(host, "ENGINE", ENGINE="llama-server", PYTHON="/nowhere/python").text("EMBEDDED_PYTHON") == str(python)


def test_a_python_that_hangs_is_passed_over(host: ScratchHost, site: Path) -> None:
    impatient(host)
    host.program("python3", "exec sleep 600")

    assert look(host, "ENGINE", ENGINE="llama-server").text("EMBEDDED_PYTHON") == ""


# --- model: packages and paths --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llm_tiny", "llm-tiny"])
def test_a_model_in_a_package_is_found_without_importing_it(host: ScratchHost, site: Path, name: str) -> None:
    isolated_python(host.bin / "python3")

    assert model(host, f"pkg://{name}/tiny.gguf") == {
        "MODEL_KIND": "pkg", "MODEL_PATH": str(site / "llm_tiny/tiny.gguf"), "MODEL_SIZE_BYTES": "10", "MMPROJ_COUNT": "0",
        "MODEL_GGUF_HEAD": base64.b64encode((site / "llm_tiny/tiny.gguf").read_bytes()).decode(),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pkg://llm_absent/x.gguf", "package llm_absent is not installed"),
        ("pkg://llm_tiny/absent.gguf", "no file absent.gguf in package llm_tiny"),
        ("pkg://llm_tiny/../secret", "../secret leads out of package llm_tiny"),
        ("pkg://llm_tiny//etc/passwd", "/etc/passwd leads out of package llm_tiny"),
        ("pkg://llm_tiny/a/../../x", "a/../../x leads out of package llm_tiny"),
        ("pkg://llm_tiny/link", "link leads out of package llm_tiny"),
        ("pkg://llm_tiny", "not of the form pkg://package/file"),
        ("pkg://llm_tiny/", "not of the form pkg://package/file"),
        ("pkg://os;x/y", "not of the form pkg://package/file"),
        ("pkg:///etc/passwd", "not of the form pkg://package/file"),
    ],
)
def test_a_package_file_that_is_not_here_is_told_with_the_reason(host: ScratchHost, site: Path, name: str, reason: str) -> None:
    isolated_python(host.bin / "python3")
    _write(site / "secret", "x")
    (site / "llm_tiny/link").symlink_to(site / "secret")

    assert model(host, name) == {"MODEL_KIND": "pkg", "MODEL_REASON": reason}


def test_a_second_python_may_have_the_package(host: ScratchHost, site: Path) -> None:
    _program(host.root / "bare", f'PYTHONPATH= exec "{sys.executable}" -S "$@"')
    isolated_python(host.bin / "python3")

    assert "MODEL_PATH" in model(host, "pkg://llm_tiny/tiny.gguf", PYTHON=str(host.root / "bare"))


def test_a_file_is_told_with_its_size(host: ScratchHost) -> None:
    path = _write(host.home / "a b%.gguf", "12345")
    head = base64.b64encode(b"12345").decode()
    found = {"MODEL_KIND": "path", "MODEL_PATH": str(path), "MODEL_SIZE_BYTES": "5", "MODEL_GGUF_HEAD": head, "MMPROJ_COUNT": "0"}

    assert model(host, str(path)) == found
    assert model(host, "~/a b%.gguf") == found
    assert model(host, f"file://{host.home}/a%20b%25.gguf") == found
    assert model(host, f"file://localhost{host.home}/a%20b%25.gguf") == found


@pytest.mark.parametrize(
    ("config", "heads"),
    [
        ({"num_attention_heads": 32, "num_key_value_heads": 8}, ("32", "8")),
        ({"vision_config": {"num_attention_heads": 16}, "text_config": {"num_attention_heads": 40, "num_key_value_heads": 4}}, ("40", "4")),
        ({"hidden_size": 4}, (None, None)),
    ],
)
def test_the_heads_of_the_language_model_are_told(host: ScratchHost, config: dict[str, object], heads: tuple[str | None, ...]) -> None:
    _write(host.home / "m/config.json", json.dumps(config, indent=2))

    told = model(host, str(host.home / "m"))

    assert (told.get("MODEL_ATTENTION_HEADS"), told.get("MODEL_KV_HEADS")) == heads


def test_a_folder_is_told_with_its_config_and_the_size_of_its_weights(host: ScratchHost) -> None:
    config = _write(host.home / "m/config.json", json.dumps({"model_type": "llama", "quote": 'a\\b"c'}, indent=2))
    _write(host.home / "m/hf_quant_config.json", "{}")
    _write(host.home / "m/model-00001-of-00002.safetensors", "x" * 30)
    _write(host.home / "m/model-00002-of-00002.safetensors", "x" * 12)
    _write(host.home / "m/consolidated.safetensors", "x" * 42)

    told = model(host, str(host.home / "m"))

    assert told["MODEL_CONFIG"] == config.read_text()
    assert told["MODEL_QUANT_CONFIG"] == "{}"
    assert told["MODEL_WEIGHT_BYTES"] == "42"


def test_weights_of_other_names_are_counted_without_adapters(host: ScratchHost) -> None:
    for name in ("diffusion.safetensors", "adapter_model.safetensors", "consolidated.safetensors"):
        _write(host.home / f"m/{name}", "x" * 7)

    assert model(host, str(host.home / "m"))["MODEL_WEIGHT_BYTES"] == "7"


def test_the_head_of_a_gguf_file_is_told_and_no_more(host: ScratchHost) -> None:
    _write(host.home / "big.gguf", "x" * 40000)

    assert len(base64.b64decode(model(host, str(host.home / "big.gguf"))["MODEL_GGUF_HEAD"])) == 16384


def test_a_folder_is_told_with_the_size_of_all_in_it(host: ScratchHost) -> None:
    _write(host.home / "m/config.json", "x" * 100)
    _write(host.home / "m/sub/w.safetensors", "x" * 1000)

    told = model(host, str(host.home / "m"))

    assert told["MODEL_PATH"] == str(host.home / "m")
    # du counts what the folders themselves take, too.
    assert int(told["MODEL_SIZE_BYTES"]) >= 1100


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/nowhere/x.gguf", "no such file: /nowhere/x.gguf"),
        ("~/link.gguf", "{home}/link.gguf is a link to a missing file"),
        ("file://server/x", "file://server/x is not on this host"),
        ("~/m-00001-of-00002.gguf", "m-00002-of-00002.gguf is missing"),
    ],
)
def test_a_path_that_is_not_here_is_told_with_the_reason(host: ScratchHost, name: str, reason: str) -> None:
    (host.home / "link.gguf").symlink_to("absent")
    _write(host.home / "m-00001-of-00002.gguf", "x")

    assert model(host, name) == {"MODEL_KIND": "path", "MODEL_REASON": reason.format(home=host.home)}


def test_a_projector_beside_a_file_is_found(host: ScratchHost) -> None:
    path = _write(host.home / "Vision-8B-Q4_K_M.gguf", "x")
    for name in ("mmproj-BF16.gguf", "mmproj-F16.gguf"):
        _write(host.home / name, "x")

    told = model(host, str(path))

    assert (told["MMPROJ_PATH"], told["MMPROJ_COUNT"]) == (str(host.home / "mmproj-F16.gguf"), "2")


@pytest.mark.parametrize("name", ["../x", "./x", "a b", "org/name/more", "-x", "org/", "x;y", "org/name:"])
def test_what_names_no_model_is_told(host: ScratchHost, name: str) -> None:
    assert model(host, name) == {"MODEL_KIND": "hub", "MODEL_REASON": "neither a model id nor an absolute path"}


def test_without_a_model_nothing_is_looked_for(host: ScratchHost) -> None:
    assert model(host, "") == {"MODEL_KIND": "none"}


# --- model: the hub cache -------------------------------------------------------------------------------------------------------------


class HubRepo:
    """A repository in the hub's cache, as the hub's own client lays it out."""

    def __init__(self, host: ScratchHost, name: str) -> None:
        self.folder = host.home / ".cache/huggingface/hub" / ("models--" + name.replace("/", "--"))

    def snapshot(self, commit: str, *files: str, main: bool = True) -> Path:
        folder = self.folder / "snapshots" / commit
        folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            blob = _write(self.folder / "blobs" / name.replace("/", "_"), "x" * 7)
            link = folder / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(blob, link.parent))
        if main:
            _write(self.folder / "refs/main", commit)
        return folder


SPLIT = ("Q8_0/m-Q8_0-00001-of-00003.gguf", "Q8_0/m-Q8_0-00002-of-00003.gguf", "Q8_0/m-Q8_0-00003-of-00003.gguf")


@pytest.mark.parametrize(
    ("quant", "wanted"),
    [
        (":Q4_K_M", "m-Q4_K_M.gguf"),
        (":q4_k_m", "m-Q4_K_M.gguf"),
        ("", "m-Q4_K_M.gguf"),
        (":Q4_K", "m-Q4_K_L.gguf"),
        (":F16", "m-F16.gguf"),
        (":BF16", "m-BF16.gguf"),
        (":UD-Q2_K_XL", "UD-Q2_K_XL/m.gguf"),
        (":Q8_0", SPLIT[0]),
    ],
)
def test_a_quantisation_is_found_by_its_name_in_the_path(host: ScratchHost, quant: str, wanted: str) -> None:
    files = ("README.md", "imatrix-Q4_K_M.gguf", "m-BF16.gguf", "m-F16.gguf", "m-Q4_K_L.gguf", "m-Q4_K_M.gguf", "mmproj-Q4_K_M.gguf")
    folder = HubRepo(host, "org/m-GGUF").snapshot("abc", *files, "UD-Q2_K_XL/m.gguf", *SPLIT)

    told = model(host, f"org/m-GGUF{quant}")

    assert told["MODEL_PATH"] == str(folder / wanted)
    assert told["MODEL_SIZE_BYTES"] == str(7 * (3 if wanted in SPLIT else 1))


def test_without_a_name_and_without_q4_k_m_the_first_file_is_taken(host: ScratchHost) -> None:
    folder = HubRepo(host, "org/m-GGUF").snapshot("abc", "mmproj-F16.gguf", "b.gguf", "c.gguf")

    assert model(host, "org/m-GGUF")["MODEL_PATH"] == str(folder / "b.gguf")


def test_of_several_projectors_the_best_is_named_and_all_are_counted(host: ScratchHost) -> None:
    repo = HubRepo(host, "org/m-GGUF")
    folder = repo.snapshot("abc", "m-Q4_K_M.gguf", "mmproj-BF16.gguf", "mmproj-F32.gguf", "mmproj-F8.gguf")
    found = model(host, "org/m-GGUF")
    assert (found["MMPROJ_PATH"], found["MMPROJ_COUNT"]) == (str(folder / "mmproj-BF16.gguf"), "3")

    repo.snapshot("abc", "mmproj-F16.gguf")
    found = model(host, "org/m-GGUF")
    assert (found["MMPROJ_PATH"], found["MMPROJ_COUNT"]) == (str(folder / "mmproj-F16.gguf"), "4")


def test_a_projector_of_another_kind_is_better_than_none(host: ScratchHost) -> None:
    folder = HubRepo(host, "org/m-GGUF").snapshot("abc", "m-Q4_K_M.gguf", "mmproj-Q8_0.gguf")

    assert model(host, "org/m-GGUF")["MMPROJ_PATH"] == str(folder / "mmproj-Q8_0.gguf")


def test_a_split_file_that_lacks_a_part_is_incomplete(host: ScratchHost) -> None:
    HubRepo(host, "org/m-GGUF").snapshot("abc", SPLIT[0], SPLIT[2])

    assert model(host, "org/m-GGUF:Q8_0")["MODEL_REASON"] == "incomplete in the hub cache: m-Q8_0-00002-of-00003.gguf is missing"


def test_a_split_file_that_lacks_its_first_part_is_incomplete(host: ScratchHost) -> None:
    HubRepo(host, "org/m-GGUF").snapshot("abc", SPLIT[1])

    assert model(host, "org/m-GGUF:Q8_0")["MODEL_REASON"] == "incomplete in the hub cache: m-Q8_0-00001-of-00003.gguf is missing"


def test_a_link_to_a_missing_blob_counts_as_missing(host: ScratchHost) -> None:
    repo = HubRepo(host, "org/m-GGUF")
    repo.snapshot("abc", "m-Q4_K_M.gguf", "mmproj-F16.gguf")
    (repo.folder / "blobs/m-Q4_K_M.gguf").unlink()
    assert model(host, "org/m-GGUF")["MODEL_REASON"] == "incomplete in the hub cache: m-Q4_K_M.gguf is a link to a missing file"

    repo.snapshot("abc", "other.gguf")
    (repo.folder / "blobs/mmproj-F16.gguf").unlink()
    assert model(host, "org/m-GGUF:other")["MMPROJ_COUNT"] == "0"


@pytest.mark.parametrize("name", ["org/m-GGUF:Q2_K", "org/m-GGUF:mmproj"])
def test_a_quantisation_that_is_not_in_the_snapshot_is_told(host: ScratchHost, name: str) -> None:
    HubRepo(host, "org/m-GGUF").snapshot("abc", "m-Q4_K_M.gguf", "mmproj-F16.gguf")

    assert f"no {name.partition(':')[2].upper()} GGUF file in the hub cache" in model(host, name)["MODEL_REASON"]


def test_a_repository_that_holds_only_gguf_files_needs_no_gguf_in_its_name(host: ScratchHost) -> None:
    folder = HubRepo(host, "org/m").snapshot("abc", "config.json", "m.Q4_K_M.gguf")

    assert model(host, "org/m")["MODEL_PATH"] == str(folder / "m.Q4_K_M.gguf")


@pytest.mark.parametrize(("revision", "commit"), [("v1", "def"), ("refs/pr/3", "def"), ("def", "def"), ("main", "abc"), ("", "abc")])
def test_a_revision_is_a_branch_a_tag_or_a_commit(host: ScratchHost, revision: str, commit: str) -> None:
    repo = HubRepo(host, "org/m")
    folders = {name: repo.snapshot(name, "m.safetensors", main=name == "abc") for name in ("abc", "def")}
    for name in ("v1", "refs/pr/3"):
        _write(repo.folder / "refs" / name, "def")
    assert model(host, "org/m", REVISION=revision)["MODEL_PATH"] == str(folders[commit])


@pytest.mark.parametrize("revision", ["v2", "../snapshots/abc", ".", "abc/..", "abc/sub"])
def test_another_revision_does_not_stand_in_for_the_wanted_one(host: ScratchHost, revision: str) -> None:
    repo = HubRepo(host, "org/m")
    repo.snapshot("abc", "m.safetensors", "sub/m.safetensors")
    assert model(host, "org/m", REVISION=revision) == {
        "MODEL_KIND": "hub",
        "MODEL_REASON": f"the hub cache has no snapshot of revision {revision} of it ({repo.folder})",
    }


def test_each_further_model_has_a_revision_of_its_own(host: ScratchHost) -> None:
    for name in ("org/m", "org/draft"):
        repo = HubRepo(host, name)
        repo.snapshot("abc", "m.safetensors")
        repo.snapshot("def", "m.safetensors", main=False)
    ran = host.run("observe", MODEL="org/m", FURTHER=("org/draft\tdef", "org/m\t", "org/m\tv9"))
    told = [(section.text("MODEL"), (section.text("MODEL_PATH") or "")[-3:]) for section in ran.answers.sections("FURTHER")]
    assert told == [("org/draft", "def"), ("org/m", "abc"), ("org/m", "")]


def test_a_whole_snapshot_is_told_by_its_folder(host: ScratchHost) -> None:
    files = [f"model-0000{part}-of-00002.safetensors" for part in (1, 2)]
    folder = HubRepo(host, "org/m").snapshot("abc", "config.json", *files)

    told = model(host, "org/m")

    assert (told["MODEL_KIND"], told["MODEL_PATH"]) == ("hub", str(folder))
    assert int(told["MODEL_SIZE_BYTES"]) >= 21


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (("config.json",), "the hub cache has no weights of it, only other files"),
        (("config.json", "model-00001-of-00002.safetensors"), "incomplete in the hub cache: model-00002-of-00002.safetensors is missing"),
        ((), "the hub cache has no weights of it, only other files"),
    ],
)
def test_a_snapshot_that_is_not_whole_is_told_with_the_reason(host: ScratchHost, files: tuple[str, ...], reason: str) -> None:
    HubRepo(host, "org/m").snapshot("abc", *files)

    told = model(host, "org/m")

    assert told["MODEL_REASON"].startswith(reason)
    assert "MODEL_PATH" not in told


def test_file_names_of_a_repository_are_never_run(host: ScratchHost) -> None:
    names = [f"{trap}-0000{part}-of-00002.{kind}" for trap in ("$(touch pwned)", "`touch pwned`", "a[$(touch pwned)]") for part in (1, 2)
             for kind in ("safetensors", "gguf")]  # fmt: skip
    HubRepo(host, "org/m").snapshot("abc", *names)
    HubRepo(host, "org/m-GGUF").snapshot("abc", *names)

    assert "MODEL_PATH" in model(host, "org/m")
    assert "MODEL_PATH" in model(host, "org/m-GGUF")
    assert list(host.root.rglob("pwned")) == []


def test_the_snapshot_that_main_names_is_taken_else_the_newest(host: ScratchHost) -> None:
    repo = HubRepo(host, "org/m-GGUF")
    main = repo.snapshot("aaa", "m-Q4_K_M.gguf")
    newest = repo.snapshot("bbb", "n-Q4_K_M.gguf", main=False)
    oldest = repo.snapshot("ccc", "o-Q4_K_M.gguf", main=False)
    os.utime(oldest, (1, 1))
    os.utime(main, (2, 2))
    assert model(host, "org/m-GGUF")["MODEL_PATH"] == str(main / "m-Q4_K_M.gguf")

    _write(repo.folder / "refs/main", "ddd")
    assert model(host, "org/m-GGUF")["MODEL_PATH"] == str(newest / "n-Q4_K_M.gguf")


@pytest.mark.parametrize("revision", ["v2", "bbb", "pr/7"])
def test_a_snapshot_is_the_one_of_the_wanted_revision_whatever_main_names(host: ScratchHost, revision: str) -> None:
    repo = HubRepo(host, "org/m")
    repo.snapshot("aaa", "model.safetensors")
    wanted = repo.snapshot("bbb", "model.safetensors", main=False)
    _write(repo.folder / "refs" / "v2", "bbb")
    _write(repo.folder / "refs" / "pr/7", "bbb")

    assert model(host, "org/m", REVISION=revision)["MODEL_PATH"] == str(wanted)
    assert dict(look(host, "FURTHER", FURTHER=(f"org/m\t{revision}",)).pairs)["MODEL_PATH"] == str(wanted)


@pytest.mark.parametrize("revision", ["v3", "../refs", "a b", "bbb/model.safetensors"])
def test_a_revision_that_is_not_here_is_told_though_another_is(host: ScratchHost, revision: str) -> None:
    HubRepo(host, "org/m").snapshot("aaa", "model.safetensors")

    seen = model(host, "org/m", REVISION=revision)

    assert "MODEL_PATH" not in seen
    assert f"no snapshot of revision {revision} of it" in seen["MODEL_REASON"]


def test_a_model_that_was_never_fetched_is_told(host: ScratchHost) -> None:
    assert model(host, "org/m")["MODEL_REASON"] == f"not in the hub cache ({host.home}/.cache/huggingface/hub)"

    HubRepo(host, "org/m").folder.mkdir(parents=True)
    assert "has no snapshot of it" in model(host, "org/m")["MODEL_REASON"]


def test_another_hub_cache_can_be_looked_into(host: ScratchHost) -> None:
    HubRepo(host, "org/m-GGUF").snapshot("abc", "m-Q4_K_M.gguf")
    (host.home / ".cache/huggingface").rename(host.root / "other hf")

    assert "MODEL_PATH" in model(host, "org/m-GGUF", HF_HOME_OVERRIDE=str(host.root / "other hf"))


# --- ports, workloads, docker -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1"])
def test_a_busy_port_is_told_with_who_has_it(host: ScratchHost, address: str) -> None:
    try:
        server = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError:
        pytest.skip(f"this machine has no {address}")
    with server:
        port = server.getsockname()[1]

        section = look(host, "PORTS", PORTS=(str(port),))

    assert section.text(f"PORT_{port}_STATE") == "busy"
    assert section.number(f"PORT_{port}_PID") == os.getpid()
    assert section.number(f"PORT_{port}_SESSION") == os.getsid(0)
    assert section.text(f"PORT_{port}_PROCESS") == Path("/proc/self/comm").read_text().strip()


def test_a_free_port_is_told_even_when_it_ends_a_connection(host: ScratchHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        port = client.getsockname()[1]

        assert look(host, "PORTS", PORTS=(str(port),)).pairs == ((f"PORT_{port}_STATE", "free"),)


@pytest.mark.parametrize("port", ["0", "", "x", "1;2", "-1"])
def test_what_is_no_port_is_refused(host: ScratchHost, port: str) -> None:
    assert host.run("observe", PORTS=("80", port)).returncode == 2


def test_the_workloads_of_the_local_executor_are_told(host: ScratchHost) -> None:
    host.start("one", "exec sleep 600", CLUSTER_ID="c1")
    host.start("two", "exit 4")
    eventually(host.file("two", ".exit").exists)

    ran = host.run("observe")

    told = {(section.text("NAME"), section.text("STATE"), section.text("CLUSTER_ID")) for section in ran.answers.sections("WORKLOAD")}
    assert told == {("one", "running", "c1"), ("two", "exited", "")}
    assert ran.section("WORKLOADS").number("COUNT") == 2


def test_containers_of_ours_are_told_beside_the_processes(dock: DockerHost) -> None:
    dock.started(rank_of())
    dock.host.start("one", "exec sleep 600", CLUSTER_ID="c1")

    ran = dock.host.run("observe")

    told = {(section.text("NAME"), section.text("EXECUTOR"), section.text("STATE")) for section in ran.answers.sections("WORKLOAD")}
    assert told == {("one", None, "running"), (NAME, "docker", "running")}
    docker = ran.section("DOCKER")
    assert [docker.text(key) for key in ("DOCKER_USABLE", "DOCKER_VERSION", "DOCKER_REASON")] == ["1", "28.2.2", None]
    (container,) = [section for section in ran.answers.sections("WORKLOAD") if section.text("EXECUTOR")]
    (status,) = dock.run(EXECUTOR.status_call()).answers.sections("WORKLOAD")
    same = ("NAME", "STATE", "CLUSTER_ID", "LAUNCH", "LABELS", "ALLOCATIONS", "AUTO_REMOVE", "PID", "GATE")
    assert [container.text(key) for key in same] == [status.text(key) for key in same]


@pytest.mark.parametrize(("name", "body"), [("podman", "exit 0"), ("docker", 'exec /usr/bin/podman "$@"')])
def test_podman_is_known_by_its_name_or_by_the_script_that_calls_it(host: ScratchHost, name: str, body: str) -> None:
    host.program(name, body)

    assert look(host, "DOCKER").flag("DOCKER_PODMAN") is True


CDI_DOCKER = """
case $1 in
  info) {info} ;;
  ps) ;;
  version) echo 26.1.5 ;;
esac
"""


@pytest.mark.parametrize(
    ("listed", "info", "told"),
    [
        ("cdiVersion: '0.5.0'\nkind: nvidia.com/gpu\n", "echo /etc/other {folder}", True),
        ("cdiVersion: '0.5.0'\nkind: nvidia.com/gpu\n", "echo", None),
        ("cdiVersion: '0.5.0'\nkind: nvidia.com/gpu\n", "echo 'template: can not evaluate field CDISpecDirs' >&2; exit 1", None),
        ("kind: vendor.com/nic\n", "echo {folder}", None),
        (None, "echo {folder}", None),
    ],
)
def test_a_list_of_devices_counts_where_docker_heeds_it(
    host: ScratchHost, tmp_path: Path, listed: str | None, info: str, told: bool | None
) -> None:
    folder = tmp_path / "cdi"
    folder.mkdir()
    if listed is not None:
        (folder / "nvidia.yaml").write_text(listed)
    host.program("docker", CDI_DOCKER.format(info=info.format(folder=folder)))

    docker = look(host, "DOCKER", CDI_DIRS=(str(tmp_path / "none"), str(folder)))

    assert docker.flag("DOCKER_CDI") is told
    assert docker.flag("DOCKER_GPU_HOOK") is None


def test_nvidias_hook_is_told(host: ScratchHost) -> None:
    host.program("docker", CDI_DOCKER.format(info="exit 1"))
    host.program("nvidia-container-runtime-hook", "exit 0")

    assert look(host, "DOCKER").flag("DOCKER_GPU_HOOK") is True


def test_docker_itself_is_no_podman(dock: DockerHost) -> None:
    assert look(dock.host, "DOCKER").text("DOCKER_PODMAN") is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo 'permission denied while trying to connect' >&2; exit 1", "permission denied while trying to connect"),
        ("exit 125", "docker ps ended with exit code 125"),
        ("exec sleep 600", "docker did not answer within 8 s"),
    ],
)
def test_a_docker_that_cannot_be_used_is_told_with_the_reason(host: ScratchHost, body: str, reason: str) -> None:
    impatient(host)
    host.program("docker", body)

    section = look(host, "DOCKER")

    assert [section.text(key) for key in ("DOCKER_PRESENT", "DOCKER_USABLE", "DOCKER_REASON")] == ["1", "0", reason]


def test_a_docker_whose_list_fails_is_told(host: ScratchHost) -> None:
    host.program("docker", "[[ $1 == version ]] && echo 1.0 || { echo no list >&2; exit 1; }")

    section = look(host, "DOCKER")

    assert (section.text("DOCKER_USABLE"), section.text("DOCKER_REASON")) == ("0", "no list")


# --- the claim of a launch ---------------------------------------------------------------------------------------------------------------


def test_a_host_is_claimed_by_one_session_at_a_time(host: ScratchHost, tmp_path: Path) -> None:
    file = str(tmp_path / "claim")
    first = host.begin("observe", CLAIM="1", CLAIM_FILE=file)
    first.wait_for("CLAIMED=1")
    first.wait_for("LOOKED=1")

    second = host.run("observe", CLAIM="1", CLAIM_FILE=file)
    assert (second.returncode, second.section("CLAIM").text("REASON")) == (1, "busy")
    assert [part.name for part in second.answers.parts] == ["CLAIM"]

    first.process.kill()
    first.process.wait()
    third = host.begin("observe", CLAIM="1", CLAIM_FILE=file)
    third.wait_for("LOOKED=1")
    third.process.kill()


def test_a_claim_can_be_waited_for(host: ScratchHost, tmp_path: Path) -> None:
    file = str(tmp_path / "claim")
    first = host.begin("observe", CLAIM="1", CLAIM_FILE=file)
    first.wait_for("LOOKED=1")
    threading.Timer(0.3, first.process.kill).start()

    second = host.begin("observe", CLAIM="1", CLAIM_FILE=file, CLAIM_WAIT_S="10")
    second.wait_for("LOOKED=1")
    second.process.kill()


def test_a_program_that_hangs_does_not_keep_the_claim(host: ScratchHost, tmp_path: Path) -> None:
    file = str(tmp_path / "claim")
    host.program("nvidia-smi", f"echo x >{tmp_path}/asked; exec sleep 30")
    first = host.begin("observe", CLAIM="1", CLAIM_FILE=file)
    eventually((tmp_path / "asked").exists)
    first.process.kill()
    first.process.wait()

    second = host.begin("observe", CLAIM="1", CLAIM_FILE=file)
    second.wait_for("CLAIMED=1")
    second.process.kill()


def test_a_claim_ends_with_its_lifeline(host: ScratchHost, tmp_path: Path) -> None:
    ended = host.run("observe", CLAIM="1", CLAIM_FILE=str(tmp_path / "claim"), LIFELINE="1")

    assert (ended.returncode, ended.section("HELD").flag("LOOKED")) == (0, True)


def test_without_flock_nothing_is_locked(host: ScratchHost) -> None:
    (host.tools / "flock").unlink()
    ended = host.run("observe", CLAIM="1", LIFELINE="1")

    assert (ended.section("CLAIM").text("LOCK"), ended.section("CLAIM").flag("CLAIMED")) == ("none", True)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _program(path: Path, body: str) -> Path:
    _write(path, f"#!/usr/bin/env bash\n{body}\n").chmod(0o755)
    return path
