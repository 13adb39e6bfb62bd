"""Where static settings come from: a properties file or the ``serve`` profile, variables, then arguments.

The later wins, and it wins over the other names of the same thing too: ``--set log.retention.hours=24`` is
not undone by a ``log.retention.ms`` in the file. Within one source the finer unit wins. An unknown name is
kept and warned about; a value that cannot be is an error, and all errors come at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.config import availability, broker, constraints, derived, listeners, profiles, properties, topic
from odradek.config.definition import Settings, read, split_listener_name
from odradek.model.errors import ConfigError

VARIABLE_PREFIX: Final = "ODRADEK_"

# Variables of the program that are no settings: the codec to use, and the broker that client commands ask.
_OTHER_VARIABLES: Final = frozenset({"ODRADEK_PURE", "ODRADEK_BOOTSTRAP"})

# Names that belong to plugins: any may follow, and none has a meaning here.
_PLUGIN_PREFIXES: Final = ("config.providers", "rsm.config.", "rlmm.config.")

_GROUPS: Final = (*derived.SYNONYM_GROUPS, ("log.dirs", "log.dir"), ("broker.id", "node.id"))


class LoadedConfig(NamedTuple):
    """A usable configuration: ``given`` are the texts as set, ``warnings`` lines for the owner."""

    given: dict[str, str]
    settings: Settings
    warnings: tuple[str, ...]


def load(file_text: str | None, variables: Mapping[str, str], arguments: Sequence[str]) -> LoadedConfig:
    """The static configuration of a broker.

    ``file_text`` is the properties file's, or None to begin with the ``serve`` profile; ``variables`` is the
    process's environment; ``arguments`` are ``name=value`` texts. Raises ConfigError with all that is wrong.
    """
    problems: list[str] = []
    given: dict[str, str] = {}
    try:
        first = profiles.values(profiles.SERVE) if file_text is None else properties.parse(file_text)
        overlay(given, first)
    except ConfigError as wrong:
        problems.extend(wrong.problems)
    from_variables, unknown_variables = read_variables(variables)
    overlay(given, from_variables)
    overlay(given, read_arguments(arguments, problems))
    try:
        settings = read(broker.BY_NAME, given)
        problems.extend(_unusable(settings, given))
    except ConfigError as wrong:
        problems.extend(wrong.problems)
    if problems:
        raise ConfigError(problems)
    return LoadedConfig(given, settings, (*unknown_variables, *warnings(given)))


def _unusable(settings: Settings, given: Mapping[str, str]) -> list[str]:
    """Return all that is wrong between settings which are right each by itself.

    A listener of a protocol that is not available is only told to be that: what else is wrong with the
    listeners follows from it.
    """
    related = constraints.problems(settings, given)
    found = availability.unavailable_setting_problems(given)
    if unavailable := availability.unavailable_protocol_problems(settings):
        of_listeners = listeners.problems(settings)
        return found + unavailable + [line for line in related if line not in of_listeners]
    return found + listeners.anonymous_access_problems(settings) + related


def overlay(
    given: dict[str, str], later: Mapping[str, str], groups: Iterable[tuple[str, ...]] = _GROUPS
) -> None:
    """Lay a later source over an earlier one, in place."""
    for group in groups:
        if any(name in later for name in group):
            for name in group:
                given.pop(name, None)
    given.update(later)


def read_arguments(arguments: Iterable[str], problems: list[str]) -> dict[str, str]:
    """``name=value`` texts as a mapping; what has another form is added to ``problems``."""
    values = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if equals and name.strip():
            values[name.strip()] = value
        else:
            problems.append(f"--set needs name=value, not {argument!r}")
    return values


def variable_name(name: str) -> str:
    """``log.retention.hours`` → ``ODRADEK_LOG_RETENTION_HOURS``; our own names have the prefix already."""
    upper = name.upper().replace(".", "_")
    return upper if upper.startswith(VARIABLE_PREFIX) else VARIABLE_PREFIX + upper


def read_variables(variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Settings among the process's variables, and a warning for each that looks like one and is none."""
    known = {variable_name(name): name for name in broker.BY_NAME}
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


def warnings(given: Mapping[str, str]) -> list[str]:
    """A line for each name that no table knows, with the nearest one that is known."""
    return [f"{name}: unknown setting{_suggestion(name)}" for name in given if not _is_known(name)]


def _is_known(name: str) -> bool:
    if name in broker.BY_NAME or name.startswith(_PLUGIN_PREFIXES):
        return True
    split = split_listener_name(name)
    if split is None:
        return False
    # A SASL mechanism may stand between the listener's name and the setting's.
    return split[1] in broker.BY_NAME or split[1].partition(".")[2] in broker.BY_NAME


def _listener_variable(variable: str, known: Mapping[str, str]) -> str | None:
    """``ODRADEK_LISTENER_NAME_MY_LAN_SSL_CLIENT_AUTH``: the longest setting that ends it is meant."""
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

    found = get_close_matches(name, known, 1)
    return f"; did you mean {found[0]}?" if found else ""
