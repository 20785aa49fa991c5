from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.errors import StateError, UsageError
from sparkrun.diagnostics.ndjson import RECORD_BYTES, REDACTED, RecordFile, redact


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_records_are_numbered_stamped_and_private(tmp_path: Path) -> None:
    with RecordFile(tmp_path / "d.ndjson") as file:
        file.add("one", {"a": 1})
        file.add("two", {"b": "x"})
    told = records(tmp_path / "d.ndjson")
    assert [(record["_type"], record["_seq"]) for record in told] == [("one", 1), ("two", 2)]
    assert told[0]["_ts"].endswith("+00:00")
    assert (tmp_path / "d.ndjson").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        RecordFile(tmp_path / "d")
    assert (tmp_path / "d").read_text() == "mine"


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot write"):
        RecordFile(tmp_path / "nowhere/d")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"HF_TOKEN": "x"}, {"HF_TOKEN": REDACTED}),
        ({"api_key": "x", "max_tokens": 5, "tokenizer": "t"}, {"api_key": REDACTED, "max_tokens": 5, "tokenizer": "t"}),
        (["A=1", "DB_PASSWORD=x"], ["A=1", f"DB_PASSWORD={REDACTED}"]),
        ("get https://me:pw@h/x", f"get https://{REDACTED}@h/x"),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {REDACTED}"),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb", f"a\n{REDACTED}\nb"),
    ],
)
def test_what_looks_like_a_secret_is_put_out_of_sight(value: object, shown: object) -> None:
    assert redact(value) == shown


def test_known_secrets_go_wherever_they_stand(tmp_path: Path) -> None:
    with RecordFile(tmp_path / "d") as file:
        file.secrets = ("hush",)
        file.add("x", {"lines": ["the key hush is"]})
    assert records(tmp_path / "d")[0]["lines"] == ["the key *** is"]


@given(st.lists(st.text(max_size=3000), max_size=200))
def test_a_record_never_grows_beyond_its_limit_and_keeps_its_end(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("d") / "d"
    with RecordFile(path) as file:
        file.add("x", {"lines": lines * 10, "end": "kept"})
    (line,) = path.read_bytes().splitlines()
    assert len(line) < RECORD_BYTES
    assert json.loads(line)["end"] == "kept"
