from __future__ import annotations

import socket
import threading

import pytest

from sparkrun.orchestration import names


@pytest.fixture
def fresh() -> None:
    names.name_is_known.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_a_name_is_known_when_an_address_is_found_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(name: str, _port: None) -> list[object]:
        if name == "nowhere":
            raise socket.gaierror(-2, "Name or service not known")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert (names.name_is_known("somewhere"), names.name_is_known("nowhere")) == (True, False)


@pytest.mark.usefixtures("fresh")
def test_a_resolver_that_does_not_answer_delays_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda _name, _port: answered.wait(20))
    monkeypatch.setattr(names, "LOOKUP_S", 0.05)
    assert names.name_is_known("slow")
    answered.set()
