"""What the eugr builder decides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.builders import BuildWish, ImageDecision
from sparkrun.builders.eugr import EugrBuilder
from sparkrun.builders.eugr_stages import STAGES, stage_of, way_out
from sparkrun.core.errors import ConfigError, SparkrunError
from sparkrun.core.facts import DockerFacts, HostFacts, ImageFacts

EUGR = EugrBuilder()
NIGHTLY = "ghcr.io/spark-arena/dgx-vllm-eugr-nightly"
PR = ("--apply-vllm-pr", "41703")


def host(*images: str, name: str = "spark-1", assumed: bool = False) -> HostFacts:
    return HostFacts(host=name, assumed=assumed, docker=DockerFacts(True, True, images={image: ImageFacts("sha256:1") for image in images}))


def decided(image: str, *args: str, here: HostFacts | None = None, **fields: object) -> ImageDecision:
    return EUGR.plan_build(BuildWish(image=image, args=args, **fields), [here or host()])  # type: ignore[arg-type]


def test_a_sentinel_that_the_head_has_is_used_as_it_is() -> None:
    found = decided("vllm-node", here=host("vllm-node"))

    assert (found.image, found.build, found.warnings) == ("vllm-node", None, ())
    assert found.notes == ("vllm-node is on spark-1 and is used as it is",)


@pytest.mark.parametrize(
    ("image", "args", "published"),
    [
        ("vllm-node", (), f"{NIGHTLY}:latest"),
        ("vllm-node-tf5", (), f"{NIGHTLY}-tf5:latest"),
        ("vllm-node-tf5", ("--tf5",), f"{NIGHTLY}-tf5:latest"),
        ("vllm-node", ("--pre-tf",), f"{NIGHTLY}-tf5:latest"),
        ("vllm-node-b12x", ("--exp-b12x",), f"{NIGHTLY}-b12x:latest"),
    ],
)
def test_one_that_it_lacks_is_replaced_by_the_published_image_of_its_variant(image: str, args: tuple[str, ...], published: str) -> None:
    found = decided(image, *args)

    assert (found.image, found.build, found.gap, found.warnings) == (published, None, None, ())
    assert found.notes == (f"{published} takes the place of {image}: spark-1 has no image of that name",)


def test_a_variant_that_nobody_publishes_is_told() -> None:
    found = decided("vllm-node-odd")

    assert found.image == f"{NIGHTLY}:latest"
    assert found.warnings == (f"nothing is published under the name vllm-node-odd: {NIGHTLY}:latest is the plain image",)


@pytest.mark.parametrize(
    ("options", "published"),
    [
        ({"image_prefix": "my.registry/vllm"}, "my.registry/vllm:latest"),
        ({"transformers": "t5"}, f"{NIGHTLY}-tf5:latest"),
        ({"transformers": 5, "image_prefix": "r/v"}, "r/v-tf5:latest"),
        ({"transformers": "t4"}, f"{NIGHTLY}:latest"),
    ],
)
def test_options_say_where_published_images_are(options: dict[str, object], published: str) -> None:
    assert decided("vllm-node", options=options).image == published


def test_arguments_that_nothing_published_meets_are_built_on_the_head() -> None:
    found = decided("vllm-node", *PR)

    assert found.build is not None
    (action,) = found.build.actions
    assert (action.host, action.call.name, action.call.params["ARGS"]) == ("spark-1", "eugr_build", PR)
    assert action.call.params["IMAGE"] == found.image == found.build.image
    assert action.call.params["REPO"] == "https://github.com/eugr/spark-vllm-docker.git"
    assert found.image.startswith("vllm-node:sparkrun-")
    assert found.build.why == "build_args --apply-vllm-pr 41703"
    assert found.build.title == f"build {found.image} on spark-1 (./build-and-copy.sh -t {found.image} --apply-vllm-pr 41703)"


def test_what_was_built_before_is_not_built_again() -> None:
    tag = decided("vllm-node", *PR).image
    found = decided("vllm-node", *PR, here=host(tag))

    assert (found.image, found.build) == (tag, None)
    assert found.notes == (f"{tag} was built before, of the same source and arguments: spark-1 has it",)
    elsewhere = EUGR.plan_build(BuildWish(image="vllm-node", args=PR), [host(), host(tag, name="spark-2")])
    assert (elsewhere.image, elsewhere.build) == (tag, None)


def test_rebuild_builds_what_is_there() -> None:
    tag = decided("vllm-node", *PR).image
    found = decided("vllm-node", *PR, here=host(tag), rebuild=True)

    assert found.build is not None
    assert (found.image, found.build.why, found.build.actions[0].call.params["REBUILD"]) == (tag, "--rebuild", "1")


def test_a_name_that_tells_one_build_from_others_is_reused_and_a_plain_one_is_not() -> None:
    mine = decided("vllm-nvfp4-k64", *PR, here=host("vllm-nvfp4-k64"))
    plain = decided("vllm-node", *PR, here=host("vllm-node"))

    assert (mine.image, mine.build) == ("vllm-nvfp4-k64", None)
    assert plain.build is not None
    assert decided("vllm-nvfp4-k64", "--tf5").build is not None


def test_with_sentinels_off_a_missing_one_is_built() -> None:
    off = {"use_sentinel_image": "no"}

    found = decided("vllm-node", options=off)
    assert found.build is not None
    assert found.build.why == "use_sentinel_image is off"
    assert decided("vllm-node", options=off, here=host("vllm-node")).image == "vllm-node"


def test_rebuild_of_a_plain_sentinel_fetches_the_published_image_anew_on_every_host() -> None:
    hosts = [host("vllm-node"), host(name="spark-2")]
    found = EUGR.plan_build(BuildWish(image="vllm-node", rebuild=True), hosts)

    assert found.build is not None
    assert (found.image, found.build.hosts) == (f"{NIGHTLY}:latest", ("spark-1", "spark-2"))
    assert [action.call.name for action in found.build.actions] == ["docker_pull", "docker_pull"]


def test_an_image_of_a_registry_is_left_alone() -> None:
    assert decided(f"{NIGHTLY}:latest") == ImageDecision(image=f"{NIGHTLY}:latest")


def test_a_local_build_that_nothing_says_how_to_make_is_told() -> None:
    found = decided("vllm-mine:1")

    assert (found.image, found.build) == ("vllm-mine:1", None)
    assert found.warnings == ("vllm-mine:1 is not on spark-1; it is a local build, and nothing says how to make it (build_args)",)


def test_offline_nothing_is_built_and_the_gap_is_told() -> None:
    found = decided("vllm-node", *PR, offline=True)

    assert found.build is None
    assert found.gap is not None
    assert found.gap.text == f"spark-1: image {found.image} is not there: it has to be built, and offline nothing is"
    assert decided("vllm-node", offline=True, rebuild=True, here=host("vllm-node")).image == "vllm-node"


def test_of_a_host_that_nobody_looked_at_the_image_is_assumed_and_said() -> None:
    nobody = host(assumed=True)

    assert decided("vllm-node", here=nobody).image == "vllm-node"
    assert "where it is not, ghcr.io/spark-arena" in decided("vllm-node", here=nobody).notes[0]
    custom = decided("vllm-node", *PR, here=nobody)
    assert (custom.build, "where it is not, it is built there: ./build-and-copy.sh -t" in custom.notes[0]) == (None, True)


def test_the_head_decides_for_all() -> None:
    found = EUGR.plan_build(BuildWish(image="vllm-node"), [host(), host("vllm-node", name="spark-2")])

    assert found.image == f"{NIGHTLY}:latest"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"use_sentinel_image": "maybe"}, "options of the builder eugr"),
        ({"repo": "/etc"}, "is not an address of a git repository"),
        ({"repo": "https://u:secret@host/x.git"}, "holds a password"),
        ({"ref": "--upload-pack=x"}, "is no branch, tag or commit"),
        ({"ref": [1]}, "options of the builder eugr"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(SparkrunError, match=message):
        decided("vllm-node", *PR, options=options)


def test_a_program_of_ones_own_can_be_the_smoke_test_or_none() -> None:
    for value, words in ((False, ()), ("print('sparkrun-smoke-ok')", ("python3", "-c", "print('sparkrun-smoke-ok')"))):
        build = decided("vllm-node", *PR, options={"smoke_test": value}).build
        assert build is not None
        assert build.actions[0].call.params["SMOKE"] == words
    with pytest.raises(ConfigError):
        decided("vllm-node", *PR, options={"smoke_test": 7})


WORDS = st.lists(st.sampled_from(["--apply-vllm-pr", "1", "2", "--rebuild-vllm", "--tf5"]), max_size=4).map(tuple)


@given(one=WORDS, other=WORDS, images=st.tuples(st.sampled_from(["vllm-node", "vllm-x:1"]), st.sampled_from(["vllm-node", "vllm-x:1"])))
def test_builds_share_a_name_only_when_source_arguments_and_image_are_the_same(
    one: tuple[str, ...], other: tuple[str, ...], images: tuple[str, str]
) -> None:
    tags = [EUGR.candidates(BuildWish(image=image, args=args))[-1] for image, args in zip(images, (one, other), strict=True)]

    assert (tags[0] == tags[1]) == ((images[0], one) == (images[1], other))
    again = EUGR.candidates(BuildWish(image=images[0], args=one, options={"ref": "v1"}))[-1]
    assert again != tags[0]


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("Force downloading vllm wheels from release 'x'...", "download wheels"),
        ("#12 [runner 3/9] RUN apt-get update", "docker build"),
        ("Step 3/10 : RUN true", "docker build"),
        ("#30 exporting to image", "export"),
        ("Successfully tagged x:1", "export"),
        ("hello", None),
    ],
)
def test_stages_are_told_from_what_is_printed(line: str, stage: str | None) -> None:
    assert stage_of(line) == stage


@pytest.mark.parametrize(
    ("stage", "said", "way"),
    [
        ("docker build", "write /x: no space left on device", "make room"),
        ("clone", "fatal: Could not resolve host: github.com", "--image"),
        ("docker build", "c++: fatal error: Killed signal terminated program", "--build-jobs"),
        ("smoke test", "ModuleNotFoundError", "is not used"),
    ],
)
def test_a_failure_has_a_way_out_of_its_own(stage: str, said: str, way: str) -> None:
    assert way in str(way_out(stage, said))
    assert all(way_out(each, "") for each in STAGES)
