"""Reads a llama-server command line and its environment into settings. Touches no file and needs no xllamacpp."""

import difflib
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sparkrun.embedded.errors import WRONG_USAGE, LauncherError
from sparkrun.embedded.llama_flags import BY_NAME, FLAGS, LAST_PORT, Flag, Kind, Value
from sparkrun.embedded.llama_unsupported import UNSUPPORTED

# llama.cpp's `common_arg_utils`.
YES = ("on", "enabled", "true", "1")
NO = ("off", "disabled", "false", "0")
AUTO = ("auto", "-1")


class Setting(NamedTuple):
    """One flag with its value; `source` is the spelling or the environment variable it came from."""

    flag: Flag
    value: Value
    source: str


class ParsedArgs(NamedTuple):
    """At most one setting a flag, the environment's first; `warnings` name what was given and does not count."""

    settings: tuple[Setting, ...]
    warnings: tuple[str, ...]

    def value(self, name: str) -> Value | None:
        return next((setting.value for setting in self.settings if name in setting.flag.names), None)

    def text(self, name: str) -> str:
        """The value of a flag that takes a text, "" when it was not given."""
        value = self.value(name)
        return value if isinstance(value, str) else ""


def parse_args(argv: Sequence[str], env: Mapping[str, str]) -> ParsedArgs:
    """Raises LauncherError (exit code 2) for what llama-server would refuse, and for what the embedded server cannot do."""
    given, repeated = _last_of_each(_settings_of(argv))
    inherited, _ = _last_of_each(_settings_in(env))
    flags_given = {setting.flag.name for setting in given}
    counted = [setting for setting in inherited if setting.flag.name not in flags_given]
    beaten = [setting.source for setting in inherited if setting.flag.name in flags_given]
    warnings = (
        *(f"{name} is given more than once, the last one counts" for name in repeated),
        *(f"{name} does not count, the command line says otherwise" for name in beaten),
        *(f"{name} is not supported by the embedded engine and does not count" for name in _unknown_variables(env)),
    )
    return ParsedArgs((*counted, *given), warnings)


def parse_value(flag: Flag, text: str, source: str) -> Value:
    try:
        value = _read(flag, text)
    except ValueError:
        raise _wrong(f"{source} takes {_expected(flag)}, got '{text}'", _example(flag, source)) from None
    if isinstance(value, int | float) and not (_low(flag) <= value <= _high(flag)):
        raise _wrong(f"{source} takes {_expected(flag)} {_bounds(flag)}, got {text}", _example(flag, source))
    return value


def help_text() -> str:
    """One line a flag, in the order of the table."""
    rows = [(", ".join((*flag.names, *flag.off_names)), _metavar(flag), flag) for flag in FLAGS]
    return "\n".join(f"  {names} {metavar}".rstrip() + f"\n      {_help_of(flag)}" for names, metavar, flag in rows)


def _settings_of(argv: Sequence[str]) -> Iterator[Setting]:
    tokens = deque(argv)
    while tokens:
        yield _next_setting(tokens)


def _next_setting(tokens: deque[str]) -> Setting:
    name, equals, inline = _dashed(tokens.popleft()).partition("=")
    flag = _find(name)
    if flag.takes_value:
        return Setting(flag, parse_value(flag, inline if equals else _take_value(flag, name, tokens), name), name)
    if equals:
        raise _wrong(f"{name} takes no value", _how_to_switch(flag))
    return Setting(flag, name not in flag.off_names, name)


def _dashed(token: str) -> str:
    """llama-server reads `--ctx_size` as `--ctx-size`; a value behind = stays as it is."""
    name, equals, value = token.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else token


def _find(name: str) -> Flag:
    if name in BY_NAME:
        return BY_NAME[name]
    if name in UNSUPPORTED:
        raise _wrong(f"{name} is not supported by the embedded engine", f"leave {name} out, or run llama-server itself")
    if not name.startswith("-"):
        raise _wrong(f"unexpected argument '{name}'", "every value stands behind its flag; quote a value that has blanks")
    nearest = _nearest(name)
    raise _wrong(f"unknown flag {name}", f"did you mean {nearest}?" if nearest else "--help lists the flags")


def _nearest(name: str) -> str:
    """The known spelling most like it, "" when none is; swapped letters count as the nearest of all."""
    alike = difflib.get_close_matches(name, [*BY_NAME, *UNSUPPORTED], n=5)
    swapped = [known for known in alike if sorted(known) == sorted(name)]
    return next(iter((*swapped, *alike)), "")


def _take_value(flag: Flag, name: str, tokens: deque[str]) -> str:
    if tokens and tokens[0].partition("=")[0] not in BY_NAME:
        return tokens.popleft()
    followed_by = f", but {tokens[0].partition('=')[0]} follows" if tokens else ""
    raise _wrong(f"{name} takes {_expected(flag)}{followed_by or ', got nothing'}", _example(flag, name))


def _settings_in(env: Mapping[str, str]) -> Iterator[Setting]:
    for flag in FLAGS:
        if not flag.env:
            continue
        if flag.kind is Kind.SWITCH and env.get(_off_variable(flag)):
            yield Setting(flag, False, _off_variable(flag))
        elif text := env.get(flag.env):
            yield from _setting_of_variable(flag, text)


def _setting_of_variable(flag: Flag, text: str) -> Iterator[Setting]:
    if flag.takes_value:
        yield Setting(flag, parse_value(flag, text, flag.env), flag.env)
    elif text in YES or (text in NO and flag.kind is Kind.SWITCH):
        yield Setting(flag, text in YES, flag.env)
    elif text not in NO:
        raise _wrong(f"{flag.env} takes on or off, got '{text}'", f"set {flag.env}=on")


def _off_variable(flag: Flag) -> str:
    """llama.cpp takes LLAMA_ARG_NO_X, with any value, for a no to LLAMA_ARG_X."""
    return flag.env.replace("LLAMA_ARG_", "LLAMA_ARG_NO_", 1)


def _unknown_variables(env: Mapping[str, str]) -> list[str]:
    known = {flag.env for flag in FLAGS} | {_off_variable(flag) for flag in FLAGS if flag.kind is Kind.SWITCH}
    return sorted(name for name in env if name.startswith("LLAMA_ARG_") and name not in known and env[name])


def _last_of_each(settings: Iterable[Setting]) -> tuple[list[Setting], list[str]]:
    """The last setting of each flag, and the flags that were there more than once."""
    last: dict[str, Setting] = {}
    repeated: list[str] = []
    for setting in settings:
        if last.pop(setting.flag.name, None):
            repeated.append(setting.flag.name)
        last[setting.flag.name] = setting
    return list(last.values()), sorted(set(repeated))


def _read(flag: Flag, text: str) -> Value:
    match flag.kind:
        case Kind.INT:
            return int(text)
        case Kind.FLOAT:
            return _finite(text)
        case Kind.NUMBERS:
            return tuple(_finite(part) for part in text.replace("/", ",").split(","))
        case Kind.LAYERS:
            return text if text in ("auto", "all") else int(text)
        case Kind.ON_OFF:
            return _word(text, {"on": YES, "off": NO}) == "on"
        case Kind.ON_OFF_AUTO:
            return _word(text, {"on": YES, "off": NO, "auto": AUTO})
        case Kind.CHOICE:
            return _word(text, {choice: (choice,) for choice in flag.choices})
        case _:
            return _not_empty(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _word(text: str, words: Mapping[str, tuple[str, ...]]) -> str:
    found = [word for word, spellings in words.items() if text in spellings]
    if not found:
        raise ValueError(text)
    return found[0]


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


def _low(flag: Flag) -> float:
    return -math.inf if flag.low is None else flag.low


def _high(flag: Flag) -> float:
    return math.inf if flag.high is None else flag.high


def _bounds(flag: Flag) -> str:
    return f"of at least {flag.low}" if flag.high is None else f"from {flag.low} to {flag.high}"


def _expected(flag: Flag) -> str:
    return _one_of(flag.choices) if flag.choices else flag.kind.value


def _one_of(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _example(flag: Flag, source: str) -> str:
    """A hint that shows the flag, or its environment variable, with a value."""
    values = {
        Kind.TEXT: "name",
        Kind.FILE: "/path/to/file",
        Kind.INT: "8080" if flag.high == LAST_PORT else "4",
        Kind.FLOAT: "0.5",
        Kind.NUMBERS: "3,1",
        Kind.ON_OFF: "on",
    }
    value = flag.choices[0] if flag.choices else values.get(flag.kind, "auto")
    return f"for example {source}{' ' if source.startswith('-') else '='}{value}"


def _metavar(flag: Flag) -> str:
    if flag.choices:
        return "{" + ",".join(flag.choices) + "}"
    names = {
        Kind.TEXT: "TEXT",
        Kind.FILE: "FILE",
        Kind.INT: "N",
        Kind.FLOAT: "X",
        Kind.NUMBERS: "X,X,...",
        Kind.LAYERS: "N|auto|all",
        Kind.ON_OFF: "on|off",
        Kind.ON_OFF_AUTO: "on|off|auto",
    }
    return names.get(flag.kind, "")


def _help_of(flag: Flag) -> str:
    return f"{flag.help} (env: {flag.env})" if flag.env else flag.help


def _how_to_switch(flag: Flag) -> str:
    return f"write {flag.name}" + (f" or {flag.off_names[-1]}" if flag.off_names else " alone")


def _wrong(message: str, hint: str) -> LauncherError:
    return LauncherError(message, hint=hint, exit_code=WRONG_USAGE)
