from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import ConfigError
from sparkrun.core.paths import home_dir, resolve_paths


def write(env: dict[str, str], text: str) -> Path:
    path = resolve_paths(env).config_file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_missing_file_is_an_empty_one(env: dict[str, str]) -> None:
    assert SparkrunConfig.load(env).get("ssh.user") is None


def test_dotted_keys_look_into_mappings(env: dict[str, str]) -> None:
    write(env, "ssh: {user: dgx, max_parallel_ssh: 4}\n")
    config = SparkrunConfig.load(env)
    assert config.text("ssh.user") == "dgx"
    assert config.number("ssh.max_parallel_ssh", 20) == 4


def test_a_value_of_the_wrong_kind_gives_the_default_and_one_warning(env: dict[str, str]) -> None:
    path = write(env, "ssh: {max_parallel_ssh: many}\n")
    config = SparkrunConfig.load(env)
    assert [config.number("ssh.max_parallel_ssh", 20) for _ in range(2)] == [20, 20]
    assert config.warnings == [f"{path}: ssh.max_parallel_ssh must be a number, not 'many'; the default is used"]


def test_unknown_keys_survive_a_save(env: dict[str, str]) -> None:
    path = write(env, "future: {thing: 1}\nssh: {user: dgx}\n")
    config = SparkrunConfig.load(env)
    config.set("ssh.user", "spark")
    config.save()
    assert SparkrunConfig.load(env).get("future") == {"thing": 1}
    assert "spark" in path.read_text()


def test_a_save_keeps_what_somebody_else_wrote_meanwhile(env: dict[str, str]) -> None:
    write(env, "a: 1\nb: {x: 1}\n")
    ours = SparkrunConfig.load(env)
    theirs = SparkrunConfig.load(env)
    theirs.set("b.y", 2)
    theirs.save()
    ours.set("a", 5)
    ours.save()
    merged = SparkrunConfig.load(env)
    assert (merged.get("a"), merged.get("b")) == (5, {"x": 1, "y": 2})


def test_an_unset_key_is_gone_after_a_save(env: dict[str, str]) -> None:
    write(env, "a: 1\nb: 2\n")
    config = SparkrunConfig.load(env)
    assert config.unset("a")
    config.save()
    assert SparkrunConfig.load(env).get("a") is None


def test_settings_are_private(env: dict[str, str]) -> None:
    config = SparkrunConfig.load(env)
    config.set("a", 1)
    config.save()
    assert config.paths.config_file.stat().st_mode & 0o777 == 0o600


def test_broken_yaml_names_file_line_and_column(env: dict[str, str]) -> None:
    path = write(env, "a: 1\nb: [\n")
    with pytest.raises(ConfigError, match=rf"{path}:3:1: "):
        SparkrunConfig.load(env)


def test_a_value_that_yaml_cannot_make_names_the_file(env: dict[str, str]) -> None:
    path = write(env, "a: 2024-13-45\n")
    with pytest.raises(ConfigError, match=rf"{path}: a value is not what its form says \(month must be"):
        SparkrunConfig.load(env)


@pytest.mark.parametrize("value", [".inf", "-.inf", ".nan", "1.0e+300", "-2000000000"])
def test_a_number_that_nothing_can_be_counted_with_gives_the_default(env: dict[str, str], value: str) -> None:
    write(env, f"hooks: {{timeout_s: {value}}}\n")
    config = SparkrunConfig.load(env)

    assert config.number("hooks.timeout_s", 7) == 7
    assert "hooks.timeout_s must be between -1000000000 and 1000000000, not " in config.warnings[0]


def test_a_list_as_settings_is_refused(env: dict[str, str]) -> None:
    write(env, "- a\n")
    with pytest.raises(ConfigError, match="a mapping of settings is wanted, not list"):
        SparkrunConfig.load(env)


def test_the_environment_moves_both_folders() -> None:
    paths = resolve_paths({"HOME": "/home/me", "SPARKRUN_CONFIG_DIR": "/c", "SPARKRUN_CACHE_DIR": "~/k"})
    assert (str(paths.config_dir), str(paths.cache_dir)) == ("/c", "/home/me/k")


def test_the_cache_follows_xdg_and_the_setting_of_its_name(env: dict[str, str]) -> None:
    assert str(resolve_paths({"HOME": "/home/me", "XDG_CACHE_HOME": "/x"}).cache_dir) == "/x/sparkrun"
    write(env, "cache_dir: ~/elsewhere\n")
    assert SparkrunConfig.load(env).paths.cache_dir == Path(env["HOME"]) / "elsewhere"


def test_without_home_the_password_database_tells() -> None:
    assert home_dir({}).is_absolute()
