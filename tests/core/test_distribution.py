"""What is brought to which host, and how; what cannot be brought."""

from __future__ import annotations

import msgspec
import pytest

from sparkrun.core.distribution import Need, Source, facts_after, plan_distribution
from sparkrun.core.facts import DockerFacts, HostFacts, ImageFacts, ModelFacts
from sparkrun.core.model_source import parse_model

IMAGE = "ghcr.io/org/engine:1"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
HERE_HUB = "/home/me/.cache/huggingface/hub"
GB = 10**9


def host(name: str, **fields: object) -> HostFacts:
    settings = {"arch": "aarch64", "hf_hub": f"/srv/{name}/hub", "docker": DockerFacts(True, True, images={IMAGE: None}), **fields}
    return HostFacts(host=name, **settings)  # type: ignore[arg-type]


FACTS = {name: host(name) for name in ("a", "b")}


def here(*, arch: str = "arm64", model: str = "") -> HostFacts:
    path = f"{HERE_HUB}/models--org--m/snapshots/{COMMIT}{model}" if model is not None else None
    docker = DockerFacts(True, True, images={IMAGE: ImageFacts("sha256:1", arch, 4_200_000_000)})
    return HostFacts(host="localhost", hf_hub=HERE_HUB, docker=docker, model=ModelFacts("hub", path, 8 * GB))


def source(text: str = "org/m", **fields: object) -> Source:
    return Source(model=parse_model(text), **fields)  # type: ignore[arg-type]


def image(name: str) -> Need:
    return Need(host=name, kind="image", what=IMAGE)


def model(name: str, *, required: bool = True) -> Need:
    return Need(host=name, kind="model", what="org/m", required=required)


def test_an_image_that_this_machine_has_is_sent_once_to_all_who_lack_it() -> None:
    (transfer,) = plan_distribution((image("a"), image("b")), FACTS, source(here=here())).transfers

    assert (transfer.title, transfer.way, transfer.size_bytes) == (f"image {IMAGE} to a, b (save | load, 4.2 GB)", "load", 4_200_000_000)
    assert {action.call.feed for action in transfer.actions} == {("docker", "save", "--", IMAGE)}
    assert [(action.host, action.call.name) for action in transfer.actions] == [("a", "docker_load"), ("b", "docker_load")]


@pytest.mark.parametrize("given", [source(), source(here=here(arch="amd64"))], ids=["not here", "for another processor"])
def test_an_image_that_this_machine_has_not_is_pulled_on_the_host(given: Source) -> None:
    (transfer,) = plan_distribution((image("b"),), FACTS, given).transfers

    assert (transfer.title, transfer.way, transfer.actions[0].call.name) == (f"image {IMAGE} on b (docker pull)", "pull", "docker_pull")


def test_offline_an_image_that_nobody_has_is_a_gap_with_the_way_out() -> None:
    found = plan_distribution((image("b"),), FACTS, source(offline=True, here=here(arch="amd64")))

    assert found.transfers == ()
    assert [(gap.text, gap.hint) for gap in found.gaps] == [
        (
            f"b: image {IMAGE} is not there: offline, and this machine's copy is for amd64",
            f"fetch it there while there is a network: docker pull {IMAGE}",
        )
    ]


def test_a_model_of_this_machine_goes_into_each_hosts_own_cache_and_counts_when_it_is_whole() -> None:
    (transfer,) = plan_distribution((model("a"), model("b")), FACTS, source(here=here(), model_bytes=8_100_000_000)).transfers

    assert transfer.title == "model org/m to a, b (copy of this machine's, 8.1 GB)"
    assert [action.call.params["HUB"] for action in transfer.actions] == ["/srv/a/hub", "/srv/b/hub"]
    assert {action.call.feed[:3] + action.call.feed[-1:] for action in transfer.actions} == {("tar", "-C", HERE_HUB, "models--org--m")}
    assert [(action.host, action.call.name) for action in transfer.finish] == [("a", "hub_keep"), ("b", "hub_keep")]


def test_a_model_that_this_machine_has_not_is_fetched_on_the_host_with_the_token_as_a_secret() -> None:
    given = source("org/m:Q4_0", image_for={"a": IMAGE}, revision="v1", token="hf_x")
    (transfer,) = plan_distribution((model("a"),), FACTS, given).transfers

    call = transfer.actions[0].call
    assert (call.name, call.params["REVISION"], call.params["IMAGE"]) == ("hub_download", "v1", IMAGE)
    assert call.params["PATTERNS"] == ("*Q4_0*", "*q4_0*", "*mmproj*", "*.json")
    assert (call.secrets, "hf_x" in str(call.params)) == ({"TOKEN": "hf_x"}, False)


def test_a_model_that_the_engine_fetches_itself_is_only_copied() -> None:
    need = (model("a", required=False),)

    assert plan_distribution(need, FACTS, source()).transfers == ()
    assert plan_distribution(need, FACTS, source(offline=True)).gaps == ()
    assert [transfer.way for transfer in plan_distribution(need, FACTS, source(here=here())).transfers] == ["copy"]


def test_what_is_this_machine_itself_is_never_copied_to() -> None:
    given = source(here=here(), own=frozenset({"a"}))

    assert [transfer.way for transfer in plan_distribution((image("a"), model("a")), FACTS, given).transfers] == ["pull", "download"]


def test_a_copy_without_room_for_it_is_a_gap_with_both_numbers() -> None:
    tight = {"a": msgspec.structs.replace(FACTS["a"], hf_free_bytes=3 * GB), "b": FACTS["b"]}
    found = plan_distribution((model("a"), model("b")), tight, source(here=here(), model_bytes=8 * GB))

    assert [gap.text for gap in found.gaps] == ["a: model org/m is not there: it needs 8.0 GB, 3.0 GB are free at /srv/a/hub"]
    assert [transfer.hosts for transfer in found.transfers] == [("b",)]


def test_images_come_before_models_that_may_be_fetched_with_them() -> None:
    found = plan_distribution((image("a"), model("a")), FACTS, source())

    assert [transfer.kind for transfer in found.transfers] == ["image", "model"]


def test_after_a_copy_the_model_has_the_same_name_below_the_hosts_own_hub() -> None:
    given = source(here=here(model="/m.gguf"))
    found = plan_distribution((model("a"),), FACTS, given)

    after = facts_after(found, FACTS, given)

    assert after["a"].model.path == f"/srv/a/hub/models--org--m/snapshots/{COMMIT}/m.gguf"
    assert after["b"] is FACTS["b"]
