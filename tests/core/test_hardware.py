"""What a host is made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.errors import ConfigError
from sparkrun.core.facts import HostFacts
from sparkrun.core.hardware import (
    ASSUMED_DGX_SPARK,
    AcceleratorSpec,
    HostHardware,
    Reading,
    fingerprint_of,
    hardware_mapping,
    known_capabilities,
    known_hardware,
    model_name,
    probed_hardware,
    read_hosts_hardware,
    write_hosts_hardware,
)
from sparkrun.utils.yamlio import dump_yaml, load_yaml
from tests.core.fabric.hosts import spark

SAVED = """\
10.0.0.1:
  accelerators: [{vendor: nvidia, model: gb10, count: 1, memory_gb: 119.7, capabilities: [cuda, unified-memory],
                  max_gpu_memory_utilization: 0.9, compute_capability: "12.1"}]
  source: probed
  fingerprint: 0123456789abcdef
  notes: ""
  driver_versions: {nvidia: "580.95.05"}
"""


@pytest.mark.parametrize(
    ("vendor", "name", "model"),
    [
        ("nvidia", "NVIDIA GB10", "gb10"),
        ("nvidia", "NVIDIA H100 80GB HBM3", "h100-80gb-hbm3"),
        ("nvidia", "NVIDIA GeForce RTX 4090", "geforce-4090"),
        ("nvidia", "Tesla T4", "t4"),
        ("amd", "AMD Instinct MI300X", "mi300x"),
        ("intel", "HL-225", "gaudi2"),
        ("intel", "HL-325L", "gaudi3"),
        ("intel", "Intel HL-999", "hl-999"),
        ("amd", "AMD", "amd"),
    ],
)
def test_names_become_short(vendor: str, name: str, model: str) -> None:
    assert model_name(vendor, name) == model


@pytest.mark.parametrize(
    ("vendor", "model", "tags"),
    [
        ("nvidia", "gb10", ("cuda", "unified-memory")),
        ("nvidia", "h100-80gb-hbm3", ("cuda", "nvlink")),
        ("nvidia", "h100-pcie", ("cuda",)),
        ("amd", "mi300x", ("rocm",)),
        ("amd", "mi300a", ("rocm", "unified-memory")),
        ("intel", "gaudi3", ("hpu",)),
        ("apple", "m4", ("metal", "unified-memory")),
        ("tenstorrent", "n300", ()),
    ],
)
def test_tags_follow_from_vendor_and_model(vendor: str, model: str, tags: tuple[str, ...]) -> None:
    assert known_capabilities(vendor, model) == tags


def test_a_part_without_memory_of_its_own_has_the_hosts() -> None:
    spark_hardware = probed_hardware([Reading(vendor="nvidia", name="NVIDIA GB10", compute_capability="12.1")], host_memory_gb=119.712)
    assert spark_hardware.accelerators == (
        AcceleratorSpec("nvidia", "gb10", 1, 119.7, ("cuda", "unified-memory"), compute_capability="12.1"),
    )
    assert (spark_hardware.source, spark_hardware.assumed) == ("probed", False)


def test_a_part_with_memory_keeps_it() -> None:
    found = probed_hardware([Reading(vendor="nvidia", name="NVIDIA L40S", memory_gb=44.99)], host_memory_gb=500)
    assert found.accelerators[0].memory_gb == 45.0
    assert not found.has("unified-memory")


def test_an_amd_part_of_unknown_memory_does_not_get_the_hosts() -> None:
    assert probed_hardware([Reading(vendor="amd", name="AMD Instinct MI300X")], host_memory_gb=500).accelerators[0].memory_gb is None


def test_neighbours_that_are_alike_become_one_entry() -> None:
    card = Reading(vendor="nvidia", name="NVIDIA L4", memory_gb=22.5)
    other = Reading(vendor="nvidia", name="NVIDIA L40S", memory_gb=44.9)
    found = probed_hardware([card, card, other])
    assert [(spec.model, spec.count) for spec in found.accelerators] == [("l4", 2), ("l40s", 1)]
    assert found.gpu_count == 3
    assert [spec.model if (spec := found.accelerator(index)) else None for index in (-1, 0, 1, 2, 3)] == [None, "l4", "l4", "l40s", None]


def test_a_host_has_the_tags_of_all_its_parts_and_their_names() -> None:
    host = HostHardware(
        (AcceleratorSpec("nvidia", "gb10", capabilities=("cuda",)), AcceleratorSpec("amd", "mi300x", capabilities=("rocm",)))
    )
    assert host.capabilities == ("cuda", "gb10", "rocm", "mi300x")
    assert host.has("gb10")
    assert not host.has("hpu")
    assert host.vendors == ("nvidia", "amd")
    assert host.models == ("gb10", "mi300x")


SPECS = st.builds(
    AcceleratorSpec,
    st.sampled_from(["nvidia", "amd", "intel"]),
    st.sampled_from(["gb10", "h100", "mi300x", "gaudi3"]),
    st.integers(1, 4),
    st.none() | st.floats(1, 300).map(lambda size: round(size, 1)),
    st.lists(st.sampled_from(["cuda", "rocm", "nvlink"]), unique=True).map(tuple),
    st.none() | st.sampled_from([0.5, 0.9]),
    st.none() | st.sampled_from(["9.0", "12.1"]),
)
HARDWARE = st.builds(
    HostHardware,
    st.lists(SPECS, max_size=3).map(tuple),
    source=st.sampled_from(["probed", "user"]),
    fingerprint=st.just("0123456789abcdef"),
    notes=st.sampled_from(["", "two cables"]),
    driver_versions=st.dictionaries(st.sampled_from(["nvidia", "cuda"]), st.sampled_from(["580.95.05", "13.0"])),
)


@given(HARDWARE)
def test_what_is_written_is_read_back_through_yaml(hardware: HostHardware) -> None:
    text = dump_yaml(write_hosts_hardware({"spark-1": hardware}))
    assert read_hosts_hardware(load_yaml(text), "lab.yaml") == {"spark-1": hardware}  # type: ignore[arg-type]


@given(st.lists(SPECS, max_size=3))
def test_the_fingerprint_does_not_depend_on_grouping(specs: list[AcceleratorSpec]) -> None:
    each = [AcceleratorSpec(spec.vendor, spec.model, 1, spec.memory_gb) for spec in specs for _ in range(spec.count)]
    assert fingerprint_of(specs) == fingerprint_of(each)
    assert len(fingerprint_of(specs)) == 16


def test_the_fingerprint_changes_with_model_count_and_memory() -> None:
    prints = {
        fingerprint_of(specs)
        for specs in (
            [],
            [AcceleratorSpec("nvidia", "gb10")],
            [AcceleratorSpec("nvidia", "gb10", 2)],
            [AcceleratorSpec("nvidia", "gb10", 1, 119.7)],
            [AcceleratorSpec("nvidia", "gb20")],
            [AcceleratorSpec("amd", "gb10")],
        )
    }
    assert len(prints) == 6


def test_a_cluster_file_of_an_earlier_version_is_read() -> None:
    found = read_hosts_hardware(load_yaml(SAVED), "lab.yaml")["10.0.0.1"]  # type: ignore[arg-type]
    assert found.accelerators == (AcceleratorSpec("nvidia", "gb10", 1, 119.7, ("cuda", "unified-memory"), 0.9, "12.1"),)
    assert (found.source, found.fingerprint, found.driver_versions) == ("probed", "0123456789abcdef", {"nvidia": "580.95.05"})
    assert not found.assumed


def test_a_number_where_a_text_belongs_is_understood() -> None:
    value = load_yaml("{a: {accelerators: [{vendor: nvidia, model: 4090, compute_capability: 8.9}], driver_versions: {nvidia: 580}}}")
    found = read_hosts_hardware(value, "x")["a"]  # type: ignore[arg-type]
    assert (found.models, found.accelerators[0].compute_capability, found.driver_versions) == (("4090",), "8.9", {"nvidia": "580"})


def test_keys_that_we_do_not_know_are_kept_on_save() -> None:
    saved = {"a": {"rack": 7, "source": "user"}, "b": {"accelerators": []}}
    written = write_hosts_hardware({"a": ASSUMED_DGX_SPARK}, saved)  # type: ignore[arg-type]
    assert written["b"] == {"accelerators": []}
    assert written["a"] == {"rack": 7, **hardware_mapping(ASSUMED_DGX_SPARK)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "lab.yaml: hosts_hardware must be a mapping of hosts"),
        ("{a: 1}", "lab.yaml: hosts_hardware.a must be a mapping"),
        ("{a: {accelerators: gb10}}", "lab.yaml: hosts_hardware.a.accelerators must be a list"),
        ("{a: {accelerators: [gb10]}}", "lab.yaml: hosts_hardware.a.accelerators[0] must be a mapping"),
        ("{a: {accelerators: [{vendor: nvidia}]}}", "lab.yaml: hosts_hardware.a.accelerators[0]: Object missing required field `model`"),
        (
            "{a: {accelerators: [{vendor: x, model: y, count: many}]}}",
            "lab.yaml: hosts_hardware.a.accelerators[0]: Expected `int`, got `str`",
        ),
    ],
)
def test_what_is_not_of_that_shape_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_hosts_hardware(load_yaml(text), "lab.yaml")  # type: ignore[arg-type]
    assert caught.value.message.startswith(message)


def test_no_hardware_saved_is_none() -> None:
    assert read_hosts_hardware(None, "lab.yaml") == {}


def test_a_host_nobody_knows_is_taken_for_a_spark_but_one_without_accelerators_is_not() -> None:
    assert known_hardware(None) is ASSUMED_DGX_SPARK
    assert known_hardware(HostHardware()) == HostHardware()
    assert HostFacts(host="a", assumed=True).believed_hardware is ASSUMED_DGX_SPARK
    assert HostFacts(host="a").believed_hardware == HostHardware()


def test_the_assumed_spark_has_one_gb10_of_121_gib() -> None:
    assert ASSUMED_DGX_SPARK.assumed
    assert (ASSUMED_DGX_SPARK.gpu_count, ASSUMED_DGX_SPARK.accelerators[0].memory_gb) == (1, 121.0)
    assert all(ASSUMED_DGX_SPARK.has(tag) for tag in ("cuda", "gb10", "unified-memory"))


def test_a_hosts_capabilities_are_those_of_its_parts_and_its_network() -> None:
    facts = HostFacts(
        host="a", hardware=probed_hardware([Reading(vendor="nvidia", name="GB10")]), fabric=spark({"enp1s0f0np0": "192.168.11.1/24"})
    )
    assert facts.capabilities == ("cuda", "unified-memory", "gb10", "rdma:roce-v2")


def test_what_is_unknown_is_not_written() -> None:
    written = hardware_mapping(HostHardware((AcceleratorSpec("amd", "mi300x"),)))
    assert written["accelerators"] == [{"vendor": "amd", "model": "mi300x", "count": 1, "capabilities": []}]
