"""Which names a topic may have.

Letters, digits, ``.``, ``_`` and ``-`` of ASCII, at most 249 of them (a directory is named after topic and
partition), and neither ``.`` nor ``..``. Two names that differ only in ``.`` and ``_`` collide: metrics
write both the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from odradek.model.errors import BrokerError, ErrorCode

NAME_LENGTH_MAX: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def is_legal_topic_name(name: str) -> bool:
    return _fault(name) is None


def check_topic_name(name: str) -> None:
    """Refuse an illegal name with INVALID_TOPIC_EXCEPTION."""
    fault = _fault(name)
    if fault is not None:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")


def colliding_topic(name: str, topics: Iterable[str]) -> str | None:
    """The first of ``topics`` that differs from ``name`` only in ``.`` and ``_``."""
    unified = name.replace(".", "_")
    if "_" not in unified:
        return None
    length = len(name)
    for other in topics:
        if len(other) == length and other != name and other.replace(".", "_") == unified:
            return other
    return None


def _fault(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"it is {len(name)} characters long, at most {NAME_LENGTH_MAX} are allowed"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
