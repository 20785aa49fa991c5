from __future__ import annotations

from collections.abc import Callable

import pytest

from sparkrun.core.benchmark_profiles import ProfileError, find_profile, list_profiles
from sparkrun.core.errors import UsageError
from sparkrun.core.registry import AmbiguousAssetError, RegistryManager
from sparkrun.core.resolve import ResolveContext
from tests.core.conftest import RECIPE, Repo, manifest

QUICK = "framework: llama-benchy\nmetadata: {name: Quick, description: A quick\n  look}\ntimeout: 600\nargs: {pp: [2048]}\n"


@pytest.fixture
def bench(manager: RegistryManager, new_repo: Callable[[str], Repo]) -> Repo:
    """A registry ``bench`` with profiles, and a hidden one ``secret`` in the same repository."""
    repo = new_repo("bench")
    hidden = "- {name: secret, recipes: r, benchmarks: hidden, visible: false}\n"
    repo.commit(
        {
            ".sparkrun/registry.yaml": manifest("bench", benchmarks="benchmarking") + hidden,
            "recipes/one.yaml": RECIPE,
            "benchmarking/quick.yaml": QUICK,
            "benchmarking/long/deep.yaml": "benchmark:\n  framework: tool-eval-bench\n  category: tools\n  runs: 3\n  args: {suite: all}\n"
            "  schedule: [{depth: 0}, {depth: 4096}]\n",
            "hidden/odd.yaml": QUICK,
        }
    )
    manager.add(repo.url)
    return repo


def test_profiles_have_framework_and_description(ctx: ResolveContext, bench: Repo) -> None:
    found = list_profiles(ctx)
    assert [(profile.name, profile.framework, profile.description) for profile in found.profiles] == [
        ("@bench/deep", "tool-eval-bench", ""),
        ("@bench/quick", "llama-benchy", "A quick look"),
    ]
    assert (found.broken, found.failures) == ((), ())


def test_a_profile_below_benchmark_has_its_loose_keys_as_arguments(ctx: ResolveContext, bench: Repo) -> None:
    profile = find_profile("deep", ctx)
    assert (profile.args, profile.schedule, profile.category) == ({"runs": 3, "suite": "all"}, ({"depth": 0}, {"depth": 4096}), "tools")


def test_hidden_registries_answer_when_asked_for(ctx: ResolveContext, bench: Repo) -> None:
    assert "@secret/odd" not in [profile.name for profile in list_profiles(ctx).profiles]
    assert "@secret/odd" in [profile.name for profile in list_profiles(ctx, hidden=True).profiles]
    assert [profile.name for profile in list_profiles(ctx, registry="secret").profiles] == ["@secret/odd"]
    assert find_profile("@secret/odd", ctx).registry == "secret"
    with pytest.raises(ProfileError, match="'odd' not found"):
        find_profile("odd", ctx)


def test_the_users_own_profile_wins_and_is_listed_first(ctx: ResolveContext, bench: Repo) -> None:
    folder = ctx.config.paths.config_dir / "benchmarking"
    folder.mkdir(parents=True)
    (folder / "quick.yml").write_text(QUICK.replace("600", "60"))
    assert [profile.name for profile in list_profiles(ctx).profiles] == ["quick", "@bench/deep", "@bench/quick"]
    assert (find_profile("quick", ctx).timeout_s, find_profile("quick", ctx).registry) == (60, None)
    assert find_profile("@bench/quick", ctx).timeout_s == 600


@pytest.mark.parametrize("name", ["./mine", "./mine.yaml", "mine.yaml"])
def test_a_path_is_a_file(ctx: ResolveContext, name: str) -> None:
    (ctx.cwd / "mine.yaml").write_text(QUICK)
    assert find_profile(name, ctx).framework == "llama-benchy"


def test_one_broken_profile_is_told_in_one_line_and_hides_no_other(ctx: ResolveContext, manager: RegistryManager, bench: Repo) -> None:
    bench.commit({"benchmarking/bad.yaml": "framework: [\n", "benchmarking/none.yaml": "args: {}\n", "benchmarking/list.yaml": "- a\n"})
    manager.update()
    found = list_profiles(ctx)
    assert [profile.name for profile in found.profiles] == ["@bench/deep", "@bench/quick"]
    assert [broken.line.split(": ")[:2] for broken in found.broken] == [
        ["bench", "benchmarking/bad.yaml:2:1"],
        ["bench", "benchmarking/list.yaml:1:1"],
        ["bench", "benchmarking/none.yaml"],
    ]
    with pytest.raises(ProfileError, match=r"none\.yaml: a benchmark profile names its framework"):
        find_profile("none", ctx)


def test_different_profiles_of_one_name_are_ambiguous(ctx: ResolveContext, manager: RegistryManager, bench: Repo) -> None:
    bench.commit({"benchmarking/long/quick.yaml": QUICK, "benchmarking/short/deep.yaml": QUICK})
    manager.update()
    assert find_profile("quick", ctx).path.endswith("benchmarking/quick.yaml")
    with pytest.raises(AmbiguousAssetError, match="@bench/long/deep, @bench/short/deep"):
        find_profile("deep", ctx)


def test_a_mistyped_name_gets_the_nearest(ctx: ResolveContext, bench: Repo) -> None:
    with pytest.raises(ProfileError) as caught:
        find_profile("quikc", ctx)
    assert caught.value.hint == "did you mean 'quick'?"


@pytest.mark.parametrize("name", ["@bench/../../x", "@bench", "./nowhere"])
def test_a_name_that_leads_nowhere_is_refused(ctx: ResolveContext, bench: Repo, name: str) -> None:
    with pytest.raises(Exception, match=r"names no|no benchmark profile|\.\."):
        find_profile(name, ctx)


def test_an_unknown_registry_is_wrong_usage(ctx: ResolveContext, bench: Repo) -> None:
    with pytest.raises(UsageError, match="no registry 'bensh'"):
        list_profiles(ctx, registry="bensh")
