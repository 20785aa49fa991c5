"""What is brought to which host, and how; what cannot be brought."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from sparkrun.containers.images import is_mutable
from sparkrun.containers.layers import ImageStock, StockedImage
from sparkrun.core.distribution import facts_after, record_failures
from sparkrun.core.fabric import FabricFacts, FabricPort, Interface, InterfaceAddress
from sparkrun.core.facts import DockerFacts, HostFacts, ImageFacts, ModelFacts
from sparkrun.core.item_view import REGISTRY, Attempt, Rules
from sparkrun.core.model_source import parse_model
from sparkrun.core.needs import Item, Need
from sparkrun.core.plan import Transfer
from sparkrun.core.routes import Link
from sparkrun.core.sources import HERE, Stocks, addresses_between
from sparkrun.core.ways import Distribution, plan_distribution
from sparkrun.models.files import HubFile, HubStock
from sparkrun.orchestration.distribution import Failure

IMAGE = "ghcr.io/org/engine:1"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
HERE_HUB = "/home/me/.cache/huggingface/hub"
GB = 10**9
ROOM = 100 * GB
LAYERS = ("sha256:l1", "sha256:l2", "sha256:l3")
STOCKED = StockedImage("sha256:1", 4_200_000_000, frozenset({"sha256:d"}), LAYERS, (3 * GB, GB, 200_000_000))
WEIGHTS = HubFile("model.safetensors", 8 * GB, "w" * 64)
FILES = (HubFile("config.json", 700, "c" * 40), WEIGHTS)
MODEL = Item("model", "org/m", parse_model("org/m"))


def host(name: str, *, image: bool = False, model: bool = False, arch: str = "aarch64") -> HostFacts:
    path = f"/srv/{name}/hub/models--org--m/snapshots/{COMMIT}" if model else None
    docker = DockerFacts(True, True, images={IMAGE: ImageFacts("sha256:1", "arm64") if image else None})
    return HostFacts(host=name, arch=arch, hf_hub=f"/srv/{name}/hub", docker=docker, model=ModelFacts("hub", path))


def this_machine(*, arch: str = "arm64", model: bool = True) -> HostFacts:
    path = f"{HERE_HUB}/models--org--m/snapshots/{COMMIT}" if model else None
    docker = DockerFacts(True, True, images={IMAGE: ImageFacts("sha256:1", arch, STOCKED.size_bytes)})
    return HostFacts(host="localhost", hf_hub=HERE_HUB, docker=docker, model=ModelFacts("hub", path))


def mesh(*names: str) -> tuple[Link, ...]:
    return tuple(Link(one, other, "fabric", ("ssh", other)) for one in names for other in names if one != other)


def stocks(facts: Mapping[str, HostFacts], here: HostFacts | None = None, **changes: object) -> Stocks:
    """What there is where the facts say that it is there."""
    machines = {**facts, **({HERE: here} if here else {})}
    fields: dict[str, object] = {
        "here": here,
        "images": {
            name: ImageStock("overlay2", "/docker", ROOM, {IMAGE: STOCKED} if seen.docker.images.get(IMAGE) else {}, ())
            for name, seen in machines.items()
        },
        "models": {
            (name, "org/m"): HubStock(ROOM, {"main": COMMIT}, {COMMIT: FILES}, {file.key: file.size for file in FILES})
            if seen.model.path
            else HubStock(ROOM)
            for name, seen in machines.items()
        },
        **changes,
    }
    return Stocks(**fields)  # type: ignore[arg-type]


def need(name: str, kind: str = "image", *, required: bool = True) -> Need:
    return Need(host=name, item=Item("image", IMAGE) if kind == "image" else MODEL, required=required)


def bring(needs: list[Need], facts: list[HostFacts], found: Stocks | None = None, **rules: object) -> Distribution:
    by_name = {seen.host: seen for seen in facts}
    given = Rules(**{"head": facts[0].host, **rules})  # type: ignore[arg-type]
    return plan_distribution(needs, by_name, found or stocks(by_name), given)


def only(found: Distribution) -> Transfer:
    (transfer,) = found.transfers
    return transfer


def path_of(transfer: Transfer) -> list[tuple[str, ...]]:
    return [branch.hosts for branch in transfer.branches]


# --- from where, and along which way --------------------------------------------------------------------------------------------------


def test_what_a_host_has_is_handed_on_from_it_in_one_chain() -> None:
    facts = [host("a", image=True), host("b"), host("c")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b", "c"))

    transfer = only(bring([need("b"), need("c")], facts, found))

    assert (transfer.title, transfer.source) == (f"image {IMAGE} from a to b > c (save | load, 4.2 GB)", "a")
    assert (path_of(transfer), transfer.why) == ([("a", "b", "c")], "a has it; handed on over the fabric")
    assert transfer.account == "a has it; handed on over the fabric; 4.2 GB to each"
    assert [(action.host, action.call.name) for action in transfer.flows[0].actions] == [("b", "docker_load"), ("c", "docker_load")]


def test_docker_has_time_to_write_an_image_aside_before_its_first_byte_comes() -> None:
    facts = [host("a", image=True), host("b")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b"))

    assert only(bring([need("b")], facts, found, idle_s=5)).idle_s == 120 + 42


def test_what_only_this_machine_has_goes_to_one_host_which_hands_it_on() -> None:
    facts = [host("a"), host("b")]
    found = stocks({seen.host: seen for seen in facts}, this_machine(), links=mesh("a", "b"))

    transfer = only(bring([need("a"), need("b")], facts, found))

    assert (transfer.source, path_of(transfer)) == ("", [("a", "b")])
    assert transfer.flows[0].feed == f"exec docker save -- {IMAGE}"


@pytest.mark.parametrize(("mode", "ways"), [("local", [("a",), ("b",)]), ("push", [("a", "b")])])
def test_a_mode_says_whether_hosts_hand_on_what_this_machine_sends(mode: str, ways: list[tuple[str, ...]]) -> None:
    facts = [host("a"), host("b")]
    found = stocks({seen.host: seen for seen in facts}, this_machine(), links=mesh("a", "b"))

    transfer = only(bring([need("a"), need("b")], facts, found, mode=mode))

    assert path_of(transfer) == ways
    assert transfer.why.startswith(f"transfer mode {mode}; this machine has it")


@pytest.mark.parametrize(
    ("mode", "holds", "why"),
    [
        ("auto", False, "nobody here has it; then handed on to c"),
        ("auto", True, "a has it, but cannot hand it on; then handed on to c"),
        ("pull", True, "transfer mode pull"),
        ("push", True, "transfer mode push; this machine does not have it; then handed on to b, c"),
    ],
)
def test_what_is_fetched_says_who_does_not_have_it(mode: str, holds: bool, why: str) -> None:
    facts = [host("a", model=holds), host("b"), host("c")]
    found = stocks({seen.host: seen for seen in facts}, this_machine(model=False), links=mesh("b", "c"))

    transfer = only(bring([need("b", "model"), need("c", "model")], facts, found, mode=mode, head="b"))

    assert (transfer.way, transfer.why) == ("download", why)


def test_a_mode_that_is_this_machines_part_needs_its_docker() -> None:
    facts = [host("a", image=True), host("b")]
    here = msgspec.structs.replace(this_machine(), docker=DockerFacts(False, False))
    found = stocks({seen.host: seen for seen in facts}, here, links=mesh("a", "b"))

    transfer = only(bring([need("b")], facts, found, mode="push"))

    assert transfer.source == "a"
    assert transfer.why.startswith("transfer mode auto in place of push: this machine has no docker; a has it")


def test_hosts_that_do_not_reach_each_other_each_get_it_from_this_machine() -> None:
    facts = [host("a"), host("b")]

    transfer = only(bring([need("a"), need("b")], facts, stocks({seen.host: seen for seen in facts}, this_machine())))

    assert path_of(transfer) == [("a",), ("b",)]


def test_hosts_that_a_chain_leaves_out_get_it_from_its_hosts_afterwards() -> None:
    facts = [host("a", image=True), host("b"), host("c")]
    star = (Link("a", "b", "fabric", ()), Link("a", "c", "fabric", ()))

    transfer = only(bring([need("b"), need("c")], facts, stocks({seen.host: seen for seen in facts}, links=star)))

    assert (transfer.hosts, transfer.onward) == (("b",), ("c",))


def test_what_nobody_has_is_fetched_by_the_head_for_all() -> None:
    facts = [host("a"), host("b"), host("c")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b", "c"))

    transfer = only(bring([need("c"), need("b"), need("a")], facts, found))

    assert (transfer.title, transfer.onward) == (f"image {IMAGE} on a (docker pull)", ("c", "b"))
    assert transfer.why == "nobody here has it; then handed on to c, b"


def test_hosts_apart_each_fetch_what_nobody_has() -> None:
    facts = [host("a"), host("b")]

    assert only(bring([need("a"), need("b")], facts)).hosts == ("a", "b")


def test_when_the_hosts_cannot_fetch_it_this_machine_does_for_them() -> None:
    facts = [host("a"), host("b")]
    found = stocks({seen.host: seen for seen in facts}, this_machine(arch="amd64"), links=mesh("a", "b"))
    tried = {Attempt(REGISTRY, "a", IMAGE): "no network", Attempt(REGISTRY, "b", IMAGE): "no network"}

    assert only(bring([need("a"), need("b")], facts, found, failed=tried)).hosts == ("",)
    assert bring([need("a"), need("b")], facts, found, failed=tried, mode="delegated").transfers == ()


def test_an_image_for_another_processor_is_of_no_use() -> None:
    facts = [host("a")]

    assert only(bring([need("a")], facts, stocks({"a": facts[0]}, this_machine(arch="amd64")))).way == "pull"


def test_what_is_this_machine_itself_is_never_copied_to() -> None:
    facts = [host("a")]
    found = stocks({"a": facts[0]}, own=frozenset({"a"}))

    assert [transfer.way for transfer in bring([need("a"), need("a", "model")], facts, found).transfers] == ["pull", "download"]


def test_a_link_that_broke_is_not_tried_again() -> None:
    facts = [host("a", image=True), host("b"), host("c")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b", "c"))

    transfer = only(bring([need("b"), need("c")], facts, found, failed={Attempt("a", "b"): "cut off"}))

    assert path_of(transfer) == [("a", "c", "b")]


def test_with_a_cache_that_all_share_one_copy_is_made() -> None:
    facts = [host("a"), host("b")]

    assert only(bring([need("a", "model"), need("b", "model")], facts, copied_once=True)).hosts == ("a",)


def test_hosts_that_mount_the_same_cache_get_one_copy() -> None:
    facts = [msgspec.structs.replace(host(name), hf_cache_id=f"net:nfs4:nas:/hf:{inode}") for name, inode in (("a", 7), ("b", 7), ("c", 8))]

    assert only(bring([need(name, "model") for name in "abc"], facts)).hosts == ("a", "c")


# --- images ---------------------------------------------------------------------------------------------------------------------------


def with_held(held: tuple[str, ...], store: str = "overlay2") -> ImageStock:
    return ImageStock(store, "/docker", ROOM, {}, (held,))


def test_layers_that_every_target_has_stay_behind() -> None:
    facts = [host("a", image=True), host("b"), host("c")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b", "c"))
    found.images.update(b=with_held(LAYERS), c=with_held((*LAYERS[:2], "sha256:other")))

    transfer = only(bring([need("b"), need("c")], facts, found))

    assert transfer.title == f"image {IMAGE} from a to b > c (save | load, 1 of 3 layers, 200 MB)"
    assert "blobs/sha256/l2" in transfer.flows[0].feed
    assert "blobs/sha256/l3" not in transfer.flows[0].feed


@pytest.mark.parametrize("store", ["containerd", ""])
def test_a_store_that_wants_whole_archives_gets_them(store: str) -> None:
    facts = [host("a", image=True), host("b")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b"))
    found.images["b"] = with_held(LAYERS, store)

    assert only(bring([need("b")], facts, found)).size_bytes == STOCKED.size_bytes


def test_after_a_docker_that_refused_a_part_the_whole_goes() -> None:
    facts = [host("a", image=True), host("b")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b"))
    found.images["b"] = with_held(LAYERS[:1])

    assert only(bring([need("b")], facts, found, failed={Attempt("a", "", IMAGE): "wants all"})).size_bytes == STOCKED.size_bytes


@pytest.mark.parametrize(
    "same",
    [
        StockedImage("sha256:1"),
        StockedImage("sha256:2", digests=frozenset({"sha256:d", "sha256:e"})),
        StockedImage("sha256:2", layers=LAYERS),
    ],
    ids=["id", "digest", "layers"],
)
def test_an_image_that_is_the_same_by_any_name_is_not_sent(same: StockedImage) -> None:
    facts = [host("a", image=True), host("b", image=True)]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b"))
    found.images["b"] = ImageStock("overlay2", "/docker", ROOM, {IMAGE: same})

    assert bring([need("b", required=False)], facts, found) == Distribution()


def test_docker_needs_room_for_the_archive_and_for_the_layers() -> None:
    facts = [host("a", image=True), host("b")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b"))
    found.images["b"] = ImageStock("overlay2", "/docker", 5 * GB)

    told = bring([need("b")], facts, found)

    assert told.transfers == ()
    assert [gap.text for gap in told.gaps] == [f"b: image {IMAGE} is not there: it needs 8.4 GB, 5.0 GB are free at /docker"]


def test_a_host_that_can_do_without_and_has_no_room_keeps_nothing_from_the_others() -> None:
    facts = [host("a", image=True), host("b"), host("c")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b", "c"))
    found.images["b"] = ImageStock("overlay2", "/docker", 5 * GB)

    told = bring([need("b", required=False), need("c")], facts, found)

    assert [transfer.hosts for transfer in told.transfers] == [("c",)]
    assert (told.gaps, [gap.host for gap in told.left_out]) == ((), ["b"])
    assert only(bring([need("c")], facts, found)) == told.transfers[0]


# --- models ---------------------------------------------------------------------------------------------------------------------------


def test_a_model_goes_into_each_hosts_own_cache_and_counts_when_it_is_whole() -> None:
    facts = [host("a"), host("b")]
    found = stocks({seen.host: seen for seen in facts}, this_machine(), links=mesh("a", "b"))

    transfer = only(bring([need("a", "model"), need("b", "model")], facts, found))

    assert transfer.title == "model org/m to a > b (2 files, 8.0 GB)"
    assert [action.call.params["HUB"] for action in transfer.flows[0].actions] == ["/srv/a/hub", "/srv/b/hub"]
    assert transfer.flows[0].feed.startswith(f"cd -- {HERE_HUB}/models--org--m || exit\n")
    assert [(action.host, action.call.name, action.call.params["REFS"]) for action in transfer.finish] == [
        ("a", "hub_keep", ("main",)),
        ("b", "hub_keep", ("main",)),
    ]


def test_a_transfer_goes_on_where_an_earlier_one_broke_off() -> None:
    facts = [host("a", model=True), host("b")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b"))
    found.models["b", "org/m"] = HubStock(ROOM, blobs={"c" * 40: 700}, parts={"w" * 64: 5 * GB})

    transfer = only(bring([need("b", "model")], facts, found))

    assert (transfer.size_bytes, transfer.bytes_by_host) == (3 * GB, {"b": 3 * GB})
    assert transfer.account == "a has it; handed on over the fabric; 3.0 GB to b"
    assert f"skip={5 * GB} count={3 * GB}" in transfer.flows[0].feed


def test_a_model_without_room_for_it_is_a_gap_with_both_numbers() -> None:
    facts = [host("a", model=True), host("b")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b"))
    found.models["b", "org/m"] = HubStock(3 * GB)

    told = bring([need("b", "model")], facts, found)

    assert [gap.text for gap in told.gaps] == ["b: model org/m is not there: it needs 8.0 GB, 3.0 GB are free at /srv/b/hub"]


def test_a_model_that_nobody_has_is_fetched_with_the_token_as_a_secret() -> None:
    transfer = only(bring([need("a", "model")], [host("a")], image_for={"a": IMAGE}, token="hf_x"))

    call = transfer.actions[0].call
    assert (call.name, call.params["IMAGE"], call.secrets, "hf_x" in str(call.params)) == ("hub_download", IMAGE, {"TOKEN": "hf_x"}, False)


def test_a_model_that_the_engine_fetches_itself_is_only_copied() -> None:
    optional = [need("a", "model", required=False)]

    assert bring(optional, [host("a")]) == Distribution()
    assert bring(optional, [host("a")], offline=True) == Distribution()
    assert only(bring(optional, [host("a")], stocks({"a": host("a")}, this_machine()))).optional


def test_after_a_copy_the_model_has_the_same_name_below_the_hosts_own_hub() -> None:
    facts = {"a": host("a"), "b": host("b")}
    found = stocks(facts, this_machine())

    after = facts_after(bring([need("a", "model")], list(facts.values()), found).transfers, facts, found)

    assert after["a"].model.path == f"/srv/a/hub/models--org--m/snapshots/{COMMIT}"
    assert after["b"] is facts["b"]


# --- what cannot be brought, and how long it takes ------------------------------------------------------------------------------------


def test_offline_what_nobody_has_is_a_gap_with_the_way_out() -> None:
    told = bring([need("a")], [host("a")], stocks({"a": host("a")}, this_machine(arch="amd64")), offline=True)

    assert told.transfers == ()
    assert [(gap.text, gap.hint) for gap in told.gaps] == [
        (
            f"a: image {IMAGE} is not there: offline, and this machine's copy is for amd64",
            f"fetch it there while there is a network: docker pull {IMAGE}",
        )
    ]


def test_offline_hosts_still_hand_on_what_one_of_them_has() -> None:
    facts = [host("a", image=True), host("b")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b"))

    assert only(bring([need("b")], facts, found, offline=True)).source == "a"


def networked(name: str, address: str, gbps: float = 200) -> HostFacts:
    port = FabricPort(hca="h0", state="ACTIVE", netdev="f0", addresses=(InterfaceAddress(f"192.168.177.{address}", 24),), speed_gbps=gbps)
    mgmt = Interface(name="m0", addresses=(InterfaceAddress(f"10.0.0.{address}", 24),), speed_gbps=10)
    fabric = FabricFacts(observed=True, ports=(port,), interfaces=(mgmt,), route_interface="m0")
    return HostFacts(host=name, fabric=fabric, docker=DockerFacts(True, True, images={IMAGE: None}))


def test_hosts_are_reached_on_the_fabric_first_unless_told_otherwise() -> None:
    one, other = networked("a", "11"), networked("b", "12")

    assert addresses_between(one, other, "auto") == (("fabric", "192.168.177.12"), ("mgmt", "10.0.0.12"))
    assert addresses_between(one, other, "mgmt") == (("mgmt", "10.0.0.12"),)
    assert addresses_between(one, HostFacts(host="me@c:2222"), "auto") == (("mgmt", "c"),)


@pytest.mark.parametrize(("gbps", "seconds"), [(200, 4.2), (1, 4.2 * 8 / 0.9)])
def test_the_time_is_told_from_the_slowest_of_link_and_cipher(gbps: float, seconds: float) -> None:
    facts = {"a": networked("a", "11", gbps), "b": networked("b", "12")}
    found = stocks(facts, links=mesh("a", "b"))
    found.images["a"] = ImageStock("overlay2", "/docker", ROOM, {IMAGE: STOCKED})

    transfer = only(bring([need("b")], list(facts.values()), found))

    assert transfer.estimate_s == pytest.approx(seconds)
    assert transfer.account.endswith(f"; 4.2 GB to b; about {round(seconds)} s")


def test_a_name_that_may_mean_a_newer_image_is_looked_up_once_before_anything_is_handed_on() -> None:
    facts = [host("a", image=True), host("b")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b"))
    fresh = Need(host="a", item=Item("image", IMAGE), required=False, refresh=True)

    look = only(bring([fresh, need("b")], facts, found))
    after = only(bring([fresh, need("b")], facts, found, failed={Attempt(REGISTRY, "", IMAGE): ""}))

    assert (look.way, look.hosts, look.optional, look.refresh) == ("pull", ("a",), True, True)
    assert (after.way, after.hosts) == ("load", ("b",))
    assert only(bring([fresh, need("b")], facts, found, offline=True)).way == "load"


@pytest.mark.parametrize(
    ("image", "mutable"),
    [
        ("ghcr.io/org/engine:latest", True),
        ("ghcr.io/org/engine", True),
        ("localhost:5000/engine", True),
        ("ghcr.io/org/engine:1", False),
        ("vllm-node", False),
        ("vllm-node:latest", False),
        ("org/engine@sha256:abc", False),
    ],
)
def test_only_a_name_that_a_registry_may_change_is_looked_up(image: str, mutable: bool) -> None:
    assert is_mutable(image) is mutable


def test_an_entry_of_a_recipe_chooses_files_wherever_they_come_from() -> None:
    item = Item("model", "org/m", parse_model("org/m"), allow=("*.json", "*.safetensors"), ignore=("config*",))
    facts = [host("a", model=True), host("b"), host("c")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b", "c"))

    copied = only(bring([Need(host="b", item=item)], facts, found))
    fetched = only(bring([Need(host="b", item=item)], facts[1:]))

    assert [entry.split()[0] for entry in copied.flows[0].actions[0].call.params["ENTRIES"]] == ["w" * 64]
    assert (fetched.actions[0].call.params["PATTERNS"], fetched.actions[0].call.params["EXCLUDED"]) == (item.allow, item.ignore)


def test_a_host_whose_blobs_are_all_there_only_lacks_their_names() -> None:
    facts = [host("a", model=True), host("b")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b"))
    found.models["b", "org/m"] = HubStock(ROOM, blobs={file.key: file.size for file in FILES})

    transfer = only(bring([need("b", "model")], facts, found))

    assert (transfer.flows, transfer.hosts, transfer.size_bytes) == ((), ("b",), 0)


# --- what has failed ------------------------------------------------------------------------------------------------------------------


def test_a_copy_of_which_all_bytes_were_there_fails_as_one_from_its_source() -> None:
    failed: dict[Attempt, str] = {}
    transfer = Transfer(title="t", kind="model", what="org/m", way="copy", source="a")

    record_failures([Failure(transfer=transfer, host="b", reason="no")], failed)

    assert failed == {Attempt("a", "b", "org/m"): "no"}


def test_a_host_that_lacks_it_gives_it_to_none() -> None:
    facts = [host("a", model=True), host("b", model=True), host("c")]
    found = stocks({seen.host: seen for seen in facts}, links=mesh("a", "b", "c"))

    transfer = only(bring([need("a", "model"), need("c", "model")], facts, found))

    assert (transfer.source, transfer.hosts) == ("b", ("a", "c"))


def test_hosts_of_a_later_round_are_named_in_the_plan() -> None:
    facts = [host("a", model=True), host("b"), host("c")]
    links = (*mesh("a", "b"), Link("b", "c", "mgmt", ("ssh", "c")))

    transfer = only(bring([need("b", "model"), need("c", "model")], facts, stocks({seen.host: seen for seen in facts}, links=links)))

    assert (transfer.hosts, transfer.onward) == (("b",), ("c",))
    assert transfer.why.endswith("; then handed on to c")
