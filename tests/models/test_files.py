"""The files of a model, and the streams that bring them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.model_source import parse_model
from sparkrun.models.files import (
    ALONE_BYTES,
    HubFile,
    HubStock,
    bytes_lacking,
    parse_hub_stock,
    plan_streams,
    read_script,
    wanted_files,
)
from sparkrun.utils.shell import Section

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MB = 10**6


def files(*paths: str) -> tuple[HubFile, ...]:
    return tuple(HubFile(path, 100 * MB, f"blob-{path.replace('/', '-')}") for path in paths)


def wanted(text: str, *paths: str, selection: str = "auto") -> list[str]:
    return [file.path for file in wanted_files(files(*paths), parse_model(text), selection)]  # type: ignore[arg-type]


def test_of_a_gguf_repository_a_quantisation_and_its_projectors_are_wanted() -> None:
    found = wanted("o/V-GGUF:Q4_K_M", "V-Q4_K_M.gguf", "v-q4_k_m-00001-of-00002.gguf", "V-Q8_0.gguf", "mmproj-F16.gguf", "config.json")

    assert found == ["V-Q4_K_M.gguf", "v-q4_k_m-00001-of-00002.gguf", "mmproj-F16.gguf", "config.json"]


def test_beside_safetensors_no_weights_in_other_formats_are_wanted() -> None:
    given = (
        "config.json",
        "m-1-of-2.safetensors",
        "pytorch_model.bin",
        "original/a.pth",
        "metal/m.bin",
        "consolidated.safetensors",
        "t.gguf",
    )

    assert wanted("o/m", *given) == ["config.json", "m-1-of-2.safetensors"]
    assert wanted("o/m", *given, selection="all") == list(given)


def test_without_safetensors_everything_is_wanted() -> None:
    assert wanted("o/m", "config.json", "pytorch_model.bin") == ["config.json", "pytorch_model.bin"]


def test_a_stock_is_read_from_the_scripts_answers() -> None:
    answers = (
        ("FREE_KIB", "2"),
        ("REF", f"main\t{COMMIT}"),
        ("FILE", f"5\t{COMMIT}/sub/a.json\tblob-a"),
        ("FILE", f"7\t{COMMIT}/plain.txt\t"),
        ("FILE", "9\t.half.sparkrun/a\tblob-a"),
        ("BLOB", "5\tblob-a"),
        ("PART", "3\tblob-b.part"),
        ("PART", "4\tblob-c"),
        ("PART", "4\tblob-d.incomplete"),
    )

    stock = parse_hub_stock(Section("STOCK", answers, True))

    assert (stock.free_bytes, stock.commit_of(""), stock.commit_of("main"), stock.commit_of("other")) == (2048, COMMIT, COMMIT, None)
    assert stock.files == {COMMIT: (HubFile("plain.txt", 7, commit=COMMIT), HubFile("sub/a.json", 5, "blob-a"))}
    assert (stock.blobs, stock.parts) == ({"blob-a": 5, "blob-c": 4}, {"blob-b": 3})


def test_names_with_tabs_and_line_breaks_keep_no_other_file_from_being_seen() -> None:
    lines = [
        ("FILE", f"5\t{COMMIT}/a\tb.json\tw"),
        ("FILE", "c.json\t\t"),
        ("FILE", f"7\t{COMMIT}/d.json\tx"),
        ("BLOB", "odd"),
        ("PART", ""),
    ]

    stock = parse_hub_stock(Section("STOCK", tuple(lines)))

    assert stock.files == {COMMIT: (HubFile("a\tb.json", 5, "w"), HubFile("d.json", 7, "x"))}


def test_a_file_without_a_blob_is_not_taken_for_one_of_its_name_and_size_in_another_snapshot() -> None:
    lines = [("FILE", f"700\t{commit}/config.json\t") for commit in ("a" * 40, "b" * 40)]
    stock = parse_hub_stock(Section("STOCK", tuple(lines)))

    (old,), (new,) = stock.files["a" * 40], stock.files["b" * 40]

    assert HubStock(blobs={old.key: 700}).lacks(new) == 700


def test_big_files_are_shared_out_evenly_and_small_ones_go_along() -> None:
    big = [HubFile(f"{number}.safetensors", size * MB, f"b{number}") for number, size in enumerate((400, 300, 300, 200))]
    small = HubFile("config.json", 700, "c")

    streams = plan_streams([small, *big], {"a": HubStock()}, 2)

    assert [sum(entry.size for entry in stream) // MB for stream in streams] == [600, 600]
    assert len(plan_streams([small], {"a": HubStock()}, 4)) == 1


def test_a_stream_begins_where_the_first_target_that_lacks_something_of_it_does() -> None:
    file = HubFile("m.safetensors", 100 * MB, "w")
    targets = {"a": HubStock(parts={"w": 60 * MB}), "b": HubStock(parts={"w": 20 * MB}), "c": HubStock(blobs={"w": 100 * MB})}

    ((entry,),) = plan_streams([file], targets, 2)

    assert (entry.start, entry.size, entry.takers) == (20 * MB, 80 * MB, {"a", "b"})


def test_a_file_that_two_paths_share_goes_once() -> None:
    twice = (HubFile("a.json", 5, "same"), HubFile("b.json", 5, "same"))

    assert [len(stream) for stream in plan_streams(twice, {"a": HubStock()}, 2)] == [1]
    assert bytes_lacking(twice, HubStock()) == 5


@given(
    st.lists(st.integers(0, 3 * ALONE_BYTES), max_size=12),
    st.integers(1, 4),
    st.lists(st.dictionaries(st.integers(0, 11), st.floats(0, 1)), min_size=1, max_size=3),
)
def test_every_target_gets_each_byte_that_it_lacks_once(sizes: list[int], streams: int, had: list[dict[int, float]]) -> None:
    given_files = [HubFile(f"{number}.bin", size, f"blob-{number}") for number, size in enumerate(sizes)]
    targets = {
        str(host): HubStock(
            blobs={file.key: file.size for number, file in enumerate(given_files) if parts.get(number) == 1.0},
            parts={file.key: int(file.size * parts[number]) for number, file in enumerate(given_files) if parts.get(number, 1.0) < 1.0},
        )
        for host, parts in enumerate(had)
    }

    planned = plan_streams(given_files, targets, streams)

    assert len(planned) <= streams
    sent = [entry for stream in planned for entry in stream]
    assert len({entry.file.key for entry in sent}) == len(sent)
    for host, stock in targets.items():
        lacking = {file.key for file in given_files if stock.blobs.get(file.key) != file.size}
        assert {entry.file.key for entry in sent if host in entry.takers} == lacking
        assert all(entry.start <= stock.has_of(entry.file) for entry in sent if host in entry.takers)


@pytest.mark.parametrize("start", [0, 3])
def test_a_stream_holds_the_bytes_of_its_files_one_after_the_other(tmp_path: Path, start: int) -> None:
    repo = tmp_path / "models--o--m"
    for path, data in ((repo / "blobs/w", b"weights" * 1000), (repo / "snapshots" / COMMIT / "it's here.txt", b"plain")):
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    weights, plain = HubFile("m.safetensors", 7000, "w"), HubFile("it's here.txt", 5)
    ((first, second),) = plan_streams([weights, plain], {"a": HubStock(parts={"w": start})}, 1)

    done = subprocess.run(["bash", "-c", read_script(str(tmp_path), "o/m", COMMIT, (first, second))], capture_output=True, check=True)

    assert done.stdout == (b"weights" * 1000)[start:] + b"plain"


def test_a_stream_of_a_file_that_is_gone_fails(tmp_path: Path) -> None:
    (tmp_path / "models--o--m").mkdir()
    ((entry,),) = plan_streams([HubFile("m", 7, "w")], {"a": HubStock()}, 1)

    done = subprocess.run(
        ["bash", "-c", read_script(str(tmp_path), "o/m", COMMIT, (entry,))],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        check=False,
    )

    assert done.returncode != 0
