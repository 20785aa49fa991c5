"""JSON from elsewhere: it is what is wanted, or there is one error for all that it is not."""

from __future__ import annotations

import msgspec
import pytest

from sparkrun.utils.jsonio import read_json


def test_what_is_wanted_is_read() -> None:
    assert read_json('{"a": 1}', dict[str, int]) == {"a": 1}


DEEP = b"[" * 200_000


@pytest.mark.parametrize("text", [b"", b"\xff", b'{"a": "x"}', b'{"a": ' + DEEP, b'{"b": ' + DEEP + b"]" * len(DEEP) + b"}"])
def test_anything_else_is_one_kind_of_error(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_json(text, dict[str, int])
