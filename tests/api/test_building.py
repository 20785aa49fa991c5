"""A launch whose image is built, replaced or fetched anew, and a build without a launch."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sparkrun import api
from sparkrun.cli.plan_text import plan_text, preparation_text
from sparkrun.core.config import Settings
from sparkrun.core.events import Note, Phase, Step, Warn
from sparkrun.core.pending_ops import pending_ops
from sparkrun.testing import FakeCluster
from sparkrun.utils.yamlio import dump_yaml
from tests.registry_tree import put_registry

NIGHTLY = "ghcr.io/spark-arena/dgx-vllm-eugr-nightly:latest"
PLAIN = "model: org/m\nruntime: vllm\nbuilder: eugr\ncontainer: vllm-node\ndefaults: {port: 8000, tensor_parallel: 1}\n"
CUSTOM = PLAIN + "build_args: [--apply-vllm-pr, '41703']\n"


@pytest.fixture
def spark(tmp_path: Path) -> FakeCluster:
    """Two hosts with a model and no image of their own."""
    cluster = FakeCluster("spark-1", "spark-2", root=tmp_path)
    cluster.join()
    for host in cluster.by_name.values():
        host.gpus = 1
        host.models["org/m"] = "/hub/m"
        host.docker.lacks.add("vllm-node")
        host.reaches = {"spark-1", "spark-2"} - {host.name}
    return cluster


def options(tmp_path: Path, text: str = CUSTOM, *hosts: str, **changes: object) -> api.RunOptions:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(text)
    return api.RunOptions(recipe=str(recipe), hosts=api.HostOptions(hosts=hosts or ("spark-1",)), **changes)  # type: ignore[arg-type]


def lack_builds(cluster: FakeCluster, wanted: api.RunOptions) -> str:
    """No host has the image that a build would make; its name."""
    image = api.plan(msgspec.structs.replace(wanted, probe=True), sctx=cluster.sctx).image
    assert image is not None
    for host in cluster.by_name.values():
        host.docker.lacks.add(image)
    return image


def configure(tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / ".config/sparkrun/config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump_yaml(settings))


def phase(cluster: FakeCluster, number: int) -> Phase:
    return next(event for event in cluster.events if isinstance(event, Phase) and event.number == number)


def test_an_image_is_built_on_the_head_before_the_launch_and_the_plan_says_so(spark: FakeCluster, tmp_path: Path) -> None:
    wanted = options(tmp_path)
    image = lack_builds(spark, wanted)
    spark.events.clear()

    plan = api.plan(msgspec.structs.replace(wanted, probe=True), sctx=spark.sctx)
    assert spark["spark-1"].docker.builds == []
    result = api.run(wanted, sctx=spark.sctx)

    assert result.ready
    assert spark["spark-1"].docker.builds == [action.call for build in plan.builds for action in build.actions]
    (container,) = spark["spark-1"].docker.containers.values()
    assert container.image == image == plan.image
    assert (plan.transfers, plan.gaps) == ((), ())
    assert phase(spark, 2).skipped is None
    assert any(isinstance(event, Step) and event.title == plan.builds[0].title for event in spark.events)
    assert f"Build 1/1: {plan.builds[0].title}; why: build_args --apply-vllm-pr 41703" in plan_text(plan)
    assert plan.public()["builds"][0]["actions"][0]["call"]["params"]["ARGS"] == ("--apply-vllm-pr", "41703")


def test_the_stages_of_a_build_are_told_once_each(spark: FakeCluster, tmp_path: Path) -> None:
    wanted = options(tmp_path)
    lack_builds(spark, wanted)
    spark["spark-1"].docker.build_log = ["downloading wheels", "downloading more wheels", "#1 [base] FROM x", "#9 exporting to image"]

    api.run(wanted, sctx=spark.sctx)

    told = [event.text for event in spark.events if isinstance(event, Note) and event.text.startswith("spark-1: ")]
    assert told == ["spark-1: clone (1/5)", "spark-1: docker build (3/5)", "spark-1: download wheels (2/5)", "spark-1: export (4/5)"]


def test_a_build_at_work_is_told_to_other_commands(spark: FakeCluster, tmp_path: Path) -> None:
    wanted = options(tmp_path)
    image = lack_builds(spark, wanted)
    told: list[tuple[str, tuple[str, ...]]] = []
    spark["spark-1"].on("eugr_build", lambda: told.extend((op.what, op.hosts) for op in pending_ops(spark.sctx.config.paths)))

    api.run(wanted, sctx=spark.sctx)

    assert told == [(image, ("spark-1",))]
    assert pending_ops(spark.sctx.config.paths) == ()


def test_nothing_is_built_twice(spark: FakeCluster, tmp_path: Path) -> None:
    wanted = options(tmp_path)
    lack_builds(spark, wanted)
    first = api.run(wanted, sctx=spark.sctx)
    api.stop(first.cluster_id, api.HostOptions(hosts=("spark-1",)), sctx=spark.sctx)
    spark.events.clear()

    api.run(wanted, sctx=spark.sctx)

    assert len(spark["spark-1"].docker.builds) == 1
    assert phase(spark, 2).skipped == "nothing to build"


def test_rebuild_builds_once_although_the_hosts_are_looked_at_again(spark: FakeCluster, tmp_path: Path) -> None:
    api.run(options(tmp_path, rebuild=True), sctx=spark.sctx)

    (call,) = spark["spark-1"].docker.builds
    assert call.params["REBUILD"] == "1"


def test_a_sentinel_is_replaced_by_the_published_image_which_is_pulled(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].docker.lacks.add(NIGHTLY)

    api.run(options(tmp_path, PLAIN), sctx=spark.sctx)

    (container,) = spark["spark-1"].docker.containers.values()
    assert container.image == NIGHTLY
    assert {call.params["IMAGE"] for call in spark["spark-1"].ran if call.name == "docker_pull"} == {NIGHTLY}
    assert phase(spark, 2).skipped == "nothing to build"
    assert Note(f"{NIGHTLY} takes the place of vllm-node: spark-1 has no image of that name") in spark.events


def test_a_forced_pull_keeps_the_image_it_decided_for(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].docker.lacks.clear()

    api.run(options(tmp_path, PLAIN, rebuild=True), sctx=spark.sctx)

    (container,) = spark["spark-1"].docker.containers.values()
    assert container.image == NIGHTLY
    assert [call.name for call in spark["spark-1"].ran].count("docker_pull") == 1


def test_the_default_builder_does_nothing_until_it_is_told_to_rebuild(spark: FakeCluster, tmp_path: Path) -> None:
    text = PLAIN.replace("builder: eugr\ncontainer: vllm-node", "container: org/e:1")
    first = api.run(options(tmp_path, text), sctx=spark.sctx)
    assert phase(spark, 2).skipped == "no builder"
    api.stop(first.cluster_id, api.HostOptions(hosts=("spark-1",)), sctx=spark.sctx)

    api.run(options(tmp_path, text, rebuild=True), sctx=spark.sctx)

    assert [call.params["IMAGE"] for call in spark["spark-1"].ran if call.name == "docker_pull"] == ["org/e:1"]


def test_rebuild_can_be_a_setting_and_the_command_line_beats_it(spark: FakeCluster, tmp_path: Path) -> None:
    text = PLAIN.replace("builder: eugr\ncontainer: vllm-node", "container: org/e:1\nbuilder_config: {rebuild: true}")

    assert api.plan(options(tmp_path, text, probe=True), sctx=spark.sctx).builds
    assert not api.plan(options(tmp_path, text, probe=True, rebuild=False), sctx=spark.sctx).builds


def test_an_image_that_the_user_names_is_used_as_it_is(spark: FakeCluster, tmp_path: Path) -> None:
    plan = api.plan(options(tmp_path, image="org/mine:2", probe=True), sctx=spark.sctx)

    assert (plan.image, plan.builds) == ("org/mine:2", ())
    assert "--image names the image: the builder 'eugr' has nothing to do" in plan.notes


def test_another_source_takes_the_place_of_what_runs(spark: FakeCluster, tmp_path: Path) -> None:
    first = api.run(options(tmp_path), sctx=spark.sctx)
    configure(tmp_path, {"defaults": {"builders": {"eugr": {"ref": "v2"}}}})
    lack_builds(spark, options(tmp_path, settings={"port": 8001}))

    second = api.run(options(tmp_path), sctx=spark.sctx)

    assert second.cluster_id == first.cluster_id
    (container,) = spark["spark-1"].docker.containers.values()
    assert container.image == spark["spark-1"].docker.builds[0].params["IMAGE"]
    assert Note(f"replacing {first.cluster_id} on spark-1: it was started with other settings") in spark.events


def test_a_build_goes_on_where_the_ranks_have_another_head_by_then(spark: FakeCluster, tmp_path: Path) -> None:
    wanted = options(tmp_path, CUSTOM, "spark-1", "spark-2", scheduler="occupancy-sparse")
    lack_builds(spark, wanted)
    other = tmp_path / "other.yaml"
    other.write_text("model: org/m\nruntime: vllm\ncontainer: org/e:1\ndefaults: {port: 9000}\n")

    def launch_another() -> None:
        spark["spark-1"].on("eugr_build", lambda: None)
        api.run(api.RunOptions(recipe=str(other), hosts=api.HostOptions(hosts=("spark-1",))), sctx=spark.sctx)

    spark["spark-1"].on("eugr_build", launch_another)

    result = api.run(wanted, sctx=spark.sctx)

    assert result.hosts == ("spark-2",)
    assert [len(spark[host].docker.builds) for host in spark.hosts] == [1, 1]


def test_a_build_that_fails_tells_the_stage_the_last_lines_and_the_way_out_and_starts_nothing(spark: FakeCluster, tmp_path: Path) -> None:
    wanted = options(tmp_path)
    image = lack_builds(spark, wanted)
    spark["spark-1"].docker.build_log = [f"line {number}" for number in range(30)] + ["#7 [2/3] RUN make", "c++: Killed signal 9"]
    spark["spark-1"].docker.build_fails = "build-and-copy.sh ended with exit code 1"

    with pytest.raises(api.BuildFailedError) as caught:
        api.run(wanted, sctx=spark.sctx)

    message = str(caught.value)
    assert message.startswith(
        f"cannot make {image} on spark-1: it failed in the stage 'docker build': build-and-copy.sh ended with exit code 1\n  | line 12\n"
    )
    assert message.endswith("  | c++: Killed signal 9")
    assert "--build-jobs" in str(caught.value.hint)
    assert spark["spark-1"].docker.containers == {}


def test_the_log_of_a_build_is_kept_where_that_is_wanted(spark: FakeCluster, tmp_path: Path) -> None:
    configure(tmp_path, {"defaults": {"builders": {"eugr": {"save_build_logs": True}}}})
    wanted = options(tmp_path)
    lack_builds(spark, wanted)
    spark["spark-1"].docker.build_fails = "no"

    with pytest.raises(api.BuildFailedError):
        api.run(wanted, sctx=spark.sctx)

    (log,) = (tmp_path / ".cache/sparkrun/eugr-builds").iterdir()
    assert log.read_text() == "#1 [internal] load build definition\n#9 exporting to image\n"
    assert Note(f"log of the build: {log}") in spark.events


def test_an_option_that_the_builder_does_not_read_is_named_with_the_nearest(spark: FakeCluster, tmp_path: Path) -> None:
    configure(tmp_path, {"defaults": {"builders": {"eugr": {"save_build_log": True}}}})
    api.plan(options(tmp_path, CUSTOM + "builder_config: {image_prefx: a}\n"), sctx=spark.sctx)

    warnings = [event.text for event in spark.events if isinstance(event, Warn)]
    assert any(text.endswith("means nothing to the builder 'eugr'; did you mean 'save_build_logs'?") for text in warnings)
    assert any("the builder eugr does not read image_prefx (did you mean 'image_prefix'?)" in text for text in warnings)


@pytest.mark.parametrize("word", ["-t", "--copy-to", "--setup", "--config=/x"])
def test_arguments_that_are_not_for_recipes_stop_the_launch(spark: FakeCluster, tmp_path: Path, word: str) -> None:
    with pytest.raises(api.RecipeError, match=r"r\.yaml:6:\d+: build_args cannot hold"):
        api.plan(options(tmp_path, PLAIN + f"build_args: ['{word}', x]\n"), sctx=spark.sctx)


def test_the_command_line_beats_the_settings_which_beat_the_recipe(spark: FakeCluster, tmp_path: Path) -> None:
    text = PLAIN + "builder_config: {image_prefix: from/recipe, use_sentinel_image: false}\n"
    assert api.plan(options(tmp_path, text, probe=True), sctx=spark.sctx).image != "from/recipe:latest"
    configure(tmp_path, {"defaults": {"image_prefix": "from/defaults", "builders": {"eugr": {"image_prefix": "from/settings"}}}})
    on = ("use_sentinel_image=true",)
    assert api.plan(options(tmp_path, text, probe=True, overrides=on), sctx=spark.sctx).image == "from/settings:latest"
    assert api.plan(options(tmp_path, text, probe=True, overrides=(*on, "image_prefix=a/b")), sctx=spark.sctx).image == "a/b:latest"


def test_offline_the_gap_is_listed_and_the_launch_refused(spark: FakeCluster, tmp_path: Path) -> None:
    wanted = options(tmp_path)
    image = lack_builds(spark, wanted)
    offline = msgspec.structs.replace(spark.sctx, offline=True)

    plan = api.plan(msgspec.structs.replace(wanted, probe=True), sctx=offline)
    assert [gap.what for gap in plan.gaps] == [image]
    with pytest.raises(api.ImageMissingError, match="it has to be built, and offline nothing is"):
        api.run(wanted, sctx=offline)
    assert spark["spark-1"].docker.builds == []


def test_the_head_builds_for_all_and_hands_it_on(spark: FakeCluster, tmp_path: Path) -> None:
    wanted = options(tmp_path, CUSTOM.replace("tensor_parallel: 1", "tensor_parallel: 2"), "spark-1", "spark-2")
    image = lack_builds(spark, wanted)

    plan = api.plan(msgspec.structs.replace(wanted, probe=True), sctx=spark.sctx)
    assert [(build.hosts, build.onward) for build in plan.builds] == [(("spark-1",), ("spark-2",))]
    assert (plan.transfers, plan.gaps) == ((), ())
    assert "build vllm-node:" in plan.builds[0].title
    assert "on spark-1, then hand it on to spark-2 (./build-and-copy.sh -t" in plan.builds[0].title
    result = api.run(wanted, sctx=spark.sctx)

    assert result.hosts == ("spark-1", "spark-2")
    assert [len(spark[host].docker.builds) for host in spark.hosts] == [1, 0]
    steps = [event.title for event in spark.events if isinstance(event, Step) and image in event.title]
    assert [step.split(" (")[0] for step in steps[1:]] == [f"image {image} from spark-1 to spark-2"]


def test_an_untrusted_recipe_asks_before_it_builds_and_cannot_choose_the_source(spark: FakeCluster, tmp_path: Path) -> None:
    asked: list[str] = []

    def approve(_why: str, actions: tuple[str, ...]) -> bool:
        asked.extend(actions)
        return False

    text = CUSTOM.replace("builder: eugr\n", "builder: eugr\nbuilder_config: {ref: evil}\n")
    foreign = untrusted(tmp_path, text)
    sctx = msgspec.structs.replace(spark.sctx, approve=approve)
    with pytest.raises(api.RecipeError, match=r"builder_config\.ref is only for trusted recipes"):
        api.run(foreign, sctx=sctx)
    with pytest.raises(api.RecipeError, match="was not approved"):
        api.run(untrusted(tmp_path, CUSTOM), sctx=sctx)
    assert asked[0].startswith("a build on the head: ./build-and-copy.sh -t vllm-node:sparkrun-")


def untrusted(tmp_path: Path, text: str) -> api.RunOptions:
    """A recipe of a registry that is not trusted."""
    put_registry(tmp_path, "other", {"recipes/r.yaml": text}, trusted=False)
    return api.RunOptions(recipe="@other/r", hosts=api.HostOptions(hosts=("spark-1",)))


def test_a_build_without_a_launch_starts_nothing_and_minds_nothing_that_runs(spark: FakeCluster, tmp_path: Path) -> None:
    other = api.run(options(tmp_path, PLAIN.replace("builder: eugr\ncontainer: vllm-node", "container: org/e:1")), sctx=spark.sctx)
    wanted = options(tmp_path)
    image = lack_builds(spark, msgspec.structs.replace(wanted, settings={"port": 8001}))

    result = api.build(wanted, sctx=spark.sctx)

    assert result.images == {"spark-1": image}
    assert [(built.image, built.builder, built.hosts, built.why) for built in result.built] == [
        (image, "eugr", ("spark-1",), "build_args --apply-vllm-pr 41703")
    ]
    assert list(spark["spark-1"].docker.containers) == [f"{other.cluster_id}_solo"]
    assert result.to_json()["schema"] == "sparkrun.build/1"
    assert api.build(wanted, sctx=spark.sctx).built == ()
    assert "Nothing is to be done." in preparation_text(api.plan_build(msgspec.structs.replace(wanted, probe=True), sctx=spark.sctx))
