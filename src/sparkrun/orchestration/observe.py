"""Looking at hosts: one script, one round trip a host, all hosts at once; the answers as typed facts."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from sparkrun.core.fabric import parse_fabric
from sparkrun.core.facts import DockerFacts, HostFacts, ImageFacts, ModelFacts, PortFacts, Unreachable, WorkloadFacts
from sparkrun.core.hardware import HostHardware, Reading, probed_hardware
from sparkrun.core.placement import ALLOCATIONS_LABEL
from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall
from sparkrun.orchestration.apply import failure_hint, failure_text
from sparkrun.orchestration.claims import Claims
from sparkrun.utils.jsonio import read_json
from sparkrun.utils.shell import Section, parse_answers

OBSERVE_TIMEOUT_S = 20
CONNECT_TIMEOUT_S = 3
"""A host that does not let us in by then is off: nobody waits longer for it."""
KIB = 1024
LOCAL = "local"
"""The executor whose processes the look at a host finds."""


class Wanted(NamedTuple):
    """A model to look for. ``revision`` is a branch, tag or commit of the hub; empty for the main one."""

    model: str
    revision: str = ""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for besides the host itself."""

    model: str = ""
    revision: str = ""
    """Branch, tag or commit of a model of a hub; empty for the main one."""
    further: tuple[Wanted, ...] = ()
    """Models that are wanted beside it."""
    engine: str = ""
    ports: tuple[int, ...] = ()
    images: tuple[str, ...] = ()
    tuning: str = ""
    """The engine whose tuning configs count, as registries call it."""
    hf_home: str = ""
    """Where hosts keep models, when it is not for them to say."""


def observe_hosts(
    hosts: Iterable[str], question: Question, runner: HostRunner, claims: Claims | None = None
) -> tuple[HostFacts | Unreachable, ...]:
    """Facts of each host in the given order; a host that did not answer is ``Unreachable`` and delays no other.

    With ``claims`` the hosts are claimed before they are looked at, in the same session. What runs there by any executor is seen.
    """
    calls = [(host, _patient(_call(host, question, runner))) for host in hosts]
    results = claims.take(calls, timeout_s=OBSERVE_TIMEOUT_S) if claims else runner.run_all(calls, timeout_s=OBSERVE_TIMEOUT_S)
    return tuple(_facts(result, question) for result in results)


def _patient(call: ScriptCall) -> ScriptCall:
    return msgspec.structs.replace(call, connect_timeout_s=CONNECT_TIMEOUT_S)


def unreachable_of(result: RemoteResult) -> Unreachable:
    """A host that could not be asked, and why."""
    return Unreachable(result.host, failure_text(result), failure_hint(result))


def silence_of(result: RemoteResult, told: str) -> Unreachable:
    """A host whose script failed, or ended before all that it ``told`` had come."""
    return Unreachable(result.host, f"{told} was cut off") if result.ok else unreachable_of(result)


def observe_here(question: Question, runner: HostRunner) -> HostFacts | Unreachable:
    """Facts of the control machine itself."""
    return _facts(runner.run_here(_look(question, sys.executable), timeout_s=OBSERVE_TIMEOUT_S), question)


def _call(host: str, question: Question, runner: HostRunner) -> ScriptCall:
    # This interpreter exists on this machine only.
    return _look(question, sys.executable if runner.is_local(host) else "")


def _look(question: Question, python: str) -> ScriptCall:
    return ScriptCall(
        "observe",
        {
            "PORTS": tuple(str(port) for port in question.ports),
            "IMAGES": question.images,
            "MODEL": question.model,
            "REVISION": question.revision,
            "FURTHER": tuple("\t".join(filter(None, wanted)) for wanted in question.further),
            "ENGINE": question.engine,
            "PYTHON": python,
            "TUNING": question.tuning,
            "HF_HOME_OVERRIDE": question.hf_home,
        },
    )


def _facts(result: RemoteResult, question: Question) -> HostFacts | Unreachable:
    if not result.ok:
        return unreachable_of(result)
    answers = parse_answers(result.stdout)
    if not answers.section("HOST").complete:
        return Unreachable(result.host, "the look at the host was cut off")
    host, engine = answers.section("HOST"), answers.section("ENGINE")
    return HostFacts(
        host=result.host,
        hostname=host.text("HOSTNAME") or "",
        user=host.text("USER") or "",
        home=host.text("HOME") or "",
        arch=host.text("ARCH") or "",
        cpus=host.number("CPUS") or 0,
        memory_total_bytes=host.kib("MEM_TOTAL_KIB"),
        memory_available_bytes=host.kib("MEM_AVAILABLE_KIB"),
        cache_dir=host.text("SPARKRUN_CACHE") or "",
        cache_writable=host.text("SPARKRUN_CACHE_WRITABLE") != "0",
        hf_cache=host.text("HF_CACHE") or "",
        hf_hub=host.text("HF_HUB_CACHE") or "",
        hf_free_bytes=host.kib("HF_CACHE_FREE_KIB"),
        hf_cache_id=host.text("HF_CACHE_ID") or "",
        hardware=_hardware(answers.section("ACCEL"), host),
        fabric=parse_fabric(answers.section("FABRIC")),
        docker=_docker(answers.section("DOCKER")),
        engine_path=engine.text("ENGINE_PATH") or None,
        embedded_python=engine.text("EMBEDDED_PYTHON") or None,
        model=_model(answers.section("MODEL")),
        further={section.text("MODEL") or "": _model(section) for section in answers.sections("FURTHER")},
        tuning=dict(_tuning_file(line) for line in answers.section("TUNING").all("FILE")),
        ports=_ports(answers.section("PORTS"), question.ports),
        workloads=tuple(_workload(result.host, section.text("EXECUTOR") or LOCAL, section) for section in answers.sections("WORKLOAD")),
    )


def _hardware(section: Section, host: Section) -> HostHardware:
    readings = [_nvidia(section, index) for index in range(section.number("NVIDIA_GPU_COUNT") or 0)]
    readings += [
        Reading(vendor="amd", name=section.text(f"AMD_GPU_{index}_NAME") or "amd") for index in range(section.number("AMD_GPU_COUNT") or 0)
    ]
    readings += [
        Reading(vendor="intel", name=section.text("INTEL_GAUDI_NAME") or "gaudi") for _ in range(section.number("INTEL_GAUDI_COUNT") or 0)
    ]
    drivers = {"nvidia": version} if (version := section.text("NVIDIA_DRIVER_VERSION")) else {}
    memory_kib = host.number("MEM_TOTAL_KIB")
    return probed_hardware(readings, host_memory_gb=memory_kib / KIB**2 if memory_kib else None, driver_versions=drivers)


def _nvidia(section: Section, index: int) -> Reading:
    memory = section.number(f"NVIDIA_GPU_{index}_MEMORY_MIB")
    return Reading(
        vendor="nvidia",
        name=section.text(f"NVIDIA_GPU_{index}_NAME") or "unknown",
        memory_gb=memory / KIB if memory else None,
        compute_capability=section.text(f"NVIDIA_GPU_{index}_COMPUTE_CAP"),
    )


def _docker(section: Section) -> DockerFacts:
    return DockerFacts(
        present=section.flag("DOCKER_PRESENT") is True,
        usable=section.flag("DOCKER_USABLE") is True,
        version=section.text("DOCKER_VERSION"),
        podman=section.flag("DOCKER_PODMAN") is True,
        cdi=section.flag("DOCKER_CDI") is True,
        gpu_hook=section.flag("DOCKER_GPU_HOOK") is True,
        reason=section.text("DOCKER_REASON"),
        images={**dict.fromkeys(section.all("IMAGE_MISSING")), **dict(_image(line) for line in section.all("IMAGE_HERE"))},
    )


def _image(line: str) -> tuple[str, ImageFacts]:
    name, made, arch, size, *_rest = (*line.split(), "", "", "", "")
    return name, ImageFacts(made, arch, int(size) if size.isdecimal() else None)


def _tuning_file(line: str) -> tuple[str, str]:
    sha256, _blank, name = line.partition(" ")
    return name, sha256


def _model(section: Section) -> ModelFacts:
    return ModelFacts(
        kind=section.text("MODEL_KIND") or "none",
        path=section.text("MODEL_PATH") or None,
        size_bytes=section.number("MODEL_SIZE_BYTES"),
        reason=section.text("MODEL_REASON") or None,
        mmproj=section.text("MMPROJ_PATH") or None,
        mmproj_count=section.number("MMPROJ_COUNT") or 0,
        attention_heads=section.number("MODEL_ATTENTION_HEADS"),
        kv_heads=section.number("MODEL_KV_HEADS"),
        config=section.text("MODEL_CONFIG") or "",
        quant_config=section.text("MODEL_QUANT_CONFIG") or "",
        weight_bytes=section.number("MODEL_WEIGHT_BYTES"),
        gguf_head=_bytes(section.text("MODEL_GGUF_HEAD") or ""),
    )


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _ports(section: Section, ports: Iterable[int]) -> dict[int, PortFacts]:
    return {
        port: PortFacts(
            busy=section.text(f"PORT_{port}_STATE") == "busy",
            pid=section.number(f"PORT_{port}_PID"),
            process=section.text(f"PORT_{port}_PROCESS") or None,
        )
        for port in ports
    }


def workloads_of(result: RemoteResult, executor: str) -> tuple[WorkloadFacts, ...]:
    """What the status script of an executor told of one host."""
    return tuple(_workload(result.host, executor, section) for section in parse_answers(result.stdout).sections("WORKLOAD"))


def _workload(host: str, executor: str, section: Section) -> WorkloadFacts:
    labels = _labels(section.text("LABELS"))
    if allocations := section.text("ALLOCATIONS"):
        labels[ALLOCATIONS_LABEL] = allocations
    port_state = section.text("PORT_STATE")
    return WorkloadFacts(
        host=host,
        name=section.text("NAME") or "",
        cluster_id=section.text("CLUSTER_ID") or "",
        state=section.text("STATE") or "stale",
        executor=executor,
        pid=section.number("PID"),
        exit_code=section.number("EXIT_CODE"),
        started_at=section.text("STARTED_AT") or None,
        uptime_s=section.number("UPTIME_S"),
        owner=section.text("OWNER") or "sparkrun",
        labels=labels,
        auto_remove=section.text("AUTO_REMOVE") == "true",
        log_file=section.text("LOG_FILE") or None,
        port_open=None if not port_state else port_state == "listening",
        health=section.number("HEALTH"),
        memory_bytes=section.kib("RSS_KIB"),
    )


def _labels(text: str | None) -> dict[str, str | int | float | bool | None]:
    try:
        return read_json(text or "{}", dict[str, str | int | float | bool | None])
    except msgspec.DecodeError:
        return {}
