"""A launch on hosts that lack its image or its model."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sparkrun import api
from sparkrun.api._context import reach
from sparkrun.cli.plan_text import plan_text, preparation_text
from sparkrun.cli.status_text import status_text
from sparkrun.core.events import Note, Phase, Step, Warn
from sparkrun.core.pending_ops import telling
from sparkrun.core.remote import RemoteResult
from sparkrun.testing import FakeCluster

IMAGE = "ghcr.io/org/engine:1"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
BRINGING = ("docker_pull", "docker_load", "hub_receive", "hub_keep", "hub_download")
RECIPE = f"model: org/m\nruntime: vllm\ncontainer: {IMAGE}\ndefaults: {{port: 8000, tensor_parallel: 2}}\n"


def sparks(root: Path, count: int) -> FakeCluster:
    """Hosts with a GPU each that reach each other, and that have the image."""
    hosts = [f"spark-{number}" for number in range(1, count + 1)]
    cluster = FakeCluster(*hosts, root=root)
    cluster.join()
    for name in hosts:
        cluster[name].gpus = 1
        cluster[name].reaches = set(hosts) - {name}
    return cluster


def put_model(cluster: FakeCluster, *names: str) -> None:
    """The model in the caches of some hosts."""
    for name in names:
        cluster[name].models["org/m"] = f"{cluster[name].hub}/models--org--m/snapshots/{COMMIT}"


@pytest.fixture
def spark(tmp_path: Path) -> FakeCluster:
    """Two hosts that have everything."""
    cluster = sparks(tmp_path, 2)
    put_model(cluster, *cluster.hosts)
    return cluster


def options(tmp_path: Path, *hosts: str, **changes: object) -> api.RunOptions:
    recipe = tmp_path / "engine.yaml"
    recipe.write_text(RECIPE if len(hosts) > 1 else RECIPE.replace("tensor_parallel: 2", "tensor_parallel: 1"))
    return api.RunOptions(recipe=str(recipe), hosts=api.HostOptions(hosts=hosts), **changes)  # type: ignore[arg-type]


def ran(cluster: FakeCluster, host: str) -> list[str]:
    """The scripts that brought something."""
    return sorted((call.name for call in cluster[host].ran if call.name in BRINGING), key=BRINGING.index)


def give_control(cluster: FakeCluster) -> None:
    """This machine has docker with the image, and the model."""
    cluster.control.docker.trouble = None
    cluster.control.hub = "/home/me/hub"
    cluster.control.models["org/m"] = f"/home/me/hub/models--org--m/snapshots/{COMMIT}"


def test_with_everything_in_place_nobody_is_asked_anything_more(spark: FakeCluster, tmp_path: Path) -> None:
    api.run(options(tmp_path, "spark-1"), sctx=spark.sctx)

    assert (ran(spark, "spark-1"), spark.control.ran) == ([], [])
    phase = next(event for event in spark.events if isinstance(event, Phase) and event.number == 3)
    assert phase.skipped == "everything is in place"


def test_what_is_missing_is_copied_from_this_machine_and_the_launch_serves(spark: FakeCluster, tmp_path: Path) -> None:
    give_control(spark)
    host = spark["spark-1"]
    host.docker.lacks.add(IMAGE)
    host.models.clear()

    plan = api.plan(options(tmp_path, "spark-1", probe=True), sctx=spark.sctx)
    assert ran(spark, "spark-1") == []
    result = api.run(options(tmp_path, "spark-1"), sctx=spark.sctx)

    assert result.ready
    assert ran(spark, "spark-1") == ["docker_load", "hub_receive", "hub_keep"]
    titles = [f"image {IMAGE} to spark-1 (save | load, 4.2 GB)", "model org/m to spark-1 (2 files, 1 kB)"]
    assert [transfer.title for transfer in plan.transfers] == titles
    steps = [(event.number, event.total, event.title) for event in spark.events if isinstance(event, Step)]
    assert [(1, 2, titles[0]), (2, 2, titles[1])] == [step for step in steps if step[2] in titles]
    planned = [action.call for transfer in plan.transfers for action in (*transfer.flows[0].actions, *transfer.finish)]
    done = [msgspec.structs.replace(call, feed=()) for call in host.ran if call.name in BRINGING]
    assert sorted(done, key=lambda call: BRINGING.index(call.name)) == planned
    assert f"Transfer 1/2: {titles[0]}" in plan_text(plan)
    assert plan.public()["transfers"][0]["flows"][0]["feed"] == f"exec docker save -- {IMAGE}"
    assert f"--revision {COMMIT}" in plan.head.command


def test_another_revision_than_the_one_that_is_there_is_brought(spark: FakeCluster, tmp_path: Path) -> None:
    asked = options(tmp_path, "spark-1")
    Path(asked.recipe).write_text(f"{Path(asked.recipe).read_text()}model_revision: v2\n")
    spark["spark-1"].models["org/m"] = f"{spark['spark-1'].hub}/models--org--m/snapshots/{'f' * 40}"

    result = api.run(asked, sctx=spark.sctx)

    download = next(call for call in spark["spark-1"].ran if call.name == "hub_download")
    assert (result.ready, download.params["REVISION"]) == (True, "v2")
    started = next(call for call in spark["spark-1"].ran if call.name == "docker_start")
    assert f"--revision {COMMIT}" in " ".join(started.params["RUN"])


def test_what_this_machine_has_not_is_fetched_by_the_host(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].docker.lacks.add(IMAGE)
    spark["spark-1"].models.clear()

    assert api.run(options(tmp_path, "spark-1"), sctx=spark.sctx).ready
    assert ran(spark, "spark-1") == ["docker_pull", "hub_download"]


def test_only_the_host_that_lacks_something_gets_it(spark: FakeCluster, tmp_path: Path) -> None:
    give_control(spark)
    spark["spark-2"].docker.lacks.add(IMAGE)

    plan = api.plan(options(tmp_path, "spark-1", "spark-2", probe=True), sctx=spark.sctx)

    assert [(transfer.way, transfer.hosts) for transfer in plan.transfers] == [("load", ("spark-2",))]


def test_what_another_host_has_is_handed_on_to_all_others_along_a_chain(tmp_path: Path) -> None:
    cluster = sparks(tmp_path, 4)
    hosts = cluster.hosts
    for name in hosts[1:]:
        cluster[name].docker.lacks.add(IMAGE)
    put_model(cluster, "spark-1")

    result = api.run(options(tmp_path, *hosts, overrides=("tensor_parallel=4",)), sctx=cluster.sctx)

    assert result.ready
    assert [ran(cluster, name) for name in hosts] == [[], *[["docker_load", "hub_receive", "hub_keep"]] * 3]
    titles = [event.title for event in cluster.events if isinstance(event, Step) and " from spark-1 to " in event.title]
    assert titles == [
        f"image {IMAGE} from spark-1 to spark-2 > spark-3 > spark-4 (save | load, 4.2 GB)",
        "model org/m from spark-1 to spark-2 > spark-3 > spark-4 (2 files, 1 kB)",
    ]


def test_what_is_nowhere_is_fetched_once_and_handed_on(tmp_path: Path) -> None:
    cluster = sparks(tmp_path, 3)
    hosts = cluster.hosts
    for name in hosts:
        cluster[name].docker.lacks.add(IMAGE)

    assert api.run(options(tmp_path, *hosts, overrides=("tensor_parallel=3",)), sctx=cluster.sctx).ready

    assert ran(cluster, "spark-1") == ["docker_pull", "hub_download"]
    assert [ran(cluster, name) for name in hosts[1:]] == [["docker_load", "hub_receive", "hub_keep"]] * 2


def test_a_host_that_breaks_the_chain_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    cluster = sparks(tmp_path, 3)
    hosts = cluster.hosts
    put_model(cluster, *hosts)
    for name in hosts[1:]:
        cluster[name].docker.lacks.add(IMAGE)
    cluster["spark-2"].refuse("docker_load", "the archive is broken")
    cluster["spark-2"].refuse("docker_pull", "no network")

    with pytest.raises(api.LaunchFailedError, match=r"\n  spark-2: the archive is broken") as caught:
        api.run(options(tmp_path, *hosts, overrides=("tensor_parallel=3",)), sctx=cluster.sctx)

    assert "spark-3" not in str(caught.value)
    assert cluster["spark-3"].docker.lacks == set()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("local", {"spark-1": ["docker_load"], "spark-2": ["docker_load"]}),
        ("push", {"spark-1": ["docker_load"], "spark-2": ["docker_load"]}),
        ("delegated", {"spark-1": ["docker_pull"], "spark-2": ["docker_load"]}),
        ("pull", {"spark-1": ["docker_pull"], "spark-2": ["docker_pull"]}),
    ],
)
def test_a_transfer_mode_decides_who_fetches(spark: FakeCluster, tmp_path: Path, mode: str, expected: dict[str, list[str]]) -> None:
    give_control(spark)
    for name in spark.hosts:
        spark[name].docker.lacks.add(IMAGE)
        spark[name].reaches = set(spark.hosts) - {name}

    assert api.run(options(tmp_path, "spark-1", "spark-2", transfer_mode=mode), sctx=spark.sctx).ready

    assert {name: ran(spark, name) for name in spark.hosts} == expected
    assert any(f"transfer mode {mode}" in event.text for event in spark.events if isinstance(event, Note))


def test_a_failed_transfer_names_host_and_reason_and_starts_nothing(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].docker.lacks.add(IMAGE)
    spark["spark-1"].refuse("docker_pull", "the disk of spark-1 is full: no space left on device")

    with pytest.raises(api.LaunchFailedError, match=f"cannot bring image {IMAGE} to\n  spark-1: the disk of spark-1 is full") as caught:
        api.run(options(tmp_path, "spark-1"), sctx=spark.sctx)

    assert "docker pull" in str(caught.value.hint)
    assert spark["spark-1"].docker.containers == {}
    assert "docker_start" not in [call.name for call in spark["spark-1"].ran]


def test_a_stream_that_broke_off_is_not_put_in_place(spark: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_control(spark)
    spark["spark-1"].models.clear()
    broken = (RemoteResult("spark-1", -1, stderr="bash: dd: blobs/x: Input/output error", connected=True),)
    monkeypatch.setattr(spark, "send_all", lambda calls, on_bytes, *, idle_s, stop: broken)
    spark["spark-1"].refuse("hub_download", "no network")

    with pytest.raises(api.LaunchFailedError, match=r"cannot bring model org/m to\n  spark-1: bash: dd: blobs/x.*\n  spark-1: no network"):
        api.run(options(tmp_path, "spark-1"), sctx=spark.sctx)

    assert (ran(spark, "spark-1"), spark["spark-1"].models) == (["hub_download"], {})


def test_offline_a_gap_refuses_the_launch_and_a_dry_run_tells_it(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].docker.lacks.add(IMAGE)
    offline = msgspec.structs.replace(spark.sctx, offline=True)

    plan = api.plan(options(tmp_path, "spark-1", probe=True), sctx=offline)
    assert f"warning: spark-1: image {IMAGE} is not there: offline, and this machine has no docker" in plan_text(plan)
    with pytest.raises(api.ImageMissingError, match=r"spark-1: image .* is not there: offline"):
        api.run(options(tmp_path, "spark-1"), sctx=offline)


def test_a_dry_run_that_looked_at_nobody_says_what_it_assumes(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].docker.lacks.add(IMAGE)

    plan = api.plan(options(tmp_path, "spark-1"), sctx=spark.sctx)

    assert plan.transfers == ()
    assert any("spark-1: image and model are assumed to be there, nobody looked" in note for note in plan.notes)


def test_a_token_for_the_hub_is_in_no_dump_of_the_plan(spark: FakeCluster, tmp_path: Path) -> None:
    cluster = FakeCluster("spark-1", root=tmp_path, env={"HF_TOKEN": "hf_secretword"})
    cluster["spark-1"].gpus = 1

    plan = api.plan(options(tmp_path, "spark-1", probe=True), sctx=cluster.sctx)

    assert [transfer.way for transfer in plan.transfers] == ["download"]
    assert plan.transfers[0].actions[0].call.secrets == {"TOKEN": "hf_secretword"}
    assert "hf_secretword" not in str(plan.public())


def test_a_hub_cache_that_is_apart_from_the_hosts_hf_home_is_what_containers_see(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].hf_home, spark["spark-1"].hub = "/home/spark/hf", "/data/hub"

    mounts = api.plan(options(tmp_path, "spark-1", probe=True), sctx=spark.sctx).head.mounts

    found = [(mount.source, mount.target) for mount in mounts[:3]]
    assert found == [("/home/spark/hf", "/cache/huggingface"), ("/data/hub", "/cache/huggingface/hub"), ("/data/hub", "/data/hub")]


def test_status_shows_what_is_being_brought(spark: FakeCluster, tmp_path: Path) -> None:
    with telling("image_distribute", spark.sctx.config.paths, image=IMAGE, hosts=("spark-2",)) as pending:
        pending.progress(1_200_000_000, 4_200_000_000)
        report = api.status(api.HostOptions(("spark-1",)), sctx=spark.sctx)

    assert f"Pending: image {IMAGE} to spark-2, 1.2 GB of 4.2 GB (since " in status_text(report)
    (told,) = report.to_json()["pending_ops"]
    assert (told["operation"], told["what"], told["hosts"], told["done_bytes"]) == ("image_distribute", IMAGE, ["spark-2"], 1_200_000_000)


def test_a_newer_image_is_looked_for_on_the_head_and_told_when_there_is_none_to_be_had(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].refuse("docker_pull", "no network")
    newest = "ghcr.io/org/engine:latest"

    assert api.run(options(tmp_path, "spark-1", "spark-2", image=newest), sctx=spark.sctx).ready

    assert (ran(spark, "spark-1"), ran(spark, "spark-2")) == (["docker_pull"], [])
    warnings = [event.text for event in spark.events if isinstance(event, Warn)]
    assert f"spark-1: no look for a newer {newest}, the one that is there is used: no network" in warnings


def test_staging_reaches_every_host_that_is_given_and_starts_nothing(tmp_path: Path) -> None:
    cluster = sparks(tmp_path, 3)
    for name in cluster.hosts:
        cluster[name].docker.lacks.add(IMAGE)

    result = api.stage(options(tmp_path, *cluster.hosts, overrides=("tensor_parallel=1",)), sctx=cluster.sctx)

    assert (result.schema, result.hosts) == ("sparkrun.stage/1", cluster.hosts)
    assert [ran(cluster, name) for name in cluster.hosts] == [
        ["docker_pull", "hub_download"],
        *[["docker_load", "hub_receive", "hub_keep"]] * 2,
    ]
    assert all(not cluster[name].docker.containers for name in cluster.hosts)


def test_a_build_prepares_the_hosts_that_get_a_rank(tmp_path: Path) -> None:
    cluster = sparks(tmp_path, 3)
    for name in cluster.hosts:
        cluster[name].docker.lacks.add(IMAGE)

    result = api.build(options(tmp_path, *cluster.hosts, overrides=("tensor_parallel=1",)), sctx=cluster.sctx)

    assert result.hosts == ("spark-1",)
    assert (ran(cluster, "spark-2"), ran(cluster, "spark-3")) == ([], [])


@pytest.mark.parametrize(("asked", "offline"), [(None, True), (False, False), (True, True)])
def test_a_cluster_that_is_offline_stays_so_unless_online_is_asked_for(tmp_path: Path, asked: bool | None, offline: bool) -> None:
    sctx = api.make_context(env={"HOME": str(tmp_path)}, cwd=tmp_path, offline=asked)
    api.create_cluster("lab", api.ClusterEdit(values={"hosts": ["spark-1"], "offline": True}), sctx=sctx)

    assert reach(api.HostOptions(cluster="lab"), sctx).offline is offline


def test_a_model_that_drafts_is_brought_as_well_and_pinned(spark: FakeCluster, tmp_path: Path) -> None:
    put_draft = f"{spark['spark-1'].hub}/models--org--draft/snapshots/{COMMIT}"
    spark["spark-1"].models["org/draft"] = put_draft
    for name in spark.hosts:
        spark[name].reaches = set(spark.hosts) - {name}
    given = options(tmp_path, "spark-1", "spark-2", overrides=('speculative_config={"method":"eagle3","model":"org/draft"}',))

    plan = api.plan(msgspec.structs.replace(given, probe=True), sctx=spark.sctx)
    result = api.run(given, sctx=spark.sctx)

    assert result.ready
    assert [transfer.title for transfer in plan.transfers] == ["model org/draft from spark-1 to spark-2 (2 files, 1 kB)"]
    assert f'"revision":"{COMMIT}"' in plan.head.command
    assert spark["spark-2"].models["org/draft"] == put_draft


@pytest.mark.parametrize(
    ("entry", "lacking"), [("org/extra", 2), ("{name: org/extra, target: [1]}", 1), ("{name: org/extra, target: [-1]}", 2)]
)
def test_models_that_a_recipe_names_beside_its_own_are_brought_to_the_ranks_that_need_them(
    spark: FakeCluster, tmp_path: Path, entry: str, lacking: int
) -> None:
    given = options(tmp_path, "spark-1", "spark-2", probe=True)
    recipe = Path(given.recipe)
    recipe.write_text(f"{recipe.read_text()}distribution_config: {{models: {{entries: ['{{model}}', {entry}]}}}}\n")

    plan = api.plan(given, sctx=spark.sctx)

    assert [(transfer.what, len((*transfer.hosts, *transfer.onward))) for transfer in plan.transfers] == [("org/extra", lacking)]


OTHER = "f" * 40


def give(cluster: FakeCluster, name: str, model: str, commit: str) -> None:
    cluster[name].models[model] = f"{cluster[name].hub}/models--{model.replace('/', '--')}/snapshots/{commit}"


@pytest.mark.parametrize(
    "text", [f"model_revision: {COMMIT}", f"distribution_config: {{models: {{entries: [{{name: org/m, revision: {COMMIT}}}]}}}}"]
)
def test_the_revision_that_a_recipe_names_is_brought_whatever_else_hosts_have(spark: FakeCluster, tmp_path: Path, text: str) -> None:
    give(spark, "spark-1", "org/m", OTHER)
    given = options(tmp_path, "spark-1", "spark-2", probe=True)
    recipe = Path(given.recipe)
    recipe.write_text(f"{recipe.read_text()}{text}\n")

    plan = api.plan(given, sctx=spark.sctx)

    assert [(transfer.source, transfer.hosts) for transfer in plan.transfers] == [("spark-2", ("spark-1",))]
    assert all(f"--revision {COMMIT}" in rank.command for rank in plan.ranks)


def test_a_revision_that_nobody_has_is_asked_of_the_hub_by_its_name(spark: FakeCluster, tmp_path: Path) -> None:
    given = options(tmp_path, "spark-1", probe=True)
    recipe = Path(given.recipe)
    recipe.write_text(f"{recipe.read_text()}model_revision: v1\n")

    plan = api.plan(given, sctx=spark.sctx)

    (transfer,) = plan.transfers
    assert (transfer.way, transfer.actions[0].call.params["REVISION"]) == ("download", "v1")


def test_hosts_whose_main_branch_is_another_commit_get_that_of_the_head(spark: FakeCluster, tmp_path: Path) -> None:
    give(spark, "spark-2", "org/m", OTHER)

    plan = api.plan(options(tmp_path, "spark-1", "spark-2", probe=True), sctx=spark.sctx)
    result = api.run(options(tmp_path, "spark-1", "spark-2"), sctx=spark.sctx)

    assert [(transfer.source, transfer.hosts) for transfer in plan.transfers] == [("spark-1", ("spark-2",))]
    told = f"model org/m is not the same on all hosts (spark-1 {COMMIT[:12]}, spark-2 {OTHER[:12]}); the others get that of spark-1"
    assert told in plan.warnings
    assert all(f"--revision {COMMIT}" in rank.command for rank in plan.ranks)
    assert result.ready
    assert spark["spark-2"].models["org/m"].endswith(COMMIT)


def test_weights_that_are_shorter_than_those_of_another_host_are_brought_anew(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].weight_bytes, spark["spark-2"].weight_bytes = 10, 1000

    plan = api.plan(options(tmp_path, "spark-1", "spark-2", probe=True), sctx=spark.sctx)

    assert [(transfer.source, transfer.hosts) for transfer in plan.transfers] == [("spark-2", ("spark-1",))]
    assert "spark-1: some of the weights of org/m are shorter there than on other hosts; they are brought anew" in plan.warnings


def test_a_copy_that_turns_out_damaged_is_told_though_another_way_was_found(tmp_path: Path) -> None:
    cluster = sparks(tmp_path, 3)
    put_model(cluster, "spark-1", "spark-2")
    cluster["spark-3"].refuse("hub_receive", "a file of org/m came damaged: abc", reason="damaged", times=1)

    assert api.run(options(tmp_path, *cluster.hosts, overrides=("tensor_parallel=3",)), sctx=cluster.sctx).ready

    warnings = [event.text for event in cluster.events if isinstance(event, Warn)]
    told = "spark-1: its copy of model org/m is damaged or cannot be read; it came from elsewhere"
    assert any(warning.startswith(told) and "sparkrun model-cache repair org/m -H spark-1 --apply" in warning for warning in warnings)


def test_what_was_brought_and_is_not_there_after_all_ends_the_launch_at_once(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-2"].on("observe", spark["spark-2"].models.clear)

    with pytest.raises(api.LaunchFailedError) as failed:
        api.run(options(tmp_path, "spark-1", "spark-2"), sctx=spark.sctx)

    assert str(failed.value) == "it was brought, and is still not there:\n  model org/m on spark-2"
    assert ran(spark, "spark-2") == ["hub_receive", "hub_keep"]


def test_a_host_that_falls_silent_is_told_with_the_reason_of_its_silence(tmp_path: Path) -> None:
    cluster = sparks(tmp_path, 2)
    put_model(cluster, "spark-1")

    def fall_silent() -> None:
        cluster["spark-2"].reachable = False

    cluster["spark-2"].refuse("hub_receive", "the stream ended early")
    cluster["spark-2"].on("hub_receive", fall_silent)

    with pytest.raises(api.SparkrunError) as failed:
        api.run(options(tmp_path, *cluster.hosts), sctx=cluster.sctx)

    silent, _newline, bringing = str(failed.value).partition("\ncannot bring model org/m to\n  spark-2: ")
    assert (silent.startswith("no answer from\n  spark-2: "), bool(bringing)) == (True, True), failed.value


def test_several_things_that_cannot_be_brought_are_told_apart_with_a_line_a_reason(spark: FakeCluster, tmp_path: Path) -> None:
    for name in spark.hosts:
        spark[name].models.clear()
        spark[name].docker.lacks.add(IMAGE)
        spark[name].refuse("docker_pull", "the registry is away")
        spark[name].refuse("hub_download", "the hub is away")
    spark.control.refuse("hub_download", "the hub is away")

    with pytest.raises(api.LaunchFailedError) as failed:
        api.run(options(tmp_path, "spark-1", "spark-2"), sctx=spark.sctx)

    assert str(failed.value).split("\n") == [
        f"cannot bring image {IMAGE} to",
        "  spark-1, spark-2: the registry is away",
        "cannot bring model org/m to",
        "  spark-1, spark-2, this machine: the hub is away",
    ]


def test_what_is_offline_and_missing_is_one_line_for_all_hosts_that_lack_it(spark: FakeCluster, tmp_path: Path) -> None:
    for name in spark.hosts:
        spark[name].models.clear()
    given = options(tmp_path, "spark-1", "spark-2", probe=True)
    recipe = Path(given.recipe)
    recipe.write_text(f"{recipe.read_text()}model_revision: v1\n")
    sctx = msgspec.structs.replace(spark.sctx, offline=True)

    with pytest.raises(api.ModelMissingError, match=r"^spark-1, spark-2: model org/m is not there: offline, ") as refused:
        api.run(given, sctx=sctx)

    assert (refused.value.hint or "").endswith("hf download org/m --revision v1")


def test_a_host_whose_docker_ends_while_it_is_prepared_is_not_prepared(tmp_path: Path) -> None:
    cluster = sparks(tmp_path, 2)
    put_model(cluster, *cluster.hosts)
    docker = cluster["spark-2"].docker
    docker.lacks.add(IMAGE)

    def end() -> None:
        if "docker_load" in [call.name for call in cluster["spark-2"].ran]:
            docker.trouble = "docker_down"

    cluster["spark-2"].on("observe", end)

    with pytest.raises(api.DockerUnavailableError, match="spark-2"):
        api.stage(options(tmp_path, *cluster.hosts, overrides=("tensor_parallel=1",)), sctx=cluster.sctx)


def test_a_draft_model_of_another_commit_becomes_that_of_the_first_rank(spark: FakeCluster, tmp_path: Path) -> None:
    give(spark, "spark-1", "org/draft", COMMIT)
    give(spark, "spark-2", "org/draft", OTHER)
    given = options(tmp_path, "spark-1", "spark-2", overrides=('speculative_config={"method":"eagle3","model":"org/draft"}',), probe=True)

    (transfer,) = api.plan(given, sctx=spark.sctx).transfers

    assert (transfer.what, transfer.source, transfer.hosts) == ("org/draft", "spark-1", ("spark-2",))


def test_the_revision_of_a_draft_model_is_heeded_also_where_it_is_listed_besides(spark: FakeCluster, tmp_path: Path) -> None:
    for name in spark.hosts:
        give(spark, name, "org/draft", OTHER)
    draft = f'speculative_config={{"method":"eagle3","model":"org/draft","revision":"{COMMIT}"}}'
    given = options(tmp_path, "spark-1", "spark-2", overrides=(draft,), probe=True)
    recipe = Path(given.recipe)
    recipe.write_text(f"{recipe.read_text()}distribution_config: {{additional_models: [{{name: org/draft, ignore_patterns: '*.md'}}]}}\n")

    (transfer,) = api.plan(given, sctx=spark.sctx).transfers

    assert (transfer.way, transfer.actions[0].call.params["REVISION"]) == ("download", COMMIT)
    assert transfer.actions[0].call.params["EXCLUDED"] == ("*.md",)


def test_images_of_which_only_the_id_differs_are_neither_sent_nor_told(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-2"].docker.renamed.add(IMAGE)
    renamed = api.plan(options(tmp_path, "spark-1", "spark-2", probe=True), sctx=spark.sctx)
    spark["spark-2"].docker.altered.add(IMAGE)
    altered = api.plan(options(tmp_path, "spark-1", "spark-2", probe=True), sctx=spark.sctx)

    told = [[warning for warning in plan.warnings if "is not the same on all hosts" in warning] for plan in (renamed, altered)]
    assert (renamed.transfers, told[0]) == ((), [])
    assert ([transfer.hosts for transfer in altered.transfers], len(told[1])) == ([("spark-2",)], 1)


def test_a_host_without_a_rank_is_staged_with_the_image_of_the_head_too(tmp_path: Path) -> None:
    cluster = sparks(tmp_path, 2)
    put_model(cluster, *cluster.hosts)
    cluster["spark-2"].docker.altered.add(IMAGE)

    given = options(tmp_path, *cluster.hosts, overrides=("tensor_parallel=1",), probe=True, everywhere=True)

    plan = api.plan_build(given, sctx=cluster.sctx)

    assert not any("placed on" in note for note in plan.notes)
    assert "Hosts:  spark-1, spark-2\n" in preparation_text(plan)
    assert [(transfer.kind, transfer.source, transfer.hosts) for transfer in plan.transfers] == [("image", "spark-1", ("spark-2",))]


def test_what_is_switched_off_is_not_brought(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].models.clear()
    given = options(tmp_path, "spark-1", probe=True)
    recipe = Path(given.recipe)
    recipe.write_text(f"{recipe.read_text()}distribution_config: {{models: {{enabled: false}}}}\n")

    assert api.plan(given, sctx=spark.sctx).transfers == ()


def test_a_dry_run_asks_no_host_that_it_assumes(tmp_path: Path) -> None:
    cluster = sparks(tmp_path, 1)
    here = FakeCluster("localhost", "spark-1", root=tmp_path)
    here.by_name["spark-1"] = cluster["spark-1"]
    here["localhost"].gpus = 1
    here["localhost"].docker.lacks.add(IMAGE)

    plan = api.plan(options(tmp_path, "localhost", "spark-1", overrides=("tensor_parallel=1",)), sctx=here.sctx)

    assert [transfer.hosts for transfer in plan.transfers] == [("localhost",), ("localhost",)]
    assert here["spark-1"].ran == []


def test_a_model_that_drafts_is_brought_at_the_revision_that_is_asked_for(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].models["org/draft"] = f"{spark['spark-1'].hub}/models--org--draft/snapshots/{'f' * 40}"
    config = 'speculative_config={"method":"eagle3","model":"org/draft","revision":"v2"}'

    api.run(options(tmp_path, "spark-1", overrides=(config,)), sctx=spark.sctx)

    download = next(call for call in spark["spark-1"].ran if call.name == "hub_download")
    assert (download.params["REPO"], download.params["REVISION"]) == ("org/draft", "v2")


def test_a_job_that_lacks_a_rank_does_not_run(spark: FakeCluster, tmp_path: Path) -> None:
    job = api.run(options(tmp_path, "spark-1", "spark-2"), sctx=spark.sctx)
    whole = api.check_job(job.cluster_id, sctx=spark.sctx)

    spark["spark-2"].docker.containers.clear()

    assert (whole.running, api.check_job(job.cluster_id, sctx=spark.sctx).running) == (True, False)


def test_what_is_brought_again_and_again_and_never_there_is_told(spark: FakeCluster, tmp_path: Path) -> None:
    host = spark["spark-1"]
    host.on("observe", lambda: host.docker.lacks.add(IMAGE))

    with pytest.raises(api.LaunchFailedError, match=rf"still not there:\n  image {IMAGE} on spark-1"):
        api.run(options(tmp_path, "spark-1"), sctx=spark.sctx)

    assert not host.docker.containers
