from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from sparkrun.utils.kept import read_once


class Reader:
    def __init__(self, value: object) -> None:
        self.value = value
        self.read: list[str] = []

    def __call__(self, text: str) -> object:
        self.read.append(text)
        return self.value


def test_a_text_is_read_once(tmp_path: Path) -> None:
    reader = Reader({"registries": [{"name": "a", "trusted": True, "size": 1.0}]})

    values = [read_once("text", reader, tmp_path / "kept.json") for _time in range(3)]

    assert values == [reader.value] * 3
    assert reader.read == ["text"]
    assert (tmp_path / "kept.json").stat().st_mode & 0o777 == 0o600


def test_another_text_is_read_anew(tmp_path: Path) -> None:
    read_once("one", Reader(1), tmp_path / "kept.json")

    assert read_once("two", Reader(2), tmp_path / "kept.json") == 2
    assert read_once("two", Reader(3), tmp_path / "kept.json") == 2


@pytest.mark.parametrize(
    "value",
    [{1: "a"}, date(2026, 1, 1), {"a": {1, 2}}, (1, 2), float("nan"), object()],
    ids=["number as key", "date", "set", "tuple", "nan", "object"],
)
def test_what_json_would_change_is_read_each_time(tmp_path: Path, value: object) -> None:
    reader = Reader(value)

    assert [read_once("text", reader, tmp_path / "kept.json") for _time in range(2)] == [value] * 2
    assert len(reader.read) == 2


def test_a_value_that_holds_itself_is_read_each_time(tmp_path: Path) -> None:
    value: list[object] = []
    value.append(value)

    assert read_once("text", Reader(value), tmp_path / "kept.json") is value


@pytest.mark.parametrize(
    "damage", ["", "[", '["text"]', '{"text": "text"}', "[" * 100_000], ids=["empty", "half", "short", "other", "nested"]
)
def test_a_damaged_file_is_written_again(tmp_path: Path, damage: str) -> None:
    (tmp_path / "kept.json").write_text(damage)

    assert read_once("text", Reader(1), tmp_path / "kept.json") == 1
    assert read_once("text", Reader(2), tmp_path / "kept.json") == 1


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert read_once("text", Reader(1), tmp_path / "file" / "kept.json") == 1


def test_an_error_of_reading_is_passed_on_and_nothing_is_kept(tmp_path: Path) -> None:
    def fail(text: str) -> object:
        raise ValueError(text)

    with pytest.raises(ValueError, match="text"):
        read_once("text", fail, tmp_path / "kept.json")
    assert list(tmp_path.glob("kept*")) == []
