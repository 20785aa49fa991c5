"""What pages of models and images say of pins, which anybody may have written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sparkrun.cli.cache_text import age_text, pin_lines
from sparkrun.core.pins import Pin


def test_a_pin_tells_who_when_and_why() -> None:
    at = (datetime.now(UTC) - timedelta(days=2, hours=1)).isoformat()

    assert pin_lines(Pin("me@here", at, "the demo")) == ["    pinned by me@here 2 days ago: the demo"]
    assert pin_lines(Pin()) == ["    pinned by somebody -"]
    assert pin_lines(None) == []


@pytest.mark.parametrize(("moment", "text"), [("yesterday", "yesterday"), ("2024-13-45", "2024-13-45"), ("9999-01-01", "just now")])
def test_a_moment_that_somebody_wrote_by_hand_is_told(moment: str, text: str) -> None:
    assert age_text(moment) == text


def test_a_moment_without_a_zone_is_utc() -> None:
    assert age_text((datetime.now(UTC) - timedelta(hours=3, minutes=1)).replace(tzinfo=None).isoformat()) == "3 hours ago"
