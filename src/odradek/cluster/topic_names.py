"""Validation of topic names.

A name has at most 249 ASCII letters, digits, ``.``, ``_`` and ``-`` (it is part of a directory name) and is
neither ``.`` nor ``..``. Names that differ only in ``.`` and ``_`` collide in metric names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from odradek.model.errors import BrokerError, ErrorCode

NAME_LENGTH_MAX: Final = 249

_LEGAL_CHARACTERS: Final = re.compile(r"[a-zA-Z0-9._-]+")


def is_legal_topic_name(name: str) -> bool:
    return _problem(name) is None


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for an illegal name."""
    problem = _problem(name)
    if problem is not None:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic name is invalid: {problem}")


def colliding_topic(name: str, topics: Iterable[str]) -> str | None:
    """Return the first of ``topics`` that differs from ``name`` only in ``.`` and ``_``."""
    normalized = name.replace(".", "_")
    if "_" not in normalized:
        return None
    length = len(name)
    for other in topics:
        if len(other) == length and other != name and other.replace(".", "_") == normalized:
            return other
    return None


def _problem(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"it is {len(name)} characters long, at most {NAME_LENGTH_MAX} are allowed"
    if _LEGAL_CHARACTERS.fullmatch(name) is None:
        return f"'{name}' contains characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
