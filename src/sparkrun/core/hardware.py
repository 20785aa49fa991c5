"""What a host is made of, as far as anyone knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import cast

import msgspec

from sparkrun.core.errors import ConfigError
from sparkrun.core.values import ConfigValue

PROBED = "probed"
ASSUMED = "assumed"

_BRAND_WORDS = frozenset({"nvidia", "tesla", "rtx", "amd", "instinct", "radeon", "intel", "habana"})
_VENDOR_TAGS = {"nvidia": "cuda", "amd": "rocm", "intel": "hpu", "apple": "metal"}
UNIFIED = "unified-memory"
"""The tag of an accelerator that shares its memory with the processor."""
_UNIFIED_MODELS = frozenset({"gb10", "thor", "orin", "mi300a"})
_NVLINK_WORDS = frozenset(
    {"sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "nvl", "hbm3", "hbm3e", "h200", "b200", "b300", "gb200", "gb300", "gh200"}
)
# What hl-smi prints for the cards: HL-2xx are Gaudi 2, HL-3xx are Gaudi 3 (docs.habana.ai, system management interface tool).
_GAUDI_CARDS = {"hl-20": "gaudi", "hl-22": "gaudi2", "hl-28": "gaudi2", "hl-32": "gaudi3", "hl-33": "gaudi3", "hl-38": "gaudi3"}


class DeviceAccess(msgspec.Struct, frozen=True):
    """How the accelerators of a vendor come into a container: device files, groups, and the variable that narrows down which are seen."""

    visibility_variable: str
    nodes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """Those that have one name everywhere; another may have any number (that of /dev/kfd)."""

    def visible(self, indices: Sequence[int]) -> dict[str, str]:
        """What lets an engine see only these accelerators of its host; nothing when none is named."""
        return {self.visibility_variable: ",".join(map(str, indices))} if indices else {}


DEVICE_ACCESS: dict[str, DeviceAccess] = {
    "nvidia": DeviceAccess("CUDA_VISIBLE_DEVICES"),
    "amd": DeviceAccess("ROCR_VISIBLE_DEVICES", ("/dev/kfd", "/dev/dri"), ("video",)),
    "intel": DeviceAccess("HABANA_VISIBLE_MODULES", ("/dev/accel",)),
}
"""By vendor. NVIDIA's container toolkit brings its own device files. AMD: rocm.docs.amd.com, "Running ROCm Docker containers" and
"GPU isolation techniques". Intel: docs.habana.ai, "Multiple Workloads on a Single Docker"."""


class AcceleratorSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """``count`` equal accelerators of one model; ``memory_gb`` is GiB of one of them, ``None`` when unknown.

    ``max_gpu_memory_utilization`` is a fraction of that memory that launches may use, over every other cap.
    """

    vendor: str
    model: str
    count: int = 1
    memory_gb: float | None = None
    capabilities: tuple[str, ...] = ()
    max_gpu_memory_utilization: float | None = None
    compute_capability: str | None = None


class HostHardware(msgspec.Struct, frozen=True, omit_defaults=True):
    """The accelerators of a host, in the order of their index.

    ``source`` says who knows: ``probed``, ``assumed``, or what the cluster file says.
    """

    accelerators: tuple[AcceleratorSpec, ...] = ()
    assumed: bool = False
    source: str = ""
    fingerprint: str = ""
    notes: str = ""
    driver_versions: dict[str, str] = {}

    @property
    def gpu_count(self) -> int:
        """How many accelerators the host has."""
        return sum(spec.count for spec in self.accelerators)

    @property
    def vendor(self) -> str | None:
        """The vendor of the first accelerator."""
        return self.accelerators[0].vendor if self.accelerators else None

    @property
    def vendors(self) -> tuple[str, ...]:
        """Every vendor, in order of first sight."""
        return tuple(dict.fromkeys(spec.vendor for spec in self.accelerators))

    @property
    def models(self) -> tuple[str, ...]:
        """Every model, in order of first sight."""
        return tuple(dict.fromkeys(spec.model for spec in self.accelerators))

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Every capability tag of any accelerator; a model's name is one (``gb10``)."""
        tags = (tag for spec in self.accelerators for tag in (*spec.capabilities, spec.model))
        return tuple(dict.fromkeys(tags))

    def has(self, capability: str) -> bool:
        """Whether any accelerator has the tag, or is of that model."""
        return capability in self.capabilities

    def accelerator(self, index: int) -> AcceleratorSpec | None:
        """The accelerator of an index on the host, ``None`` when there is none."""
        each = [spec for spec in self.accelerators for _ in range(spec.count)]
        return each[index] if 0 <= index < len(each) else None


ASSUMED_DGX_SPARK = HostHardware(
    (AcceleratorSpec("nvidia", "gb10", 1, 121.0, ("cuda", "unified-memory", "rdma:roce-v2"), compute_capability="12.1"),),
    assumed=True,
    source=ASSUMED,
)
"""What a host is taken for when nobody knows better: one GB10 with the 121 GiB that such a host reports at most."""


def known_hardware(hardware: HostHardware | None) -> HostHardware:
    """``hardware``, or a DGX Spark where nothing is known of the host. A host seen without accelerators stays one without."""
    return ASSUMED_DGX_SPARK if hardware is None else hardware


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One accelerator as its vendor's tool names it. Memory is GiB, ``None`` where the tool says ``[N/A]``."""

    vendor: str
    name: str
    memory_gb: float | None = None
    compute_capability: str | None = None


def probed_hardware(
    readings: Iterable[Reading], *, host_memory_gb: float | None = None, driver_versions: Mapping[str, str] | None = None
) -> HostHardware:
    """A host as a probe found it; neighbours that are alike become one spec. ``host_memory_gb`` (GiB) is what unified parts share."""
    specs = tuple(_grouped(_spec(reading, host_memory_gb) for reading in readings))
    return HostHardware(specs, source=PROBED, fingerprint=fingerprint_of(specs), driver_versions=dict(driver_versions or {}))


def model_name(vendor: str, name: str) -> str:
    """A tool's name of a part as a short one: ``NVIDIA GB10`` is ``gb10``, ``Instinct MI300X`` is ``mi300x``, ``HL-325L`` is ``gaudi3``."""
    short = "-".join(word for word in name.lower().split() if word not in _BRAND_WORDS)
    if vendor == "intel":
        short = next((model for card, model in _GAUDI_CARDS.items() if short.startswith(card)), short)
    return short or vendor


def known_capabilities(vendor: str, model: str, *, unified: bool = False) -> tuple[str, ...]:
    """The tags that follow from vendor and model: ``cuda``, ``rocm``, ``hpu``, ``metal``, ``unified-memory``, ``nvlink``."""
    tags = [_VENDOR_TAGS[vendor]] if vendor in _VENDOR_TAGS else []
    if unified or vendor == "apple" or model in _UNIFIED_MODELS:
        tags.append(UNIFIED)
    if vendor == "nvidia" and _NVLINK_WORDS & set(model.split("-")):
        tags.append("nvlink")
    return tuple(tags)


def fingerprint_of(accelerators: Iterable[AcceleratorSpec]) -> str:
    """16 hex digits that change when the parts of a host do, however they are grouped: SHA-256 over vendor, model and memory of each."""
    import hashlib  # loads slowly, and most commands only read fingerprints

    lines = (f"{spec.vendor}:{spec.model}:{_memory_text(spec.memory_gb)}\n" * spec.count for spec in accelerators)
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def read_hosts_hardware(value: ConfigValue, where: str) -> dict[str, HostHardware]:
    """The ``hosts_hardware`` of a cluster file. ``where`` names the file. Raises ``ConfigError`` for what is not that shape."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: hosts_hardware must be a mapping of hosts")
    return {host: _hardware(entry, f"{where}: hosts_hardware.{host}") for host, entry in value.items()}


def write_hosts_hardware(known: Mapping[str, HostHardware], saved: ConfigValue = None) -> dict[str, ConfigValue]:
    """``saved`` with the given hosts renewed; other hosts, and keys that we do not read, stay as they are."""
    old = saved if isinstance(saved, dict) else {}
    return {**old, **{host: {**_mapping(old.get(host)), **hardware_mapping(hardware)} for host, hardware in known.items()}}


def hardware_mapping(hardware: HostHardware) -> dict[str, ConfigValue]:
    """One host's entry of ``hosts_hardware``."""
    entry: dict[str, ConfigValue] = {"accelerators": [_spec_mapping(spec) for spec in hardware.accelerators]}
    entry["source"] = hardware.source or PROBED
    entry["fingerprint"] = hardware.fingerprint or fingerprint_of(hardware.accelerators)
    entry["notes"] = hardware.notes
    entry["driver_versions"] = dict(hardware.driver_versions)
    return entry


def _spec(reading: Reading, host_memory_gb: float | None) -> AcceleratorSpec:
    model = model_name(reading.vendor, reading.name)
    # nvidia-smi prints [N/A] for memory where the GPU has none of its own.
    unified = model in _UNIFIED_MODELS or (reading.vendor == "nvidia" and reading.memory_gb is None)
    memory_gb = reading.memory_gb if reading.memory_gb or not unified else host_memory_gb
    return AcceleratorSpec(
        reading.vendor,
        model,
        memory_gb=None if memory_gb is None else round(memory_gb, 1),
        capabilities=known_capabilities(reading.vendor, model, unified=unified),
        compute_capability=reading.compute_capability,
    )


def _grouped(specs: Iterable[AcceleratorSpec]) -> Iterator[AcceleratorSpec]:
    for spec, alike in groupby(specs):
        yield msgspec.structs.replace(spec, count=sum(each.count for each in alike))


def _memory_text(memory_gb: float | None) -> str:
    return "?" if memory_gb is None else f"{memory_gb:.1f}"


def _hardware(value: ConfigValue, where: str) -> HostHardware:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a mapping")
    specs = value.get("accelerators") or []
    if not isinstance(specs, list):
        raise ConfigError(f"{where}.accelerators must be a list")
    versions = _mapping(value.get("driver_versions"))
    return HostHardware(
        tuple(_read_spec(spec, f"{where}.accelerators[{index}]") for index, spec in enumerate(specs)),
        source=_text(value.get("source")) or "saved",
        fingerprint=_text(value.get("fingerprint")) or "",
        notes=_text(value.get("notes")) or "",
        driver_versions={name: str(version) for name, version in versions.items()},
    )


def _read_spec(value: ConfigValue, where: str) -> AcceleratorSpec:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a mapping")
    # A capability such as 12.1 without quotes is a number to YAML.
    texts = {key: _text(value[key]) for key in ("vendor", "model", "compute_capability") if value.get(key) is not None}
    others = {key: value[key] for key in ("count", "memory_gb", "capabilities", "max_gpu_memory_utilization") if value.get(key) is not None}
    try:
        return msgspec.convert({**others, **texts}, AcceleratorSpec)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}", hint="let sparkrun write it: sparkrun cluster update NAME --infer-hardware") from None


def _spec_mapping(spec: AcceleratorSpec) -> dict[str, ConfigValue]:
    entry: dict[str, ConfigValue] = {"vendor": spec.vendor, "model": spec.model, "count": spec.count}
    entry |= {"memory_gb": spec.memory_gb} if spec.memory_gb is not None else {}
    entry["capabilities"] = list(spec.capabilities)
    if spec.max_gpu_memory_utilization is not None:
        entry["max_gpu_memory_utilization"] = spec.max_gpu_memory_utilization
    return entry if spec.compute_capability is None else {**entry, "compute_capability": spec.compute_capability}


def _mapping(value: ConfigValue) -> dict[str, ConfigValue]:
    return value if isinstance(value, dict) else {}


def _text(value: ConfigValue) -> str | None:
    return None if value is None or isinstance(value, list | dict) else str(cast("str | float", value))
