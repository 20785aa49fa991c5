"""What becomes of the control machine's tuning configs."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.tuning_configs import Origin, apply_sync, files_in, origins_file, plan_sync, read_origins

NAMES = st.sampled_from(["a.json", "triton_3_5/b.json", "c.json"])
FILES = st.dictionaries(NAMES, st.sampled_from(["1", "2", "3"]))
ORIGINS = st.dictionaries(NAMES, st.builds(Origin, st.sampled_from(["reg", "other"]), st.sampled_from(["1", "2", "3"]), st.booleans()))


def test_new_files_are_copied_and_ours_refreshed() -> None:
    sync = plan_sync("reg", {"new": "1", "ours": "2", "same": "1"}, {"ours": "1", "same": "1"}, {"ours": Origin("reg", "1")})

    assert (sync.copies, sync.adopts, sync.kept, sync.drops) == (("new", "ours"), ("same",), (), ())
    assert sync.after == {"new": "1", "ours": "2", "same": "1"}
    assert sync.origins == {name: Origin("reg", sha) for name, sha in sync.after.items()}


def test_an_edited_file_is_kept_and_told() -> None:
    sync = plan_sync("reg", {"edited": "2", "mine": "2"}, {"edited": "9", "mine": "8"}, {"edited": Origin("reg", "1")})

    assert (sync.copies, sync.kept) == ((), ("edited", "mine"))
    assert sync.after == {"edited": "9", "mine": "8"}
    assert sync.origins == {}


def test_a_file_that_left_the_registry_goes_unless_it_was_edited() -> None:
    origins = {"old": Origin("reg", "1"), "edited": Origin("reg", "1"), "theirs": Origin("other", "1")}
    sync = plan_sync("reg", {}, {"old": "1", "edited": "2", "theirs": "1"}, origins)

    assert (sync.drops, sync.after) == (("old",), {"edited": "2", "theirs": "1"})
    assert sync.gone == {"old": "1"}, "hosts may still have it"
    assert plan_sync("reg", {}, sync.after, sync.origins).gone == {"old": "1"}


def test_without_a_registry_nothing_changes() -> None:
    here, origins = {"a": "1"}, {"a": Origin("reg", "1")}
    sync = plan_sync("", {}, here, origins)

    assert (sync.copies, sync.drops, sync.after, sync.origins) == ((), (), here, origins)


@given(offered=FILES, here=FILES, origins=ORIGINS)
def test_what_nobody_may_lose_is_never_touched_and_a_second_time_does_nothing(
    offered: dict[str, str], here: dict[str, str], origins: dict[str, Origin]
) -> None:
    sync = plan_sync("reg", offered, here, origins)

    for name, sha256 in here.items():
        if name not in origins or origins[name].sha256 != sha256:
            assert sync.after[name] == sha256, "not ours, or edited"
    again = plan_sync("reg", offered, sync.after, sync.origins)
    assert (again.copies, again.adopts, again.drops) == ((), (), ())
    assert (again.after, again.origins) == (sync.after, sync.origins)


def test_files_are_copied_refreshed_and_taken_away_on_disk(tmp_path: Path) -> None:
    source, folder = tmp_path / "source.json", tmp_path / "tuning/vllm"
    source.write_text("{}")
    apply_sync("reg", {"a.json": source, "triton_3/b.json": source}, folder)
    (folder / "mine.json").write_text("mine")
    assert sorted(files_in(folder)) == ["a.json", "mine.json", "triton_3/b.json"]
    assert (folder / "a.json").stat().st_mode & 0o777 == 0o644

    source.write_text("{2}")
    apply_sync("reg", {"a.json": source}, folder)

    assert {name: path.read_text() for name, path in files_in(folder).items()} == {"a.json": "{2}", "mine.json": "mine"}
    assert read_origins(folder)["triton_3/b.json"].gone


def test_origins_that_cannot_be_read_make_nothing_ours(tmp_path: Path) -> None:
    source, folder = tmp_path / "source.json", tmp_path / "tuning/vllm"
    source.write_text("new")
    folder.mkdir(parents=True)
    (folder / "a.json").write_text("old")
    origins_file(folder).write_text("[broken")

    apply_sync("reg", {"a.json": source}, folder)

    assert (folder / "a.json").read_text() == "old"
