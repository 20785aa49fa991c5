from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.registry.errors import UnsafeRegistryError
from sparkrun.core.registry.rules import (
    mask_url,
    normalized_url,
    organisation,
    validate_asset_name,
    validate_format,
    validate_new_url,
    validate_registry_name,
    validate_registry_url,
    validate_subpath,
)

TRICKY = st.text(alphabet=st.sampled_from("aZ09._-/\\ ~@:$\n\0é"), max_size=20)


def accepted(check, value) -> bool:
    try:
        check(value)
    except UnsafeRegistryError:
        return False
    return True


@given(TRICKY)
def test_an_accepted_name_is_one_file_name_below_its_folder(name: str) -> None:
    if accepted(validate_registry_name, name):
        assert PurePosixPath("/root", name).parent == PurePosixPath("/root")
        assert name.isascii()
        assert name[0].isalnum()
        assert len(name) <= 100


@given(TRICKY)
def test_an_accepted_subpath_stays_below_the_repository(path: str) -> None:
    if accepted(validate_subpath, path) and path != "/":
        clean = validate_subpath(path)
        assert not clean.startswith(("/", "-", "."))
        assert not clean.endswith("/")
        assert ".." not in clean.split("/")
        assert Path("/root", clean).resolve().is_relative_to("/root")


@given(TRICKY)
def test_an_accepted_asset_name_stays_below_its_folder(name: str) -> None:
    if accepted(validate_asset_name, name):
        path = PurePosixPath("/root") / name
        assert path.is_relative_to("/root")
        assert ".." not in path.parts
        assert not any(part.startswith(".") for part in name.split("/"))


@given(st.sampled_from(["https://github.com/a/b", "ssh://git@h/a", "file:///a/b", "git@h:a/b"]), TRICKY)
def test_an_accepted_address_cannot_be_an_option_and_holds_nothing_invisible(url: str, tail: str) -> None:
    for candidate in (url + tail, tail + url):
        if accepted(validate_registry_url, candidate):
            assert not candidate.startswith("-")
            assert candidate.isprintable()
            assert " " not in candidate
            assert "\\" not in candidate


@pytest.mark.parametrize("url", ["https://github.com/a/b.git", "ssh://git@host:2222/a/b", "git@github.com:a/b.git", "file:///srv/repo"])
def test_the_four_kinds_of_address_are_accepted(url: str) -> None:
    validate_registry_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "-oProxyCommand=x",
        "http://github.com/a/b",
        "git://github.com/a/b",
        "ext::sh -c x",
        "https://",
        "https:///a/b",
        "https://github.com",
        "ssh://-oProxyCommand=x/a",
        "ssh://-x@host/a",
        "git@-host:a",
        "git@host:-a",
        "file://host/a",
        "file:relative",
        "https://github.com\\@evil.com/a/b",
        "https://github.com/a b",
        "https://github.com/a\nb",
        "https://[::1/a",
        "/srv/repo",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(UnsafeRegistryError, match="not an address"):
        validate_registry_url(url)


def test_an_address_with_a_password_is_not_added_and_not_shown() -> None:
    with pytest.raises(UnsafeRegistryError) as caught:
        validate_new_url("https://me:secret@host/a/b")
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    "other",
    [
        "https://github.com/Spark-Arena/recipe-registry",
        "https://github.com/spark-arena/recipe-registry.git/",
        "https://me@www.github.com/spark-arena/recipe-registry.git",
        "ssh://git@github.com/spark-arena/recipe-registry.git",
        "git@github.com:spark-arena/recipe-registry.git",
    ],
)
def test_spellings_of_one_address_are_equal(other: str) -> None:
    assert normalized_url(other) == normalized_url("https://github.com/spark-arena/recipe-registry.git")


@pytest.mark.parametrize(
    "other",
    [
        "https://github.com.evil.com/spark-arena/recipe-registry",
        "https://github.com@evil.com/spark-arena/recipe-registry",
        "https://github.com:444/spark-arena/recipe-registry",
        "file:///github.com/spark-arena/recipe-registry",
    ],
)
def test_an_address_that_only_looks_alike_is_another(other: str) -> None:
    assert normalized_url(other) != normalized_url("https://github.com/spark-arena/recipe-registry.git")
    assert organisation(other) is None


@pytest.mark.parametrize("name", ["community-x", "officials", "arena51", "Sparkrun-mine", "eugr2"])
def test_a_reserved_prefix_is_explained(name: str) -> None:
    with pytest.raises(UnsafeRegistryError, match="kept for repositories of spark-arena"):
        validate_registry_name(name, "https://github.com/somebody/repo")


def test_a_reserved_prefix_is_for_the_allowed_owners_on_github_only() -> None:
    validate_registry_name("official-two", "https://github.com/Spark-Arena/two")
    with pytest.raises(UnsafeRegistryError):
        validate_registry_name("official-two", "https://gitlab.com/spark-arena/two")
    with pytest.raises(UnsafeRegistryError):
        validate_registry_name("official-two", "file:///spark-arena/two")


def test_exact_reserved_names_belong_to_one_owner() -> None:
    validate_registry_name("atlas", "https://github.com/Atlas-Inf/x")
    validate_registry_name("atlas-mine", "https://github.com/somebody/x")
    with pytest.raises(UnsafeRegistryError, match="atlas-inf"):
        validate_registry_name("Atlas", "https://github.com/spark-arena/x")


@pytest.mark.parametrize("name", ["builtin", "BuiltIn"])
def test_the_built_in_name_is_taken(name: str) -> None:
    with pytest.raises(UnsafeRegistryError, match="inside sparkrun"):
        validate_registry_name(name)


@pytest.mark.parametrize(
    ("name", "good"), [("sparkrun", True), ("a-b_1", True), ("", False), ("A", False), ("1a", False), ("a" * 33, False)]
)
def test_formats(name: str, good: bool) -> None:
    assert accepted(validate_format, name) is good


def test_a_subpath_loses_its_trailing_slash_and_a_slash_alone_is_everything() -> None:
    assert validate_subpath("a/b/") == "a/b"
    assert validate_subpath("/") == "/"


def test_masking_hides_the_password_and_keeps_the_user() -> None:
    assert mask_url("https://me:s3cret@host/a") == "https://me:***@host/a"
