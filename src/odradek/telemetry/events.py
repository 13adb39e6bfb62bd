"""Structured logging: events with fields, one line each.

    log = events.logger("listener") log.info("connection_refused", peer="10.0.0.7:5123", reason="too many")

    2026-01-31T12:00:00.123Z INFO    listener.connection_refused peer=10.0.0.7:5123 reason="too many"

Event names are past tense and unique. A value is quoted if it contains spaces, quotes, ``=`` or control
characters, so that an event is always one line with unambiguous fields. Events go through the standard
library's ``logging``, to loggers named ``odradek.{area}``; an event below the level costs one comparison.
The log record has the attributes ``event`` and ``fields``. Nothing is written before ``configure`` is
called, except by handlers of the application.
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
"""Plain text lines, or one JSON object per line with time, level, event and fields."""

ROOT_NAME: Final = "root"
"""Name of the root logger in ``levels`` and ``set_level``."""
KAFKA_LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
_KAFKA_NAMES: Final = {number: name for name, number in KAFKA_LEVELS.items()}

# Loggers by full name.
_LOGGERS: Final[dict[str, logging.Logger]] = {}

# Longer values are truncated: a log line must not become as large as a client's request.
_VALUE_CHARACTERS_MAX: Final = 1000
_COLOURS: Final = {
    logging.DEBUG: "\x1b[2m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
}
_RESET: Final = "\x1b[0m"


class EventLogger:
    """Logger of one area; created once per module."""

    __slots__ = ("_area", "_bound", "_logger")

    def __init__(self, area: str, bound: dict[str, object]) -> None:
        self._area = area
        self._bound = bound
        name = f"{ROOT}.{area}"
        self._logger = _LOGGERS[name] = logging.getLogger(name)

    def bind(self, **fields: object) -> EventLogger:
        """Return a logger that adds these fields to each event."""
        return EventLogger(self._area, {**self._bound, **fields})

    def enabled(self, level: int) -> bool:
        """Return whether events of a level are logged: check before computing costly fields."""
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
        """Log an unexpected exception with its traceback; for the edges of connections and tasks only."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, event, {**fields, "reason": repr(reason)}, reason)

    def _write(
        self, level: int, event: str, fields: dict[str, object], reason: BaseException | None = None
    ) -> None:
        all_fields = {**self._bound, **fields}
        message = " ".join(
            [f"{self._area}.{event}", *(f"{key}={_quote(value)}" for key, value in all_fields.items())]
        )
        # The message is passed as an argument because it may contain a percent sign.
        extra = {"event": f"{self._area}.{event}", "fields": all_fields}
        self._logger.log(level, "%s", message, exc_info=reason, extra=extra)


def logger(area: str) -> EventLogger:
    return EventLogger(area, {})


def levels() -> dict[str, str]:
    """Return the effective level of each logger, by Kafka's level names."""
    levels_by_name = {ROOT_NAME: _level_name(logging.getLogger(ROOT))}
    levels_by_name.update({name: _level_name(target) for name, target in sorted(_LOGGERS.items())})
    return levels_by_name


def set_level(name: str, level: str | None) -> None:
    """Set the level of a logger; None makes it inherit from the root logger."""
    target = logging.getLogger(ROOT) if name == ROOT_NAME else _LOGGERS[name]
    target.setLevel(logging.NOTSET if level is None else KAFKA_LEVELS[level])


def _level_name(target: logging.Logger) -> str:
    number = target.getEffectiveLevel()
    return _KAFKA_NAMES.get(number, logging.getLevelName(number))


def configure(stream: TextIO, level: str = "info", colour: bool = False, *, form: str = "text") -> None:
    """Write events of this level and above to a stream. May be called again; the last call wins.

    Raises ValueError for a level not in LEVELS or a form not in FORMATS.
    """
    if level not in LEVELS:
        raise ValueError(f"log level must be one of {', '.join(LEVELS)}, got {level!r}")
    if form not in FORMATS:
        raise ValueError(f"log format must be one of {', '.join(FORMATS)}, got {form!r}")
    root = logging.getLogger(ROOT)
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_TextFormatter(colour) if form == "text" else _JsonFormatter())
    root.addHandler(handler)
    root.setLevel(LEVELS[level])
    root.propagate = False


class _TextFormatter(logging.Formatter):
    """Text lines: UTC time, level, event, fields."""

    def __init__(self, colour: bool) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")
        self._colour = colour

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        del datefmt
        return _timestamp(record)

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        start = _COLOURS.get(record.levelno, "") if self._colour else ""
        return f"{start}{line}{_RESET}" if start else line


class _JsonFormatter(logging.Formatter):
    """JSON lines."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None) or record.getMessage(),
        }
        for name, value in getattr(record, "fields", {}).items():
            document.setdefault(name, value if isinstance(value, int | float | None) else _truncate(value))
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False)


def _timestamp(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _truncate(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= _VALUE_CHARACTERS_MAX else f"{text[:_VALUE_CHARACTERS_MAX]}…"


def _quote(value: object) -> str:
    text = _truncate(value)
    if text and text.isprintable() and not any(mark in text for mark in ' "='):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
