"""Sources of the static configuration: a properties file or the ``serve`` profile, environment, arguments.

A later source overrides an earlier one, including other names of the same setting: ``--set
log.retention.hours=24`` overrides a ``log.retention.ms`` in the file. Within one source the finer unit wins.
An unknown name is kept, with a warning; an invalid value is an error, and all errors are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.config import authorizer, availability, broker, constraints, derived, listeners, profiles, topic
from odradek.config.authorizer import AUTHORIZER_BY_NAME
from odradek.config.definition import Settings, parse_settings, split_listener_name
from odradek.model.errors import ConfigError

VARIABLE_PREFIX: Final = "ODRADEK_"

# Variables that are not settings: the codec implementation, and the bootstrap servers of client commands.
_OTHER_VARIABLES: Final = frozenset({"ODRADEK_PURE", "ODRADEK_BOOTSTRAP"})

# Prefixes of plugin configurations, which are ignored.
_PLUGIN_PREFIXES: Final = ("config.providers", "rsm.config.", "rlmm.config.")

_SYNONYM_GROUPS: Final = (*derived.SYNONYM_GROUPS, ("log.dirs", "log.dir"), ("broker.id", "node.id"))

_SPACE: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX: Final = frozenset("0123456789abcdefABCDEF")


class LoadedConfig(NamedTuple):
    """A valid configuration; ``warnings`` are lines for the user."""

    raw_values: dict[str, str]
    settings: Settings
    warnings: tuple[str, ...]


def load(file_text: str | None, variables: Mapping[str, str], arguments: Sequence[str]) -> LoadedConfig:
    """Load the static configuration of a broker.

    ``file_text`` is the content of the properties file, or None for the ``serve`` profile; ``variables`` is
    the process environment; ``arguments`` are ``name=value`` pairs. Raises ConfigError with all problems.
    """
    problems: list[str] = []
    raw_values: dict[str, str] = {}
    try:
        first = profiles.values(profiles.SERVE) if file_text is None else parse_properties(file_text)
        override(raw_values, first)
    except ConfigError as error:
        problems.extend(error.problems)
    from_variables, unknown_variables = parse_variables(variables)
    override(raw_values, from_variables)
    override(raw_values, parse_arguments(arguments, problems))
    try:
        settings = parse_settings(broker.BY_NAME, raw_values)
        parse_settings(AUTHORIZER_BY_NAME, raw_values)
        problems.extend(_cross_setting_problems(settings, raw_values))
    except ConfigError as error:
        problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    lines = (*unknown_variables, *warnings(raw_values), *listeners.unencrypted_listeners(settings))
    return LoadedConfig(raw_values, settings, lines)


def _cross_setting_problems(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    """Return the problems between settings that are valid by themselves."""
    related = constraints.problems(settings, raw_values)
    problems = availability.unavailable_setting_problems(raw_values)
    return problems + listeners.anonymous_access_problems(settings) + related


def override(
    raw_values: dict[str, str], later: Mapping[str, str], groups: Iterable[tuple[str, ...]] = _SYNONYM_GROUPS
) -> None:
    """Override an earlier source with a later one, in place."""
    for group in groups:
        if any(name in later for name in group):
            for name in group:
                raw_values.pop(name, None)
    raw_values.update(later)


def parse_arguments(arguments: Iterable[str], problems: list[str]) -> dict[str, str]:
    """Parse ``name=value`` pairs; malformed ones are added to ``problems``."""
    values = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if equals and name.strip():
            values[name.strip()] = value
        else:
            problems.append(f"--set must be name=value, got {argument!r}")
    return values


def variable_name(name: str) -> str:
    """Return the variable of a setting: ``log.retention.hours`` → ``ODRADEK_LOG_RETENTION_HOURS``. Odradek's
    own settings have the prefix already."""
    upper = name.upper().replace(".", "_")
    return upper if upper.startswith(VARIABLE_PREFIX) else VARIABLE_PREFIX + upper


def parse_variables(variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the settings in the environment, and a warning for each unknown ``ODRADEK_`` variable."""
    known = {variable_name(name): name for name in (*broker.BY_NAME, *AUTHORIZER_BY_NAME)}
    values: dict[str, str] = {}
    unknown: list[str] = []
    for variable, value in variables.items():
        if not variable.startswith(VARIABLE_PREFIX) or variable in _OTHER_VARIABLES:
            continue
        name = known.get(variable) or _listener_variable(variable, known)
        if name is None:
            unknown.append(f"{variable}: unknown setting{_nearest(variable, known)}")
        else:
            values[name] = value
    return values, unknown


def warnings(raw_values: Mapping[str, str]) -> list[str]:
    """Return a line for each unknown name, with the nearest known one, and for each without effect."""
    unknown = [f"{name}: unknown setting{_suggestion(name)}" for name in raw_values if not _is_known(name)]
    return unknown + authorizer.without_effect(raw_values)


def _is_known(name: str) -> bool:
    if name in broker.BY_NAME or name in AUTHORIZER_BY_NAME or name.startswith(_PLUGIN_PREFIXES):
        return True
    split = split_listener_name(name)
    if split is None:
        return False
    # A SASL mechanism may follow the listener's name.
    return split[1] in broker.BY_NAME or split[1].partition(".")[2] in broker.BY_NAME


def _listener_variable(variable: str, known: Mapping[str, str]) -> str | None:
    """Return the name of ``ODRADEK_LISTENER_NAME_MY_LAN_SSL_CLIENT_AUTH``, with the longest setting."""
    prefix = VARIABLE_PREFIX + "LISTENER_NAME_"
    if not variable.startswith(prefix):
        return None
    rest = variable[len(prefix) :]
    for position, letter in enumerate(rest):
        if letter == "_" and position and (name := known.get(VARIABLE_PREFIX + rest[position + 1 :])):
            return f"listener.name.{rest[:position].lower()}.{name}"
    return None


def _suggestion(name: str) -> str:
    setting = topic.BY_NAME.get(name)
    if setting is not None and setting in topic.SYNONYMS:
        return f"; for all topics it is called {topic.SYNONYMS[setting][0].setting.name}"
    return _nearest(name, broker.BY_NAME)


def _nearest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    matches = get_close_matches(name, known, 1)
    return f"; did you mean {matches[0]}?" if matches else ""


def parse_properties(text: str) -> dict[str, str]:
    """Parse the content of a Java properties file.

    One setting per line: a key, then ``=``, ``:`` or white space, then the value up to the end of the line.
    Lines starting with ``#`` or ``!`` are comments. A line that ends in an odd number of backslashes
    continues on the next line, whose leading white space is dropped. Backslash escapes: ``\\t \\n \\r \\f``,
    ``\\uXXXX``, and any other character for itself. The last value of a key wins.

    Raises ConfigError with one line for each malformed escape.
    """
    values: dict[str, str] = {}
    problems: list[str] = []
    for number, line in _logical_lines(text.removeprefix("\ufeff")):
        key, value = _split(line)
        try:
            values[_unescape(key)] = _unescape(value)
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    if problems:
        raise ConfigError(problems)
    return values


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield line numbers, from 1, and lines with continuations joined, without blank lines and comments."""
    pending: list[str] = []
    first = 0
    for number, physical in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = physical.lstrip(_SPACE)
        if not pending:
            if not line or line[0] in "#!":
                continue
            first = number
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            pending.append(line[:-1])
            continue
        yield first, "".join([*pending, line])
        pending.clear()
    if pending:
        yield first, "".join(pending)


def _split(line: str) -> tuple[str, str]:
    """Return the escaped key and value."""
    position = 0
    while position < len(line) and line[position] not in "=:" + _SPACE:
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(_SPACE)
    if rest[:1] in {"=", ":"}:
        rest = rest[1:].lstrip(_SPACE)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        letter = text[position]
        position += 1
        if letter != "\\" or position == len(text):
            out.append(letter if letter != "\\" else "")
            continue
        letter = text[position]
        position += 1
        if letter == "u":
            digits = text[position : position + 4]
            if len(digits) != 4 or not _HEX.issuperset(digits):
                raise ValueError(f"\\u must be followed by four hexadecimal digits, got {digits!r}")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(letter, letter))
    return "".join(out)
