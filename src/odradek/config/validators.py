"""Checks shared by the broker's and the topic's settings."""

from __future__ import annotations

from typing import Final

ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"


def authorizer_class(value: str) -> str | None:
    """Require no authorizer, or the only known one."""
    if value in ("", ACL_AUTHORIZER):
        return None
    return f"must be empty or {ACL_AUTHORIZER}; no class is loaded, and others keep their ACLs elsewhere"


def gzip_level(value: int) -> str | None:
    return None if value == -1 or 1 <= value <= 9 else "must be -1 or from 1 to 9"


def throttled_replicas(value: tuple[str, ...]) -> str | None:
    """Require ``*`` for all replicas, or a list of ``partition:broker``."""
    if value == ("*",) or all(_is_replica(item) for item in value):
        return None
    return "must be * or a list of partition:broker"


def _is_replica(text: str) -> bool:
    partition, colon, broker = text.partition(":")
    return bool(colon) and _is_number(partition) and _is_number(broker)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
