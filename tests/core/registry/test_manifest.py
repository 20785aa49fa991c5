from __future__ import annotations

import pytest

from sparkrun.core.registry.errors import ManifestError
from sparkrun.core.registry.manifest import parse_manifest, unknown_keys

URL = "https://github.com/somebody/repo"


def test_short_and_long_keys_are_read_and_the_long_one_wins() -> None:
    text = "registries:\n- {name: a, recipes: r, tuning: t, benchmarks: b, mods: m}\n"
    text += "- {name: b, subpath: long, recipes: short, mods_subpath: mm}\n"
    first, second = parse_manifest(text, URL)
    assert (first.subpath, first.tuning_subpath, first.benchmark_subpath, first.mods_subpath) == ("r", "t", "b", "m")
    assert (second.subpath, second.mods_subpath) == ("long", "mm")


def test_a_manifest_grants_neither_trust_nor_another_address() -> None:
    (entry,) = parse_manifest("registries:\n- {name: a, url: 'https://evil/x', trusted: true}\n", URL)
    assert (entry.url, entry.trusted, entry.subpath) == (URL, False, "recipes")


def test_broken_yaml_names_address_file_and_line() -> None:
    with pytest.raises(ManifestError, match=rf"^{URL}: \.sparkrun/registry\.yaml line 2: ") as caught:
        parse_manifest("registries: [\n", URL)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("text", ["", "registries: []\n", "registries: {}\n", "- a\n", "text"])
def test_a_manifest_without_entries_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="line 1: a list 'registries'"):
        parse_manifest(text, URL)


def test_all_bad_entries_are_told_at_once() -> None:
    bad = ["{name: ../x}", "{name: good}", "{name: official-x}", "{name: y, mods: ../../etc}", "{recipes: r}", "text"]
    text = "registries:\n- {name: good}\n" + "".join(f"- {item}\n" for item in bad)
    with pytest.raises(ManifestError) as caught:
        parse_manifest(text, URL)
    for number in (2, 3, 4, 5, 6, 7):
        assert f"registry {number}: " in caught.value.message
    assert "registry 1: " not in caught.value.message


def test_unknown_keys_are_told_with_the_nearest_name() -> None:
    lines = list(unknown_keys("registries:\n- {name: a, recipies: r}\n"))
    assert len(lines) == 1
    assert "'recipies'" in lines[0]
    assert "'recipes'" in lines[0]
