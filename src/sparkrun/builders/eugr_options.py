"""The options of the eugr builder."""

from __future__ import annotations

import msgspec

from sparkrun.core.errors import ConfigError
from sparkrun.core.recipe.schema import Values
from sparkrun.core.registry.rules import validate_new_url
from sparkrun.core.values import ConfigValue

REPOSITORY = "https://github.com/eugr/spark-vllm-docker.git"
PUBLISHED = "ghcr.io/spark-arena/dgx-vllm-eugr-nightly"
SMOKE_TOKEN = "sparkrun-smoke-ok"
"""What a built image has to print before it counts."""
SMOKE_PROGRAM = f"import vllm; print('{SMOKE_TOKEN}', getattr(vllm, '__version__', ''))"
_SWITCHES = frozenset({"use_sentinel_image", "save_build_logs", "smoke_test"})
_WORDS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}


class EugrOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``builder_config`` and ``defaults.builders.eugr``."""

    repo: str = REPOSITORY
    """Address of the git repository that holds build-and-copy.sh."""
    ref: str = "main"
    """Branch, tag or commit of it."""
    use_sentinel_image: bool = True
    """Whether a published image may take the place of a ``vllm-node`` that the host lacks."""
    image_prefix: str = PUBLISHED
    """Name of the published images, without variant and tag."""
    transformers: str | None = None
    """``t5``: the published variant with Transformers 5."""
    save_build_logs: bool = False
    smoke_test: bool | str = True
    """A Python program that a built image runs, and that prints ``sparkrun-smoke-ok``; false: none."""


def eugr_options(written: Values) -> EugrOptions:
    """The options that were written. Raises ``ConfigError`` for a value of the wrong kind, ``UnsafeRegistryError`` for an address."""
    known = {key: _meant(key, value) for key, value in written.items() if key in EugrOptions.__struct_fields__ and value is not None}
    try:
        options = msgspec.convert(known, EugrOptions)
    except msgspec.ValidationError as error:
        hint = "switches are true or false; repo, ref, image_prefix and transformers are texts; smoke_test is a program or false"
        raise ConfigError(f"options of the builder eugr: {error}", hint=hint) from error
    validate_new_url(options.repo)
    if not options.ref.isprintable() or options.ref.startswith("-") or " " in options.ref or not options.ref:
        raise ConfigError(f"options of the builder eugr: {options.ref!r} is no branch, tag or commit", hint="write ref: main")
    return options


def smoke_words(options: EugrOptions) -> tuple[str, ...]:
    """The words that a built image runs; none where that is switched off."""
    if options.smoke_test is False:
        return ()
    return ("python3", "-c", SMOKE_PROGRAM if options.smoke_test is True else options.smoke_test)


def _meant(key: str, value: ConfigValue) -> ConfigValue:
    """YAML 1.2 reads ``no`` as text, and ``5`` as a number; people still mean a switch, and a text."""
    if key in _SWITCHES:
        return _WORDS.get(value.strip().lower(), value) if isinstance(value, str) else value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
