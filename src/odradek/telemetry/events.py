"""Structured logging: events with fields, one line each.

    log = events.logger("listener")
    log.info("connection_refused", peer="10.0.0.7:5123", reason="too many")

    2026-01-31T12:00:00.123Z INFO    listener.connection_refused peer=10.0.0.7:5123 reason="too many"

Event names are past tense and unique. A field's value is quoted if it holds spaces, quotes, ``=`` or control
characters, so that one event is always one line and fields can be told apart. The standard library's
``logging`` carries the events, under loggers called ``odradek.{area}``; an event below the level costs one
comparison. A handler finds name and fields as ``event`` and ``fields`` of the log record. Nothing is written
before ``configure`` was called, except by handlers of the embedding program.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any, Final, TextIO

ROOT: Final = "odradek"
LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

FORMATS: Final = ("text", "json")
"""Lines for people, or a JSON object a line with time, level, event and the event's fields."""

ROOT_NAME: Final = "root"
"""Name of the logger that all others follow, in ``levels`` and ``set_level``."""
KAFKA_LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
_KAFKA_NAMES: Final = {number: name for name, number in KAFKA_LEVELS.items()}

# Loggers made so far, by full name.
_LOGGERS: Final[dict[str, logging.Logger]] = {}

# A field longer than this is cut: a log line must not become as large as what a client sends.
_VALUE_CHARACTERS_MAX: Final = 1000
_COLOURS: Final = {
    logging.DEBUG: "\x1b[2m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
}
_RESET: Final = "\x1b[0m"


class EventLogger:
    """Logs the events of one area; made once per module."""

    __slots__ = ("_area", "_bound", "_logger")

    def __init__(self, area: str, bound: dict[str, object]) -> None:
        self._area = area
        self._bound = bound
        name = f"{ROOT}.{area}"
        self._logger = _LOGGERS[name] = logging.getLogger(name)

    def bind(self, **fields: object) -> EventLogger:
        """The same logger with fields that each of its events carries."""
        return EventLogger(self._area, {**self._bound, **fields})

    def enabled(self, level: int) -> bool:
        """Whether events of a level are written: ask before computing costly fields."""
        return self._logger.isEnabledFor(level)

    def debug(self, event: str, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.WARNING):
            self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, event, fields)

    def failure(self, event: str, reason: BaseException, **fields: object) -> None:
        """An error nobody expected, with its traceback: for the edges of connections and tasks only."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, event, {**fields, "reason": repr(reason)}, reason)

    def _write(
        self, level: int, event: str, fields: dict[str, object], reason: BaseException | None = None
    ) -> None:
        pairs = {**self._bound, **fields}
        message = " ".join(
            [f"{self._area}.{event}", *(f"{key}={_shown(value)}" for key, value in pairs.items())]
        )
        # The message goes as an argument, because a per cent sign in it means nothing.
        extra = {"event": f"{self._area}.{event}", "fields": pairs}
        self._logger.log(level, "%s", message, exc_info=reason, extra=extra)


def logger(area: str) -> EventLogger:
    return EventLogger(area, {})


def levels() -> dict[str, str]:
    """Return the effective level of each logger, in Kafka's words."""
    found = {ROOT_NAME: _level_name(logging.getLogger(ROOT))}
    found.update({name: _level_name(one) for name, one in sorted(_LOGGERS.items())})
    return found


def set_level(name: str, level: str | None) -> None:
    """Set the level of one of the loggers in ``levels``; None lets it follow the root logger."""
    found = logging.getLogger(ROOT) if name == ROOT_NAME else _LOGGERS[name]
    found.setLevel(logging.NOTSET if level is None else KAFKA_LEVELS[level])


def _level_name(found: logging.Logger) -> str:
    number = found.getEffectiveLevel()
    return _KAFKA_NAMES.get(number, logging.getLevelName(number))


def configure(stream: TextIO, level: str = "info", colour: bool = False, *, form: str = "text") -> None:
    """Write events of this level and above to a stream. May be called again; the last call counts.

    Raises ValueError for a level that is none of LEVELS, and a form that is none of FORMATS.
    """
    if level not in LEVELS:
        raise ValueError(f"log level must be one of {', '.join(LEVELS)}, not {level!r}")
    if form not in FORMATS:
        raise ValueError(f"log format must be one of {', '.join(FORMATS)}, got {form!r}")
    root = logging.getLogger(ROOT)
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Lines(colour) if form == "text" else _Objects())
    root.addHandler(handler)
    root.setLevel(LEVELS[level])
    root.propagate = False


class _Lines(logging.Formatter):
    """Time in UTC, level, event, fields."""

    def __init__(self, colour: bool) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")
        self._colour = colour

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        del datefmt
        return _moment(record)

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        start = _COLOURS.get(record.levelno, "") if self._colour else ""
        return f"{start}{line}{_RESET}" if start else line


class _Objects(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None) or record.getMessage(),
        }
        for name, value in getattr(record, "fields", {}).items():
            found.setdefault(name, value if isinstance(value, int | float | None) else _cut(value))
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


def _moment(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _cut(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= _VALUE_CHARACTERS_MAX else f"{text[:_VALUE_CHARACTERS_MAX]}…"


def _shown(value: object) -> str:
    text = _cut(value)
    if text and text.isprintable() and not any(mark in text for mark in ' "='):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
